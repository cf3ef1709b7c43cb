"""docs/security.md lists every mark that the code knows: a new one needs a row that says who can write it."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "stromboli"
# A name with a domain before the slash. Names of API groups and their versions look the same, and are no marks.
MARK = re.compile(r"(?:[a-z0-9-]+\.)+[a-z]+/[A-Za-z0-9._-]*")
NO_MARKS = re.compile(r"[a-z0-9.-]+/v\d\w*|(?:(?:batch|scheduling|bus)\.)?volcano\.sh/|scheduling\.stromboli\.io/")
# Names of resources, of images, and of exec plugins.
OTHER_NAMES = ("nvidia.com/", "ghcr.io/", "github.com/", "client.authentication.k8s.io/")
# An API server of our own knows kinds and finalizers of Kubernetes, and reads no marks of ours.
ELSEWHERE = ("embedded", "console", "page")


def in_code() -> set[str]:
    found: set[str] = set()
    for path in sorted(SOURCE.rglob("*.py")):
        if path.relative_to(SOURCE).parts[0] in ELSEWHERE:
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and MARK.fullmatch(node.value):
                found.add(node.value)
    return {mark for mark in found if not NO_MARKS.fullmatch(mark) and not mark.startswith(OTHER_NAMES)}


def rows() -> list[list[str]]:
    page = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
    section = page.partition("## Marks\n")[2].partition("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines][1:]


def in_table() -> set[str]:
    return {mark for row in rows() for mark in re.findall(r"`([^`]+)`", row[0])}


def is_listed(mark: str, listed: set[str]) -> bool:
    """By its name, or by a prefix that ends in a slash."""
    return mark in listed or any(one.endswith("/") and mark.startswith(one) for one in listed)


def test_every_mark_in_the_code_is_in_the_table() -> None:
    listed = in_table()
    assert sorted(mark for mark in in_code() if not is_listed(mark, listed)) == []


def test_every_mark_in_the_table_is_in_the_code() -> None:
    known = in_code()
    marks = {mark for mark in in_table() if "/" in mark}
    assert sorted(mark for mark in marks if not any(is_listed(one, {mark}) for one in known)) == []


def test_every_row_says_who_writes_the_mark_and_what_becomes_of_it() -> None:
    for row in rows():
        assert len(row) == 4, row
        assert re.match(r"yes|no|of |at ", row[2]), row
        assert row[3], row
