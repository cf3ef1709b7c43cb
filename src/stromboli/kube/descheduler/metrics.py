"""Metrics of the descheduler: its runs, its plans, and what became of its moves."""

from __future__ import annotations

from collections.abc import Sequence

from prometheus_client import Counter, Gauge, Histogram

from stromboli.descheduling import Plan
from stromboli.kube.runtime import SECONDS_BUCKETS, ErrorReporter, ProcessMetrics


class DeschedulerMetrics:
    def __init__(self, process: ProcessMetrics) -> None:
        self._process = process
        registry = process.registry
        self._runs = Histogram(
            "stromboli_descheduler_run_seconds",
            "Duration of a run: how long it took to make the plans.",
            buckets=SECONDS_BUCKETS,
            registry=registry,
        )
        self._plans = Counter(
            "stromboli_descheduler_plans_total", "Plans, by the plugin that made them.", ["plugin"], registry=registry
        )
        self._moves = Counter(
            "stromboli_descheduler_moves_total",
            "Moves of pods: planned, started, succeeded and failed.",
            ["state"],
            registry=registry,
        )
        self._under_way = Gauge(
            "stromboli_descheduler_moves_under_way", "Moves that are neither complete nor failed.", registry=registry
        )
        self.set_leader(False)

    def contained_errors(self, part: str) -> ErrorReporter:
        return ErrorReporter(part, self._process)

    def set_leader(self, is_leader: bool) -> None:
        self._process.set_leader("descheduler", is_leader)

    def relisted(self, resource: str) -> None:
        self._process.relisted(resource)

    def wrote(self, kind: str, outcome: str) -> None:
        self._process.wrote(kind, outcome)

    def run_done(self, seconds: float, plans: Sequence[Plan]) -> None:
        self._runs.observe(seconds)
        for plan in plans:
            self._plans.labels(plan.plugin).inc()

    def moved(self, what: str) -> None:
        """`what`: the name of an event, such as MigrationSucceeded."""
        if what.startswith("Migration"):
            self._moves.labels(what.removeprefix("Migration").lower()).inc()

    def under_way(self, moves: int) -> None:
        self._under_way.set(moves)
