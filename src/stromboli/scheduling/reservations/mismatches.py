"""Pods that match the owners of a Reservation and cannot use it.

Whoever made the Reservation expects them there, so both sides are told why not: the pod in its reason, with the amounts
at the end of the cycle, and the Reservation in a condition, `PodRefused`, with an event. The condition is what makes it
one event, also across restarts: there is another one only for a weightier reason, as the list of `Why` has it.
"""

from __future__ import annotations

from collections.abc import Hashable
from enum import IntEnum
from typing import Final, NamedTuple

from stromboli.api.quantity import amounts
from stromboli.api.reservations import namespace_of
from stromboli.cluster import Holding, Job, Task
from stromboli.scheduling.decisions import PatchReservation
from stromboli.scheduling.explanation import reservation_reasons as say
from stromboli.scheduling.session import Session

from .matches import Bar, Matches, Usable, priority_of
from .reservation_phases import POD_REFUSED, condition
from .room import ReservedRoom

_MOST_KINDS: Final = 8  # of pods of one job that are looked at


class Why(IntEnum):
    """The weightiest first. The last two pass without anybody changing a spec, and are told to pods only."""

    OtherQueue = 0
    OtherNamespace = 1
    LowPriority = 2
    NothingRequested = 3
    ResourceNotNamed = 4
    TooLittleLeft = 5
    OverLimit = 6
    ClosedNode = 7


class Mismatch(NamedTuple):
    reservation: str
    why: Why
    clause: str
    pod: str


class Mismatches:
    """As of the end of the actions; the ledger must not change meanwhile, but for trials that are undone."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._matches = session.state(Matches)
        self._room = session.state(ReservedRoom)
        self._known: dict[Hashable, list[Mismatch]] = {}

    def remark(self, job: Job) -> str:
        """What the reason of a waiting job says about Reservations; "" if there is nothing to say."""
        return say.not_for_the_pod([(one.reservation, one.clause) for one in self.of(job)])

    def tell_reservations(self) -> None:
        """One event for each Reservation and reason. Those about which something else was decided are told later."""
        session, worst = self._session, dict[str, Mismatch]()
        for job in session.waiting:
            for one in self.of(job):
                known = worst.get(one.reservation)
                if one.why <= Why.TooLittleLeft and (known is None or one.why < known.why):
                    worst[one.reservation] = one
        for name in sorted(worst):
            reservation = session.snapshot.reservations[name]
            said = next((c.reason for c in reservation.status.conditions if c.type == POD_REFUSED), None)
            is_news = said is None or (said in Why.__members__ and Why[said] > worst[name].why)
            if not is_news or name in session.ledger.assumed or name not in session.ledger.holdings:
                continue
            status, one = reservation.status, worst[name]
            message = say.pod_refused(one.pod, one.clause)
            new = condition(session, name, POD_REFUSED, "True", one.why.name, message)
            given = amounts(status.allocatable)
            patch = PatchReservation(
                name, reservation.metadata.uid, status.phase, status.node_name, given, (new,), event=POD_REFUSED
            )
            session.cycle.decisions.append(patch)

    def of(self, job: Job) -> list[Mismatch]:
        """By Reservation."""
        if not self._matches or not job.pending_count:
            return []
        kinds: dict[Hashable, Task] = {}
        for task in self._session.pending_tasks(job):
            matches = self._matches.of(task)
            if (matches.usable or matches.barred) and not task.best_effort:
                signature = self._session.placement.signature(task)
                kinds.setdefault((id(matches), signature, job.queue.name, job.namespace), task)
                if len(kinds) == _MOST_KINDS:
                    break
        found: dict[str, Mismatch] = {}
        for kind, task in kinds.items():
            known = self._known.get(kind)
            if known is None:
                known = self._known[kind] = self._find(task)
            for one in known:
                found.setdefault(one.reservation, one._replace(pod=str(task.key)))
        return [found[name] for name in sorted(found)]

    def _find(self, task: Task) -> list[Mismatch]:
        matches, found = self._matches.of(task), list[Mismatch]()
        for usable, bar in matches.barred:
            found.append(Mismatch(usable.name, *self._barred(task, usable, bar), ""))
        for usable in matches.usable:
            held = self._session.ledger.holdings.get(usable.name)
            why = None if held is None else self._unfit(task, usable, held)
            if why is not None:
                found.append(Mismatch(usable.name, *why, ""))
        return found

    def _barred(self, task: Task, usable: Usable, bar: Bar) -> tuple[Why, str]:
        assert task.job is not None
        spec = usable.object.spec
        match bar:
            case Bar.QUEUE:
                return Why.OtherQueue, say.other_queue(spec.queue, task.job.queue.name)
            case Bar.NAMESPACE:
                namespaces = [name for owner in spec.owners for name in owner.namespaces]
                return Why.OtherNamespace, say.other_namespace(
                    namespaces or [namespace_of(usable.object)], task.namespace
                )
            case Bar.PRIORITY:
                return Why.LowPriority, say.low_priority(usable.least_priority or 0, priority_of(task.pod, task.job))

    def _unfit(self, task: Task, usable: Usable, held: Holding) -> tuple[Why, str] | None:
        """Why a task does not use a Reservation that is for it; None if it could."""
        axis, request, left = self._session.axis, task.request.tolist(), held.remainder.tolist()
        named = [(name, column) for name, column in axis.by_name() if column in usable.columns]
        if not any(request[column] for _, column in named):
            return Why.NothingRequested, say.nothing_requested([name for name, _ in named])
        for name, column in named:
            if left[column] < request[column]:
                return Why.TooLittleLeft, say.too_little_left(name, left[column], request[column])
        fitting = self._room.fitting(task)
        reason = int(fitting.reasons[held.node.row])
        if reason:
            return Why.ClosedNode, say.closed_node(held.node.name, self._session.node_reasons[reason - 1].text)
        idle = self._session.nodes.idle[held.node.row].tolist()
        for name, column in axis.by_name():
            if column not in usable.columns and name != "pods" and idle[column] < request[column]:
                shown, need = task.shape.shown(name, column)
                clause = say.not_named(shown, held.node.name, idle[column], need)
                return Why.ResourceNotNamed, clause
        refusal = self._room.refusal_on_trial(task, usable, held)
        return None if refusal is None else (Why.OverLimit, say.over_limit(refusal))
