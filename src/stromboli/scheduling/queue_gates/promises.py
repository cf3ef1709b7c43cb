"""What queues have promised to pods whose gates were removed, until these have a node.

A promise keeps others of its queue, and of queues with the same ancestors, from the room below their hard limits. It
does not keep jobs of higher priority from it, nor its own job. What a queue deserves beyond that is not promised: it
changes with what other queues request.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from stromboli.cluster import WAITING, Job, JobKey, QueueName, Task, Vector
from stromboli.cluster.resources import add_to
from stromboli.scheduling.callbacks import Refusal
from stromboli.scheduling.session import Session


@dataclass(slots=True)
class _Promised:
    """In one queue."""

    by_priority: dict[int, Vector] = field(default_factory=dict)
    by_job: dict[JobKey, Vector] = field(default_factory=dict)


class GatePromises:
    def __init__(self, session: Session) -> None:
        self._session = session
        self._moved = session.ledger.views.tasks()
        self._moved.renew()
        self._tasks: dict[QueueName, list[Task]] = {}  # those whose gate was removed, or will be
        self._sums: dict[QueueName, _Promised] = {}
        for task in session.ledger.queue_gated.values():
            if not task.gated or task.ungated:
                self._list(task)

    def add(self, task: Task) -> None:
        """Its gate is removed."""
        task.ungated = True
        self._list(task)

    def kept_from(self, job: Job) -> dict[QueueName, Vector]:
        """By queue, what is promised to pods that do not have to give way to this job."""
        self._catch_up()
        kept: dict[QueueName, Vector] = {}
        for queue, promised in self._sums.items():
            for priority, amount in promised.by_priority.items():
                if priority >= job.priority:
                    add_to(kept, queue, amount)
        own = self.own(job)
        if own is not None:
            rest = kept[job.queue.name] - own
            kept[job.queue.name] = rest
            if not rest.any():
                del kept[job.queue.name]
        return kept

    def own(self, job: Job) -> Vector | None:
        """What is promised to the pods of this job."""
        self._catch_up()
        promised = self._sums.get(job.queue.name)
        return None if promised is None else promised.by_job.get(job.key)

    def promised_in(self, queue: QueueName) -> Vector:
        """To all pods."""
        self._catch_up()
        promised = self._sums.get(queue)
        amounts = promised.by_priority.values() if promised is not None else ()
        return sum(amounts, start=self._session.axis.zeros())

    def refuse(self, job: Job, request: Vector, credit: Vector | None) -> Refusal | None:
        """Whether the job would take what its queue, or one above it, has promised."""
        kept = self.kept_from(job)
        if not kept:
            return None
        session, queue = self._session, job.queue
        in_queue = kept.get(queue.name)
        if len(kept) > (in_queue is not None):
            refusal = session.within_shared_limits(queue, request, credit, kept)
            if refusal is not None:
                return refusal
        if in_queue is None:
            return None
        refusal = session.allocatable(
            queue, request, credit=-in_queue if credit is None else credit - in_queue, lending=True
        )
        column = None if refusal is None else session.axis.index.get(refusal.resource)
        if refusal is None or column is None:
            return refusal
        return replace(refusal, have=refusal.have - int(in_queue[column]), kept=int(in_queue[column]))

    def _list(self, task: Task) -> None:
        if task.job is not None and task.job.object is not None and not task.put_aside:
            queue = task.job.queue.name
            self._tasks.setdefault(queue, []).append(task)
            self._count(queue)

    def _catch_up(self) -> None:
        """Those that were placed, or lost their place again, since the last look."""
        gated = self._session.ledger.queue_gated
        for queue in dict.fromkeys(
            task.job.queue.name for task in self._moved.news() if task.key in gated and task.job is not None
        ):
            if queue in self._tasks:
                self._count(queue)

    def _count(self, queue: QueueName) -> None:
        promised = _Promised()
        for task in self._tasks[queue]:
            if task.status in WAITING and task.job is not None:
                add_to(promised.by_priority, task.job.priority, task.request)
                add_to(promised.by_job, task.job.key, task.request)
        if promised.by_job:
            self._sums[queue] = promised
        else:
            self._sums.pop(queue, None)
