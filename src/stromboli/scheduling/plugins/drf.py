"""Dominant resource fairness: the job or namespace with the smallest dominant share goes first.

The dominant share of a job is its share of the cluster in the resource where that share is largest. A job that uses a
tenth of all CPUs and half of all GPUs has a share of one half. The job with the smallest share goes first. Its share
grows with every pod placed, so the jobs of a queue take turns.

The namespaces of a queue are ordered by the same number: the dominant share of what a namespace has *in that queue*,
divided by its weight. A namespace of weight 3 gets three times as much before it has to wait.

Preemption compares shares after the move: the evictor's with its new pod, the victim's without the evicted one. So the
victim has no reason to take the room back. Namespaces are compared first, and jobs only if the namespaces are even.
Inside one job there is no opinion.

Queues are not ordered here, unless `enableHierarchy` makes them a tree in which shares are divided from the root down
(see `hierarchy`).

Shares are compared exactly. All of them are fractions of a few totals, so with the least common multiple of the totals
as their denominator they are integers.
"""

from __future__ import annotations

from fractions import Fraction
from math import lcm
from operator import mul
from typing import Final

from stromboli.cluster import PODS, Job, Queue, Task, Vector
from stromboli.scheduling.callbacks import NamespaceShares, Verdict
from stromboli.scheduling.configuration.arguments import Arguments
from stromboli.scheduling.plugin import Plugin
from stromboli.scheduling.plugins.queue_trees.hierarchy import Hierarchy
from stromboli.scheduling.session import Session
from stromboli.scheduling.sharing import AdmissionPromises, RatioKey, ratio_key

_EVEN: Final = 1_000_000
"""In preemption, shares that differ by at most one part in this number are even: nobody is evicted for less."""


class DominantShare:
    """Shares of a total, as integers: `one` is the whole cluster."""

    def __init__(self, total: Vector) -> None:
        amounts = total.tolist()
        self.one = lcm(*[amount for amount in amounts if amount > 0])
        # A resource that no node offers: having any of it counts as having all of it.
        self._weights = [self.one // amount if amount > 0 else 0 for amount in amounts]
        self._weights[PODS] = 0
        # Jobs have the same amounts again and again, and their shares are compared for every eviction.
        self._known: dict[bytes, int] = {}
        self._offered_by_none = [column for column, amount in enumerate(amounts) if amount <= 0 and column != PODS]

    def of(self, amount: Vector) -> int:
        key = amount.tobytes()
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = self._compute(amount.tolist())
        return known

    def _compute(self, held: list[int]) -> int:
        largest: int = max(0, *map(mul, held, self._weights))
        for column in self._offered_by_none:
            if held[column] > 0:
                largest = max(largest, self.one)
        return largest


class Drf(Plugin):
    name = "drf"

    def __init__(self, arguments: Arguments) -> None:
        self._scope = arguments.text(
            "namespaceOrderScope", "beforePriority", choices=("beforePriority", "withinPriority")
        )

    def open(self, session: Session) -> None:
        self._session = session
        self._promises = session.state(AdmissionPromises)
        self._namespaces = session.namespaces
        self._share = DominantShare(session.divisible)
        self._compares_namespaces = True
        has_tree = False
        for option in session.configuration.plugins(self.name):
            self._compares_namespaces = option.is_enabled("namespaceOrder")
            has_tree = option.is_enabled("hierarchy")
        if has_tree:
            tree = Hierarchy(session, self._share.one)
            session.add_handlers(allocate=tree.placed, deallocate=tree.gone)
            session.add_queue_order(tree.key, falls=tree.falls)
            session.add_reclaimable(tree.may_lose, protects=False, by_shares=True)
        session.add_job_order(lambda job: self._share.of(job.allocated))
        session.add_namespace_order(
            self._namespace_share,
            scope=self._scope,
            shares=NamespaceShares(self._share.of, self._share.one, self._weight),
        )
        session.add_preemptable(self._smaller_share_wins, protects=False, by_shares=True)
        if self._scope == "beforePriority":
            session.add_preemptable(self._keeps_namespace_order, protects=True, by_shares=True, flag="namespaceOrder")

    def _namespace_share(self, queue: Queue, namespace: str) -> RatioKey:
        held = self._promises.held_in(queue, namespace)
        return ratio_key(0 if held is None else self._share.of(held), self._weight(namespace))

    def _weight(self, namespace: str) -> int:
        known = self._namespaces.get(namespace)
        return 1 if known is None else known.weight

    def _smaller_share_wins(self, evictor: Task, candidate: Task, whole: bool) -> Verdict:
        mine, theirs = evictor.job, candidate.job
        if mine is None or theirs is None or mine is theirs:
            return Verdict.NOTHING
        leaving = self._session.amount_going(candidate, whole=whole)
        if self._compares_namespaces and mine.namespace != theirs.namespace:
            ahead = self._ahead_of_namespace(mine, evictor.request, theirs, leaving)
            return Verdict.YES if ahead * _EVEN <= self._share.one else Verdict.NO
        ahead = self._share.of(mine.allocated + evictor.request) - self._share.of(theirs.allocated - leaving)
        return Verdict.YES if ahead * _EVEN <= self._share.one else Verdict.NO

    def _keeps_namespace_order(self, evictor: Task, candidate: Task, whole: bool) -> Verdict:
        """Where namespaces come before priorities, no priority takes a namespace past another one of its queue:
        allocate would give the room back to the other, and the next preemption take it again."""
        mine, theirs = evictor.job, candidate.job
        if mine is None or theirs is None or mine.queue is not theirs.queue or mine.namespace == theirs.namespace:
            return Verdict.NOTHING
        leaving = self._session.amount_going(candidate, whole=whole)
        ahead = self._ahead_of_namespace(mine, evictor.request, theirs, leaving)
        return Verdict.NO if ahead * _EVEN > self._share.one else Verdict.NOTHING

    def _ahead_of_namespace(self, mine: Job, arriving: Vector, theirs: Job, leaving: Vector) -> Fraction | int:
        """By how much my namespace's weighted share would exceed theirs after the move."""
        taken = mine.queue.by_namespace.get(mine.namespace)
        with_mine = arriving if taken is None else taken + arriving
        without_theirs = theirs.queue.by_namespace[theirs.namespace] - leaving
        return Fraction(self._share.of(with_mine), self._weight(mine.namespace)) - Fraction(
            self._share.of(without_theirs), self._weight(theirs.namespace)
        )
