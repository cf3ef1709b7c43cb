"""The run: virtual time, and the components in it.

Cycles are at 0, one period, two periods and so on. At each of them everything that was due until then
happens, in its own order and with its own time; the controllers run until nothing changes any more; the
scheduler runs once, and what it decided is carried out; and the controllers run again.

Time does not pass while nothing can happen. As long as a pod waits every cycle is run, because the
scheduler's answer may depend on the time. Otherwise the next cycle is the first one at or after the next
thing that is due. One more cycle follows any that changed something, so that what is reported of groups has
settled.

A run without an end of its own is over when nothing is due and nothing moves. A pod may be pending then: two
cycles in a row that left everything as it was say that it would stay so, until a threshold of the
scheduler's own is passed.
"""

from __future__ import annotations

from functools import partial
from typing import Final, Protocol

from msgspec.structs import replace

from stromboli.api import ApiError, Condition, KObject, Pod, PodGroup, Queue, Reservation, ResourceList, key, names
from stromboli.api.quantity import format_amount
from stromboli.cluster import Applied, Cluster
from stromboli.controllers import Change, ControllerManager, Create, Delete, Notify, Update
from stromboli.scheduling.decisions import (
    Bind,
    Cycle,
    Decision,
    Evict,
    Notice,
    PatchGroup,
    PatchPod,
    PatchQueue,
    Reserve,
    Unreserve,
)
from stromboli.simulation.report.journal import EVENT_TYPES, Journal
from stromboli.simulation.scenario.built_in_objects import givens
from stromboli.simulation.scenario.file import Arrival, RestartOrder, Scenario
from stromboli.simulation.scenario.patches import patch_order

from .event_queue import Rank
from .store import Conflict
from .virtual_time import START, Moment, clock, first_tick, from_clock, later, seconds, stamp
from .world import World

MOST_PASSES: Final = 1000
"""A real scenario settles in a handful of passes; what does not settle in so many never will."""
_QUIET_CYCLES: Final = 2


class Deciding(Protocol):
    """What the engine asks of a scheduler."""

    def run(self, cluster: Cluster, now: float) -> Cycle: ...


class SchedulerMaker(Protocol):
    def __call__(self) -> Deciding: ...


class Unsettled(RuntimeError):
    """Controllers that go on changing objects for ever. The program is wrong, not the scenario."""


