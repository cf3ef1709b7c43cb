"""Reading our own documents: fenced blocks, the commands in them, links, and tables."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

PROJECT = Path(__file__).parents[2]
PAGES = {
    path.relative_to(PROJECT).as_posix(): path
    for path in [PROJECT / "README.md", PROJECT / "CONTRIBUTING.md", *sorted((PROJECT / "docs").glob("*.md"))]
}

_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_FILE_NAME = re.compile(r"# ([\w-]+\.yaml)\n")
_LINK = re.compile(r"\[[^\]]+\]\(([^)\s]+)\)")
_CODE = re.compile(r"`[^`\n]*`")


@dataclass(frozen=True)
class Block:
    language: str
    text: str

    @property
    def file_name(self) -> str | None:
        """A block of YAML is a file for the reader to save if its first line is the file's name."""
        named = _FILE_NAME.match(self.text) if self.language == "yaml" else None
        return named.group(1) if named else None


@dataclass(frozen=True)
class Command:
    line: str
    shown: str  # "" if the page does not show what comes out


def text_of(page: str) -> str:
    return PAGES[page].read_text(encoding="utf-8")


def blocks(page: str) -> list[Block]:
    return [Block(found.group(1), found.group(2)) for found in _FENCE.finditer(text_of(page))]


def commands(page: str) -> Iterator[Command]:
    for block in blocks(page):
        if block.language == "console":
            for part in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]:
                line, _, shown = part.partition("\n")
                yield Command(line, shown.strip("\n"))


def prose(page: str) -> str:
    return _FENCE.sub("", text_of(page))


def links(page: str) -> list[str]:
    """Those that readers can follow: in code, a regular expression may look like one."""
    return [target for target in _LINK.findall(_CODE.sub("code", prose(page))) if "://" not in target]


def anchors(page: str) -> set[str]:
    """What a link to a heading of the page may say, by the rules of GitHub."""
    headings = re.findall(r"^#+ (.+)$", prose(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def table(page: str, *header: str) -> list[list[str]]:
    """The rows of the page's table whose header begins with these words; code marks are taken off where a cell is
    one piece of code."""
    rows: list[list[str]] | None = None
    for line in prose(page).splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")] if line.startswith("|") else []
        if rows is None:
            if cells[: len(header)] == list(header):
                rows = []
        elif not cells:
            return rows
        elif set(line) - set("|-: "):
            rows.append([cell.strip("`") if cell.count("`") == 2 else cell for cell in cells])
    assert rows is not None, f"{page} has no table with the columns {', '.join(header)}"
    return rows


def pattern(shown: str) -> re.Pattern[str]:
    """What is shown, as a pattern of what comes out. A line of `…` stands for any lines, also none; elsewhere `…`
    stands for anything on that line. Spaces are spaces, however many: a column may become wider."""
    expression = ""
    for line in shown.splitlines():
        if line.strip() == "…":
            expression += r"(?:.*\n)*?"
        else:
            pieces = [re.sub(r"(?:\\ )+", " +", re.escape(piece)) for piece in re.split(r" *… *", line.rstrip())]
            expression += r".*?".join(pieces) + r"\n"
    return re.compile(r"^" + expression, re.MULTILINE)
