"""Metrics of the controllers: reconcile passes, changes, and the PodGroups of each queue."""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Iterable, Iterator
from typing import Final

from prometheus_client import Counter, Histogram
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from stromboli.api import Queue, QueueStatus
from stromboli.controllers import Change
from stromboli.kube.runtime import SECONDS_BUCKETS, ErrorReporter, ProcessMetrics, labelled_gauge

_PHASES: Final = ("pending", "inqueue", "running", "unknown", "completed")


class ControllerMetrics:
    def __init__(self, process: ProcessMetrics) -> None:
        self._process = process
        registry = process.registry
        self._passes = Histogram(
            "stromboli_controller_pass_seconds",
            "Duration of a pass: how long the controllers took to decide what has to change.",
            ["controller"],
            buckets=SECONDS_BUCKETS,
            registry=registry,
        )
        self._changes = Counter(
            "stromboli_controller_changes_total",
            "Changes that the controllers decided, by kind of change.",
            ["controller", "change"],
            registry=registry,
        )
        self._groups = GroupCounts()
        registry.register(self._groups)
        self.set_leader(False)

    def contained_errors(self, part: str) -> ErrorReporter:
        return ErrorReporter(part, self._process)

    def set_leader(self, is_leader: bool) -> None:
        self._process.set_leader("controllers", is_leader)

    def wrote(self, kind: str, outcome: str) -> None:
        self._process.wrote(kind, outcome)

    def relisted(self, resource: str) -> None:
        self._process.relisted(resource)

    def pass_done(self, controller: str, seconds: float, changes: Iterable[Change]) -> None:
        self._passes.labels(controller).observe(seconds)
        for kind, number in Tally(type(change).__name__ for change in changes).items():
            self._changes.labels(controller, kind).inc(number)

    def observe(self, queues: Iterable[Queue]) -> None:
        """How many groups each queue has, as the queue controller counted them."""
        self._groups.statuses = {queue.metadata.name: queue.status for queue in queues}


class GroupCounts(Collector):
    """The number of PodGroups in each phase, by queue. The statuses belong to cached objects, which never change."""

    def __init__(self) -> None:
        self.statuses: dict[str, QueueStatus] = {}

    def collect(self) -> Iterator[GaugeMetricFamily]:
        statuses = self.statuses
        for phase in _PHASES:
            yield labelled_gauge(
                f"volcano_queue_pod_group_{phase}_count",
                f"PodGroups of the queue in phase {phase.capitalize()}.",
                "queue_name",
                {queue: getattr(status, phase) for queue, status in statuses.items()},
            )
