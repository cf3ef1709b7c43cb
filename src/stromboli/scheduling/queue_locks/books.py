"""What locks mean for the books of queues.

A locked node counts whole as its owner's: as its guarantee and, used or idle, in what it has (the ledger does that). So
what others deserve is a division of what is in their reach. A pod of the owner that lands there costs its queue nothing
more; it is tested against hard limits only, by what the queue really uses.

On its own nodes a queue may reclaim what others have beyond what they deserve, as long as it really uses less than it
deserves itself. Its own allocation cannot be the measure there: it is full by definition.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from stromboli.cluster import PODS, Queue, QueueName, Task, Vector
from stromboli.cluster.ledger import SHARED
from stromboli.cluster.queue_guarantees import is_judged, is_refused, locks_nodes
from stromboli.scheduling.callbacks import Refusal, Verdict
from stromboli.scheduling.explanation import Code
from stromboli.scheduling.queue_books import QueueBooks, RowMask
from stromboli.scheduling.session import Session
from stromboli.scheduling.sharing.leaving_gangs import tentatively_gone


class LockBooks(QueueBooks):
    """As of the start of a session. Locks do not change during one."""

    def __init__(self, session: Session) -> None:
        super().__init__(session.divisible)
        self._session = session
        nodes = [node for _, node in sorted(session.ledger.locked.items())]
        self.owners: dict[QueueName, Queue] = {}
        self._rows: dict[QueueName, RowMask] = {}  # by queue that may use them
        self._own: dict[QueueName, Vector] = {}  # by owner: its nodes, without what queues below it use there
        self._used_below: dict[QueueName, Vector] = {}  # by owner: what they use there
        self._open: dict[QueueName, Vector] = {}  # by queue that may use them: those nodes
        self._above: dict[QueueName, list[Queue]] = {}  # by queue: the owners of these nodes
        self._all_locked = self._nothing.copy()
        for node in nodes:
            lock = node.lock
            assert lock is not None
            self.owners[lock.owner.name] = lock.owner
            self._all_locked += lock.charged
            used_below = sum(
                (t.request for t in node.tasks.values() if _is_below(t, lock.owner, lock.opens_to)),
                start=self._nothing,
            )
            own = self._own.setdefault(lock.owner.name, self._nothing.copy())
            own += np.maximum(lock.charged - used_below, 0)
            below = self._used_below.setdefault(lock.owner.name, self._nothing.copy())
            below += used_below
            for name in sorted(lock.opens_to):
                rows = self._rows.setdefault(name, np.zeros(len(session.nodes), dtype=np.bool_))
                rows[node.row] = True
                open_ = self._open.setdefault(name, self._nothing.copy())
                open_ += lock.charged
                above = self._above.setdefault(name, [])
                if lock.owner not in above:
                    above.append(lock.owner)
        self._reach: dict[QueueName, list[int]] = {}

    # -- guarantees and reach -------------------------------------------------------------------------------------

    def guarantee(self, queue: Queue) -> Vector:
        if not queue.open or queue.object is None or not locks_nodes(queue.object.spec.guarantee):
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
        """The amounts of the spec. One that locks nodes counts once it is accepted, and not if it is refused."""
        assert queue.object is not None
        if queue.guarantee is None:
            return self._nothing
        if locks_nodes(queue.object.spec.guarantee) and (is_refused(queue.object) or not is_judged(queue.object)):
            return self._nothing
        return queue.guarantee

    def _locked_below(self, queue: Queue) -> Vector:
        """What is locked for the queues below a queue."""
        total = self._nothing.copy()
        for name, owner in self.owners.items():
            if name != queue.name and self._is_above(queue, owner):
                total += self._own[name]
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

    # -- on own nodes ---------------------------------------------------------------------------------------------

    def unused(self, queue: Queue) -> Vector | None:
        owners = self._above.get(queue.name)
        if owners is None:
            return None
        return sum((owner.unused for owner in owners), start=self._nothing)

    def own_rows(self, task: Task) -> RowMask | None:
        return None if task.job is None else self._rows.get(task.job.queue.name)

    def refuse_on_own_rows(self, queue: Queue, request: Vector) -> Refusal | None:
        """The queue's own capability counts what it really uses. What is unused on the nodes of a queue above it does
        not make it larger."""
        if queue.capability is None:
            return None
        for name, column in self._session.axis.by_name():
            most, need, has = int(queue.capability[column]), int(request[column]), int(queue.occupied[column])
            if column != PODS and need > 0 and has + need > most:
                return Refusal(
                    Code.QUEUE_OVER_QUOTA, resource=name, need=need, have=has, total=most, subject=queue.name
                )
        return None

    # -- reclaim on own nodes -------------------------------------------------------------------------------------

    def may_take_back(self, evictor: Task, candidate: Task, whole: bool) -> Verdict:
        mine, theirs, node = evictor.job, candidate.job, candidate.node
        if mine is None or theirs is None or node is None or node.lock is None:
            return Verdict.NOTHING
        if mine.queue.name not in node.lock.opens_to or theirs.queue.name in node.lock.opens_to:
            return Verdict.NOTHING
        deserved, theirs_deserved = (self._session.deserved.get(q.name) for q in (mine.queue, theirs.queue))
        if deserved is None or theirs_deserved is None:
            return Verdict.NOTHING
        need = evictor.request * (np.arange(len(evictor.request)) != PODS)
        if bool(((need > 0) & (mine.queue.occupied + need > deserved)).any()):
            return Verdict.NO
        leaves = theirs.allocated if whole else candidate.request
        gives = leaves + tentatively_gone(theirs) if whole else leaves
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


def _is_below(task: Task, owner: Queue, opens_to: frozenset[QueueName]) -> bool:
    """Whether a task of a queue below the owner occupies part of its node."""
    return (
        task.job is not None
        and task.status in SHARED
        and task.job.queue is not owner
        and task.job.queue.name in opens_to
    )
