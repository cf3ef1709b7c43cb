"""How moves go on: what follows from the objects and the time, in every pass.

Nothing is remembered between passes. The Reservations say which moves there are and how far each is:

    its Reservation is not Available yet         wait, for five minutes at most
    all of the plan are Available                mark them: from now on the pods are evicted
    all of the plan are marked, the pod runs     evict it, for five minutes at most
    marked, and the pod is gone                  the place is kept until a successor uses it, or its time is over

The mark is written before the eviction. So a descheduler that is killed between the two repeats the eviction, which
does nothing the second time because it names the pod's uid.

The Reservations of a plan stay until all of its moves are over. So if one is missing, a place was lost. Then, and after
any other failure, nothing more is evicted: moves whose pods still run are given up. The places of pods that were
evicted are kept until a successor uses them, none can come any more, or their time is over. A place on a node that
takes no pods any more is given up as soon as its successor waits.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from msgspec.structs import replace

from stromboli.api import Node, Pod, PodGroup, Reservation, key, names
from stromboli.api.migration_reservations import Migration, migration_of, with_eviction
from stromboli.api.reservations import AVAILABLE
from stromboli.api.timestamps import format_timestamp
from stromboli.api.waiting_reservations import reserved_node_of, waiting_pod_of
from stromboli.descheduling.planning import Circumstances, Objects, with_mark

from . import writes as w
from .gang_minimums import Gangs
from .group_status import is_unfinished, progressed
from .move_state import EVICTION_TIMEOUT, RESERVATION_TIMEOUT, Failure, MoveState, Step, created_at
from .successors import Successors
from .writes import AnnotateNode, DeleteReservation, EvictPod, Report, UpdateGroup, UpdateReservation, Write

# Failures that say something about the plan itself. Of the others, nobody knows whether it would fail again.
_VERDICTS: Final = frozenset({"GangAtMinimum", "ReservationFailed", "EvictionBlocked", "NoPlaceFound"})


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
    found.mark_sources()
    found.update_groups([move for moves in plans.values() for move in moves])
    return found.in_order()


def next_deadline(objects: Objects, now: float) -> float | None:
    """When a move has to be looked at although no object changes."""
    deadlines = []
    for reservation in objects.list(Reservation):
        move = migration_of(reservation)
        if move is None:
            continue
        state = MoveState(objects, move, now)
        since = created_at(reservation) + RESERVATION_TIMEOUT
        if move.evicting_since is not None:
            since = move.evicting_since + EVICTION_TIMEOUT
        deadlines += [since, *([] if state.gone_at is None else [state.gone_at])]
    return min((deadline for deadline in deadlines if deadline > now), default=None)


class _Pass:
    def __init__(self, objects: Objects, now: float) -> None:
        self._objects = objects
        self._now = now
        self._gangs = Gangs(objects)
        self._successors = Successors(objects)
        self._circumstances = Circumstances(objects, now)
        self.writes: list[Write] = []
        self._deletions: list[Write] = []  # last: until then the objects tell what is going on
        self._over: set[str] = set()  # names of Reservations
        self._done: set[str] = set()  # those that a successor uses
        self._failures: dict[str, Failure] = {}  # by group
        self._cooldowns: dict[str, float] = {}  # by group
        self._marks: dict[str, list[str]] = {}  # by source: of plans that failed

    def in_order(self) -> list[Write]:
        return [*self.writes, *self._deletions]

    # -- one plan -----------------------------------------------------------------------------------------------

    def go_on(self, moves: Sequence[Migration], set_aside: Sequence[Reservation]) -> None:
        states = [MoveState(self._objects, move, self._now) for move in moves]
        by_step: dict[Step, list[MoveState]] = {step: [] for step in Step}
        for state in states:
            by_step[state.step].append(state)
        self._done |= {state.name for state in by_step[Step.DONE]}
        staying = [*by_step[Step.PLANNED], *by_step[Step.LEAVING]]
        failure = self._plan_failure(states, set_aside) if staying else None
        if failure is not None:
            self._note_verdict(failure, moves)
            for state in staying:
                self._fail(state.move, failure, runs=True)
            self._give_up(set_aside)
        elif by_step[Step.PLANNED]:
            self._mark(by_step[Step.PLANNED])
        else:
            for state in by_step[Step.LEAVING]:
                self._evict(state.move)
        if failure is not None or not staying:
            self._end_plan(by_step, moves, set_aside)

    def _plan_failure(self, states: Sequence[MoveState], set_aside: Sequence[Reservation]) -> Failure | None:
        """Why nothing more of a plan is evicted; None if nothing is wrong."""
        first = states[0].move
        started = any(state.move.evicting_since is not None for state in states)
        if len(states) < first.moves:
            if started:
                return "PlaceLost", "another place of its plan was deleted"
            return "PlanIncomplete", f"{len(states)} of {first.moves} places were asked for"
        if first.job and not set_aside and not started and not self._job_holds(first):
            return "NotSetAside", f"no node is set aside for {first.job} any more"
        for state in states:
            failure = state.failure()
            if failure is not None:
                return failure
        staying = [state for state in states if state.step in (Step.PLANNED, Step.LEAVING)]
        if all(state.phase == AVAILABLE for state in staying):
            short = self._gangs.shortage(state.move for state in staying)
            if short is not None:
                return "GangAtMinimum", short
            for state in staying:
                before = self._successors.first_idle_before(state.move)
                if before is not None:
                    return _comes_after(before)
        return None

    def _job_holds(self, move: Migration) -> bool:
        """Whether a node that the plan clears is set aside for its job, also by the scheduler itself."""
        for each in self._objects.list(Reservation):
            waiting = waiting_pod_of(each)
            pod = None if waiting is None else self._objects.get(Pod, waiting)
            if pod is not None and each.spec.node_name == move.source and _in_group(pod, move.job):
                return True
        return False

    def _mark(self, planned: Sequence[MoveState]) -> None:
        if any(state.phase != AVAILABLE for state in planned):
            return
        for state in planned:
            move = state.move
            self.writes.append(UpdateReservation(with_eviction(move.reservation, self._now)))
            self.writes.append(
                Report(w.STARTED, move.pod, move.uid, move.target, "", f"Node {move.target} has a place for it.")
            )

    def _evict(self, move: Migration) -> None:
        message = f"It moves from node {move.source} to node {move.target}, where its place is kept."
        self.writes.append(EvictPod(move.pod, move.uid, move.reservation, message))

    def _end_plan(
        self, by_step: dict[Step, list[MoveState]], moves: Sequence[Migration], set_aside: Sequence[Reservation]
    ) -> None:
        """If no successor is awaited any more. Nothing of the plan is evicted any more."""
        useless = {state.name: why for state in by_step[Step.AWAY] if (why := self._useless(state)) is not None}
        away = [state for state in by_step[Step.AWAY] if state.name not in useless]
        awaited = any(self._successors.can_come(state.move) for state in away)
        for state in by_step[Step.DONE] if not awaited else ():
            self._succeed(state.move)
        for state in [*by_step[Step.LOST], *by_step[Step.AWAY]]:
            if state not in away:
                self._fail(state.move, useless.get(state.name) or state.failure() or _LOST)
        if awaited:
            return
        for state in away:
            self._fail(state.move, ("NoSuccessor", "no successor can come for its place"))
        if len(by_step[Step.DONE]) < moves[0].moves:
            self._give_up(set_aside)
        else:  # what is set aside stays so until the job starts, as any reserved node
            for each in set_aside:
                self.writes.append(UpdateReservation(_without_plan(each)))

    def _useless(self, state: MoveState) -> Failure | None:
        """A place on a node that takes no pods, and its successor waits; or one whose successor comes after a pod that
        finds no node. The queue pays for the place, so it could be what keeps that pod from starting."""
        if state.phase != AVAILABLE:
            return None
        lost = state.target_failure()
        if lost is not None:
            return lost if self._successors.waits(state.move) else None
        before = self._successors.first_idle_before(state.move)
        return _comes_after(before) if before is not None and _finds_no_node(before) else None

    # -- ends ---------------------------------------------------------------------------------------------------

    def _succeed(self, move: Migration) -> None:
        owner = next((f"{o.namespace}/{o.name}" for o in move.reservation.status.current_owners), "its successor")
        self._end(move, None)
        self.writes.append(
            Report(w.SUCCEEDED, move.pod, move.uid, move.target, "", f"{owner} runs on node {move.target}.")
        )
        self._deletions.append(DeleteReservation(move.reservation, "the move is complete"))

    def _fail(self, move: Migration, failure: Failure, *, runs: bool = False) -> None:
        """`runs`: the pod was not evicted, as far as we know."""
        self._end(move, failure)
        reason, message = failure
        self.writes.append(Report(w.FAILED, move.pod, move.uid, move.target, reason, f"{_sentence(message)}"))
        spared = move if runs and move.evicting_since is not None else None
        self._deletions.append(DeleteReservation(move.reservation, message, spared))

    def _end(self, move: Migration, failure: Failure | None) -> None:
        self._over.add(move.reservation.metadata.name)
        if failure is not None:
            self._failures[move.group] = failure
        if not move.cooldown:
            return
        self._cooldowns[move.group] = max(move.cooldown, self._cooldowns.get(move.group, 0.0))
        until = format_timestamp(self._now + move.cooldown)
        emptied = None if failure is not None else move.job
        self.writes.append(AnnotateNode(move.source, {names.COOLDOWN_UNTIL: until, names.EMPTIED_FOR: emptied}))
        self.writes.append(AnnotateNode(move.target, {names.COOLDOWN_UNTIL: until}))

    def _note_verdict(self, failure: Failure, moves: Sequence[Migration]) -> None:
        if failure[0] in _VERDICTS:
            mark = self._circumstances.mark_of(moves, plan=moves[0].plan)
            for source in {move.source for move in moves}:
                self._marks.setdefault(source, []).append(mark)

    def mark_sources(self) -> None:
        """Plans that failed are not made again until something has changed."""
        for source, marks in sorted(self._marks.items()):
            node = self._objects.get(Node, source)
            if node is not None:
                self.writes.append(AnnotateNode(source, {names.FAILED_PLANS: with_mark(node, marks)}))

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
        ended = self._over | self._done
        for name, group in sorted(groups.items()):
            of_group = by_group.get(name, [])
            left = [move for move in of_group if move.reservation.metadata.name not in ended]
            failure = self._failures.get(name)
            if not of_group:  # somebody deleted its Reservations
                failure = ("ReservationDeleted", "its Reservation was deleted")
            updated = progressed(group, left, self._now, failure=failure, cooldown=self._cooldowns.get(name))
            if updated != group:
                self.writes.append(UpdateGroup(updated))


_LOST: Final[Failure] = ("PlaceLost", "its place was lost")


def _comes_after(before: Pod) -> Failure:
    return "NoSuccessor", f"its successor would come after pod {before.metadata.name}, which does not run"


def _finds_no_node(pod: Pod) -> bool:
    return not pod.spec.node_name and any(
        each.type == "PodScheduled" and each.status == "False" for each in pod.status.conditions
    )


def _without_plan(reservation: Reservation) -> Reservation:
    notes = {name: value for name, value in reservation.metadata.annotations.items() if name != names.MIGRATION_PLAN}
    return replace(reservation, metadata=replace(reservation.metadata, annotations=notes))


def _in_group(pod: Pod, group: str) -> bool:
    return any(f"{pod.metadata.namespace}/{pod.metadata.annotations.get(name)}" == group for name in names.GROUP_NAMES)


def _sentence(text: str) -> str:
    text = text[:1].upper() + text[1:]
    return text if text.endswith(".") else f"{text}."
