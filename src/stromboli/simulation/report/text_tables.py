"""The result of a run as tables, for people.

A summary comes first, then the jobs, each with a timeline: dots while it waited, blocks while it ran. Of many jobs only
those that waited longest are shown. Then come evictions and warnings, the queues and nodes at the end, and the reasons
of the jobs that still wait.

The width is that of the terminal, or COLUMNS, or a hundred columns in a pipe. In a narrow place the timeline is left
out and long names wrap. No other column is ever left out: where even that is too wide, lines are longer than the
terminal. Names that controllers generate are replaced by those of their owners.
"""

from __future__ import annotations

import os
import re
import sys
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from stromboli.api.quantity import amount, format_duration, readable_amount
from stromboli.api.reservations.fields import OVER
from stromboli.grammar import plural
from stromboli.printable import printable
from stromboli.scheduling.explanation.reasons import Code
from stromboli.simulation.group_history import GroupRecord

PIPED_WIDTH: Final = 100
MAX_ROWS: Final = 40
_MAX_WIDTH: Final = 140
_UNLIMITED: Final = 10_000  # of the console that tables are drawn on: they know their own widths
_TIMELINE_WIDTH: Final = 20
_BAR: Final = 20
_GAP: Final = 2
_TIMELINE: Final = "Timeline"
_WRAPPED: Final = {"Job": 14, "Queue": 8, "Object": 14, "Message": 30, "Reason": 20, "Allocated": 16, "Deserved": 16,
                   "Outcome": 10, "Used": 16, "Node": 12, "Value": 30}  # fmt: skip
"""Columns that wrap, and how narrow they may become."""
_STYLES: Final = {
    "Succeeded": "green", "Running": "cyan", "Pending": "yellow", "Evicted": "red", "Failed": "red",
}  # fmt: skip
_ASCII: Final = str.maketrans({"–": "-", "█": "#", "░": ".", "·": ".", "…": "~", "×": "x", "µ": "u"})

_GENERATED: Final = re.compile(r"[a-z0-9][-a-z0-9]*/[a-z0-9][-.a-z0-9]*-[0-9]+-[0-9a-f]{12}\b")
"""The key of an object whose name ends in a uid of a simulation."""

Report = dict[str, Any]


@dataclass(frozen=True, slots=True)
class _JobRow:
    """The pods of one group. A Job that has not been admitted yet has no pods."""

    name: str
    queue: str
    submitted: float
    started: float | None
    waited: float
    pods: list[dict[str, Any]]
    pending: list[tuple[str, str]]  # reason and message, once for each pending pod, or for a Job without pods

    @property
    def finished(self) -> float | None:
        ends = [pod["finished"] for pod in self.pods]
        return None if not ends or None in ends else max(ends)

    @property
    def outcome(self) -> str:
        """The phase if all pods have the same one, else the number of pods in each phase."""
        phases = Counter(pod["phase"] for pod in self.pods)
        if len(phases) <= 1:
            return next(iter(phases), "Pending")
        return ", ".join(f"{phases[phase]} {phase.lower()}" for phase in _STYLES if phases[phase])


def print_table(report: Report, groups: Mapping[str, GroupRecord], codes: Mapping[str, str]) -> None:
    """`groups` and `codes` have what is known of each group, and why it waits, by its key."""
    width = _width(Console())
    console = Console(highlight=False, width=_UNLIMITED)
    with console.capture() as capture:
        _Printer(console, width, _escaped(report), groups, codes).print()
    text = capture.get()
    encoding = sys.stdout.encoding or "utf-8"
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        text = text.translate(_ASCII).encode(encoding, errors="replace").decode(encoding)
    sys.stdout.write(text)


def _escaped(data: Any) -> Any:
    """All strings of the report as a terminal may get them."""
    match data:
        case str():
            return printable(data)
        case dict():
            return {_escaped(name): _escaped(value) for name, value in data.items()}
        case list():
            return [_escaped(value) for value in data]
        case _:
            return data


def _width(console: Console) -> int:
    if console.is_terminal:
        return min(console.width, _MAX_WIDTH)
    return console.width if os.environ.get("COLUMNS", "").isdigit() else PIPED_WIDTH


