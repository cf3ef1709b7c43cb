"""A run at a glance, for people.

Jobs come first, in the order in which they were submitted, each with its story on a line of time: dots while
it waited, blocks while it ran. Then who had to make room for whom, what queues and nodes look like at the
end, and, for those that still wait, the sentence that says why. Piped into a file it is the same picture, a
hundred columns wide and without colours.
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
_WIDEST: Final = 140
_MOST_ROWS: Final = 40
_LINE_OF_TIME: Final = 20
_BAR: Final = 20
_LEAST_WIDTHS: Final = {"Job": 12, "Queue": 7, "Outcome": len("Succeeded")}
_STYLES: Final = {
    "Succeeded": "green", "Running": "cyan", "Pending": "yellow", "Evicted": "red", "Failed": "red",
}  # fmt: skip

# A Job's group is called by the Job's name and its uid, which begins with the name again.
_JOB_GROUP: Final = re.compile(r"(?P<namespace>[^/]+)/(?P<job>.+)-(?P=job)-[0-9]+-[0-9a-f]{12}")

Report = dict[str, Any]


@dataclass(frozen=True, slots=True)
class _Story:
    """The pods of one group, seen as one thing. A Job that has not been let in yet has no pods."""

    name: str
    queue: str
    submitted: float
    pods: list[dict[str, Any]]
    waits_for: list[tuple[str, str]]  # reason and sentence, once for each pod that waits, or for a Job without pods

    @property
    def started(self) -> float | None:
        return min((pod["bound"] for pod in self.pods if pod["bound"] is not None), default=None)

    @property
    def finished(self) -> float | None:
        ends = [pod["finished"] for pod in self.pods]
        return None if not ends or None in ends else max(ends)

    @property
    def outcome(self) -> str:
        """One word if all pods fared alike, else how many fared how."""
        phases = Counter(pod["phase"] for pod in self.pods)
        if len(phases) <= 1:
            return next(iter(phases), "Pending")
        return ", ".join(f"{phases[phase]} {phase.lower()}" for phase in _STYLES if phases[phase])


def print_table(report: Report, jobs: Mapping[str, float]) -> None:
    """`jobs` says when each Job was submitted, which is not in the report."""
    console = Console(highlight=False)
    console = Console(highlight=False, width=min(console.width, _WIDEST) if console.is_terminal else PIPED_WIDTH)
    console.print(Group(*_parts(report, jobs)))


def _parts(report: Report, jobs: Mapping[str, float]) -> list[RenderableType]:
    parts: list[RenderableType] = [_headline(report)]
    stories = _stories(report, jobs)
    if stories:
        parts += [_heading("Jobs"), _jobs(stories, report["end"])]
    told = [event for event in report["events"] if event["type"] in ("Evicted", "Warning")]
    if told:
        parts += [_heading("Evictions and warnings"), _events(told)]
    parts += [_heading("Queues"), _queues(report["queues"])]
    if report["nodes"]:
        parts += [_heading("Nodes"), _nodes(report["nodes"])]
    waiting = [story for story in stories if story.waits_for]
    if waiting:
        parts += [_heading("Waiting"), _waiting(waiting)]
    return parts


def _headline(report: Report) -> Text:
    pods = report["pods"].values()
    phases = Counter(pod["phase"] for pod in pods)
    counted = ", ".join(f"{phases[phase]} {phase.lower()}" for phase in _STYLES if phases[phase])
    noun = "pod" if len(report["pods"]) == 1 else "pods"
    told = f"{format_duration(report['end'])} simulated, {len(report['pods'])} {noun}"
    return Text(f"{told}: {counted}" if counted else told, style="bold")


def _heading(title: str) -> Text:
    return Text(f"\n{title}", style="bold")


def _stories(report: Report, jobs: Mapping[str, float]) -> list[_Story]:
    by_group: dict[tuple[str, str], dict[str, dict[str, Any]]] = {}
    for pod_key, pod in report["pods"].items():
        by_group.setdefault((pod["podGroup"] or pod_key, pod["queue"]), {})[pod_key] = pod
    stories = []
    for (group, queue), pods in by_group.items():
        name = _name(group, list(pods))
        submitted = min(pod["submitted"] for pod in pods.values())
        told = [(pod["reason"], pod["message"]) for pod in pods.values() if pod["phase"] == "Pending"]
        stories.append(_Story(name, queue, jobs.get(name, submitted), list(pods.values()), told))
    with_pods = {group for group, _ in by_group}
    for group, status in report["podGroups"].items():
        name = _name(group, [])
        if group not in with_pods and name in jobs:
            told = [(said["reason"], said["message"]) for said in status["conditions"] if said["message"]]
            stories.append(_Story(name, "", jobs[name], [], told or [("", "")]))
    return sorted(stories, key=lambda story: (story.submitted, story.name))


def _name(group: str, pod_keys: list[str]) -> str:
    """What a user would call it: a Job by its name, plain pods by theirs. Their groups are named by uids."""
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
            min_width=max(len(column), _LEAST_WIDTHS.get(column, 0)),
            no_wrap=column not in ("Message", "Allocated", "Deserved", "Outcome", "Used"),
        )
    return grid


def _jobs(stories: list[_Story], end: float) -> RenderableType:
    times = ("Submitted", "Started", "Ended", "Waited")
    grid = _grid("Job", "Queue", "Pods", *times, "Time", "Outcome", right=("Pods", *times))
    for story in stories[:_MOST_ROWS]:
        started = story.started
        grid.add_row(
            Text(story.name),
            Text(story.queue),
            str(len(story.pods)),
            _time(story.submitted),
            _time(started),
            _time(story.finished),
            _time((end if started is None else started) - story.submitted),
            _line_of_time(story, end),
            Text(story.outcome, style=_STYLES.get(story.outcome, "")),
        )
    return _with_rest(grid, len(stories) - _MOST_ROWS, "jobs")


def _time(seconds: float | None) -> str:
    return "–" if seconds is None else format_duration(seconds)


def _line_of_time(story: _Story, end: float) -> Text:
    """Each character is a slice of the run; it shows whether any pod of the job ran then, or waited."""
    line = Text()
    width = end / _LINE_OF_TIME if end else 1.0
    waits = [(pod["submitted"], pod["bound"] if pod["bound"] is not None else pod["finished"]) for pod in story.pods]
    waits.append((story.submitted, story.started))
    for slot in range(_LINE_OF_TIME):
        begin, close = slot * width, (slot + 1) * width
        if any(_during(pod["bound"], pod["finished"], begin, close) for pod in story.pods):
            line.append("█", style="cyan")
        elif any(_during(since, until, begin, close) for since, until in waits):
            line.append("·", style="yellow")
        else:
            line.append(" ")
    return line


def _during(since: float | None, until: float | None, begin: float, close: float) -> bool:
    return since is not None and since < close and (until is None or until > begin)


def _events(events: list[dict[str, Any]]) -> RenderableType:
    grid = _grid("Time", "Event", "Object", "Message", right=("Time",))
    for event in events[:_MOST_ROWS]:
        style = _STYLES.get(event["type"], "yellow")
        reason, message = event["reason"], event["message"]
        told = message if message.startswith(reason) else f"{reason}: {message}"
        grid.add_row(format_duration(event["t"]), Text(event["type"], style=style), Text(event["object"]), Text(told))
    return _with_rest(grid, len(events) - _MOST_ROWS, "events")


def _queues(queues: dict[str, dict[str, Any]]) -> RenderableType:
    grid = _grid("Queue", "State", "Allocated", "Deserved")
    for name, queue in queues.items():
        grid.add_row(Text(name), queue["state"], Text(_listed(queue["allocated"])), Text(_listed(queue["deserved"])))
    return grid


def _nodes(nodes: dict[str, dict[str, Any]]) -> RenderableType:
    grid = _grid("Node", "Most used", "", "Used", right=("",))
    for name, node in list(nodes.items())[:_MOST_ROWS]:
        share = max((_share(node, resource) for resource in node["used"]), default=0.0)
        full = min(_BAR, round(share * _BAR))
        style = "red" if share > 1 else "cyan"
        bar = Text("█" * full, style=style).append("░" * (_BAR - full), style="dim")
        used = ", ".join(
            f"{taken} of {node['allocatable'].get(resource, '0')} {resource}"
            for resource, taken in node["used"].items()
        )
        grid.add_row(Text(name), bar, f"{share:.0%}", Text(used))
    return _with_rest(grid, len(nodes) - _MOST_ROWS, "nodes")


def _share(node: dict[str, Any], resource: str) -> float:
    offered = amount(resource, node["allocatable"].get(resource, 0))
    taken = amount(resource, node["used"][resource])
    return taken / offered if offered else float(taken > 0)


def _waiting(stories: list[_Story]) -> RenderableType:
    grid = _grid("Job", "Pods", "Reason", "Message", right=("Pods",))
    for story in stories[:_MOST_ROWS]:
        for (reason, message), pods in Counter(story.waits_for).items():
            counted = str(pods if story.pods else 0)
            grid.add_row(Text(story.name), counted, Text(reason, style="yellow"), Text(message))
    return _with_rest(grid, len(stories) - _MOST_ROWS, "jobs")


def _listed(resources: dict[str, str]) -> str:
    shown = (f"{format_amount(r, amount(r, quantity))} {r}" for r, quantity in resources.items())
    return ", ".join(shown) or "–"


def _with_rest(grid: Table, rest: int, noun: str) -> RenderableType:
    if rest <= 0:
        return grid
    return Group(grid, Padding(Text(f"… and {rest} more {noun}; --output json has them all", style="dim"), 0))
