"""reclaim: a queue that has less than it deserves takes room back from queues that have more.

The job is placed as a whole in one statement, as in preempt; victims come from other queues that allow it. All
pending tasks of a job that was starving when its turn began are tried: a queue takes back its share, not only its
gangs' minimum. Pods that are in no gang claim one by one, so their job starves as long as one of them waits.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from fractions import Fraction
from operator import add
from typing import ClassVar

import numpy as np

from stromboli.cluster import Job, Queue, QueueName, Task
from stromboli.scheduling.bind_backoff import worth_trying
from stromboli.scheduling.eviction import VictimSearch, may_lose_tasks, place_with_evictions, starving_jobs
from stromboli.scheduling.explanation import reasons
from stromboli.scheduling.plugin import Action
from stromboli.scheduling.queue_line import QueueLine
from stromboli.scheduling.session import Session
from stromboli.scheduling.sharing import pending_request
from stromboli.scheduling.walk import Walk


class Reclaim(Action):
    name: ClassVar[str] = "reclaim"

    def execute(self, session: Session) -> None:
        waiting = worth_trying(session, session.waiting)
        if not waiting:
            return
        # Before the jobs: in a cluster where nothing runs, thousands of them may wait.
        evictable = [q for q in session.queues.values() if q.reclaimable and may_lose_tasks(session.ledger, q)]
        if not evictable and not session.has_concessions("reclaimable"):
            return  # nobody runs who could be asked to go
        jobs = starving_jobs(session, waiting)
        if not jobs:
            return
        self._lenders = QueueLine(session, evictable)
        self._contention = _Contention(session, evictable)
        self._groups: dict[tuple[QueueName, ...], int] = {}  # a number is compared faster than hundreds of names
        walk = Walk(session, jobs, drop=session.overused)
        while (job := walk.next()) is not None:
            if not self._reclaim(session, job) and job.queue.fifo:
                walk.stop_queue()

    def _reclaim(self, session: Session, job: Job) -> bool:
        def may_evict(task: Task) -> bool:
            if not task.may_preempt:
                return False
            if session.preemptive(job.queue, task.request, job=job) is None:
                return True
            # On nodes of its own the queue may take more than it deserves: they count as its already.
            return session.books.own_rows(task) is not None and session.allocatable_on_own_rows(task) is None

        return place_with_evictions(
            session, job, self.name, search=lambda: self._search(session, job), may_evict=may_evict,
            only_while_starving=False,
        )  # fmt: skip

    def _search(self, session: Session, job: Job) -> VictimSearch:
        lenders = [queue for queue in self._lenders.in_order() if queue is not job.queue]
        # Queues that would be served last lose first.
        key = session.victim_queue_key
        ranks = {queue.name: (key(queue, job.queue), -position) for position, queue in enumerate(lenders)}
        requested: list[bool] = (pending_request(job) > 0).tolist()
        return VictimSearch(
            session,
            "reclaimable",
            job,
            lenders,
            group=self._groups.setdefault(tuple([queue.name for queue in lenders]), len(self._groups)),
            cost=lambda victims: _taken_from_within(session, job.queue, requested, victims),
            cost_basis=lambda: self._contention.between(job.queue),
            rank=lambda owner: ranks[owner.name],
            reason="Reclaimed",
            message=lambda task: reasons.reclaimed(task.key, job.queue.name),
        )


class _Contention:
    """Which resources a claimant's queue lacks, and which the others have borrowed. Asked for every task, so only
    queues that have changed are looked at again."""

    def __init__(self, session: Session, lenders: Sequence[Queue]) -> None:
        self._deserved = session.deserved
        self._changed = session.ledger.views.queues()
        self._changed.renew()
        self._row_of = {queue.name: row for row, queue in enumerate(lenders)}
        self._borrowed = np.zeros((len(lenders), len(session.total)), dtype=np.bool_)
        for queue in lenders:
            self._read(queue)

    def between(self, claimant: Queue) -> Hashable:
        own = self._deserved.get(claimant.name)
        if own is None:
            return None
        for queue in dict.fromkeys(self._changed.news()):
            self._read(queue)
        lacks = (own > claimant.allocated).tobytes()
        row = self._row_of.get(claimant.name)
        if row is None:
            return (lacks, self._borrowed.tobytes())
        return (lacks, self._borrowed[:row].tobytes(), self._borrowed[row + 1 :].tobytes())

    def _read(self, queue: Queue) -> None:
        row, deserved = self._row_of.get(queue.name), self._deserved.get(queue.name)
        if row is not None and deserved is not None:
            self._borrowed[row] = queue.allocated > deserved


def _taken_from_within(
    session: Session, claimant: Queue, requested: Sequence[bool], victims: Sequence[Task]
) -> Fraction | int:
    """How much of what their queues deserve these victims take with them, in shares of the cluster. Only contended
    resources count: requested by the claimant, whose queue lacks them, and borrowed by the victim's queue."""
    own = session.deserved.get(claimant.name)
    if own is None:
        return 0
    lost: dict[QueueName, tuple[Queue, list[int]]] = {}
    for task in victims:
        if task.job is not None:
            queue, request = task.job.queue, task.request.tolist()
            known = lost.get(queue.name)
            lost[queue.name] = (queue, request if known is None else list(map(add, known[1], request)))
    total: Fraction | int = 0
    for name, (queue, amounts) in lost.items():
        deserved = session.deserved.get(name)
        if deserved is None:
            continue
        for column, (gone, has, due) in enumerate(
            zip(amounts, queue.allocated.tolist(), deserved.tolist(), strict=True)
        ):
            if gone > has - due > 0 and due > 0 and requested[column]:
                whole = int(session.total[column])
                if whole > 0 and own[column] > claimant.allocated[column]:
                    total += Fraction(gone - (has - due), whole)
    return total
