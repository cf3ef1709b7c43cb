"""How commands print: tables for people, JSON and YAML for programs.

Colours are for terminals only, and never with NO_COLOR. Where the output goes into a pipe there is nothing but the
answer: no hints, no colours, no redrawing.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import textwrap
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import click

from stromboli.errors import UserError
from stromboli.printable import printable

TABLE: Final = "table"
WIDE: Final = "wide"
_GAP: Final = "  "
_NONE: Final = "-"
_CLEAR: Final = "\x1b[H\x1b[2J\x1b[3J"
_AGES: Final = frozenset({">age", ">waits", ">expires"})
_COLOURS: Final = {
    "Running": "cyan", "Completed": "green", "Succeeded": "green", "Open": "green", "Available": "green",
    "Pending": "yellow", "Inqueue": "yellow", "Waiting": "yellow", "Restarting": "yellow",
    "Failed": "red", "Aborted": "red", "Terminated": "red", "Closed": "red", "Unknown": "red",
}  # fmt: skip

output_option = click.option(
    "-o",
    "--output",
    type=click.Choice([TABLE, WIDE, "json", "yaml"]),
    default=TABLE,
    show_default=True,
    help="A table, one with more columns, or the data.",
)
watch_option = click.option(
    "-w",
    "--watch",
    is_flag=False,
    flag_value=2.0,
    type=click.FloatRange(0.1),
    metavar="[SECONDS]",
    help="Look again every few seconds (2 unless given), until Ctrl-C.",
)


@dataclass(slots=True)
class Table:
    """`columns`: a name starting with ">" is aligned to the right; one starting with "+" is in wide tables only."""

    columns: Sequence[str]
    rows: list[list[str]] = field(default_factory=list)
    title: str = ""

    def add(self, *cells: object) -> None:
        self.rows.append([_NONE if cell in ("", None) else printable(str(cell)) for cell in cells])


class Styled(str):
    """A line with colours of our own."""

    __slots__ = ()


def styled(text: str, **style: Any) -> Styled:
    return Styled(click.style(printable(text), **style))


@dataclass(slots=True)
class Answer:
    """What a command found out: `data` for programs, `tables` and lines for people."""

    data: Any
    tables: list[Table] = field(default_factory=list)
    head: list[str] = field(default_factory=list)  # lines before the tables
    hints: list[str] = field(default_factory=list)  # lines after them, on a terminal only


def show(answer: Answer, output: str) -> None:
    click.echo(text(answer, output), nl=False, color=_colours())


def text(answer: Answer, output: str) -> str:
    if output == "json":
        return _document(lambda plain: json.dumps(answer.data, indent=2, ensure_ascii=plain) + "\n")
    if output == "yaml":
        import yaml

        return _document(lambda plain: yaml.safe_dump(answer.data, sort_keys=False, allow_unicode=not plain, width=120))
    lines = [line if isinstance(line, Styled) else printable(line) for line in answer.head]
    for table in answer.tables:
        if lines:
            lines.append("")
        if table.title:
            lines.append(styled(table.title, bold=True))
        lines += _lines(table, wide=output == WIDE)
    if answer.hints and is_terminal():
        lines += ["", *(styled(hint, dim=True) for hint in answer.hints)]
    return "".join(f"{line}\n" for line in lines)


def _document(write: Callable[[bool], str]) -> str:
    """For programs, but people look at it on terminals, too: in ASCII only if it has characters that these obey."""
    found = write(False)
    return found if all(printable(line) == line for line in found.split("\n")) else write(True)


def _lines(table: Table, *, wide: bool) -> list[str]:
    chosen = [i for i, column in enumerate(table.columns) if wide or "+" not in column[:2]]
    columns = [(table.columns[i], [row[i] for row in table.rows]) for i in chosen]
    whole = _width(columns)
    room = whole if wide else line_width(whole)
    if whole > room:
        columns = [(name, cells) for name, cells in columns if any(cell != _NONE for cell in cells)]
    names = [name.lstrip(">+").upper() for name, _ in columns]
    rows = [list(row) for row in zip(*(cells for _, cells in columns), strict=True)]
    if _width(columns) > room:
        return [line for row in rows for line in _entry(names, row, room)]
    lines = []
    for number, row in enumerate([names, *rows]):
        cells = [
            _painted(cell.rjust(width) if ">" in column[0][:2] else cell.ljust(width), cell, header=number == 0)
            for cell, width, column in zip(row, map(_column_width, columns), columns, strict=True)
        ]
        lines.append(_GAP.join(cells).rstrip())
    return lines


_Column = tuple[str, list[str]]  # its name as in the table, and its cells


def _column_width(column: _Column) -> int:
    name, cells = column
    return max(len(name.lstrip(">+")), *map(len, cells), 0)


def _width(columns: Sequence[_Column]) -> int:
    return sum(map(_column_width, columns)) + len(_GAP) * (len(columns) - 1)


def _entry(names: Sequence[str], row: Sequence[str], room: int) -> list[str]:
    """A row that is too wide for the terminal: its name, and below it what is known."""
    known = [f"{name.lower()} {cell}" for name, cell in zip(names[1:], row[1:], strict=True) if cell != _NONE]
    below = textwrap.wrap(", ".join(known), max(room, 20), initial_indent=_GAP, subsequent_indent=_GAP)
    return [_bold(row[0]), *below]


def _bold(name: str) -> str:
    return click.style(name, bold=True) if _colours() else name


def _painted(padded: str, word: str, *, header: bool) -> str:
    if header:
        return click.style(padded, dim=True) if _colours() else padded
    colour = _COLOURS.get(word)
    return click.style(padded, fg=colour) if colour and _colours() else padded


def is_terminal() -> bool:
    return sys.stdout.isatty()


def line_width(most: int) -> int:
    """As wide as the terminal, but no wider than this. What goes elsewhere is not folded to a terminal's width."""
    return min(most, shutil.get_terminal_size().columns) if is_terminal() else most


def _colours() -> bool:
    return is_terminal() and not os.environ.get("NO_COLOR")


def repeat(ask: Callable[[], Answer], output: str, watch: float | None, *, live: bool) -> None:
    """Show the answer once, or again and again. On a terminal it is redrawn; elsewhere only changes are printed."""
    if watch is None:
        show(ask(), output)
        return
    if not live:
        raise UserError("--watch needs a cluster: a scenario at one time does not change.")
    before: object = None
    while True:
        answer = ask()
        if is_terminal():
            sys.stdout.write(_CLEAR)
            click.echo(text(answer, output), nl=False, color=_colours())
        elif (now := _without_clock(answer)) != before:
            click.echo(text(answer, output), nl=False)
            sys.stdout.flush()
            before = now
        time.sleep(watch)


def _without_clock(answer: Answer) -> object:
    """What is compared: a job that is a second older is not a change."""
    data = {**answer.data, "now": None} if isinstance(answer.data, dict) else answer.data
    rows = [
        [cell for column, cell in zip(table.columns, row, strict=True) if column not in _AGES]
        for table in answer.tables
        for row in table.rows
    ]
    return data, rows, [] if answer.tables else answer.head
