"""Queues get resources in proportion to their weights.

In every cycle the cluster is divided among the queues by weight, for each resource. No queue gets more than it requests
or may have, or less than its guarantee. What one queue does not need goes to the others. The result is what a queue
*deserves* in this cycle (see `sharing.division`).

Limits, for each resource:

    request          what its pods use and what its waiting pods request
    real capability  the cluster minus the guarantees of other queues, and at most the queue's `capability`
    deserved         between its guarantee and the smaller of those two

A pod is placed if its queue then stays within its deserved share in the resources that the pod requests. A queue is
overused only if it has its full deserved share of every resource, so a queue that has used up its CPUs still gets its
GPUs. Resources that would stay idle, because pods are larger than what is left of each share, can be lent up to the
hard limits (`lending`). Unused guarantees of other queues are not lent.

Reclaim follows `sharing.reclaim_rule`: a queue that has less than it deserves takes back what others have borrowed.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from stromboli.cluster import PODS, UNLIMITED, Job, Queue, QueueName, Vector
from stromboli.scheduling.callbacks import Refusal, Vote
from stromboli.scheduling.explanation import Code
from stromboli.scheduling.plugin import Plugin
from stromboli.scheduling.queue_books import QueueBooks
from stromboli.scheduling.session import Session
from stromboli.scheduling.sharing import (
    AdmissionPromises,
    Claim,
    LeavingPods,
    RatioKey,
    ReclaimRule,
    divide,
    no_room_to_admit,
    pending_request,
    ratio_key,
)


@dataclass(frozen=True, slots=True)
class Entitlement:
    """What a queue may have in this session, by column. Lists of int, because they are read thousands of times."""

    name: str
    members: tuple[Queue, ...]  # the queue itself
    deserved: list[int]
    real_capability: list[int]
    guarantee: list[int]


@dataclass(frozen=True, slots=True)
class _Limits:
    """The limits of a queue that are smaller than what is in its reach. A limit as large as that is not the queue's
    fault: the reason of the nodes is more useful."""

    reach: list[int]
    hard: list[tuple[str, int, int]]  # (resource, column, amount), in the order of names
    deserved: list[tuple[str, int, int]]
    full: list[tuple[int, int]]  # (column, amount): the queue is overused if it has all of these; empty: never


class Proportion(Plugin):
    name = "proportion"

    def open(self, session: Session) -> None:
        self._total: list[int] = session.divisible.tolist()
        # "pods" is a matter of nodes, not of shares. By name, so that the first short resource is the same for all.
        self._columns = [(name, column) for name, column in session.axis.by_name() if column != PODS]
        self._requested = self._requests(session, session.books)
        self.entitlements = self._entitle(session, session.books, self._requested)
        guarantees = [entitlement.guarantee for entitlement in self.entitlements.values()]
        self._guaranteed = [e.members[0] for e in self.entitlements.values() if any(e.guarantee)]
        self._is_guaranteed = [any(guarantee[column] for guarantee in guarantees) for column in range(len(self._total))]
        self._session = session
        self._promises = session.state(AdmissionPromises)
        self._leaving = session.state(LeavingPods)
        self._limits: dict[QueueName, _Limits] = {}
        self._divided_anew: tuple[Hashable, dict[int, dict[QueueName, int]]] | None = None  # for the last question
        session.deserved.update(_deserved(self.entitlements))
        session.division = lambda books: _deserved(self._entitle(session, books, self._requests(session, books)))
        session.add_queue_order(self._order)
        session.add_overused(self._is_overused)
        session.add_allocatable(self._may_take)
        session.points.allocatable_on_own_rows.add(self._may_use)
        session.points.startable.add(self._may_start)
        session.points.deserved_amounts.add(self._deserves)
        session.add_preemptive(self._may_claim)
        rule = ReclaimRule(
            session, [column for _, column in self._columns],
            line=lambda queue: (self.entitlements[queue.name],), held=lambda own: own.members[0].allocated.tolist(),
            pending=session.pending_tasks, zero_is_unstated=False,
        )  # fmt: skip
        session.add_reclaimable(rule.verdict, protects=False, by_shares=True)
        session.add_job_enqueueable(self._may_admit, all_at_once=self._may_admit_all)

    # -- who deserves what ------------------------------------------------------------------------------------

    def _entitle(
        self, session: Session, books: QueueBooks, requested: Mapping[QueueName, Vector]
    ) -> dict[QueueName, Entitlement]:
        queues = sorted(session.queues.values(), key=lambda q: (-q.priority, q.created, q.name))
        nothing = session.axis.zeros()
        guarantees = [books.guarantee(q) for q in queues]
        free = np.maximum(session.divisible - sum(guarantees, start=nothing), 0)
        real = [free + own for own in guarantees]
        for position, queue in enumerate(queues):
            if queue.capability is not None:
                real[position] = np.minimum(real[position], queue.capability)
        deserved = np.zeros((len(queues), session.axis.width), dtype=np.int64)
        for _, column in self._columns:
            claims = [
                _claim(queue, least, int(limit[column]), int(requested[queue.name][column]))
                for queue, limit, least in zip(queues, real, (int(own[column]) for own in guarantees), strict=True)
            ]
            deserved[:, column] = divide(self._total[column], claims)
        return {
            queue.name: Entitlement(
                queue.name, (queue,), deserved[i].tolist(), real[i].tolist(), guarantees[i].tolist()
            )
            for i, queue in enumerate(queues)
        }

    def _deserves(self, queue: Queue, less: Mapping[QueueName, Vector]) -> list[int]:
        """What a queue deserves if queues request so much less than when the cluster was divided."""
        own = self.entitlements[queue.name].deserved
        if not less:
            return own
        key = tuple((name, less[name].tobytes()) for name in sorted(less))
        if self._divided_anew is None or self._divided_anew[0] != key:
            self._divided_anew = (key, self._divide_anew(less))
        anew = self._divided_anew[1]
        return [anew[column][queue.name] if column in anew else amount for column, amount in enumerate(own)]

    def _divide_anew(self, less: Mapping[QueueName, Vector]) -> dict[int, dict[QueueName, int]]:
        """By column in which queues request less, and by queue."""
        members = {name: entitlement.members[0] for name, entitlement in self.entitlements.items()}
        anew: dict[int, dict[QueueName, int]] = {}
        for _, column in self._columns:
            if not any(amount[column] for amount in less.values()):
                continue
            claims = []
            for name, entitlement in self.entitlements.items():
                request = int(self._requested[name][column]) - (int(less[name][column]) if name in less else 0)
                least, limit = entitlement.guarantee[column], entitlement.real_capability[column]
                claims.append(_claim(members[name], least, limit, request))
            anew[column] = dict(zip(members, divide(self._total[column], claims), strict=True))
        return anew

    def _requests(self, session: Session, books: QueueBooks) -> dict[QueueName, Vector]:
        """All that queues request: what their pods have and request, and the minimum of jobs whose pods are created
        only after their admission. Pods that cannot be placed, because the queue is closed or their PodGroup does not
        exist, do not count, so that nothing is taken from others for them. Jobs at rest request nothing more."""
        queues = session.queues.values()
        requests = {queue.name: books.allocated(queue) + queue.wanted for queue in queues if queue.open}
        for job in session.ledger.active_jobs():
            request = requests.get(job.queue.name)
            if request is None or job.stands_for:
                continue
            if job.object is None:
                request -= pending_request(job)
            elif job.min_resources is not None and job.valid_count < job.min_available:
                request += np.maximum(job.min_resources - job.allocated - pending_request(job), 0)
                np.minimum(request, UNLIMITED, out=request)  # a sum of absurd minimums must not wrap around
        return {queue.name: requests.get(queue.name, books.allocated(queue)) for queue in queues}

    # -- order ------------------------------------------------------------------------------------------------

    def _order(self, queue: Queue) -> tuple[int, RatioKey]:
        return (-queue.priority, self._share(queue, self._promises.held_by(queue).tolist()))

    def _share(self, queue: Queue, held: list[int]) -> RatioKey:
        """Which part of its deserved share a queue has, in the resource where that part is largest."""
        deserved = self.entitlements[queue.name].deserved
        most, of = 0, 1
        for _, column in self._columns:
            amount, whole = held[column], deserved[column]
            if amount > 0 and whole <= 0:
                amount = whole = 1
            if amount > 0 and amount * of > most * whole:
                most, of = amount, whole
        return ratio_key(most, of)

    def _is_overused(self, queue: Queue) -> bool:
        full = self._limits_of(queue).full
        if not full:
            return False
        held = queue.allocated.tolist()
        for column, amount in full:  # noqa: SIM110 - before every job, and a generator takes three times as long
            if held[column] < amount:
                return False
        return True

    def _limits_of(self, queue: Queue) -> _Limits:
        known, reach = self._limits.get(queue.name), self._session.books.reach(queue)
        if known is None or known.reach is not reach:
            entitlement, shared = self.entitlements[queue.name], self._session.axis.shared()
            hard, deserved = (
                [(name, column, limits[column]) for name, column in shared if limits[column] < reach[column]]
                for limits in (entitlement.real_capability, entitlement.deserved)
            )
            counts = [column for _, column in self._columns if entitlement.deserved[column] > 0]
            full = [(column, entitlement.deserved[column]) for column in counts]
            # A queue that deserves nothing is not stopped: either its pods request nothing, or `_may_take` gives a
            # better reason for each. Nor is one that deserves all it can reach.
            if any(entitlement.deserved[column] >= reach[column] for column in counts):
                full = []
            known = self._limits[queue.name] = _Limits(reach, hard, deserved, full)
        return known

    # -- placing ----------------------------------------------------------------------------------------------

    def _may_take(self, queue: Queue, request: Vector, credit: Vector | None, lending: bool) -> Refusal | None:
        limits = self._limits_of(queue)
        if limits.hard or not queue.open:
            refusal = self._may_use(queue, request, credit)
            if refusal is not None:
                return refusal
        if not limits.deserved or (lending and not self._takes_guaranteed(queue, request, credit)):
            return None
        return _first_over(Code.QUEUE_OVER_DESERVED, limits.deserved, queue, request, credit)

    def _may_use(self, queue: Queue, request: Vector, credit: Vector | None) -> Refusal | None:
        """By the hard limits alone."""
        if not queue.open:
            return Refusal(Code.QUEUE_CLOSED, subject=queue.name)
        hard = self._limits_of(queue).hard
        return _first_over(Code.QUEUE_OVER_QUOTA, hard, queue, request, credit) if hard else None

    def _may_start(self, queue: Queue, request: Vector) -> Refusal | None:
        """Whether the hard limits have room for this beside pods that terminate."""
        leaving, entitlement = self._leaving.of(queue), self.entitlements[queue.name]
        has = queue.occupied - self._leaving.promised(queue)
        need, held, leaves = request.tolist(), has.tolist(), leaving.tolist()
        for name, column, limit in self._limits_of(queue).hard:
            if need[column] > 0 < leaves[column] and limit < held[column] + leaves[column] + need[column]:
                return _after(queue, name, need[column], held[column], limit, leaves[column])
        for name, column in self._columns:
            mine = held[column] + leaves[column] + need[column]
            if need[column] > 0 and self._is_guaranteed[column] and mine > entitlement.guarantee[column]:
                others = self._kept_by_others(queue, column)
                if others + mine > self._total[column]:
                    limit = max(self._total[column] - others, 0)
                    return _after(queue, name, need[column], held[column], limit, self._leaving.everywhere(column))
        return None

    def _kept_by_others(self, queue: Queue, column: int) -> int:
        """What other queues use, with pods that terminate, and what they are guaranteed beyond that."""
        use = self._leaving.use
        short = sum(
            max(self.entitlements[other.name].guarantee[column] - use.of(other)[column], 0)
            for other in self._guaranteed
            if other is not queue
        )
        return use.of_all()[column] - use.of(queue)[column] + short

    def _may_claim(self, queue: Queue, request: Vector, credit: Vector | None) -> Refusal | None:
        """Only what the queue lacks can be reclaimed, and up to what it deserves. Of other resources it may have more:
        they count neither for nor against (see ReclaimRule)."""
        refusal = self._may_take(queue, request, credit, False)
        if refusal is None or refusal.code != Code.QUEUE_OVER_DESERVED:
            return refusal
        need, held, deserved = request.tolist(), _held(queue, credit), self.entitlements[queue.name].deserved
        lacks = [column for _, column in self._columns if need[column] > 0 and held[column] < deserved[column]]
        within = bool(lacks) and all(held[column] + need[column] <= deserved[column] for column in lacks)
        return None if within else refusal

    def _takes_guaranteed(self, queue: Queue, request: Vector, credit: Vector | None) -> bool:
        """Whether the request would use resources that are guaranteed to others. Its real capability keeps a single
        queue from that, but not several queues together."""
        need, held = request.tolist(), _held(queue, credit)
        for _, column in self._columns:
            if need[column] > 0 and self._is_guaranteed[column]:
                others = sum(
                    max(int(other.allocated[column]), self.entitlements[other.name].guarantee[column])
                    for other in self._session.queues.values()
                    if other is not queue
                )
                if others + held[column] + need[column] > self._total[column]:
                    return True
        return False

    # -- admission --------------------------------------------------------------------------------------------

    def _may_admit(self, job: Job) -> Vote | Refusal:
        queue = job.queue
        if not queue.open:
            return Refusal(Code.QUEUE_CLOSED, subject=queue.name)
        if job.min_resources is None:
            return Vote.PERMIT
        answer = self._has_quota(job, job.min_resources, 0)
        credit = 0 if answer is Vote.PERMIT else self._session.admission_credit(job, (queue.name,))
        return answer if isinstance(credit, int) else self._has_quota(job, job.min_resources, credit)

    def _has_quota(self, job: Job, minimum: Vector, credit: Vector | int) -> Vote | Refusal:
        """`credit`: what counts as used and is there for this job."""
        queue, need = job.queue, minimum.tolist()
        limits = self.entitlements[queue.name].real_capability
        committed = self._promises.committed(queue) - credit
        if self._session.has_action("preempt"):
            committed = committed - self._promises.room_below(job, with_elastic=False)
        held = committed.tolist()
        for name, column in self._columns:
            limit = limits[column]
            if need[column] > 0 and held[column] + need[column] > limit:
                if limit < self._session.books.reach(queue)[column]:
                    return _over(Code.QUEUE_OVER_QUOTA, queue, name, need[column], held[column], limit)
                promised = int(self._promises.promised(queue)[column])
                return no_room_to_admit(
                    self._session, name, need=need[column], held=held[column], limit=limit, promised=promised
                )
        return Vote.PERMIT

    def _may_admit_all(self, minimums: Mapping[QueueName, list[int]]) -> bool:
        for name, need in minimums.items():
            held = self._promises.committed(self._session.queues[name]).tolist()
            limits = self.entitlements[name].real_capability
            if any(need[column] > 0 and held[column] + need[column] > limits[column] for _, column in self._columns):
                return False
        return True


def _claim(queue: Queue, least: int, limit: int, request: int) -> Claim:
    """`least`: its guarantee, which it always gets."""
    return Claim(queue.weight, least, max(min(limit, request), least))


def _deserved(entitlements: Mapping[QueueName, Entitlement]) -> dict[QueueName, Vector]:
    return {name: np.array(entitlement.deserved, dtype=np.int64) for name, entitlement in entitlements.items()}


def _held(queue: Queue, credit: Vector | None) -> list[int]:
    amounts: list[int] = (queue.allocated if credit is None else queue.allocated - credit).tolist()
    return amounts


def _first_over(
    code: str, limits: list[tuple[str, int, int]], queue: Queue, request: Vector, credit: Vector | None
) -> Refusal | None:
    """The first of these limits that the request would exceed."""
    need, held = request.tolist(), _held(queue, credit)
    for name, column, limit in limits:
        if need[column] > 0 and limit < held[column] + need[column]:
            return _over(code, queue, name, need[column], held[column], limit)
    return None


def _after(queue: Queue, resource: str, need: int, have: int, total: int, leaving: int) -> Refusal:
    refusal = _over(Code.QUEUE_OVER_QUOTA, queue, resource, need, have, total)
    return replace(refusal, leaving=leaving)


def _over(code: str, queue: Queue, resource: str, need: int, have: int, total: int) -> Refusal:
    return Refusal(code, resource=resource, need=need, have=have, total=total, subject=queue.name)
