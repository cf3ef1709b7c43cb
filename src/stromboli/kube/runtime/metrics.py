"""Metrics that every process has, for Prometheus, and what the metrics of its components are built with.

Where Volcano measures the same thing we use its name, so that existing dashboards keep working; everything else is
called `stromboli_…`. docs/metrics.md lists all metrics. A process has one registry and one `ProcessMetrics`; there is
no global registry, so processes in one test do not affect each other.

Counters and histograms are updated as things happen, by methods named after what happened. Gauges that describe a
state (what queues have, which pods wait and why) are computed from the last observed state when Prometheus scrapes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, ProcessCollector
from prometheus_client.core import GaugeMetricFamily

from .loop_lag import LoopLag

SECONDS_BUCKETS: Final = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)


class ProcessMetrics:
    """What all components of a process share: memory and CPU, event loop, lease, requests."""

    def __init__(self, registry: CollectorRegistry, lag: LoopLag) -> None:
        self.registry = registry
        ProcessCollector(registry=registry)
        Gauge(
            "stromboli_event_loop_lag_seconds",
            "The longest delay of the event loop within the last minute.",
            registry=registry,
        ).set_function(lambda: lag.worst)
        self._leader = Gauge(
            "stromboli_leader",
            "Whether this component of the process is the leader (1) or on standby (0).",
            ["part"],
            registry=registry,
        )
        self._writes = Counter(
            "stromboli_writes_total",
            "Writes to the API server, by what was written and by outcome.",
            ["kind", "outcome"],
            registry=registry,
        )
        self._relists = Counter(
            "stromboli_watch_relists_total",
            "Times that a resource had to be listed again because a watch could not be resumed.",
            ["resource"],
            registry=registry,
        )

        self._contained = Counter(
            "stromboli_contained_errors_total",
            "Errors while one object was handled, by component and by kind of object; the object was put aside.",
            ["part", "kind"],
            registry=registry,
        )
        self._put_aside = Gauge(
            "stromboli_objects_put_aside",
            "Objects that are put aside after an error, by component.",
            ["part"],
            registry=registry,
        )

    def contained(self, component: str, kind: str) -> None:
        self._contained.labels(component, kind).inc()

    def put_aside(self, component: str, number: int) -> None:
        self._put_aside.labels(component).set(number)

    def set_leader(self, component: str, is_leader: bool) -> None:
        self._leader.labels(component).set(is_leader)

    def wrote(self, kind: str, outcome: str) -> None:
        self._writes.labels(kind, outcome).inc()

    def relisted(self, resource: str) -> None:
        self._relists.labels(resource).inc()


def labelled_gauge(name: str, documentation: str, label: str, values: Mapping[str, float]) -> GaugeMetricFamily:
    """A gauge with one sample for each value of a label."""
    family = GaugeMetricFamily(name, documentation, labels=[label])
    for key, value in values.items():
        family.add_metric([key], value)
    return family
