"""How moves go on: what follows from the objects and the time, in every pass.

Nothing is remembered between passes. The Reservations say which moves there are and how far each is:

    its Reservation is not Available yet         wait, for five minutes at most
    all of the plan are Available                mark them: from now on the pods are evicted
    marked, and the pod runs                     evict it, for five minutes at most
    marked, and the pod is gone                  the place is kept until a successor uses it, or its time is over

The mark is written before the eviction. So a descheduler that is killed between the two repeats the eviction, which
does nothing the second time because it names the pod's uid. Before the mark, whatever goes wrong gives up the whole
plan; after the eviction only success or the end of its time frees the place.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from msgspec.structs import replace

from stromboli.api import Node, Pod, PodGroup, Reservation, key, names
from stromboli.api.migration_reservations import Migration, migration_of, with_eviction
from stromboli.api.reservations import AVAILABLE, EXPIRED, SUCCEEDED, has_expired
from stromboli.api.reservations import FAILED as RESERVATION_FAILED
from stromboli.api.timestamps import format_timestamp, parse_timestamp
from stromboli.api.waiting_reservations import reserved_node_of, waiting_pod_of
from stromboli.descheduling.planning import Objects

from . import writes as w
from .gang_minimums import short_gang
from .group_status import is_unfinished, progressed
from .writes import AnnotateNode, DeleteReservation, EvictPod, Report, UpdateGroup, UpdateReservation, Write

RESERVATION_TIMEOUT: Final = 300.0  # seconds until a place must be found
EVICTION_TIMEOUT: Final = 300.0  # seconds that a refused eviction is repeated

_FINISHED: Final = ("Succeeded", "Failed")
Failure = tuple[str, str]  # a reason in one word, and a sentence


def advance(objects: Objects, now: float) -> list[Write]:
    """One pass over all moves."""
    reservations = list(objects.list(Reservation))
    plans: dict[str, list[Migration]] = {}
    for reservation in reservations:
        migration = migration_of(reservation)
        if migration is not None:
            plans.setdefault(migration.plan, []).append(migration)
    set_aside: dict[str, list[Reservation]] = {}
    for reservation in reservations:
        plan = reservation.metadata.annotations.get(names.MIGRATION_PLAN)
        if plan is not None and waiting_pod_of(reservation) is not None:
            set_aside.setdefault(plan, []).append(reservation)
    found = _Pass(objects, now)
    for plan, moves in sorted(plans.items()):
        found.go_on(moves, set_aside.get(plan, []))
    for plan in sorted(set(set_aside) - set(plans)):  # killed before the first place was asked for
        found.delete_set_aside(set_aside[plan], "its plan was not completed")
    found.update_groups([move for moves in plans.values() for move in moves])
    return found.in_order()


def next_deadline(objects: Objects, now: float) -> float | None:
    """When a move has to be looked at although no object changes."""
    deadlines = []
    for reservation in objects.list(Reservation):
        move = migration_of(reservation)
        if move is None:
            continue
        since = _created(reservation) + RESERVATION_TIMEOUT
        if move.evicting_since is not None:
            since = move.evicting_since + EVICTION_TIMEOUT
        deadlines.append(since)
    return min((deadline for deadline in deadlines if deadline > now), default=None)


class _Pass:
    def __init__(self, objects: Objects, now: float) -> None:
        self._objects = objects
        self._now = now
        self.writes: list[Write] = []
        self._deletions: list[Write] = []  # last: until then the objects tell what is going on
        self._over: dict[str, Failure | None] = {}  # by the name of the Reservation
        self._failures: dict[str, Failure] = {}  # by group
        self._cooldowns: dict[str, float] = {}  # by group

    def in_order(self) -> list[Write]:
        return [*self.writes, *self._deletions]

    # -- one plan -----------------------------------------------------------------------------------------------

    def go_on(self, moves: Sequence[Migration], set_aside: Sequence[Reservation]) -> None:
        planned = [move for move in moves if move.evicting_since is None]
        started = [move for move in moves if move.evicting_since is not None]
        failure = self._plan_failure(planned, started, set_aside) if planned else None
        for move in started:
            outcome = self._started(move, started)
            if isinstance(outcome, tuple):
                failure = failure or outcome
        if failure is not None:
            for move in planned:
                self._fail(move, failure)
            self._give_up(set_aside)
        elif planned and all(move.reservation.status.phase == AVAILABLE for move in planned):
            for move in planned:
                self.writes.append(UpdateReservation(with_eviction(move.reservation, self._now)))
                self.writes.append(
                    Report(w.STARTED, move.pod, move.uid, move.target, "", f"Node {move.target} has a place for it.")
                )
        elif moves and all(self._over.get(move.reservation.metadata.name, ()) is None for move in moves):
            # All have succeeded. What is set aside stays so until the job starts, as any reserved node.
            for each in set_aside:
                self.writes.append(UpdateReservation(_without_plan(each)))

    def _plan_failure(
        self, planned: Sequence[Migration], started: Sequence[Migration], set_aside: Sequence[Reservation]
    ) -> Failure | None:
        """Why a plan cannot go on whose pods all run; None if nothing is wrong."""
        first = planned[0]
        if not started and len(planned) < first.moves:
            return "PlanIncomplete", f"{len(planned)} of {first.moves} places were asked for"
        if first.job and not set_aside and not started and not self._job_holds(first):
            return "NotSetAside", f"no node is set aside for {first.job} any more"
        for move in planned:
            failure = self._planned_failure(move)
            if failure is not None:
                return failure
        if all(move.reservation.status.phase == AVAILABLE for move in planned):
            return self._gang_failure([*planned, *started])
        return None

    def _gang_failure(self, leaving: Sequence[Migration]) -> Failure | None:
        short = short_gang(self._objects, leaving)
        return None if short is None else ("GangAtMinimum", short)

    def _job_holds(self, move: Migration) -> bool:
        """Whether a node that the plan clears is set aside for its job, also by the scheduler itself."""
        for each in self._objects.list(Reservation):
            waiting = waiting_pod_of(each)
            pod = None if waiting is None else self._objects.get(Pod, waiting)
            if pod is not None and each.spec.node_name == move.source and _in_group(pod, move.job):
                return True
        return False

    def _planned_failure(self, move: Migration) -> Failure | None:
        phase = move.reservation.status.phase
        pod = self._pod(move)
        if pod is None or pod.status.phase in _FINISHED or pod.metadata.deletion_timestamp is not None:
            return "PodGone", f"pod {move.pod} is gone"
        if phase in (RESERVATION_FAILED, EXPIRED) or has_expired(move.reservation, self._now):
            return f"Reservation{phase or EXPIRED}", _why(move.reservation) or f"node {move.target} has no place for it"
        if phase == SUCCEEDED:
            return "ReservationTaken", "another pod took the place"
        node = self._objects.get(Node, move.target)
        if node is None or node.spec.unschedulable:
            return "TargetLost", f"node {move.target} is gone or cordoned"
        if phase != AVAILABLE and self._now - _created(move.reservation) >= RESERVATION_TIMEOUT:
            waited = f"no place was found on node {move.target} in {RESERVATION_TIMEOUT:g} seconds"
            return "Timeout", _why(move.reservation) or waited
        return None

    def _started(self, move: Migration, of_plan: Sequence[Migration]) -> Failure | bool:
        """A move whose eviction was decided: a failure, or whether it is over. `of_plan`: all such moves of a plan."""
        assert move.evicting_since is not None
        phase = move.reservation.status.phase
        pod = self._pod(move)
        runs = pod is not None and pod.metadata.deletion_timestamp is None and pod.status.phase not in _FINISHED
        failure: Failure | None = None
        if phase == SUCCEEDED and not runs:
            self._succeed(move)
            return True
        if runs and phase != AVAILABLE:
            failure = "ReservationTaken", "its place was lost before it was evicted"
        elif runs and (short := self._gang_failure(of_plan)) is not None:
            failure = short
        elif runs and self._now - move.evicting_since >= EVICTION_TIMEOUT:
            failure = "EvictionBlocked", f"its eviction was refused for {EVICTION_TIMEOUT:g} seconds"
        elif not runs and (phase in (RESERVATION_FAILED, EXPIRED) or has_expired(move.reservation, self._now)):
            failure = f"Reservation{phase or EXPIRED}", "no successor used its place"
        if failure is not None:
            self._fail(move, failure)
            return failure
        if runs:
            message = f"It moves from node {move.source} to node {move.target}, where its place is kept."
            self.writes.append(EvictPod(move.pod, move.uid, move.reservation, message))
        return False

    def _pod(self, move: Migration) -> Pod | None:
        """The pod that leaves, as long as it is the same one."""
        pod = self._objects.get(Pod, move.pod)
        return pod if pod is not None and pod.metadata.uid == move.uid else None

    # -- ends ---------------------------------------------------------------------------------------------------

    def _succeed(self, move: Migration) -> None:
        owner = next((f"{o.namespace}/{o.name}" for o in move.reservation.status.current_owners), "its successor")
        self._end(move, None)
        self.writes.append(
            Report(w.SUCCEEDED, move.pod, move.uid, move.target, "", f"{owner} runs on node {move.target}.")
        )
        self._deletions.append(DeleteReservation(move.reservation, "the move is complete"))

    def _fail(self, move: Migration, failure: Failure) -> None:
        self._end(move, failure)
        reason, message = failure
        self.writes.append(Report(w.FAILED, move.pod, move.uid, move.target, reason, f"{_sentence(message)}"))
        self._deletions.append(DeleteReservation(move.reservation, message))

    def _end(self, move: Migration, failure: Failure | None) -> None:
        self._over[move.reservation.metadata.name] = failure
        if failure is not None:
            self._failures[move.group] = failure
        if not move.cooldown:
            return
        self._cooldowns[move.group] = max(move.cooldown, self._cooldowns.get(move.group, 0.0))
        until = format_timestamp(self._now + move.cooldown)
        emptied = None if failure is not None else move.job
        self.writes.append(AnnotateNode(move.source, {names.COOLDOWN_UNTIL: until, names.EMPTIED_FOR: emptied}))
        self.writes.append(AnnotateNode(move.target, {names.COOLDOWN_UNTIL: until}))

    def _give_up(self, set_aside: Iterable[Reservation]) -> None:
        """Before the places are deleted: a plan without places whose nodes are set aside was never complete."""
        self.delete_set_aside(set_aside, "its plan failed")

    def delete_set_aside(self, set_aside: Iterable[Reservation], why: str) -> None:
        for each in set_aside:
            pod = waiting_pod_of(each) or ""
            self.writes.append(DeleteReservation(each, why))
            self.writes.append(Report(w.UNRESERVED, pod, "", reserved_node_of(each), "", _sentence(why)))

    # -- groups -------------------------------------------------------------------------------------------------

    def update_groups(self, moves: Sequence[Migration]) -> None:
        by_group: dict[str, list[Migration]] = {}
        for move in moves:
            by_group.setdefault(move.group, []).append(move)
        # Most groups were never moved. A pass follows every change, so those are sorted out without a call for each.
        moved = [group for group in self._objects.list(PodGroup) if group.status.migration_state is not None]
        groups = {key(group): group for group in moved if is_unfinished(group)}
        for name in by_group:
            group = self._objects.get(PodGroup, name)
            if group is not None:
                groups[name] = group
        for name, group in sorted(groups.items()):
            of_group = by_group.get(name, [])
            left = [move for move in of_group if move.reservation.metadata.name not in self._over]
            failure = self._failures.get(name)
            if not of_group:  # somebody deleted its Reservations
                failure = ("ReservationDeleted", "its Reservation was deleted")
            updated = progressed(group, left, self._now, failure=failure, cooldown=self._cooldowns.get(name))
            if updated != group:
                self.writes.append(UpdateGroup(updated))


def _without_plan(reservation: Reservation) -> Reservation:
    notes = {name: value for name, value in reservation.metadata.annotations.items() if name != names.MIGRATION_PLAN}
    return replace(reservation, metadata=replace(reservation.metadata, annotations=notes))


def _in_group(pod: Pod, group: str) -> bool:
    return any(f"{pod.metadata.namespace}/{pod.metadata.annotations.get(name)}" == group for name in names.GROUP_NAMES)


def _created(reservation: Reservation) -> float:
    created = reservation.metadata.creation_timestamp
    return 0.0 if created is None else parse_timestamp(created)


def _why(reservation: Reservation) -> str:
    """What the scheduler says about a Reservation that it could not place."""
    return next((c.message for c in reservation.status.conditions if c.status == "False" and c.message), "")


def _sentence(text: str) -> str:
    text = text[:1].upper() + text[1:]
    return text if text.endswith(".") else f"{text}."