class _Printer:
    def __init__(
        self, console: Console, width: int, report: Report, groups: Mapping[str, GroupRecord], codes: Mapping[str, str]
    ) -> None:
        self._console = console
        self._width = width
        self._report = report
        self._owners = {group: record.shown_name for group, record in groups.items()}
        self._groups = groups
        self._codes = codes
        self._rows = self._job_rows()

    def print(self) -> None:
        report = self._report
        self._console.print(_headline(report))
        self._show("", _summary(report["summary"]))
        if self._rows:
            self._jobs()
        events = [event for event in report["events"] if event["type"] in ("Evicted", "Warning")]
        if events:
            self._show("Evictions and warnings", self._events(events[:MAX_ROWS]))
            self._remainder(events, "events")
        self._show("Queues", _queues(report["queues"]))
        if report["nodes"]:
            self._nodes()
        held = {name: one for name, one in report["reservations"].items() if one["phase"] != "Waiting"}
        held = dict(sorted(held.items(), key=lambda item: item[1]["phase"] in OVER))  # those that have ended last
        if held:
            self._show("Reservations", _reservations(dict(list(held.items())[:MAX_ROWS])))
            self._remainder(list(held), "Reservations")
        unplaced = {name: one for name, one in held.items() if one["message"]}
        if unplaced:
            self._show("Reservations without a node", self._unplaced(dict(list(unplaced.items())[:MAX_ROWS])))
            self._remainder(list(unplaced), "Reservations")
        waiting = [row for row in self._rows if row.pending]
        if waiting:
            self._show("Waiting", self._waiting(waiting[:MAX_ROWS]))
            self._remainder(waiting, "jobs")

    def _show(self, title: str, grid: Table) -> None:
        fits = _fit(grid, self._width)
        if not fits and grid.columns[-2].header == _TIMELINE:
            del grid.columns[-2]
            _fit(grid, self._width)
        if title:
            self._heading(title)
        self._console.print(grid)

    def _heading(self, title: str) -> None:
        self._console.print(Text(f"\n{title}", style="bold"))

    def _remainder(self, rows: list[Any], noun: str) -> None:
        rest = len(rows) - MAX_ROWS
        if rest > 0:
            self._console.print(Text(f"… and {rest} more {noun}; --output json shows all of them", style="dim"))

    def _named(self, text: str) -> str:
        """The text with the names of owners instead of generated names."""
        return _GENERATED.sub(lambda found: self._owners.get(found[0], found[0]), text)

    def _job_rows(self) -> list[_JobRow]:
        report = self._report
        end = report["end"]
        by_group: dict[tuple[str, str], dict[str, dict[str, Any]]] = {}
        for pod_key, pod in report["pods"].items():
            by_group.setdefault((pod["podGroup"] or pod_key, pod["queue"]), {})[pod_key] = pod
        rows = []
        for (group, queue), pods in by_group.items():
            name = self._owners.get(group, group)
            times = report["jobs"].get(name) or report["podGroups"].get(group, {})
            submitted = times.get("submitted", min(pod["submitted"] for pod in pods.values()))
            bound = min((pod["bound"] for pod in pods.values() if pod["bound"] is not None), default=None)
            started = times.get("started", bound)
            waited = (end if started is None else started) - submitted
            pending = [(pod["reason"], pod["message"]) for pod in pods.values() if pod["phase"] == "Pending"]
            rows.append(_JobRow(name, queue, submitted, started, waited, list(pods.values()), pending))
        with_pods = {group for group, _ in by_group}
        for group, status in report["podGroups"].items():
            name = self._owners.get(group, group)
            if group not in with_pods and name in report["jobs"]:
                record = self._groups[group]
                pending = [(self._code(group, c), c["message"]) for c in status["conditions"] if c["message"]]
                submitted = report["jobs"][name]["submitted"]
                rows.append(_JobRow(name, record.queue, submitted, None, end - submitted, [], pending or [("", "")]))
        return sorted(rows, key=lambda row: (row.submitted, row.name))

    def _code(self, group: str, condition: dict[str, Any]) -> str:
        """Of the last cycle; if that did not consider the group, its condition says why."""
        return self._codes.get(group) or (condition["reason"] if condition["reason"] == Code.NO_QUEUE else "")

    def _jobs(self) -> None:
        rows, title = self._rows, "Jobs"
        if len(rows) > MAX_ROWS:
            rows = sorted(rows, key=lambda row: (-row.waited, row.submitted, row.name))[:MAX_ROWS]
            title = f"Jobs that waited longest ({MAX_ROWS} of {len(self._rows)}; --output json shows all of them)"
        times = ("Submitted", "Started", "Ended", "Waited")
        grid = _grid("Job", "Queue", "Pods", *times, _TIMELINE, "Outcome", right=("Pods", *times))
        for row in rows:
            grid.add_row(
                Text(row.name),
                Text(row.queue),
                str(len(row.pods)),
                _time(row.submitted),
                _time(row.started),
                _time(row.finished),
                _time(row.waited),
                _timeline(row, self._report["end"]),
                Text(row.outcome, style=_STYLES.get(row.outcome, "")),
            )
        self._show(title, grid)

    def _events(self, events: list[dict[str, Any]]) -> Table:
        grid = _grid("Time", "Event", "Object", "Message", right=("Time",))
        for event in events:
            style = _STYLES.get(event["type"], "yellow")
            reason, message = event["reason"], self._named(event["message"])
            text = message if message.startswith(reason) else f"{reason}: {message}"
            subject = self._named(event["object"])
            grid.add_row(format_duration(event["t"]), Text(event["type"], style=style), Text(subject), Text(text))
        return grid

    def _nodes(self) -> None:
        nodes = [(_most_used(node), name, node) for name, node in self._report["nodes"].items()]
        title = "Nodes"
        if len(nodes) > MAX_ROWS:
            title = f"Fullest nodes ({MAX_ROWS} of {len(nodes)}; --output json shows all of them)"
            nodes = sorted(nodes, key=lambda entry: (-entry[0], entry[1]))[:MAX_ROWS]
        locked = any(node["lockedBy"] for _, _, node in nodes)
        grid = _grid("Node", "Most used", "", "Used", *(("Locked for",) if locked else ()), right=("",))
        for share, name, node in nodes:
            full = min(_BAR, round(share * _BAR))
            style = "red" if share > 1 else "cyan"
            bar = Text("█" * full, style=style).append("░" * (_BAR - full), style="dim")
            offered = node["allocatable"]
            used = ", ".join(
                f"{_readable(resource, taken)} of {_readable(resource, offered.get(resource, '0'))} {resource}"
                for resource, taken in node["used"].items()
            )
            owner = (Text(node["lockedBy"] or "–"),) if locked else ()
            grid.add_row(Text(name), bar, f"{share:.0%}", Text(used), *owner)
        self._show(title, grid)

    def _unplaced(self, reservations: dict[str, dict[str, Any]]) -> Table:
        grid = _grid("Reservation", "Reason", "Message")
        for name, one in reservations.items():
            grid.add_row(Text(name), Text(one["reason"], style="yellow"), Text(self._named(one["message"])))
        return grid

    def _waiting(self, rows: list[_JobRow]) -> Table:
        grid = _grid("Job", "Pods", "Reason", "Message", right=("Pods",))
        for row in rows:
            for (reason, message), pods in Counter(row.pending).items():
                counted = str(pods if row.pods else 0)
                grid.add_row(Text(row.name), counted, Text(reason, style="yellow"), Text(self._named(message)))
        return grid


