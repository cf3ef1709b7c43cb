"""How commands print: tables for people, JSON and YAML for programs.

Colours are for terminals only, and never with NO_COLOR. Where the output goes into a pipe there is nothing but the
answer: no hints, no colours, no redrawing.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import click

from stromboli.errors import UserError

TABLE: Final = "table"
WIDE: Final = "wide"
_GAP: Final = "  "
_NONE: Final = "-"
_CLEAR: Final = "\x1b[H\x1b[2J\x1b[3J"
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
        self.rows.append([_NONE if cell in ("", None) else str(cell) for cell in cells])


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
        return json.dumps(answer.data, indent=2, ensure_ascii=False) + "\n"
    if output == "yaml":
        import yaml

        return yaml.safe_dump(answer.data, sort_keys=False, allow_unicode=True, width=120)
    lines = list(answer.head)
    for table in answer.tables:
        if lines:
            lines.append("")
        if table.title:
            lines.append(click.style(table.title, bold=True))
        lines += _lines(table, wide=output == WIDE)
    if answer.hints and is_terminal():
        lines += ["", *(click.style(hint, dim=True) for hint in answer.hints)]
    return "".join(f"{line}\n" for line in lines)


def _lines(table: Table, *, wide: bool) -> list[str]:
    chosen = [i for i, column in enumerate(table.columns) if wide or "+" not in column[:2]]
    names = [table.columns[i].lstrip(">+").upper() for i in chosen]
    right = [">" in table.columns[i][:2] for i in chosen]
    rows = [names, *([row[i] for i in chosen] for row in table.rows)]
    widths = [max(len(row[i]) for row in rows) for i in range(len(names))]
    lines = []
    for number, row in enumerate(rows):
        cells = [
            _painted(cell.rjust(width) if is_right else cell.ljust(width), cell, header=number == 0)
            for cell, width, is_right in zip(row, widths, right, strict=True)
        ]
        lines.append(_GAP.join(cells).rstrip())
    return lines


def _painted(padded: str, word: str, *, header: bool) -> str:
    if header:
        return click.style(padded, dim=True) if _colours() else padded
    colour = _COLOURS.get(word)
    return click.style(padded, fg=colour) if colour and _colours() else padded


def is_terminal() -> bool:
    return sys.stdout.isatty()


def _colours() -> bool:
    return is_terminal() and not os.environ.get("NO_COLOR")


def repeat(ask: Callable[[], Answer], output: str, watch: float | None, *, live: bool) -> None:
    """Show the answer once, or again and again. On a terminal it is redrawn; elsewhere only changes are printed."""
    if watch is None:
        show(ask(), output)
        return
    if not live:
        raise UserError("--watch needs a cluster: a scenario at one time does not change.")
    before = ""
    while True:
        now = text(ask(), output)
        if is_terminal():
            sys.stdout.write(_CLEAR)
            click.echo(now, nl=False, color=_colours())
        elif now != before:
            click.echo(now, nl=False)
            sys.stdout.flush()
        before = now
        time.sleep(watch)
