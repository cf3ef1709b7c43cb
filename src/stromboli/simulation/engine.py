"""The engine: it advances virtual time and runs the components.

Cycles are at 0, one period, two periods and so on. In each cycle all events up to its time happen, each at its own
time; the controllers run until nothing changes any more; the scheduler runs once and its decisions are carried out; and
the controllers run again.

Cycles whose outcome is known are skipped. A cycle depends on the objects and on the time, and on the time only where
the scheduler compares it with a limit; it says when the next limit is exceeded (`Cycle.next_due`). So a cycle that
changed nothing would be repeated without a change until the next event or the next limit, and the first cycle after
that is run next. A cycle that changed something is always followed by another one, so that the reported status of
groups is up to date. With `every_cycle` they are run nevertheless while a pod is pending. The report is the same.

A run without `--until` ends when no events are left and nothing changes. Pods may be pending then. It also ends when
its state repeats itself, see `repetition`.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Final, Protocol

from stromboli.api import KObject, Node, Pod, key, names
from stromboli.api.quantity import stated_amount
from stromboli.cluster import Applied, Cluster, Deleted
from stromboli.cluster.ledger import ON_NODE
from stromboli.cluster.queue_index import unoffered_use
from stromboli.controllers import DEFAULT_RETENTION, Change, ControllerManager, Create, Probe, QueueLocks, Update
from stromboli.descheduling import Descheduler
from stromboli.scheduling.decisions import Cycle
from stromboli.scheduling.explanation.orphans import upstream_statuses
from stromboli.scheduling.placement import load_compiled_kernels

from .descheduler_component import DeschedulerComponent
from .event_queue import CHANGES_OF_USERS, Rank
from .journal import Journal
from .object_writer import ObjectWriter
from .repetition import RepetitionDetector
from .scenario import (
    Scenario,
    ScenarioObject,
    ScenarioRestart,
    ScenarioRun,
    built_in_objects,
    is_default_class,
    patch_sort_key,
)
from .usage_meter import real_use
from .virtual_time import (
    START,
    Microseconds,
    from_wall_clock,
    later,
    microseconds,
    next_multiple,
    to_seconds,
    wall_clock,
)
from .world import World

MAX_PASSES: Final = 1000
"""A scenario settles in a few passes. Controllers that do not settle in this many never will."""
_MAX_IDLE_CYCLES: Final = 2
_COLLECT_AFTER: Final = 50_000  # new objects
_LONG_RUN: Final = 2000  # decisions; a run with more of them is worth the second that it takes to load compiled kernels

SIMULATION: Final = "simulation"
"""The object of events about the run itself."""
REPEATS: Final = "The run repeats itself forever, so it ends here. --until runs it to a given time."


COMPONENTS: Final = ("scheduler", "controllers", "descheduler")


class SchedulerProtocol(Protocol):
    """The scheduler as the engine uses it."""

    def run(self, cluster: Cluster, now: float) -> Cycle: ...


class SchedulerFactory(Protocol):
    def __call__(self) -> SchedulerProtocol: ...


class ControllerLoopError(RuntimeError):
    """Controllers that keep changing objects without end. This is an error of the program, not of the scenario."""


class Engine:
    def __init__(
        self,
        scenario: Scenario,
        journal: Journal,
        *,
        new_scheduler: SchedulerFactory,
        period: Microseconds,
        until: Microseconds | None = None,
        every_cycle: bool = False,
        new_locks: Callable[[], QueueLocks | None] = lambda: None,
        reservation_retention: float = DEFAULT_RETENTION,
        topology_keys: Sequence[str] = (),
        start: Microseconds = START,
        existing: Sequence[KObject] = (),
        new_descheduler: Callable[[World], Descheduler] | None = None,
        measures_nodes: bool = False,
    ) -> None:
        """`every_cycle`: while a pod is pending, run the cycles whose outcome is known, too. `new_locks` makes the
        worker that locks nodes for queues, each time the controllers start. `reservation_retention`: seconds for which
        Reservations that have ended are kept; 0 means for ever. `topology_keys`: labels of nodes of which HyperNodes
        are made. `existing`: objects of another cluster that are there at the start, as they are. `new_descheduler`:
        None if there is none. `measures_nodes`: the scheduler is told what nodes really use."""
        self.journal = journal
        self.world = World(journal)
        self._writer = ObjectWriter(self.world, journal)
        self.cycle = Cycle()  # the last one
        self.now = Microseconds(0)
        self.end = 0.0  # seconds; the end of the run
        self.on_cycle: Callable[[Microseconds], None] = lambda at: None  # called after every cycle
        self.on_event: Callable[[Applied | Deleted], None] = lambda event: None  # called for every change of an object
        self.is_over: Callable[[], bool] = lambda: False  # asked after every cycle: whether to end the run there
        self._new_scheduler = new_scheduler
        self._scheduler: SchedulerProtocol
        self._new_locks = new_locks
        self._reservation_retention = reservation_retention
        self._topology_keys = topology_keys
        self._period = period
        self._until = until
        self._began = start
        self._runs_every_cycle = every_cycle
        self._measures_nodes = measures_nodes
        self._settled_version = -1  # of the store, when controllers last had nothing to do
        self._settled_at = Microseconds(START - 1)  # when that was
        self._changed_objects = False  # whether the last cycle changed any object
        self._idle_cycles = 0  # cycles in a row without progress
        self._decisions = 0  # of the scheduler so far
        self._last_change = start  # the cycle that last saw a user create, change or delete an object
        self._repetition = RepetitionDetector(self.world)
        self._away: dict[str, Microseconds] = {}  # components that are stopped, and until when
        self.descheduler = None if new_descheduler is None else DeschedulerComponent(self.world, new_descheduler)
        self._restart_scheduler()
        self._restart_controllers()
        self.world.store.listener = self._observe
        # Pods last: the record of their group counts those that run.
        for obj in sorted(existing, key=lambda obj: isinstance(obj, Pod)):
            self.world.adopt(obj, start)
        self._schedule_scenario(scenario)

    def _schedule_scenario(self, scenario: Scenario) -> None:
        described = {(entry.object.kind, key(entry.object)) for entry in scenario.objects}
        has_default_class = any(is_default_class(entry.object) for entry in scenario.objects)
        for obj in built_in_objects(has_default_class=has_default_class):
            if (obj.kind, key(obj)) not in described and self.world.store.get(type(obj), key(obj)) is None:
                self.world.create(obj, self._began)
        for entry in scenario.objects:
            self._schedule_creation(entry)
        for patch in scenario.patches:
            namespace, _, name = patch.key.rpartition("/")
            self.world.event_queue.put(
                patch.at, Rank.PATCH, partial(self.world.patch, patch),
                namespace=namespace, name=name, kind=patch.kind.__name__, detail=patch_sort_key(patch)[-1],
            )  # fmt: skip
        for restart in scenario.restarts:
            self.world.event_queue.put(
                restart.at, Rank.RESTART, partial(self._restart, restart),
                name=restart.component, detail=f"{restart.away or 0:020}".encode(),
            )  # fmt: skip
        for run in scenario.runs:
            self.world.event_queue.put(
                run.at, Rank.RESTART, partial(self._request_run, run), name=run.profile, detail=run.job.encode()
            )

    def _request_run(self, run: ScenarioRun, at: Microseconds) -> None:
        if self.descheduler is None:
            self.journal.warn(at, SIMULATION, "NoDescheduler", "A run needs --descheduler-config.")
        else:
            self.descheduler.request(run.profile, run.job)

    def _schedule_creation(self, entry: ScenarioObject) -> None:
        meta = entry.object.metadata
        self.world.event_queue.put(
            entry.lifetime.at, Rank.CREATE, partial(self.world.create_from_scenario, entry),
            namespace=meta.namespace, name=meta.name, kind=type(entry.object).__name__,
        )  # fmt: skip

    # -- time -----------------------------------------------------------------------------------------------

    def run(self) -> None:
        with _rare_collections():
            self._run()

    def _run(self) -> None:
        at: Microseconds | None = self._began
        while at is not None and (self._until is None or at <= self._until):
            self._step(at)
            self.on_cycle(at)
            if self.is_over():
                self.end = to_seconds(at)
                return
            at = self._next(at)
        if self._until is not None:
            # Events after the last cycle still happen, but no cycle follows them.
            self._run_due_events(self._until)
            self._run_controllers(self._until)
            self.end = to_seconds(self._until)
        else:
            self.end = max(self.journal.last, to_seconds(self._last_change))
        self.world.meter.close(microseconds(self.end))

    def _step(self, at: Microseconds) -> None:
        self.now = at
        self._run_due_events(at)
        self._run_controllers(at)
        progress = self.world.progress
        version = self.world.store.version
        if "scheduler" not in self._away:
            if self._measures_nodes:
                store, known = self.world.store, self.cluster.ledger.table.use
                measured = real_use(store.list(Node), store.list(Pod), wall_clock(at), known)
                if measured is not None:
                    self.cluster.apply(measured)
            self.cycle = self._scheduler.run(self.cluster, wall_clock(at))
            self._count_decisions(len(self.cycle.decisions))
            for decision in self.cycle.decisions:
                failed = self._writer.carry_out(decision, at)
                if failed is not None:
                    self.cluster.apply(failed)
            for patch in upstream_statuses(self.cluster, wall_clock(at)):
                self._writer.carry_out(patch, at)
        self._run_controllers(at)
        if self.descheduler is not None and "descheduler" not in self._away:
            self.descheduler.run_if_due(at)
        self._changed_objects = self.world.store.version != version
        self._idle_cycles = self._idle_cycles + 1 if self.world.progress == progress else 0

    def _count_decisions(self, number: int) -> None:
        if self._decisions < _LONG_RUN <= self._decisions + number:
            load_compiled_kernels()
        self._decisions += number

    def _run_due_events(self, at: Microseconds) -> None:
        for event in self.world.event_queue.pop_due(at):
            event.action(event.at)
            if event.rank in CHANGES_OF_USERS:
                self._last_change = at
        self._warn_of_overcommitted_nodes(at)

    def _next(self, at: Microseconds) -> Microseconds | None:
        """The next cycle to run; None if there is none."""
        due = self._next_due(at)
        if self._repeats(at, due):
            return None
        soon = later(at, self._period)
        upcoming = min((time for time in (due, self._next_time_limit()) if time is not None), default=None)
        wake_up = None if upcoming is None else max(next_multiple(self._period, upcoming), soon)
        if self._changed_objects or self.world.pending:
            # Without an end and without events the run is over when cycles change nothing but messages.
            is_stuck = self._until is None and due is None and self._idle_cycles >= _MAX_IDLE_CYCLES
            if not is_stuck:
                if self._changed_objects or self._runs_every_cycle or self.cycle.asks_again:
                    return soon
                return self._skip_pending_cycles(at, due, wake_up)
        return wake_up

    def _skip_pending_cycles(
        self, at: Microseconds, due: Microseconds | None, wake_up: Microseconds | None
    ) -> Microseconds | None:
        """Skip the cycles before `wake_up`, which change nothing. Those that would be run with `every_cycle` count in
        the search for repetitions, so that a run ends at the same time."""
        if self._until is not None:
            return wake_up
        # Without events these cycles end when the run is stuck, and the next one is at the time limit.
        cycle = later(at, self._period)
        while (wake_up is None or cycle < wake_up) and (due is not None or self._idle_cycles < _MAX_IDLE_CYCLES):
            self._idle_cycles += 1
            if self._repeats(cycle, due):
                return None
            cycle = later(cycle, self._period)
        return wake_up

    def _repeats(self, at: Microseconds, due: Microseconds | None) -> bool:
        if self._until is not None or not self._repetition.returns(at, due, self._next_time_limit()):
            return False
        self.journal.warn(at, SIMULATION, "Repeats", REPEATS)
        return True

    def _next_time_limit(self) -> Microseconds | None:
        """When the scheduler or a controller may decide differently although nothing happens. The scheduler's next
        time limit must be exceeded, not only reached."""
        limits = []
        if self.cycle.next_due is not None:
            limits.append(Microseconds(from_wall_clock(self.cycle.next_due) + 1))
        if (limit := self._controllers.time_limit()) is not None:
            limits.append(from_wall_clock(limit))
        return min(limits, default=None)

    def _next_due(self, at: Microseconds) -> Microseconds | None:
        due = [self.world.event_queue.next_time()]
        controllers = self._controllers.next_due(wall_clock(at))
        if controllers is not None and "controllers" not in self._away:
            due.append(from_wall_clock(controllers))
        if self.descheduler is not None and "descheduler" not in self._away:
            due.append(self.descheduler.next_deadline(at))
            due.append(self.descheduler.next_round(endless=self._until is None))
        return min((time for time in due if time is not None), default=None)

    # -- components -----------------------------------------------------------------------------------------

    def _restart(self, restart: ScenarioRestart, at: Microseconds) -> None:
        for component in COMPONENTS if restart.component == "all" else (restart.component,):
            if restart.away:
                self._stop(component, at, later(at, restart.away))
            else:
                self._away.pop(component, None)
                self._start(component)

    def _stop(self, component: str, at: Microseconds, until: Microseconds) -> None:
        self._away[component] = until
        if component == "controllers":
            self.world.pod_deleted = lambda pod, now, evicted: None

        def start(when: Microseconds) -> None:
            if self._away.get(component) == until:
                del self._away[component]
                self._start(component)

        self.world.event_queue.put(until, Rank.RESTART, start, name=component)

    def _start(self, component: str) -> None:
        match component:
            case "scheduler":
                self._restart_scheduler()
            case "controllers":
                self._restart_controllers()
            case _ if self.descheduler is not None:
                self.descheduler.restart()
                self._settled_version = -1  # moves go on together with the controllers

    def end_at(self, until: Microseconds) -> None:
        """As if it had been given as `until`."""
        self._until = until

    def wrap_scheduler(self, wrapper: Callable[[SchedulerProtocol], SchedulerProtocol]) -> None:
        """Put something between the engine and the scheduler, now and after each restart."""
        inner = self._new_scheduler
        self._new_scheduler = lambda: wrapper(inner())
        self._scheduler = wrapper(self._scheduler)

    def _observe(self, event: Applied | Deleted) -> None:
        """Every component sees every change of an object."""
        self.on_event(event)
        self.cluster.apply(event)
        self._controllers.observe(event)
        if self.descheduler is not None:
            self.descheduler.observe(event)

    def build_cluster_again(self) -> Cluster:
        """What the scheduler sees, from the objects as they are now."""
        self.cluster = Cluster(scheduler_name=names.DEFAULT_SCHEDULER)
        for obj in self.world.store.everything():
            self.cluster.apply(Applied(obj))
        return self.cluster

    def _restart_scheduler(self) -> None:
        self.build_cluster_again()
        self._scheduler = self._new_scheduler()

    def _restart_controllers(self) -> None:
        controllers = ControllerManager(
            queue_locks=self._new_locks(),
            reservation_retention=self._reservation_retention,
            provision_volumes=True,
            topology_keys=self._topology_keys,
        )
        self._controllers = controllers
        self.world.pod_deleted = lambda pod, now, evicted: controllers.pod_deleted(pod, now, evicted=evicted)
        self._settled_version = -1

    def _run_controllers(self, at: Microseconds) -> None:
        """Run the controllers until nothing changes any more; skip them if nothing changed since and nothing is due.
        Moves of the descheduler go on together with them."""
        store = self.world.store
        descheduler = None if "descheduler" in self._away else self.descheduler
        now = wall_clock(at)
        # What became due between two cycles is due in the later one.
        since = self._settled_at
        dues = (self._controllers.next_due(wall_clock(since)), self._controllers.time_limit())
        is_due = any(due is not None and from_wall_clock(due) <= at for due in dues)
        if descheduler is not None:
            deadline = descheduler.next_deadline(since)
            is_due = is_due or (deadline is not None and deadline <= at)
        if store.version == self._settled_version and not is_due:
            return
        for _ in range(MAX_PASSES):
            before = store.version
            changes = [] if "controllers" in self._away else self._controllers.reconcile(store, now)
            fruitless = self._owners_of_refused(changes)
            for change in changes:
                if isinstance(change, Probe):
                    self._controllers.probe_answered(change, now, answered=self.world.answers(change.pod))
                elif not (isinstance(change, Update) and change.object.metadata.uid in fruitless):
                    self._writer.apply_change(change, at)
            if descheduler is not None:
                descheduler.advance(at)
            if store.version == before and not any(isinstance(change, Probe) for change in changes):
                self._settled_version, self._settled_at = before, at
                return
        raise ControllerLoopError(f"controllers still change {self._writer.last_changed} after {MAX_PASSES} passes")

    def _owners_of_refused(self, changes: Sequence[Change]) -> set[str]:
        """The uids of owners whose new objects are refused. Their own updates are not applied: a ReplicaSet counts the
        pods that it creates, and would try again with the next number in every pass."""
        refused = set()
        for change in changes:
            if isinstance(change, Create) and not self.world.would_admit(change.object):
                refused |= {owner.uid for owner in change.object.metadata.owner_references}
        return refused

    def _warn_of_overcommitted_nodes(self, at: Microseconds) -> None:
        """Pods whose nodeName is set in the scenario may exceed their node. They run, and the user gets a warning."""
        if not self.world.nodes_to_check:
            return
        ledger = self.cluster.snapshot().ledger
        table = ledger.table
        for name in sorted(self.world.nodes_to_check):
            node = table.by_name.get(name)
            if node is None:
                continue
            # Who waits for volumes is not there yet.
            held = [task.request for task in node.tasks.values() if task.key in ledger.held]
            short = sum(held, start=table.idle[node.row])
            others = unoffered_use((task for task in node.tasks.values() if task.key not in ledger.held), ON_NODE)
            excess = dict(sorted({**table.axis.amounts((-short).clip(min=0)), **others}.items()))
            if excess:
                listed = ", ".join(f"{stated_amount(r, amount)} {r}" for r, amount in excess.items())
                self.journal.warn(at, name, "Overcommitted", f"Its pods request {listed} more than the node offers.")
        self.world.nodes_to_check.clear()


@contextmanager
def _rare_collections() -> Iterator[None]:
    """Objects of a run are replaced all the time, and hardly any of them form reference cycles. With the usual
    threshold, a tenth of the time is spent on looking for those."""
    usual = gc.get_threshold()
    gc.set_threshold(_COLLECT_AFTER, *usual[1:])
    try:
        yield
    finally:
        gc.set_threshold(*usual)