def _headline(report: Report) -> Text:
    phases = Counter(pod["phase"] for pod in report["pods"].values())
    counted = ", ".join(f"{phases[phase]} {phase.lower()}" for phase in _STYLES if phases[phase])
    noun = "pod" if len(report["pods"]) == 1 else "pods"
    summary = f"{format_duration(report['end'])} simulated, {len(report['pods'])} {noun}"
    return Text(f"{summary}: {counted}" if counted else summary, style="bold")


def _summary(summary: dict[str, Any]) -> Table:
    grid = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0), show_header=False, show_edge=False)
    grid.add_column("")
    grid.add_column("Value", overflow="fold")
    waits = summary["wait"]
    if waits["mean"] is not None:
        listed = ", ".join(f"{name} {format_duration(round(waits[name], 1))}" for name in ("mean", "p50", "p95", "max"))
        grid.add_row("Waits", listed)
    if summary["utilisation"]:
        grid.add_row("Used", ", ".join(f"{share:.0%} of {name}" for name, share in summary["utilisation"].items()))
    evictions = summary["evictions"]
    lost = f", {summary['workLost']:g} core-seconds of work lost" if evictions else ""
    grid.add_row("Evictions", f"{evictions}{lost}")
    if summary["starved"]:
        grid.add_row("Starved", plural(summary["starved"], "job"))
    return grid


