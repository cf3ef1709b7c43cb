"""What people see: a live table on a terminal, a line now and then elsewhere, and a summary at the end."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterable
from typing import Any, Final

import click

from stromboli.grammar import plural

from .observer import Observer, Usage

_EVERY: Final = 1.0  # seconds between two tables
_LINE_EVERY: Final = 10.0  # seconds between two lines where there is no terminal


async def show(observer: Observer, where: list[str]) -> None:
    """Until cancelled."""
    if not sys.stdout.isatty():
        while True:
            await asyncio.sleep(_LINE_EVERY)
            click.echo(_line(observer))

    from rich.console import Group
    from rich.live import Live
    from rich.text import Text

    with Live(refresh_per_second=4, transient=True) as live:
        while True:
            live.update(Group(*(Text(line) for line in where), _table(observer)))
            await asyncio.sleep(_EVERY)


def _line(observer: Observer) -> str:
    usages = list(observer.namespaces.values())
    running, pending = sum(one.running for one in usages), sum(one.pending for one in usages)
    cpu, capacity = sum(one.cpu for one in usages), observer.capacity() or 1
    return (
        f"{observer.elapsed():4.0f}s  {plural(running, 'pod')} running, {pending} pending, "
        f"{len(observer.finished)} finished; {100 * cpu // capacity}% of the CPUs requested"
    )


def _table(observer: Observer) -> Any:
    from rich.table import Table

    table = Table(title=_line(observer), title_justify="left")
    for column in ("Queue", "Weight", "Running", "Pending", "CPU now", "CPU share so far"):
        table.add_column(column, justify="left" if column == "Queue" else "right")
    total = sum(one.cpu_seconds for one in observer.queues.values()) or 1.0
    for name, usage in sorted(observer.queues.items()):
        share = f"{100 * usage.cpu_seconds / total:.0f}%"
        table.add_row(
            name, str(observer.weight(name)), str(usage.running), str(usage.pending), f"{usage.cpu / 1000:g}", share
        )
    return table


async def summary(observer: Observer) -> list[str]:
    """What the features did."""
    gangs = [gang for gang in observer.gangs.values() if gang.started]
    lines = [f"Summary of {observer.elapsed():.0f} seconds: {plural(len(observer.finished), 'pod')} finished."]
    if gangs:
        widest = max(gang.spread for gang in gangs)
        sizes = sorted({gang.minimum for gang in gangs})
        lines.append(
            f"  Gangs       {len(gangs)} of {len(observer.gangs)} started, of {sizes[0]} to {sizes[-1]} pods; at most "
            f"{widest:.1f} s between the first and the last bind of one"
        )
    lines.append("  Queues      " + _shares(observer.queues.items(), observer))
    lines.append("  Namespaces  " + _shares(observer.namespaces.items(), None))
    if observer.reserved:
        held = [f"{plural(len(nodes), 'node')} for {name}" for name, nodes in sorted(observer.reserved.items())]
        lines.append(f"  Reserved    {', '.join(held)}")
    if observer.borrowed:
        lines.append(f"  Backfilled  {plural(len(observer.borrowed), 'pod')} ran on lent resources")
    evicted = await observer.count_evictions()
    lines.append(f"  Evicted     {plural(evicted, 'pod')}")
    return lines


def _shares(usages: Iterable[tuple[str, Usage]], observer: Observer | None) -> str:
    known = sorted(usages)
    total = sum(usage.cpu_seconds for _, usage in known) or 1.0
    parts = []
    for name, usage in known:
        weight = f", weight {observer.weight(name)}" if observer is not None else ""
        parts.append(f"{name} {100 * usage.cpu_seconds / total:.0f}% ({usage.cpu_seconds:.0f} core-seconds{weight})")
    return "; ".join(parts) or "nothing ran"
