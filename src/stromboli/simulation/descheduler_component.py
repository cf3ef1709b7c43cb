"""The descheduler in a simulation: when it runs, and how its writes are carried out on the simulated cluster."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from msgspec.structs import replace

from stromboli.api import ApiError, KObject, Node, Pod, PodDisruptionBudget, PodGroup, Reservation, key
from stromboli.api.reservations import AVAILABLE
from stromboli.api.selectors import matches_labels
from stromboli.cluster import Applied, Deleted, JobKey
from stromboli.controllers import is_terminating
from stromboli.descheduling import Descheduler, Options, Write
from stromboli.descheduling.migration import (
    AnnotateNode,
    CreateReservation,
    DeleteReservation,
    EvictPod,
    RemovePod,
    Report,
    UpdateGroup,
    UpdateReservation,
)

from .store import Conflict
from .virtual_time import START, Microseconds, from_wall_clock, wall_clock
from .world import World

MIGRATED = "Migrated"
"""The reason of evictions that make way for a successor elsewhere."""


class DeschedulerComponent:
    def __init__(self, world: World, new_descheduler: Callable[[World], Descheduler]) -> None:
        self._world = world
        self._new_descheduler = new_descheduler
        self._requests: list[tuple[str, str]] = []  # profile and job of runs by hand that are to be made now
        self._last_round = START
        self._idle_at = -1  # the world's progress, when a round last found nothing to do
        self.work_lost = 0  # in millicore-microseconds
        self.restart()

    def restart(self) -> None:
        self._descheduler = self._new_descheduler(self._world)

    def observe(self, event: Applied | Deleted) -> None:
        self._descheduler.observe(event)

    # -- time ---------------------------------------------------------------------------------------------------

    def request(self, profile: str, job: str) -> None:
        """A user asks for a run; it is made in the present cycle."""
        self._requests.append((profile, job))

    def next_deadline(self, at: Microseconds) -> Microseconds | None:
        """When a move has to be looked at although nothing happens."""
        due = self._descheduler.next_deadline(self._world.store, wall_clock(at))
        return None if due is None else from_wall_clock(due)

    def next_round(self, *, endless: bool) -> Microseconds | None:
        """When the next round is due. A run without an end does not go on for rounds that have nothing to do."""
        if endless and self._idle_at == self._world.progress:
            return None
        due = self._descheduler.policy.schedule.next_after(wall_clock(self._last_round), origin=wall_clock(START))
        return None if due is None else from_wall_clock(due)

    # -- work ---------------------------------------------------------------------------------------------------

    def run_if_due(self, at: Microseconds) -> None:
        """Make plans, if a round is due or somebody asked for one."""
        store, now = self._world.store, wall_clock(at)
        policy = self._descheduler.policy
        requests, self._requests = self._requests, []
        for profile, job in requests:
            found = policy.profile(profile) if profile else None
            if profile and found is None:
                self._world.journal.warn(at, "descheduler", "UnknownProfile", f'There is no profile "{profile}".')
                continue
            options = Options(job=JobKey(job) if job else None)
            profiles = None if found is None else [found]
            self._carry_out(self._descheduler.run(store, now, profiles=profiles, options=options), at)
            for note in options.notes:
                self._world.journal.warn(at, job or "descheduler", "NoPlan", f"{note[:1].upper()}{note[1:]}.")
        due = self.next_round(endless=False)
        if due is not None and due <= at:
            self._last_round = at
            writes = self._descheduler.run(store, now)
            self._carry_out(writes, at)
            if not writes:
                self._idle_at = self._world.progress

    def advance(self, at: Microseconds) -> None:
        self._carry_out(self._descheduler.advance(self._world.store, wall_clock(at)), at)

    def _carry_out(self, writes: list[Write], at: Microseconds) -> None:
        world = self._world
        for write in writes:
            match write:
                case CreateReservation(reservation):
                    world.create(reservation, at)
                case UpdateReservation(reservation):
                    self._change(reservation, at)
                case DeleteReservation(reservation):  # what a pass has seen is still so, also of a pod that is spared
                    world.delete(reservation, at)
                case UpdateGroup(group):
                    current = world.store.get(PodGroup, key(group))
                    if current is not None and current.metadata.uid == group.metadata.uid:
                        self._change(group, at)
                case AnnotateNode(name, annotations):
                    self._annotate(name, annotations, at)
                case EvictPod():
                    self._evict(write, at)
                case RemovePod():
                    self._remove(write, at)
                case Report():
                    world.journal.write(
                        at, write.what, write.pod, node=write.node, reason=write.reason, message=write.message
                    )

    def _change(self, obj: KObject, at: Microseconds) -> None:
        """If it has changed since, the next pass decides again."""
        with suppress(Conflict, ApiError):
            self._world.change(obj, at)

    def _annotate(self, name: str, annotations: dict[str, str | None], at: Microseconds) -> None:
        node = self._world.store.get(Node, name)
        if node is None:
            return
        merged = {**node.metadata.annotations, **annotations}
        kept = {each: value for each, value in merged.items() if value is not None}
        if kept != node.metadata.annotations:
            self._change(replace(node, metadata=replace(node.metadata, annotations=kept)), at)

    def _evict(self, write: EvictPod, at: Microseconds) -> None:
        """As an API server would: the uid must match, and disruption budgets are kept."""
        world = self._world
        pod = world.store.get(Pod, write.pod)
        reservation = world.store.current(write.reservation)
        if pod is None or pod.metadata.uid != write.uid or is_terminating(pod):
            return
        if not isinstance(reservation, Reservation) or reservation.status.phase != AVAILABLE:
            return
        if reservation.status.eviction_time is None:
            return
        if not self._take_from_budgets(pod, at):
            return
        before = world.meter.lost.get(key(pod), 0)
        world.evict(pod, at, MIGRATED, write.message)
        self.work_lost += world.meter.lost.get(key(pod), 0) - before

    def _remove(self, write: RemovePod, at: Microseconds) -> None:
        world = self._world
        pod = world.store.get(Pod, write.pod)
        if pod is None or pod.metadata.uid != write.uid or is_terminating(pod):
            return
        if pod.status.phase in ("Succeeded", "Failed"):
            world.delete(pod, at, f"{write.plugin}: {write.message}")
        elif self._take_from_budgets(pod, at):
            before = world.meter.lost.get(key(pod), 0)
            world.evict(pod, at, write.plugin, write.message)
            self.work_lost += world.meter.lost.get(key(pod), 0) - before

    def _take_from_budgets(self, pod: Pod, at: Microseconds) -> bool:
        budgets = [
            budget
            for budget in self._world.store.list(PodDisruptionBudget)
            if budget.metadata.namespace == pod.metadata.namespace
            and matches_labels(budget.spec.selector, pod.metadata.labels)
        ]
        if any(budget.status.disruptions_allowed <= 0 for budget in budgets):
            return False
        for budget in budgets:
            allowed = budget.status.disruptions_allowed - 1
            self._change(replace(budget, status=replace(budget.status, disruptions_allowed=allowed)), at)
        return True