def _grid(*columns: str, right: tuple[str, ...] = ()) -> Table:
    grid = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0), header_style="dim", show_edge=False)
    for column in columns:
        grid.add_column(
            column,
            justify="right" if column in right else "left",
            overflow="fold",
            no_wrap=column not in _WRAPPED,
        )
    return grid


def _fit(grid: Table, width: int) -> bool:
    """Set the width of every column: that of its content, or less for those that wrap, the widest first. Whether the
    table fits the width then. rich itself would make columns vanish."""
    least: dict[int, int] = {}
    for number, column in enumerate(grid.columns):
        header = str(column.header) if grid.show_header else ""
        column.width = max(_cell_width(cell) for cell in (header, *column._cells))
        least[number] = min(column.width, max(cell_len(header), _WRAPPED.get(str(column.header), column.width)))
    while (excess := _total_width(grid) - width) > 0:
        widths = {number: grid.columns[number].width or 0 for number in least}
        reducible = [number for number in least if widths[number] > least[number]]
        if not reducible:
            return False
        widest = max(reducible, key=lambda number: widths[number])
        grid.columns[widest].width = max(least[widest], widths[widest] - excess)
    return True


def _total_width(grid: Table) -> int:
    return sum((column.width or 0) + _GAP for column in grid.columns) - _GAP


def _cell_width(cell: object) -> int:
    return cell.cell_len if isinstance(cell, Text) else cell_len(str(cell))


def _time(seconds: float | None) -> str:
    return "–" if seconds is None else format_duration(seconds)


def _timeline(row: _JobRow, end: float) -> Text:
    """Each character is a part of the run; it shows whether any pod of the job ran or waited then."""
    line = Text()
    width = end / _TIMELINE_WIDTH if end else 1.0
    waits = [(pod["submitted"], pod["bound"] if pod["bound"] is not None else pod["finished"]) for pod in row.pods]
    waits.append((row.submitted, row.started))
    for slot in range(_TIMELINE_WIDTH):
        begin, close = slot * width, (slot + 1) * width
        if any(_overlaps(pod["bound"], pod["finished"], begin, close) for pod in row.pods):
            line.append("█", style="cyan")
        elif any(_overlaps(since, until, begin, close) for since, until in waits):
            line.append("·", style="yellow")
        else:
            line.append(" ")
    return line


def _overlaps(since: float | None, until: float | None, begin: float, close: float) -> bool:
    return since is not None and since < close and (until is None or until > begin)


def _queues(queues: dict[str, dict[str, Any]]) -> Table:
    grid = _grid("Queue", "State", "Allocated", "Deserved")
    for name, queue in queues.items():
        allocated, deserved = _format_resources(queue["allocated"]), _format_resources(queue["deserved"])
        grid.add_row(Text(name), queue["state"], Text(allocated), Text(deserved))
    return grid


def _reservations(reservations: dict[str, dict[str, Any]]) -> Table:
    """Without the places for pods, which no other table shows."""
    grid = _grid("Reservation", "Phase", "Node", "Holds", "Used")
    for name, one in reservations.items():
        given, used = (
            _format_resources({resource: quantity for resource, quantity in one[key].items() if resource != "pods"})
            for key in ("allocatable", "allocated")
        )
        style = {"Available": "cyan", "Pending": "yellow", "Succeeded": "green"}.get(one["phase"], "red")
        grid.add_row(Text(name), Text(one["phase"], style=style), Text(one["node"] or "–"), Text(given), Text(used))
    return grid


def _most_used(node: dict[str, Any]) -> float:
    return max((_share(node, resource) for resource in node["used"]), default=0.0)


def _share(node: dict[str, Any], resource: str) -> float:
    offered = amount(resource, node["allocatable"].get(resource, 0))
    taken = amount(resource, node["used"][resource])
    return taken / offered if offered else float(taken > 0)


def _format_resources(resources: dict[str, str]) -> str:
    return ", ".join(f"{_readable(resource, quantity)} {resource}" for resource, quantity in resources.items()) or "–"


def _readable(resource: str, quantity: str) -> str:
    return readable_amount(resource, amount(resource, quantity))
