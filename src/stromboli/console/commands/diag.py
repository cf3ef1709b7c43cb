"""`stromboli diag`: how the scheduler itself is doing."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from stromboli.console.output import Answer, Table, output_option, repeat, watch_option
from stromboli.console.source import Source, state_options

if TYPE_CHECKING:
    from stromboli.insight import Picture, State
    from stromboli.scheduling.decisions import Cycle
    from stromboli.scheduling.session import Session

_EXAMPLES = """\b
Examples:
  stromboli diag
  stromboli diag --metrics-url http://127.0.0.1:8080/metrics --token-file token
  stromboli diag -o json | jq .reasons
  stromboli diag --scenario examples/demo.yaml --at 20s
"""
METRICS_URL: Final = "http://127.0.0.1:8080/metrics"
_PATIENCE: Final = 2.0
_MOST_REASONS: Final = 10


@click.command(epilog=_EXAMPLES)
@state_options
@click.option(
    "--metrics-url", default=METRICS_URL, show_default=True, metavar="URL", help="Where the scheduler serves metrics."
)
@click.option(
    "--token-file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="The file that the scheduler was started with, if its metrics need a token.",
)
@output_option
@watch_option
def diag(source: Source, metrics_url: str, token_file: Path | None, output: str, watch: float | None) -> None:
    """Show how the scheduler is doing: cycle times by action, queue depth, staleness, and the most frequent reasons.

    Times come from the metrics of the scheduler. Without them, one cycle is run and timed on a copy, on this machine.
    """
    repeat(lambda: _answer(source, metrics_url, token_file), output, watch, live=source.is_live)


def _answer(source: Source, url: str, token_file: Path | None) -> Answer:
    from stromboli.insight import inspect

    state = source.read()
    served = _served(url, token_file) if source.is_live else None
    times = served if served is not None else _timed(source, state)
    picture = inspect(state, source.scheduler()).picture
    data: dict[str, Any] = {
        "measured": "by the scheduler" if served is not None else "on a copy, on this machine",
        "cycle": times,
        "queues": _depths(picture),
        "staleness": _staleness(state),
        "reasons": _reasons(picture),
    }
    return Answer(data, list(_tables(data)), _head(data))


def _head(data: dict[str, Any]) -> list[str]:
    cycle, stale = data["cycle"], data["staleness"]
    lines = [f"Cycle: {cycle['milliseconds']:.1f} ms on average of {cycle['count']}, measured {data['measured']}"]
    if cycle.get("failures"):
        lines.append(f"Failed cycles: {cycle['failures']}; see the log of the scheduler")
    if "bufferedEvents" in cycle:
        lines.append(f"Buffered events: {cycle['bufferedEvents']}, binds in flight: {cycle['bindsInFlight']}")
    unseen = f", the oldest for {stale['oldestSeconds']:g} s" if stale["unseenPods"] else ""
    lines.append(f"Pods that no cycle has seen yet: {stale['unseenPods']}{unseen}")
    return lines


def _tables(data: dict[str, Any]) -> list[Table]:
    actions = Table(("step", ">milliseconds"), title="Cycle")
    for name, milliseconds in data["cycle"]["steps"].items():
        actions.add(name, f"{milliseconds:.1f}")
    depths = Table(("queue", ">waiting jobs", ">waiting pods"), title="Depth")
    for depth in data["queues"]:
        depths.add(depth["queue"], depth["jobs"], depth["pods"])
    reasons = Table(("reason", ">jobs", ">pods"), title="Reasons")
    for reason in data["reasons"]:
        reasons.add(reason["code"] or "not tried", reason["jobs"], reason["pods"])
    return [table for table in (actions, depths, reasons) if table.rows]


def _depths(picture: Picture) -> list[dict[str, Any]]:
    jobs = Counter(job.queue for job in picture.jobs if job.waits)
    pods: Counter[str] = Counter()
    for job in picture.jobs:
        pods[job.queue] += job.pods.waiting
    return [{"queue": queue.name, "jobs": jobs[queue.name], "pods": pods[queue.name]} for queue in picture.queues]


def _reasons(picture: Picture) -> list[dict[str, Any]]:
    jobs = Counter(job.reason for job in picture.jobs if job.waits)
    pods: Counter[str] = Counter()
    for job in picture.jobs:
        pods[job.reason] += job.pods.waiting
    ranked = sorted(jobs, key=lambda code: (-jobs[code], -pods[code], code))[:_MOST_REASONS]
    return [{"code": code, "jobs": jobs[code], "pods": pods[code]} for code in ranked]


def _staleness(state: State) -> dict[str, Any]:
    """Waiting pods that have no reason in their status yet: so far behind is the scheduler."""
    from stromboli.api import Pod
    from stromboli.cluster.object_fields import creation_time

    unseen = [
        state.now - creation_time(obj)
        for obj in state.objects
        if isinstance(obj, Pod) and _waits(obj, state.scheduler_name)
        and not any(condition.type == "PodScheduled" for condition in obj.status.conditions)
    ]  # fmt: skip
    return {"unseenPods": len(unseen), "oldestSeconds": round(max(unseen, default=0.0), 1)}


def _waits(pod: Any, scheduler_name: str) -> bool:
    return not pod.spec.node_name and pod.status.phase in ("", "Pending") and pod.spec.scheduler_name == scheduler_name


def _timed(source: Source, state: State) -> dict[str, Any]:
    """One cycle on a copy; the second one, because the first loads code."""
    from stromboli.insight.inspection import load
    from stromboli.scheduling.containment import CopiedScheduler

    watch = _StopWatch()
    for _ in range(2):
        cluster, _ignored = load(state)
        copied = CopiedScheduler(source.scheduler(), lambda: load(state)[0])
        watch = _StopWatch()
        copied.run_on(cluster, state.now, watch)
        watch.note("close")
    steps = {name: round(seconds * 1000, 1) for name, seconds in watch.steps.items()}
    return {"count": 1, "milliseconds": round(sum(steps.values()), 1), "steps": steps}


class _StopWatch:
    """Is told how far a cycle is. After an error it begins again; what that took is part of it."""

    def __init__(self) -> None:
        self.steps: dict[str, float] = {}  # seconds
        self._since = time.perf_counter()

    def opened(self, session: Session) -> None:
        self.note("open")

    def acted(self, action: str, cycle: Cycle) -> None:
        self.note(action)

    def note(self, step: str) -> None:
        now = time.perf_counter()
        self.steps[step] = self.steps.get(step, 0.0) + now - self._since
        self._since = now


def _served(url: str, token_file: Path | None) -> dict[str, Any] | None:
    """From the metrics of a scheduler; None if nobody serves them there."""
    from urllib.error import URLError
    from urllib.request import Request, urlopen

    from prometheus_client.parser import text_string_to_metric_families

    if not url.startswith(("http://", "https://")):
        raise click.BadParameter("must begin with http:// or https://.", param_hint="--metrics-url")
    headers = {}
    if token_file is not None:
        from stromboli.listeners import read_token

        headers["Authorization"] = f"Bearer {read_token(token_file)}"
    try:
        with urlopen(Request(url, headers=headers), timeout=_PATIENCE) as response:
            text = response.read().decode("utf-8")
    except (URLError, OSError, ValueError):
        return None
    values: dict[tuple[str, str], float] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            values[sample.name, sample.labels.get("action", "")] = sample.value
    if ("stromboli_cycle_seconds_count", "") not in values:
        return None
    return _summary(values)


def _summary(values: dict[tuple[str, str], float]) -> dict[str, Any]:
    latency = "volcano_action_scheduling_latency_milliseconds"
    steps = {"open": _mean(values, "volcano_open_session_duration_milliseconds", "")}
    for name, action in values:
        if name == f"{latency}_count":
            steps[action] = _mean(values, latency, action)
    return {
        "count": int(values["stromboli_cycle_seconds_count", ""]),
        "milliseconds": round(1000 * _mean(values, "stromboli_cycle_seconds", ""), 1),
        "steps": {name: round(value, 1) for name, value in steps.items()},
        "failures": int(values.get(("stromboli_cycle_failures_total", ""), 0)),
        "bufferedEvents": int(values.get(("stromboli_buffered_events", ""), 0)),
        "bindsInFlight": int(values.get(("stromboli_binds_in_flight", ""), 0)),
    }


def _mean(values: dict[tuple[str, str], float], name: str, action: str) -> float:
    count = values.get((f"{name}_count", action), 0.0)
    return values.get((f"{name}_sum", action), 0.0) / count if count else 0.0
