"""Running scenarios in tests: with a scheduler as simple as one can be, so that a test is about time alone."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from stromboli.cluster import Cluster, Status, TaskKey, fits
from stromboli.scheduling.decisions import Bind, Cycle, Decision, Evict, Explanation
from stromboli.simulation.engine import Engine, SchedulerProtocol
from stromboli.simulation.journal import Journal
from stromboli.simulation.report import build_report, encode_report
from stromboli.simulation.scenario import Scenario, check_scenario, read_scenario
from stromboli.simulation.virtual_time import Microseconds, from_wall_clock, microseconds, to_seconds, wall_clock

SCENARIOS = Path(__file__).parent / "scenarios"


class FirstFit:
    """Puts each waiting pod, by name, on the first node with room, and evicts whom the test says, when it says."""

    def __init__(
        self,
        evictions: Mapping[float, Sequence[str]] | None = None,
        also: Mapping[float, Sequence[Decision]] | None = None,
    ) -> None:
        self.evictions = evictions or {}
        self.also = also or {}
        self.times: list[float] = []  # of all cycles

    def run(self, cluster: Cluster, now: float) -> Cycle:
        at = to_seconds(from_wall_clock(now))
        self.times.append(at)
        snapshot = cluster.snapshot()
        cycle = Cycle()
        to_come = [time for time in (*self.evictions, *self.also) if time > at]
        # Just before, because a cycle follows when the time is exceeded.
        cycle.next_due = wall_clock(Microseconds(microseconds(min(to_come)) - 1)) if to_come else None
        cycle.decisions += self.also.get(at, ())
        for victim in self.evictions.get(at, ()):
            task = cluster.tasks[TaskKey(victim)]
            assert task.node is not None, f"{victim} does not run at {at}"
            snapshot.ledger.settle(task, Status.RELEASING, task.node)
            cycle.decisions.append(Evict(task.key, task.node.name, "Preempted", "The test wants it."))
        for job in snapshot.jobs:
            for key in sorted(job.tasks):
                task = job.tasks[key]
                if task.status is not Status.PENDING or task.gated:
                    continue
                room = (node for node in snapshot.nodes.nodes if fits(task.request, snapshot.nodes.idle[node.row]))
                if (node := next(room, None)) is None:
                    cycle.waiting[key] = Explanation("InsufficientNode", "No node has room.")
                else:
                    snapshot.ledger.settle(task, Status.BINDING, node)
                    cycle.decisions.append(Bind(key, node.name, job.key))
        return cycle


def load(*paths: Path | str) -> Scenario:
    scenario = read_scenario([str(path) for path in paths])
    check_scenario(scenario)
    return scenario


def engine_for(
    *paths: Path | str,
    scheduler: SchedulerProtocol | None = None,
    period: float = 1,
    until: float | None = None,
    every_cycle: bool = False,
) -> Engine:
    """An engine that has run these files."""
    chosen = scheduler or FirstFit()
    engine = Engine(
        load(*paths),
        Journal(),
        new_scheduler=lambda: chosen,
        period=microseconds(period),
        until=None if until is None else microseconds(until),
        every_cycle=every_cycle,
    )
    engine.run()
    engine.cluster.validate()
    return engine


def run(*names: str, **options: Any) -> dict[str, Any]:
    """The report of scenario files (names below scenarios/), as a reader of its JSON sees it."""
    engine = engine_for(*(SCENARIOS / f"{name}.yaml" for name in names), **options)
    report: dict[str, Any] = json.loads(encode_report(build_report(engine)))
    return report


def run_text(tmp_path: Path, text: str, **options: Any) -> dict[str, Any]:
    """The same for a scenario so small that it stands best in the test itself."""
    file = tmp_path / "scenario.yaml"
    file.write_text(text, encoding="utf-8")
    engine = engine_for(file, **options)
    report: dict[str, Any] = json.loads(encode_report(build_report(engine)))
    return report


def happened(report: Mapping[str, Any], *types: str) -> list[tuple[float, str, str]]:
    """(time, type, object) of all events, or of those of some types."""
    return [
        (event["t"], event["type"], event["object"])
        for event in report["events"]
        if not types or event["type"] in types
    ]
