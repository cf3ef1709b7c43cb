"""What a process counts, for Prometheus.

Where Volcano measures the same thing, its name is used, so that dashboards made for it go on working; everything else
is called `stromboli_…`. docs/metrics.md lists all of them. A process has one registry and one `ProcessMetrics`, which
the metrics of each of its parts are made with; there is no global registry, so processes in one test do not get into
each other's way.

Counters and histograms are fed as things happen, by methods named after what happened. Gauges that describe a state
(what queues have, who waits and why) are not kept up to date one by one: `observe` notes the state at the end of a
cycle, and it is turned into samples when somebody asks (see metrics_state.py).
"""

from __future__ import annotations

import time
from collections import Counter as Tally
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector

from stromboli.api import Queue
from stromboli.cluster import Cluster
from stromboli.kube.scheduler.state_metrics import GroupCounts, LastCycle, state_of
from stromboli.scheduling.decisions import Bind, Cycle

from .loop_lag import LoopLag

if TYPE_CHECKING:
    from stromboli.controllers import Change
    from stromboli.scheduling.cycle import Scheduler, close_session

_SECONDS: Final = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
_MILLISECONDS: Final = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000)
_WAITS_IN_MILLISECONDS: Final = (50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 3e4, 6e4, 3e5, 1e6, 3e6, 1e7, 1e8)


class ProcessMetrics:
    """What all parts of a process share: its memory and CPU, its event loop, its lease, its requests."""

    def __init__(self, registry: CollectorRegistry, lag: LoopLag) -> None:
        self.registry = registry
        ProcessCollector(registry=registry)
        Gauge(
            "stromboli_event_loop_lag_seconds",
            "The longest that the event loop kept somebody waiting within the last minute.",
            registry=registry,
        ).set_function(lambda: lag.worst)
        self._leader = Gauge(
            "stromboli_leader",
            "Whether this part of the process acts (1) or stands by while another process has the lease (0).",
            ["part"],
            registry=registry,
        )
        self._writes = Counter(
            "stromboli_writes_total",
            "Writes to the API server, by what was written and how it ended.",
            ["kind", "outcome"],
            registry=registry,
        )
        self._relists = Counter(
            "stromboli_watch_relists_total",
            "Times that all objects of a resource had to be listed again because a watch could not go on.",
            ["resource"],
            registry=registry,
        )

    def leads(self, part: str, leads: bool) -> None:
        self._leader.labels(part).set(leads)

    def wrote(self, kind: str, outcome: str) -> None:
        self._writes.labels(kind, outcome).inc()

    def relisted(self, resource: str) -> None:
        self._relists.labels(resource).inc()