class Engine:
    def __init__(
        self,
        scenario: Scenario,
        journal: Journal,
        *,
        make_scheduler: SchedulerMaker,
        period: Moment,
        until: Moment | None = None,
    ) -> None:
        self.journal = journal
        self.world = World(journal)
        self.cycle = Cycle()  # the last one
        self.end = 0.0  # seconds; when the run was over
        self._make_scheduler = make_scheduler
        self._period = period
        self._until = until
        self._settled_version = -1  # of the store, when controllers last had nothing to do
        self._last_changed = ""
        self._moved = False  # whether the last cycle changed any object
        self._quiet = 0  # cycles in a row that left everything in its place
        self._restart_scheduler()
        self._restart_controllers()
        self._put_down(scenario)

    def _put_down(self, scenario: Scenario) -> None:
        described = {(arrival.object.kind, key(arrival.object)) for arrival in scenario.arrivals}
        for given in givens():
            if (given.kind, key(given)) not in described:
                self.world.create(given, START)
        for arrival in scenario.arrivals:
            self._expect(arrival)
        for order in scenario.patches:
            namespace, _, name = order.key.rpartition("/")
            self.world.agenda.put(
                order.at, Rank.PATCH, partial(self.world.patch, order),
                namespace=namespace, name=name, kind=order.kind.__name__, detail=patch_order(order)[-1],
            )  # fmt: skip
        for restart in scenario.restarts:
            self.world.agenda.put(
                restart.at, Rank.RESTART, partial(self._restart, restart),
                name=restart.component,
            )  # fmt: skip

    def _expect(self, arrival: Arrival) -> None:
        meta = arrival.object.metadata
        self.world.agenda.put(
            arrival.lifetime.at, Rank.CREATE, partial(self.world.arrive, arrival),
            namespace=meta.namespace, name=meta.name, kind=arrival.object.kind,
        )  # fmt: skip

    # -- time -----------------------------------------------------------------------------------------------

    def run(self) -> None:
        at: Moment | None = START
        while at is not None and (self._until is None or at <= self._until):
            self._step(at)
            at = self._next(at)
        if self._until is not None:
            # What is due after the last cycle still happens, it is just not answered any more.
            self._happen(self._until)
            self._control(self._until)
            self.end = seconds(self._until)
        else:
            self.end = self.journal.last

    def _step(self, at: Moment) -> None:
        self._happen(at)
        self._control(at)
        moves = self.world.moves
        version = self.world.store.version
        self.cycle = self._scheduler.run(self.cluster, clock(at))
        for decision in self.cycle.decisions:
            self._decided(decision, at)
        self._control(at)
        self._moved = self.world.store.version != version
        self._quiet = self._quiet + 1 if self.world.moves == moves else 0

    def _happen(self, at: Moment) -> None:
        for due in self.world.agenda.take(at):
            due.act(due.at)
        self._warn_of_crowded_nodes(at)

    def _next(self, at: Moment) -> Moment | None:
        """The next cycle worth running; None if there is none."""
        due = self._next_due(at)
        if self.world.pending or self._moved:
            stuck = due is None and self._quiet >= _QUIET_CYCLES
            if self._until is not None or not stuck:
                return later(at, self._period)
            due = None
        # Also a job that has no pods yet may be waiting for a threshold.
        due = min((moment for moment in (due, self._next_threshold()) if moment is not None), default=None)
        if due is None:
            return None
        return max(first_tick(self._period, due), later(at, self._period))

    def _next_threshold(self) -> Moment | None:
        """When the scheduler will decide otherwise although nothing happens: the threshold has to be passed, not
        only reached."""
        reached = self.cycle.next_due
        return None if reached is None else Moment(from_clock(reached) + 1)

    def _next_due(self, at: Moment) -> Moment | None:
        due = [self.world.agenda.next()]
        controllers = self._controllers.next_due(self.world.store, clock(at))
        if controllers is not None:
            due.append(from_clock(controllers))
        return min((moment for moment in due if moment is not None), default=None)

    # -- components -----------------------------------------------------------------------------------------

    def _restart(self, order: RestartOrder, at: Moment) -> None:
        if order.component in ("scheduler", "all"):
            self._restart_scheduler()
        if order.component in ("controllers", "all"):
            self._restart_controllers()

    def _restart_scheduler(self) -> None:
        self.cluster = Cluster(scheduler_name=names.DEFAULT_SCHEDULER)
        for obj in self.world.store.everything():
            self.cluster.apply(Applied(obj))
        self.world.store.listener = self.cluster.apply
        self._scheduler = self._make_scheduler()

    def _restart_controllers(self) -> None:
        controllers = ControllerManager()
        self._controllers = controllers
        self.world.pod_deleted = lambda pod, now, evicted: controllers.pod_deleted(pod, now, evicted=evicted)
        self._settled_version = -1

    def _control(self, at: Moment) -> None:
        """Run the controllers until nothing changes any more; not at all if they have nothing to look at."""
        store = self.world.store
        now = clock(at)
        due = self._controllers.next_due(store, clock(Moment(at - 1)))
        if store.version == self._settled_version and (due is None or from_clock(due) > at):
            return
        for _ in range(MOST_PASSES):
            before = store.version
            for change in self._controllers.reconcile(store, now):
                self._changed(change, at)
            if store.version == before:
                self._settled_version = before
                return
        raise Unsettled(f"controllers still change {self._last_changed} after {MOST_PASSES} passes")

    # -- what components want -------------------------------------------------------------------------------

    def _changed(self, change: Change, at: Moment) -> None:
        obj = change.object
        before = self.world.store.version
        match change:
            case Create():
                self.world.create(obj, at)
            case Update():
                self._put(obj, at)
            case Delete():
                self.world.delete(obj, at, change.reason)
            case Notify():
                self._tell(at, key(obj), change.reason, change.message, warning=change.warning)
        if self.world.store.version != before:
            self._last_changed = f"{obj.kind} {key(obj)}"

    def _put(self, obj: KObject, at: Moment) -> None:
        try:
            self.world.change(obj, at)
        except Conflict:
            pass  # somebody else was first; whoever wanted this sees the object as it is now, and asks again
        except ApiError as error:
            self.journal.warn(at, key(obj), "Refused", str(error))

    def _decided(self, decision: Decision, at: Moment) -> None:
        store = self.world.store
        match decision:
            case Bind():
                pod = store.get(Pod, decision.task)
                if pod is not None and not pod.spec.node_name:
                    self.world.bind(pod, decision.node, at, backfill=decision.backfill)
            case Evict():
                pod = store.get(Pod, decision.task)
                if pod is not None:
                    self.world.evict(pod, at, decision.reason, decision.message)
            case Reserve():
                self.journal.write(at, "Reserved", decision.task, node=decision.node)
                self.world.create(decision.reservation, at)
            case Unreserve():
                self.journal.write(at, "Unreserved", decision.task, node=decision.node, message=decision.reason)
                reservation = store.get(Reservation, decision.reservation)
                if reservation is not None:
                    self.world.delete(reservation, at)
            case PatchPod():
                pod = store.get(Pod, decision.task)
                if pod is not None and not pod.spec.node_name:
                    self._put(_with_reason(pod, decision, at), at)
            case PatchGroup():
                group = store.get(PodGroup, decision.job)
                if group is not None:
                    self._put(_with_status(group, decision), at)
            case PatchQueue():
                queue = store.get(Queue, decision.queue)
                if queue is not None:
                    allocated: ResourceList = {
                        resource: format_amount(resource, amount)
                        for resource, amount in sorted(decision.allocated.items())
                    }
                    self._put(replace(queue, status=replace(queue.status, allocated=allocated)), at)
            case Notice():
                self._tell(at, decision.key, decision.reason, decision.message, warning=decision.warning)

    def _tell(self, at: Moment, subject: str, reason: str, message: str, *, warning: bool) -> None:
        """Events are for what the contract names, and for warnings; the rest is talk."""
        if warning:
            self.journal.warn(at, subject, reason, message)
        elif reason in EVENT_TYPES:
            self.journal.write(at, reason, subject, message=message)

    def _warn_of_crowded_nodes(self, at: Moment) -> None:
        """Pods that are put on a node by hand may be more than it holds. They run; their user should know."""
        if not self.world.crowded:
            return
        table = self.cluster.snapshot().nodes
        for name in sorted(self.world.crowded):
            node = table.by_name.get(name)
            if node is None:
                continue
            short = table.axis.amounts((-table.idle[node.row]).clip(min=0))
            if short:
                listed = ", ".join(f"{format_amount(r, amount)} {r}" for r, amount in short.items())
                self.journal.warn(at, name, "Overcommitted", f"Its pods request {listed} more than the node offers.")
        self.world.crowded.clear()


def _with_reason(pod: Pod, decision: PatchPod, at: Moment) -> Pod:
    condition = next((c for c in pod.status.conditions if c.type == "PodScheduled"), None)
    since = condition.last_transition_time if condition is not None and condition.status == "False" else stamp(at)
    said = Condition(
        type="PodScheduled", status="False", reason=decision.reason, message=decision.message,
        last_transition_time=since,
    )  # fmt: skip
    others = [c for c in pod.status.conditions if c.type != "PodScheduled"]
    status = replace(pod.status, conditions=[*others, said], nominated_node_name=decision.nominated)
    return replace(pod, status=status)


def _with_status(group: PodGroup, decision: PatchGroup) -> PodGroup:
    status = replace(
        group.status,
        phase=decision.phase,
        conditions=list(decision.conditions),
        running=decision.running,
        succeeded=decision.succeeded,
        failed=decision.failed,
    )
    return replace(group, status=status)
