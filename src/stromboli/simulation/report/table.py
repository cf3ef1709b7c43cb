"""The result of a run as tables, for people.

Jobs come first, in the order of their submission, each with a timeline: dots while it waited, blocks while it ran. Then
come evictions and warnings, the queues and nodes at the end, and the reasons of the jobs that still wait. In a pipe the
output is the same, a hundred columns wide and without colours.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from stromboli.api.quantity import amount, format_amount, format_duration

PIPED_WIDTH: Final = 100
_MAX_WIDTH: Final = 140
_MAX_ROWS: Final = 40
_TIMELINE_WIDTH: Final = 20
_BAR: Final = 20
_MIN_WIDTHS: Final = {"Job": 12, "Queue": 7, "Outcome": len("Succeeded")}
_STYLES: Final = {
    "Succeeded": "green", "Running": "cyan", "Pending": "yellow", "Evicted": "red", "Failed": "red",
}  # fmt: skip

# The name of a Job's group is the Job's name and its uid, which begins with the name again.
_JOB_GROUP: Final = re.compile(r"(?P<namespace>[^/]+)/(?P<job>.+)-(?P=job)-[0-9]+-[0-9a-f]{12}")

Report = dict[str, Any]


@dataclass(frozen=True, slots=True)
class _JobRow:
    """The pods of one group. A Job that has not been admitted yet has no pods."""

    name: str
    queue: str
    submitted: float
    pods: list[dict[str, Any]]
    pending: list[tuple[str, str]]  # reason and message, once for each pending pod, or for a Job without pods

    @property
    def started(self) -> float | None:
        return min((pod["bound"] for pod in self.pods if pod["bound"] is not None), default=None)

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


def print_table(report: Report, jobs: Mapping[str, float]) -> None:
    """`jobs` says when each Job was submitted, which is not in the report."""
    console = Console(highlight=False)
    console = Console(highlight=False, width=min(console.width, _MAX_WIDTH) if console.is_terminal else PIPED_WIDTH)
    console.print(Group(*_parts(report, jobs)))


def _parts(report: Report, jobs: Mapping[str, float]) -> list[RenderableType]:
    parts: list[RenderableType] = [_headline(report)]
    rows = _job_rows(report, jobs)
    if rows:
        parts += [_heading("Jobs"), _jobs(rows, report["end"])]
    events = [event for event in report["events"] if event["type"] in ("Evicted", "Warning")]
    if events:
        parts += [_heading("Evictions and warnings"), _events(events)]
    parts += [_heading("Queues"), _queues(report["queues"])]
    if report["nodes"]:
        parts += [_heading("Nodes"), _nodes(report["nodes"])]
    waiting = [row for row in rows if row.pending]
    if waiting:
        parts += [_heading("Waiting"), _waiting(waiting)]
    return parts


def _headline(report: Report) -> Text:
    pods = report["pods"].values()
    phases = Counter(pod["phase"] for pod in pods)
    counted = ", ".join(f"{phases[phase]} {phase.lower()}" for phase in _STYLES if phases[phase])
    noun = "pod" if len(report["pods"]) == 1 else "pods"
    summary = f"{format_duration(report['end'])} simulated, {len(report['pods'])} {noun}"
    return Text(f"{summary}: {counted}" if counted else summary, style="bold")


def _heading(title: str) -> Text:
    return Text(f"\n{title}", style="bold")


def _job_rows(report: Report, jobs: Mapping[str, float]) -> list[_JobRow]:
    by_group: dict[tuple[str, str], dict[str, dict[str, Any]]] = {}
    for pod_key, pod in report["pods"].items():
        by_group.setdefault((pod["podGroup"] or pod_key, pod["queue"]), {})[pod_key] = pod
    rows = []
    for (group, queue), pods in by_group.items():
        name = _name(group, list(pods))
        submitted = min(pod["submitted"] for pod in pods.values())
        pending = [(pod["reason"], pod["message"]) for pod in pods.values() if pod["phase"] == "Pending"]
        rows.append(_JobRow(name, queue, jobs.get(name, submitted), list(pods.values()), pending))
    with_pods = {group for group, _ in by_group}
    for group, status in report["podGroups"].items():
        name = _name(group, [])
        if group not in with_pods and name in jobs:
            pending = [(c["reason"], c["message"]) for c in status["conditions"] if c["message"]]
            rows.append(_JobRow(name, "", jobs[name], [], pending or [("", "")]))
    return sorted(rows, key=lambda row: (row.submitted, row.name))


def _name(group: str, pod_keys: list[str]) -> str:
    """The name to show: that of the Job, or of the pods if their group is generated. Group names contain uids."""
    if of_job := _JOB_GROUP.fullmatch(group):
        return f"{of_job['namespace']}/{of_job['job']}"
    if not pod_keys or not group.partition("/")[2].startswith("podgroup-"):
        return group
    if len(pod_keys) == 1:
        return pod_keys[0]
    return re.sub(r"-[0-9]+$", "", pod_keys[0]) + "-*"


def _grid(*columns: str, right: tuple[str, ...] = ()) -> Table:
    grid = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim", show_edge=False)
    for column in columns:
        grid.add_column(
            column,
            justify="right" if column in right else "left",
            overflow="ellipsis" if column in ("Job", "Queue") else "fold",
            min_width=max(len(column), _MIN_WIDTHS.get(column, 0)),
            no_wrap=column not in ("Message", "Allocated", "Deserved", "Outcome", "Used"),
        )
    return grid


def _jobs(rows: list[_JobRow], end: float) -> RenderableType:
    times = ("Submitted", "Started", "Ended", "Waited")
    grid = _grid("Job", "Queue", "Pods", *times, "Time", "Outcome", right=("Pods", *times))
    for row in rows[:_MAX_ROWS]:
        started = row.started
        grid.add_row(
            Text(row.name),
            Text(row.queue),
            str(len(row.pods)),
            _time(row.submitted),
            _time(started),
            _time(row.finished),
            _time((end if started is None else started) - row.submitted),
            _timeline(row, end),
            Text(row.outcome, style=_STYLES.get(row.outcome, "")),
        )
    return _with_remainder(grid, len(rows) - _MAX_ROWS, "jobs")


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


def _events(events: list[dict[str, Any]]) -> RenderableType:
    grid = _grid("Time", "Event", "Object", "Message", right=("Time",))
    for event in events[:_MAX_ROWS]:
        style = _STYLES.get(event["type"], "yellow")
        reason, message = event["reason"], event["message"]
        text = message if message.startswith(reason) else f"{reason}: {message}"
        grid.add_row(format_duration(event["t"]), Text(event["type"], style=style), Text(event["object"]), Text(text))
    return _with_remainder(grid, len(events) - _MAX_ROWS, "events")


def _queues(queues: dict[str, dict[str, Any]]) -> RenderableType:
    grid = _grid("Queue", "State", "Allocated", "Deserved")
    for name, queue in queues.items():
        allocated, deserved = _format_resources(queue["allocated"]), _format_resources(queue["deserved"])
        grid.add_row(Text(name), queue["state"], Text(allocated), Text(deserved))
    return grid


def _nodes(nodes: dict[str, dict[str, Any]]) -> RenderableType:
    grid = _grid("Node", "Most used", "", "Used", right=("",))
    for name, node in list(nodes.items())[:_MAX_ROWS]:
        share = max((_share(node, resource) for resource in node["used"]), default=0.0)
        full = min(_BAR, round(share * _BAR))
        style = "red" if share > 1 else "cyan"
        bar = Text("█" * full, style=style).append("░" * (_BAR - full), style="dim")
        used = ", ".join(
            f"{taken} of {node['allocatable'].get(resource, '0')} {resource}"
            for resource, taken in node["used"].items()
        )
        grid.add_row(Text(name), bar, f"{share:.0%}", Text(used))
    return _with_remainder(grid, len(nodes) - _MAX_ROWS, "nodes")


def _share(node: dict[str, Any], resource: str) -> float:
    offered = amount(resource, node["allocatable"].get(resource, 0))
    taken = amount(resource, node["used"][resource])
    return taken / offered if offered else float(taken > 0)


def _waiting(rows: list[_JobRow]) -> RenderableType:
    grid = _grid("Job", "Pods", "Reason", "Message", right=("Pods",))
    for row in rows[:_MAX_ROWS]:
        for (reason, message), pods in Counter(row.pending).items():
            counted = str(pods if row.pods else 0)
            grid.add_row(Text(row.name), counted, Text(reason, style="yellow"), Text(message))
    return _with_remainder(grid, len(rows) - _MAX_ROWS, "jobs")


def _format_resources(resources: dict[str, str]) -> str:
    shown = (f"{format_amount(r, amount(r, quantity))} {r}" for r, quantity in resources.items())
    return ", ".join(shown) or "–"


def _with_remainder(grid: Table, rest: int, noun: str) -> RenderableType:
    if rest <= 0:
        return grid
    return Group(grid, Padding(Text(f"… and {rest} more {noun}; --output json shows all of them", style="dim"), 0))