class SchedulerMetrics:
    def __init__(self, process: ProcessMetrics, *, clock: Callable[[], float] = time.time) -> None:
        """`clock` tells the time as objects have it."""
        self._process = process
        self._clock = clock
        registry = process.registry
        self._cycle = Histogram(
            "stromboli_cycle_seconds",
            "How long a cycle took with all that belongs to it, from the first piece of news to the last order given.",
            buckets=_SECONDS,
            registry=registry,
        )
        self._failures = Counter(
            "stromboli_cycle_failures_total",
            "Cycles that failed, after which the scheduler started afresh from what the API server says.",
            registry=registry,
        )
        self._session = Histogram(
            "volcano_e2e_scheduling_latency_milliseconds",
            "How long a cycle took to decide, from the snapshot to its last decision.",
            buckets=_MILLISECONDS,
            registry=registry,
        )
        self._opening = Histogram(
            "volcano_open_session_duration_milliseconds",
            "How long it took to take the snapshot and to open the session of a cycle.",
            buckets=_MILLISECONDS,
            registry=registry,
        )
        self._action = Histogram(
            "volcano_action_scheduling_latency_milliseconds",
            "How long an action took in a cycle.",
            ["action"],
            buckets=_MILLISECONDS,
            registry=registry,
        )
        self._task = Histogram(
            "volcano_task_scheduling_latency_milliseconds",
            "How long pods had existed when they reached a stage; Assumed is when the scheduler chose their node.",
            ["stage"],
            buckets=_WAITS_IN_MILLISECONDS,
            registry=registry,
        )
        self._attempts = Counter(
            "volcano_schedule_attempts_total",
            "Pods looked at in a cycle: scheduled (given a node), unschedulable (not yet), or error (the bind failed).",
            ["result"],
            registry=registry,
        )
        self._decisions = Counter(
            "stromboli_decisions_total", "What cycles decided, by kind of decision.", ["kind"], registry=registry
        )
        self._binds = Counter(
            "stromboli_binds_total",
            "Binds that the API server took (bound), and those that did not happen (failed).",
            ["outcome"],
            registry=registry,
        )
        self._in_flight = Gauge(
            "stromboli_binds_in_flight",
            "Binds and evictions that were decided and of which it is not known yet what became of them.",
            registry=registry,
        )
        self._bind = Histogram(
            "stromboli_bind_seconds",
            "How long the API server took for a bind.",
            buckets=_SECONDS,
            registry=registry,
        )
        self._evictions = Counter(
            "stromboli_evictions_total",
            "Evictions that the API server took, by the reason they were decided for.",
            ["reason"],
            registry=registry,
        )
        self._refused = Counter(
            "stromboli_evictions_refused_total",
            "Evictions that did not happen, for a disruption budget, say.",
            registry=registry,
        )
        self._buffered = Gauge(
            "stromboli_buffered_events",
            "News from the API server that waits for the running cycle to end.",
            registry=registry,
        )
        self._configurations = Counter(
            "stromboli_configuration_loads_total",
            "Changes of the configuration file: accepted, or refused with the old configuration kept.",
            ["outcome"],
            registry=registry,
        )
        self._last = LastCycle()
        registry.register(self._last)
        self.leads(False)
        # Zeros from the start: a counter that only appears with its first event hides that event from `rate`.
        for result in ("scheduled", "unschedulable", "error"):
            self._attempts.labels(result)
        self._bound = self._binds.labels("bound")  # looked up once: binds come by the thousands
        self._binds.labels("failed")
        for outcome in ("accepted", "refused"):
            self._configurations.labels(outcome)

    # -- cycles -------------------------------------------------------------------------------------------------

    def timed_cycle(self, scheduler: Scheduler, cluster: Cluster, now: float) -> Cycle:
        """Decide, as `scheduler.run` does, with a look at the clock between the steps."""
        started = time.perf_counter()
        session = scheduler.open(cluster.snapshot(), now)
        before = time.perf_counter()
        self._opening.observe((before - started) * 1000)
        for option in scheduler.configuration.actions:
            scheduler.registry.action(option.name)(option.arguments).execute(session)
            after = time.perf_counter()
            self._action.labels(option.name).observe((after - before) * 1000)
            before = after
        cycle = close_session(session)
        self.observe(cluster, cycle, time.perf_counter() - started)
        return cycle

    def observe(self, cluster: Cluster, cycle: Cycle, seconds: float) -> None:
        """What is so after a cycle that took so long to decide. To be called before the next event is applied."""
        self._session.observe(seconds * 1000)
        now = self._clock()
        assumed = self._task.labels("Assumed")
        for decision in cycle.decisions:
            if isinstance(decision, Bind) and (task := cluster.tasks.get(decision.task)) is not None:
                assumed.observe(max(0.0, now - task.created) * 1000)
        self._last.state = state_of(cluster, cycle)

    def cycle_done(self, seconds: float, cycle: Cycle) -> None:
        """Its decisions are on their way. `seconds` is all of it, `observe` is told just how long deciding took."""
        self._cycle.observe(seconds)
        kinds = Tally(type(decision).__name__ for decision in cycle.decisions)
        for kind, number in kinds.items():
            self._decisions.labels(kind).inc(number)
        self._attempts.labels("scheduled").inc(kinds[Bind.__name__])
        self._attempts.labels("unschedulable").inc(len(cycle.waiting))

    def cycle_failed(self) -> None:
        self._failures.inc()

    # -- what became of decisions -------------------------------------------------------------------------------

    def bound(self, seconds: float) -> None:
        self._bound.inc()
        self._bind.observe(seconds)

    def bind_failed(self) -> None:
        self._binds.labels("failed").inc()
        self._attempts.labels("error").inc()

    def evicted(self, reason: str) -> None:
        self._evictions.labels(reason).inc()

    def evict_failed(self) -> None:
        self._refused.inc()

    def wrote(self, kind: str, outcome: str) -> None:
        self._process.wrote(kind, outcome)

    def relisted(self, resource: str) -> None:
        self._process.relisted(resource)

    # -- around it ----------------------------------------------------------------------------------------------

    def leads(self, leads: bool) -> None:
        self._process.leads("scheduler", leads)

    def buffered(self, events: int) -> None:
        self._buffered.set(events)

    def in_flight(self, count: Callable[[], int]) -> None:
        """Whom to ask how many binds and evictions are on their way."""
        self._in_flight.set_function(count)

    def reloaded(self, *, accepted: bool) -> None:
        self._configurations.labels("accepted" if accepted else "refused").inc()


class ControllerMetrics:
    def __init__(self, process: ProcessMetrics) -> None:
        self._process = process
        registry = process.registry
        self._passes = Histogram(
            "stromboli_controller_pass_seconds",
            "How long a controller took to look at its objects and to say what has to change.",
            ["controller"],
            buckets=_SECONDS,
            registry=registry,
        )
        self._changes = Counter(
            "stromboli_controller_changes_total",
            "What controllers said has to change, by kind of change.",
            ["controller", "change"],
            registry=registry,
        )
        self._groups = GroupCounts()
        registry.register(self._groups)
        self.leads(False)

    def leads(self, leads: bool) -> None:
        self._process.leads("controllers", leads)

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
