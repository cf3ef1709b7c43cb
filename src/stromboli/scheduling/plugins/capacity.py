"""Queues that state what they deserve: the alternative to `proportion`.

`proportion` divides the cluster in every cycle. Here each queue states what it deserves (`spec.deserved`), and the
number does not change. A queue may borrow idle resources, up to its real capability. Queues that have less than they
deserve can reclaim what others borrowed. With `enableHierarchy` queues form a tree: the limits of a queue and of all
its ancestors apply, and only leaves take pods (`queue_tree` computes the amounts).

Queues are ordered by priority, then by the part of their deserved amount that they have. A queue that deserves nothing
counts as having all of it, and goes after those that have. In a tree, two queues are compared by their ancestors just
below the last common one.

Reclaim follows `sharing.reclaim_rule`. A resource for which a queue states nothing limits nothing and protects nothing.

With `ancestorReclaimLevel` (0 by default) that many levels of ancestors take part. A queue may then claim for an
ancestor that has less than it deserves, from queues outside that ancestor; and the victim's ancestors on these levels
must have borrowed, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from stromboli.cluster import UNLIMITED, Job, Queue, QueueName, Vector
from stromboli.scheduling.callbacks import QueuePath, Refusal, Vote
from stromboli.scheduling.configuration.arguments import Arguments
from stromboli.scheduling.explanation import Code
from stromboli.scheduling.plugin import Plugin
from stromboli.scheduling.plugins.queue_trees.queue_tree import Place, QueueTree
from stromboli.scheduling.session import Session
from stromboli.scheduling.sharing import (
    AdmissionPromises,
    LeavingPods,
    RatioKey,
    ReclaimRule,
    no_room_to_admit,
    ratio_key,
)

_Rank = tuple[int, RatioKey, bool, float, str]


class Capacity(Plugin):
    name = "capacity"

    def __init__(self, arguments: Arguments) -> None:
        self._levels = arguments.integer("ancestorReclaimLevel", 0, minimum=0)

    def open(self, session: Session) -> None:
        hierarchy = any(option.is_enabled("hierarchy") for option in session.configuration.plugins(self.name))
        self._session = session
        self._promises = session.state(AdmissionPromises)
        self._leaving = session.state(LeavingPods)
        self._tree = QueueTree(session, hierarchy=hierarchy)
        self._columns = self._tree.columns
        self._limited = session.axis.shared()
        self._ranks: dict[str, tuple[list[int], _Rank]] = {}  # with what the place had then
        session.deserved.update(self._tree.deserved())
        session.division = lambda books: QueueTree(session, hierarchy=hierarchy, books=books).deserved()
        session.add_queue_order(self._order, path=self._path)
        session.add_allocatable(self._may_take)
        session.points.allocatable_on_own_rows.add(
            lambda queue, request, credit: self._may_take(queue, request, credit, True)
        )
        session.points.startable.add(self._may_start)
        session.points.shared_limits.add(self._leaves)
        session.points.deserved_amounts.add(lambda queue, less: self._deserves(queue))
        session.add_preemptive(self._may_claim)
        rule = ReclaimRule(
            session, [column for _, column in self._columns], line=self._tree.line, held=self._tree.held,
            pending=session.pending_tasks, zero_is_unstated=True, levels=self._levels,
        )  # fmt: skip
        session.add_reclaimable(rule.verdict, protects=False, by_shares=True)
        session.add_job_enqueueable(self._may_admit, all_at_once=self._may_admit_all)
        if hierarchy:
            session.add_victim_queue_order(self._kinship)

    # -- order ------------------------------------------------------------------------------------------------

    def _order(self, queue: Queue) -> list[_Rank]:
        """From the top down. Two queues have equal parts for common ancestors. The first different part differs at
        least in the name, so nothing below it is compared."""
        return [self._rank(place) for place in reversed(self._tree.line(queue))]

    def _path(self, queue: Queue) -> QueuePath:
        return [(place.name, partial(self._rank, place)) for place in reversed(self._tree.line(queue))]

    def _rank(self, place: Place) -> _Rank:
        """Asked for all queues whenever one of them reclaims, so it is computed again only if the place has something
        else: then it has another list."""
        if self._promises.admitting:
            return self._rank_with(place)
        held, known = self._tree.held(place), self._ranks.get(place.name)
        if known is None or known[0] is not held:
            known = self._ranks[place.name] = (held, self._rank_with(place))
        return known[1]

    def _rank_with(self, place: Place) -> _Rank:
        assert place.queue is not None
        deserves_nothing = not any(place.deserved[column] for _, column in self._columns)
        return (-place.queue.priority, self._share(place), deserves_nothing, place.queue.created, place.name)

    def _share(self, place: Place) -> RatioKey:
        """Which part of its deserved amount a place has, in the resource where that part is largest; 1 if it
        deserves nothing."""
        if self._promises.admitting:
            held = self._tree.sum(place, self._promises.held_by).tolist()
        else:
            held = self._tree.held(place)
        most, of, stated = 0, 1, False
        for _, column in self._columns:
            whole = place.deserved[column]
            if whole > 0:
                stated = True
                if held[column] * of > most * whole:
                    most, of = held[column], whole
        return ratio_key(most, of) if stated else ratio_key(1, 1)

    def _kinship(self, victim: Queue, claimant: Queue) -> int:
        """The nearest relatives lose first: what was borrowed inside a subtree is reclaimed inside it."""
        of_claimant = self._tree.line(claimant)
        return -sum(place in of_claimant for place in self._tree.line(victim))

    # -- placing ----------------------------------------------------------------------------------------------

    def _may_take(self, queue: Queue, request: Vector, credit: Vector | None, lending: bool) -> Refusal | None:
        refusal = self._closed(queue)
        if refusal is not None:
            return refusal
        need, back = request.tolist(), _back(request, credit)
        for place in self._tree.line(queue):
            refusal = self._over_limit(place, need, back)
            if refusal is not None:
                return refusal
        return None

    def _may_start(self, queue: Queue, request: Vector) -> Refusal | None:
        """Whether the limits of the queue and its ancestors have room for this beside pods that terminate."""
        need = request.tolist()
        for place in self._tree.line(queue):
            leaving = self._tree.sum(place, self._leaving.of)
            if leaving.any():
                unused = self._tree.sum(place, lambda member: member.unused)
                promised = self._tree.sum(place, self._leaving.promised)
                refusal = self._over_limit(place, need, (unused - leaving + promised).tolist())
                if refusal is not None:
                    leaves = int(leaving[self._session.axis.index[refusal.resource]])
                    return replace(refusal, have=refusal.have - leaves, leaving=leaves)
        return None

    def _leaves(
        self, queue: Queue, request: Vector, credit: Vector | None, kept: Mapping[QueueName, Vector]
    ) -> Refusal | None:
        """Whether ancestors have room for this much beside what is kept for jobs of all queues below them."""
        need, back = request.tolist(), _back(request, credit)
        for place in self._tree.line(queue)[1:]:
            below = [kept[member.name] for member in place.members if member.name in kept]
            if below:
                amounts = sum(below, start=self._session.axis.zeros()).tolist()
                less = [one - other for one, other in zip(back, amounts, strict=True)]
                refusal = self._over_limit(place, need, less)
                if refusal is not None:
                    column = self._session.axis.index[refusal.resource]
                    return replace(refusal, have=refusal.have - amounts[column], kept=amounts[column])
        return None

    def _over_limit(self, place: Place, need: list[int], back: list[int]) -> Refusal | None:
        assert place.queue is not None
        held, limits, reach = self._tree.held(place), place.real_capability, self._session.books.reach(place.queue)
        for name, column in self._limited:
            has = held[column] - back[column]
            # A limit as large as what is in reach is not the queue's fault: the reason of the nodes is more useful.
            if need[column] > 0 and limits[column] < has + need[column] and limits[column] < reach[column]:
                return _over(Code.QUEUE_OVER_QUOTA, place, name, need[column], has, limits[column])
        return None

    def _closed(self, queue: Queue) -> Refusal | None:
        if not self._tree.is_leaf(queue):
            return Refusal(Code.QUEUE_NOT_LEAF, subject=queue.name)
        for place in self._tree.line(queue):
            if place.queue is not None and not place.queue.open:
                return Refusal(Code.QUEUE_CLOSED, subject=place.name)
        return None

    def _deserves(self, queue: Queue) -> list[int]:
        """As it is stated: it does not depend on what others request. What is not stated limits nothing."""
        return [amount or UNLIMITED for amount in self._tree.places[queue.name].deserved]

    # -- reclaim ----------------------------------------------------------------------------------------------

    def _may_claim(self, queue: Queue, request: Vector, credit: Vector | None) -> Refusal | None:
        """Without the limits of ancestors: evictions inside them make room there, so only a plan of evictions can
        tell."""
        place = self._tree.places[queue.name]
        need, back = request.tolist(), _back(request, credit)
        refusal = self._closed(queue) or self._over_limit(place, need, back)
        if refusal is not None:
            return refusal
        asked = [(name, column) for name, column in self._limited if need[column] > 0]
        if not asked or self._has_claim(queue, need, back):
            return None
        name, column = asked[0]
        held = self._tree.held(place)[column] - back[column]
        return _over(Code.QUEUE_OVER_DESERVED, place, name, need[column], held, place.deserved[column])

    def _has_claim(self, queue: Queue, need: list[int], back: list[int]) -> bool:
        """Whether the queue, or an ancestor that takes part, stays within its deserved amount in some resource."""
        for place in self._tree.line(queue)[: self._levels + 1]:
            held, deserved = self._tree.held(place), place.deserved
            if any(need[c] > 0 and held[c] - back[c] + need[c] <= deserved[c] for _, c in self._columns):
                return True
        return False

    # -- admission --------------------------------------------------------------------------------------------

    def _may_admit(self, job: Job) -> Vote | Refusal:
        queue = job.queue
        refusal = self._closed(queue)
        if refusal is not None:
            return refusal
        if job.min_resources is None:
            return Vote.PERMIT
        answer = self._has_quota(job, job.min_resources, with_credit=False)
        if answer is Vote.PERMIT or not self._session.points.admission_credit:
            return answer
        return self._has_quota(job, job.min_resources, with_credit=True)

    def _has_quota(self, job: Job, minimum: Vector, *, with_credit: bool) -> Vote | Refusal:
        """`with_credit`: what counts as used and is there for this job is taken off."""
        queue, need = job.queue, minimum.tolist()
        spared = self._session.axis.zeros()
        if self._session.has_action("preempt"):
            spared = spared + self._promises.room_below(job, with_elastic=False)
        line = self._tree.line(queue)
        if self._session.has_action("reclaim") and self._stays_within_deserved(line[0], need):
            line = line[:1]  # if an ancestor is full, other queues in it have borrowed, and this one can reclaim
        for place in line:
            credit = self._session.admission_credit(job, place.names) if with_credit else 0
            held = (self._tree.sum(place, self._promises.committed) - spared - credit).tolist()
            for name, column in self._columns:
                limit = place.real_capability[column]
                if need[column] > 0 and held[column] + need[column] > limit:
                    if limit < self._session.books.reach(queue)[column]:
                        return _over(Code.QUEUE_OVER_QUOTA, place, name, need[column], held[column], limit)
                    promised = int(self._tree.sum(place, self._promises.promised)[column])
                    return no_room_to_admit(
                        self._session, name, need=need[column], held=held[column], limit=limit, promised=promised
                    )
        return Vote.PERMIT

    def _may_admit_all(self, minimums: Mapping[QueueName, list[int]]) -> bool:
        queues = [self._session.queues[name] for name in minimums]
        if any(self._closed(queue) is not None for queue in queues):
            return False
        for place in {place.name: place for queue in queues for place in self._tree.line(queue)}.values():
            inside = [minimums[member.name] for member in place.members if member.name in minimums]
            need = [sum(amounts) for amounts in zip(*inside, strict=True)]
            held, limits = self._tree.sum(place, self._promises.committed).tolist(), place.real_capability
            if any(need[column] > 0 and held[column] + need[column] > limits[column] for _, column in self._columns):
                return False
        return True

    def _stays_within_deserved(self, place: Place, need: list[int]) -> bool:
        assert place.queue is not None
        held = (place.queue.occupied + self._promises.promised(place.queue)).tolist()
        return all(held[c] + need[c] <= place.deserved[c] for _, c in self._columns if need[c] > 0)


def _back(request: Vector, credit: Vector | None) -> list[int]:
    """What a placement returns, by column."""
    amounts: list[int] = [0] * len(request) if credit is None else credit.tolist()
    return amounts


def _over(code: str, place: Place, resource: str, need: int, have: int, total: int) -> Refusal:
    return Refusal(code, resource=resource, need=need, have=have, total=total, subject=place.name)
