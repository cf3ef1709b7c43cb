"""What locks mean for the books of queues.

What is idle on a locked node, or used by its owner, counts as the owner's: as its guarantee and in what it has (the
ledger does that). So what others deserve is a division of what is in their reach. What others still use there stays
common room until they leave. Nothing is counted twice: otherwise others would have to keep as much idle elsewhere as
they use here, for as long as they run. A pod of the owner that lands there costs its queue nothing more; it is tested
against hard limits only, by what the queue really uses.

On its own nodes a queue may reclaim what others have beyond what they deserve, as long as it really uses less than it
deserves itself. Its own allocation cannot be the measure there: it is full by definition.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from stromboli.api.timestamps import parse_timestamp
from stromboli.cluster import PODS, Node, Queue, QueueName, Task, Vector
from stromboli.cluster.model import Lock
from stromboli.cluster.queue_guarantees import evicts, is_judged, is_refused, locks_nodes
from stromboli.cluster.resources import add_to
from stromboli.scheduling.callbacks import Refusal, Verdict
from stromboli.scheduling.explanation import Code
from stromboli.scheduling.queue_books import QueueBooks, RowMask
from stromboli.scheduling.session import Session
from stromboli.scheduling.sharing import tentatively_gone


class LockBooks(QueueBooks):
    """As of the start of a session. Locks do not change during one."""

    def __init__(self, session: Session, *, without: frozenset[str] = frozenset(), cleared: bool = False) -> None:
        """`without`: nodes that are taken not to be locked. `cleared`: as if nodes that others are evicted from were
        cleared already."""
        super().__init__(session.divisible)
        self._session = session
        locked = [node for _, node in sorted(session.ledger.locked.items())]
        nodes = [node for node in locked if node.name not in without]
        self._ignored = [node for node in locked if node.name in without]
        self._deserved: dict[frozenset[str], dict[QueueName, Vector]] = {}  # without locks on these nodes
        self.owners: dict[QueueName, Queue] = {}
        self._rows: dict[QueueName, RowMask] = {}  # by queue that may use them
        self._own: dict[QueueName, Vector] = {}  # by owner: its part of its nodes, without what queues below it use
        self._used_below: dict[QueueName, Vector] = {}  # by owner: what they use there
        self._not_elsewhere: dict[QueueName, Vector] = {}  # by owner: what is not guaranteed yet, and nowhere else
        self._open: dict[QueueName, Vector] = {}  # by queue that may use them: the owners' parts of those nodes
        self._above: dict[QueueName, list[Queue]] = {}  # by queue: the owners of these nodes
        self._all_locked = self._nothing.copy()
        for node in nodes:
            lock = node.lock
            assert lock is not None
            owner, owned, drains = lock.owner, lock.owned, lock.drains
            self.owners[owner.name] = owner
            self._all_locked += owned
            used_below = sum((has for name, has in lock.by_queue.items() if name != owner.name), start=self._nothing)
            if cleared and owner.object is not None and evicts(owner.object.spec.guarantee):
                owned, drains = owned + drains, self._nothing
            add_to(self._own, owner.name, np.maximum(owned - used_below, 0))
            add_to(self._used_below, owner.name, used_below)
            add_to(self._not_elsewhere, owner.name, drains)
            for name in sorted(lock.opens_to):
                rows = self._rows.setdefault(name, np.zeros(len(session.nodes), dtype=np.bool_))
                rows[node.row] = True
                add_to(self._open, name, owned)
                above = self._above.setdefault(name, [])
                if lock.owner not in above:
                    above.append(lock.owner)
        self._count_ignored()
        self._reach: dict[QueueName, list[int]] = {}

    def _count_ignored(self) -> None:
        for node in self._ignored:
            if node.lock is not None:
                add_to(self._not_elsewhere, node.lock.owner.name, node.lock.owned + node.lock.drains)

    # -- guarantees and reach -------------------------------------------------------------------------------------

    def guarantee(self, queue: Queue) -> Vector:
        if not queue.open or queue.object is None:
            return super().guarantee(queue)
        if not locks_nodes(queue.object.spec.guarantee) and queue.name not in self.owners:
            return super().guarantee(queue)
        own = self._own.get(queue.name, self._nothing)
        # What queues below it have counts as theirs.
        elsewhere = self._locked_below(queue) + self._used_below.get(queue.name, self._nothing)
        return np.asarray(np.maximum(self._stated(queue) - elsewhere, own))

    def guarantee_with(self, queue: Queue, below: int, column: int) -> int:
        own = self._own.get(queue.name)
        if own is None and not self._locked_below(queue).any():
            return super().guarantee_with(queue, below, column)
        stated = int(self._stated(queue)[column])
        return max(stated, below + (0 if own is None else int(own[column])))

    def _stated(self, queue: Queue) -> Vector:
        """The amounts of the spec. One that locks nodes counts once it is accepted, and not if it is refused. What
        others still use on the locked nodes is not guaranteed yet: as much would have to stay idle elsewhere. So would
        what is on nodes that are taken not to be locked."""
        assert queue.object is not None
        if queue.guarantee is None:
            return self._nothing
        if locks_nodes(queue.object.spec.guarantee) and (is_refused(queue.object) or not is_judged(queue.object)):
            return self._nothing
        if not locks_nodes(queue.object.spec.guarantee):
            return queue.guarantee
        there = self._not_elsewhere.get(queue.name, self._nothing) + self._sum_below(queue, self._not_elsewhere)
        return np.asarray(np.maximum(queue.guarantee - there, 0))

    def _locked_below(self, queue: Queue) -> Vector:
        """What is locked for the queues below a queue."""
        return self._sum_below(queue, self._own)

    def _sum_below(self, queue: Queue, amounts: dict[QueueName, Vector]) -> Vector:
        """An amount of all owners below a queue."""
        total = self._nothing.copy()
        for name, amount in amounts.items():
            owner = self._session.queues.get(name)
            if owner is not None and name != queue.name and self._is_above(queue, owner):
                total += amount
        return total

    def _is_above(self, queue: Queue, other: Queue) -> bool:
        seen, name = {other.name}, QueueName(other.parent)
        while name in self._session.queues and name not in seen:
            if name == queue.name:
                return True
            seen.add(name)
            name = QueueName(self._session.queues[name].parent)
        return False

    def reach(self, queue: Queue) -> list[int]:
        if not self.owners:
            return self._all
        known = self._reach.get(queue.name)
        if known is None:
            beyond = self._all_locked - self._open.get(queue.name, self._nothing)
            known = self._reach[queue.name] = np.maximum(self._divisible - beyond, 0).tolist()
        return known

    # -- as if there were fewer locks -----------------------------------------------------------------------------

    def allocated(self, queue: Queue) -> Vector:
        ignored = [node.lock.unused for node in self._ignored if node.lock is not None and node.lock.owner is queue]
        return sum((-unused for unused in ignored), start=queue.allocated)

    def deserved_before(self, queue: Queue, moment: float) -> Vector | None:
        later = frozenset(
            node.name
            for node in self._session.ledger.locked.values()
            if node.lock is not None and queue.name not in node.lock.opens_to and _locked_at(node.lock, node) >= moment
        )
        if not later or self._session.division is None:
            return None
        known = self._deserved.get(later)
        if known is None:
            known = self._deserved[later] = self._session.division(LockBooks(self._session, without=later))
        return known.get(queue.name)

    # -- on own nodes ---------------------------------------------------------------------------------------------

    def unused(self, queue: Queue) -> Vector | None:
        owners = self._above.get(queue.name)
        if owners is None:
            return None
        return sum((owner.unused for owner in owners), start=self._nothing)

    def returns_to_own_rows(self, task: Task) -> bool:
        own = self.own_rows(task)
        if own is None or task.node is None or own[task.node.row]:
            return True
        unused = None if task.job is None else self.unused(task.job.queue)
        if unused is None or not bool((unused > 0).any()):
            return True
        room = (self._session.nodes.idle >= task.request).all(axis=1)
        return bool((own & room & self._session.placement.fitting(task).mask).any())

    def own_rows(self, task: Task) -> RowMask | None:
        return None if task.job is None else self._rows.get(task.job.queue.name)

    def refuse_on_own_rows(self, queue: Queue, request: Vector) -> Refusal | None:
        """The queue's own capability counts what it really uses. What is unused on the nodes of a queue above it does
        not make it larger."""
        if queue.capability is None:
            return None
        for name, column in self._session.axis.shared():
            most, need, has = int(queue.capability[column]), int(request[column]), int(queue.occupied[column])
            if need > 0 and has + need > most:
                return Refusal(
                    Code.QUEUE_OVER_QUOTA, resource=name, need=need, have=has, total=most, subject=queue.name
                )
        return None

    # -- reclaim on own nodes -------------------------------------------------------------------------------------

    def may_take_back(self, evictor: Task, candidate: Task, whole: bool) -> Verdict:
        mine, theirs, node = evictor.job, candidate.job, candidate.node
        if mine is None or theirs is None or node is None or not _is_locked_for(mine.queue, theirs.queue, node):
            return Verdict.NOTHING
        deserved, theirs_deserved = (self._session.deserved.get(q.name) for q in (mine.queue, theirs.queue))
        if deserved is None or theirs_deserved is None:
            return Verdict.NOTHING
        need = evictor.request * (np.arange(len(evictor.request)) != PODS)
        if bool(((need > 0) & (mine.queue.occupied + need > deserved)).any()):
            return Verdict.NO
        leaves = gives = candidate.request
        if whole:
            leaves = gives = self._session.amount_going(candidate, whole=True)
            if self._session.going_with(candidate, whole=True) is None:
                gives = leaves + tentatively_gone(theirs)
        after = theirs.queue.allocated - leaves
        contended = (need > 0) & (after + gives > theirs_deserved)
        if not bool((gives[contended] > 0).any()):
            return Verdict.NO
        if self.falls_below_guarantee(theirs.queue, after, gives):
            return Verdict.NO
        if bool((gives == candidate.request).all()):
            return Verdict.YES
        # A gang of several takes more with it than is needed here: as where nobody has nodes of his own, its queue must
        # not lack more afterwards than the claimant's does now.
        lacks = self._lack(theirs_deserved - after, contended)
        return Verdict.YES if lacks <= self._lack(deserved - mine.queue.occupied, contended) else Verdict.NO

    def falls_below_guarantee(self, queue: Queue, after: Vector, gives: Vector) -> bool:
        """Whether a queue would have less than it is guaranteed of something that it gives."""
        counts = (gives > 0) & (np.arange(len(gives)) != PODS)
        return bool((counts & (after < self.guarantee(queue))).any())

    def _lack(self, missing: Vector, columns: RowMask) -> Fraction:
        parts = [
            Fraction(int(missing[column]), int(self._divisible[column]))
            for column in np.flatnonzero(columns).tolist()
            if self._divisible[column] > 0
        ]
        return max([Fraction(0), *parts])


def _is_locked_for(mine: Queue, theirs: Queue, node: Node) -> bool:
    return node.lock is not None and mine.name in node.lock.opens_to and theirs.name not in node.lock.opens_to


def _locked_at(lock: Lock, node: Node) -> float:
    """When a node was locked; long ago, if nobody noted it."""
    written = None if lock.owner.object is None else lock.owner.object.status.reservation.locked_at.get(node.name)
    return -math.inf if written is None else parse_timestamp(written)
