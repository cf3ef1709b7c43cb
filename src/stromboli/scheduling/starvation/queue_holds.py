"""Rule 9. What its queue keeps.

The queue's own small jobs could use up what the queue may have while the nodes drain, and the job would wait on empty
nodes. Or it would start beyond what the queue deserves and be reclaimed at once. Nothing of this is usage: it costs no
share. Of two holders in a queue with room for one, one must be able to start: those before it in line are not held
back.
"""

from __future__ import annotations

from dataclasses import replace

from stromboli.cluster import Job, JobKey, QueueName, Status, Vector
from stromboli.cluster.resources import add_to
from stromboli.scheduling.callbacks import Refusal
from stromboli.scheduling.explanation import Code
from stromboli.scheduling.gang import is_half_gang
from stromboli.scheduling.session import Session

from .holders import rank
from .reserved_node_filter import waits_for
from .turn_length import is_stuck


class QueueHolds:
    def __init__(self, session: Session) -> None:
        self._session = session
        self._reserved = session.ledger.views.reserved()
        self._holders: list[tuple[Job, Vector]] = []
        self._kept: dict[int, dict[QueueName, Vector]] = {}  # from jobs that hold nothing, by their priority

    def refuse(self, job: Job, request: Vector, credit: Vector | None) -> Refusal | None:
        """Whether the job would take what its queue, or one above it, keeps for another."""
        by_queue = self.kept_from(job)
        if not by_queue:
            return None
        session, queue = self._session, job.queue
        kept = by_queue.get(queue.name)
        if len(by_queue) > (kept is not None):
            refusal = session.within_shared_limits(queue, request, credit, by_queue)
            if refusal is not None:
                return refusal
        if kept is None:
            return None
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

    def kept_from(self, job: Job) -> dict[QueueName, Vector]:
        """What is kept for jobs that go before this one, by their queue."""
        if not self._session.ledger.reserved_tasks:
            return {}
        self._read()
        if job.counts[Status.RESERVED]:
            mine = rank(self._session, job)
            return _by_queue([h for h in self._holders if rank(self._session, h[0]) < mine])
        if is_half_gang(job):
            holders = [h for h in self._holders if h[0].priority >= job.priority]
            return _by_queue([h for h in holders if not waits_for(self._session, h[0], job)])
        known = self._kept.get(job.priority)
        if known is None:
            first = [holder for holder in self._holders if holder[0].priority >= job.priority]
            known = self._kept[job.priority] = _by_queue(first)
        return known

    def _read(self) -> None:
        ledger = self._session.ledger
        if not self._reserved.changed():
            return
        self._kept.clear()
        amounts: dict[JobKey, Vector] = {}
        jobs: dict[JobKey, Job] = {}
        for task in ledger.reserved_tasks.values():
            # What lands on a node of the queue's own takes nothing from others in its books.
            on_own = task.node is not None and task.node.lock is not None
            if task.job is not None and not on_own:
                jobs[task.job.key] = task.job
                add_to(amounts, task.job.key, task.request)
        self._holders = [(job, amounts[key]) for key, job in sorted(jobs.items()) if not is_stuck(self._session, job)]

    def _beyond_deserved(self, job: Job, request: Vector, credit: Vector) -> Refusal | None:
        """For plugins whose limits are beyond what a queue deserves."""
        queue = job.queue
        deserved = self._session.deserved.get(queue.name)
        if deserved is None:
            return None
        held = queue.allocated - credit
        for name, column in self._session.axis.shared():
            most, total = int(deserved[column]), int(self._session.divisible[column])
            over = int(held[column] + request[column]) > most
            # A queue that deserves all there is holds nobody back: nodes do.
            if request[column] > 0 and 0 < most < total and credit[column] < 0 and over:
                return Refusal(
                    Code.QUEUE_OVER_DESERVED, resource=name, need=int(request[column]), have=int(held[column]),
                    total=most, subject=queue.name,
                )  # fmt: skip
        return None


def _by_queue(holders: list[tuple[Job, Vector]]) -> dict[QueueName, Vector]:
    kept: dict[QueueName, Vector] = {}
    for holder, amount in holders:
        add_to(kept, holder.queue.name, amount)
    return kept
