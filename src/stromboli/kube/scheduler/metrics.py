"""Metrics of the scheduler: cycles, decisions and their outcomes."""

from __future__ import annotations

import time
from collections import Counter as Tally
from collections.abc import Callable
from typing import Final

from prometheus_client import Counter, Gauge, Histogram

from stromboli.cluster import Cluster
from stromboli.kube.runtime import SECONDS_BUCKETS, ErrorReporter, ProcessMetrics
from stromboli.scheduling.containment import CycleInputs, run_contained
from stromboli.scheduling.cycle import Scheduler
from stromboli.scheduling.decisions import Bind, Cycle
from stromboli.scheduling.session import Session
from stromboli.scheduling.turns import MayGoOn

from .state_metrics import LastCycle, state_of

_MILLISECONDS: Final = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000)
_WAITS_IN_MILLISECONDS: Final = (50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 3e4, 6e4, 3e5, 1e6, 3e6, 1e7, 1e8)


class SchedulerMetrics:
    def __init__(
        self,
        process: ProcessMetrics,
        *,
        clock: Callable[[], float] = time.time,
        stopwatch: Callable[[], float] = time.perf_counter,
    ) -> None:
        """`clock` returns the time that objects are stamped with; `stopwatch` measures the steps of a cycle."""
        self._process = process
        self._clock = clock
        self._stopwatch = stopwatch
        registry = process.registry
        self._cycle = Histogram(
            "stromboli_cycle_seconds",
            "Duration of a cycle, from applying the first event to dispatching the last decision.",
            buckets=SECONDS_BUCKETS,
            registry=registry,
        )
        self._failures = Counter(
            "stromboli_cycle_failures_total",
            "Cycles that failed; after each the cluster state is rebuilt from the API server.",
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
            "Pods considered in a cycle: scheduled (node chosen), unschedulable (not yet), or error (bind failed).",
            ["result"],
            registry=registry,
        )
        self._decisions = Counter(
            "stromboli_decisions_total", "What cycles decided, by kind of decision.", ["kind"], registry=registry
        )
        self._postponed = Counter(
            "stromboli_postponed_searches_total",
            "Searches for pods to evict that were left to the next cycle, because one cycle had too many.",
            registry=registry,
        )
        self._cut = Counter(
            "stromboli_cycles_cut_total",
            "Cycles that took longer than --cycle-budget and ended between two jobs.",
            registry=registry,
        )
        self._not_reached = Gauge(
            "stromboli_jobs_not_reached",
            "Jobs that had no turn in some action of the last cycle, because it was cut.",
            registry=registry,
        )
        self._binds = Counter(
            "stromboli_binds_total",
            "Binds that the API server accepted (bound), and those that did not happen (failed).",
            ["outcome"],
            registry=registry,
        )
        self._in_flight = Gauge(
            "stromboli_binds_in_flight",
            "Binds and evictions that were decided and have no result yet.",
            registry=registry,
        )
        self._bind = Histogram(
            "stromboli_bind_seconds",
            "How long the API server took for a bind.",
            buckets=SECONDS_BUCKETS,
            registry=registry,
        )
        self._evictions = Counter(
            "stromboli_evictions_total",
            "Evictions that the API server accepted, by the reason of the decision.",
            ["reason"],
            registry=registry,
        )
        self._refused = Counter(
            "stromboli_evictions_refused_total",
            "Evictions that did not happen, for example because of a disruption budget.",
            registry=registry,
        )
        self._buffered = Gauge(
            "stromboli_buffered_events",
            "Events from the API server that wait for the running cycle to end.",
            registry=registry,
        )
        self._configurations = Counter(
            "stromboli_configuration_loads_total",
            "Changes of the configuration file: accepted, or refused (the old configuration stays).",
            ["outcome"],
            registry=registry,
        )
        self._last = LastCycle()
        registry.register(self._last)
        self.set_leader(False)
        # Zeros from the start: a counter that only appears with its first event hides that event from `rate`.
        for result in ("scheduled", "unschedulable", "error"):
            self._attempts.labels(result)
        self._bound = self._binds.labels("bound")  # looked up once: there are thousands of binds
        self._binds.labels("failed")
        for outcome in ("accepted", "refused"):
            self._configurations.labels(outcome)

    # -- cycles -------------------------------------------------------------------------------------------------

    def timed_cycle(
        self,
        scheduler: Scheduler,
        cluster: Cluster,
        now: float,
        after_action: Callable[[Cycle], None] | None = None,
        inputs: CycleInputs | None = None,
        may_go_on: MayGoOn | None = None,
    ) -> Cycle:
        """Decide, contain errors, and measure each step. `after_action` gets what is decided so far."""
        started = self._stopwatch()
        stopwatch = _Stopwatch(self._opening, self._action, after_action, self._stopwatch)
        cycle = run_contained(scheduler, cluster, now, inputs, may_go_on=may_go_on, observer=stopwatch)
        self.observe(cluster, cycle, self._stopwatch() - started)
        return cycle

    def observe(self, cluster: Cluster, cycle: Cycle, seconds: float) -> None:
        """Keep the state after a cycle that took `seconds` to decide. Call before the next event is applied."""
        self._session.observe(seconds * 1000)
        now = self._clock()
        assumed = self._task.labels("Assumed")
        for decision in cycle.decisions:
            if isinstance(decision, Bind) and (task := cluster.tasks.get(decision.task)) is not None:
                assumed.observe(max(0.0, now - task.created) * 1000)
        self._last.state = state_of(cluster, cycle)

    def cycle_done(self, seconds: float, cycle: Cycle) -> None:
        """The decisions are dispatched. `seconds` is the whole cycle; `observe` gets the time for deciding only."""
        self._cycle.observe(seconds)
        kinds = Tally(type(decision).__name__ for decision in cycle.decisions)
        for kind, number in kinds.items():
            self._decisions.labels(kind).inc(number)
        self._attempts.labels("scheduled").inc(kinds[Bind.__name__])
        self._attempts.labels("unschedulable").inc(len(cycle.waiting))
        self._postponed.inc(cycle.postponed_searches)
        self._cut.inc(bool(cycle.cut))
        self._not_reached.set(len({job for jobs in cycle.not_reached.values() for job in jobs}))

    def cycle_failed(self) -> None:
        self._failures.inc()

    # -- outcomes of decisions ----------------------------------------------------------------------------------

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

    # -- component ----------------------------------------------------------------------------------------------

    def set_leader(self, is_leader: bool) -> None:
        self._process.set_leader("scheduler", is_leader)

    def buffered(self, events: int) -> None:
        self._buffered.set(events)

    def in_flight(self, count: Callable[[], int]) -> None:
        """`count` returns the number of binds and evictions in flight."""
        self._in_flight.set_function(count)

    def contained_errors(self, part: str) -> ErrorReporter:
        return ErrorReporter(part, self._process)

    def reloaded(self, *, accepted: bool) -> None:
        self._configurations.labels("accepted" if accepted else "refused").inc()


class _Stopwatch:
    """Measures the steps of a cycle. After an error there is another session, and its steps count as well."""

    def __init__(
        self,
        opening: Histogram,
        action: Histogram,
        after_action: Callable[[Cycle], None] | None,
        clock: Callable[[], float],
    ) -> None:
        self._opening = opening
        self._action = action
        self._after_action = after_action
        self._clock = clock
        self._before = clock()

    def opened(self, session: Session) -> None:
        self._opening.observe((self._clock() - self._before) * 1000)
        self._before = self._clock()

    def acted(self, action: str, cycle: Cycle) -> None:
        self._action.labels(action).observe((self._clock() - self._before) * 1000)
        if self._after_action is not None:
            self._after_action(cycle)
        self._before = self._clock()
