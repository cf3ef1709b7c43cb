"""What is set aside for a job is kept in its queue's books, too.

Nodes alone do not start a job: its queue's own small jobs could use up what the queue may have while the nodes drain,
and it would wait on empty nodes. Or it would start beyond what the queue deserves and be reclaimed at once. So other
jobs of the queue may only take what leaves the job's request within the queue's hard limit and deserved amount. Nothing
of this is usage: it costs no share.

A holder whose nodes do not drain keeps nothing from others. Jobs of higher priority are not held back, nor are those
that come before the holder in the line: of two holders in a queue with room for one, one must be able to start.
"""

from __future__ import annotations

from dataclasses import replace

from stromboli.cluster import PODS, Job, JobKey, Status, Vector
from stromboli.scheduling.callbacks import Refusal
from stromboli.scheduling.explanation import Code
from stromboli.scheduling.session import Session

from .holders import is_stuck, rank


class QueueHolds:
    def __init__(self, session: Session) -> None:
        self._session = session
        self._epoch = -1
        self._by_queue: dict[str, list[tuple[Job, Vector]]] = {}

    def refuse(self, job: Job, request: Vector, credit: Vector | None) -> Refusal | None:
        """Whether the job would take what its queue keeps for another."""
        kept = self.kept_from(job)
        if kept is None:
            return None
        session, queue = self._session, job.queue
        with_kept = -kept if credit is None else credit - kept
        refusal = session.allocatable(queue, request, credit=with_kept)
        if refusal is None:
            refusal = self._beyond_deserved(job, request, with_kept)
        if refusal is None:
            return None
        column = session.axis.index.get(refusal.resource)
        if column is None:
            return refusal
        return replace(refusal, have=refusal.have - int(kept[column]), kept=int(kept[column]))

    def kept_from(self, job: Job) -> Vector | None:
        """What other jobs of the queue are kept room for that go before this one; None if nothing."""
        if not self._session.ledger.reserved_tasks:
            return None
        self._read()
        entries = self._by_queue.get(job.queue.name)
        if entries is None:
            return None
        mine = rank(self._session, job) if job.counts[Status.RESERVED] else None
        total: Vector | None = None
        for holder, amount in entries:
            goes_first = rank(self._session, holder) < mine if mine is not None else holder.priority >= job.priority
            if holder is not job and goes_first:
                total = amount if total is None else total + amount
        return total

    def _read(self) -> None:
        ledger = self._session.ledger
        if self._epoch == ledger.reserved_epoch:
            return
        self._epoch = ledger.reserved_epoch
        amounts: dict[JobKey, Vector] = {}
        jobs: dict[JobKey, Job] = {}
        for task in ledger.reserved_tasks.values():
            # What lands on a node of the queue's own takes nothing from others in its books.
            on_own = task.node is not None and task.node.lock is not None
            if task.job is not None and not on_own:
                jobs[task.job.key] = task.job
                known = amounts.get(task.job.key)
                amounts[task.job.key] = task.request if known is None else known + task.request
        self._by_queue = {}
        for key, job in sorted(jobs.items()):
            if not is_stuck(self._session, job):
                self._by_queue.setdefault(job.queue.name, []).append((job, amounts[key]))

    def _beyond_deserved(self, job: Job, request: Vector, credit: Vector) -> Refusal | None:
        """For plugins whose limits are beyond what a queue deserves."""
        queue = job.queue
        deserved = self._session.deserved.get(queue.name)
        if deserved is None:
            return None
        held = queue.allocated - credit
        for name, column in self._session.axis.by_name():
            most, total = int(deserved[column]), int(self._session.total[column])
            over = int(held[column] + request[column]) > most
            # A queue that deserves all there is holds nobody back: nodes do.
            if column != PODS and request[column] > 0 and 0 < most < total and credit[column] < 0 and over:
                return Refusal(
                    Code.QUEUE_OVER_DESERVED, resource=name, need=int(request[column]), have=int(held[column]),
                    total=most, subject=queue.name,
                )  # fmt: skip
        return None
