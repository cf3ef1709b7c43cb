"""What nodes have free and queues have allocated at the end of a cycle.

The ledger still has places that are only promised: gangs wait there for terminating pods or for lent resources. A user
who looks at the cluster sees none of that. So the amounts in sentences do without it, and it is named separately.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from stromboli.cluster import SHARED, Job, JobKey, Matrix, Queue, QueueName, Status, Task, Vector
from stromboli.cluster.resources import add_to
from stromboli.scheduling.callbacks import Refusal
from stromboli.scheduling.explanation.display_names import display_name
from stromboli.scheduling.framework import Framework


class FinalBooks:
    def __init__(self, session: Framework) -> None:
        self._session = session
        self.idle: Matrix = session.nodes.idle
        self._promised: dict[QueueName, Vector] = {}
        self._promised_to: dict[JobKey, tuple[Job, Vector]] = {}
        tentative = [task for _, task in sorted(session.ledger.tentative.items())]
        for task in tentative:
            if task.job is not None and _adds_to_queue(task, task.job.queue):
                add_to(self._promised, task.job.queue.name, task.request)
                job, before = self._promised_to.get(task.job.key, (task.job, 0))
                self._promised_to[job.key] = (job, before + task.request)
        taken = [t for t in tentative if t.status is Status.ALLOCATED and t.true_status is not Status.ALLOCATED]
        if taken:
            self.idle = session.nodes.idle.copy()
            for task in taken:
                if task.node is not None:
                    self.idle[task.node.row] += task.request

    def allocated(self, queue: Queue) -> Vector:
        promised = self._promised.get(queue.name)
        return queue.allocated if promised is None else queue.allocated - promised

    def own(self, job: Job) -> Vector:
        """What the pods of a job have that really have a node."""
        own = job.allocated.copy()
        for task in job.tasks.values():
            if task.status in SHARED and task.true_status not in SHARED:
                own -= task.request
        return np.asarray(own)

    def corrected(self, refusal: Refusal, job: Job) -> Refusal:
        """With what the queue really has. The rest of what counted is kept for others, or did not count."""
        column = self._session.axis.index.get(refusal.resource)
        if column is None or not refusal.subject:
            return refusal
        has = self._held_in(refusal.subject, job, column)
        if has is None:
            return refusal
        counted = refusal.have + refusal.kept
        beside = max(0, counted - has)
        promised = self._promised_in(refusal.subject, column)
        own = min(beside, promised.pop(job.key, 0))
        whose = [display_name(self._promised_to[other][0]) for other, amount in promised.items() if amount]
        if sum(promised.values()) != beside - own:
            whose = []  # something else is kept, too
        return replace(
            refusal, have=has, kept=beside - own, kept_own=own, kept_for=tuple(sorted(whose)),
            spared=max(0, has - counted),
        )  # fmt: skip

    def _held_in(self, name: str, job: Job, column: int) -> int | None:
        """What a queue has, together with the queues below it if it is an ancestor of the job's."""
        if name == job.queue.name:
            return int(self.allocated(job.queue)[column])
        queues = self._session.queues
        inside = {queue.name for queue in queues.values() if name in _with_ancestors(queue, queues)}
        return sum(int(self.allocated(queues[inner])[column]) for inner in sorted(inside)) if inside else None

    def _promised_in(self, name: str, column: int) -> dict[JobKey, int]:
        """What is promised in a queue and those below it, by job."""
        queues = self._session.queues
        return {
            key: int(amount[column])
            for key, (job, amount) in self._promised_to.items()
            if name in _with_ancestors(job.queue, queues)
        }


def _adds_to_queue(task: Task, queue: Queue) -> bool:
    """Whether a place that is only promised to the task counts in what its queue has. A node that is locked for the
    queue counts as a whole, so a place there has added nothing."""
    lock = None if task.node is None else task.node.lock
    own = lock is not None and lock.owner is queue
    return task.status in SHARED and task.true_status not in SHARED and not own


def _with_ancestors(queue: Queue, queues: Mapping[QueueName, Queue]) -> set[str]:
    found: set[str] = set()
    above: Queue | None = queue
    while above is not None and above.name not in found:
        found.add(above.name)
        above = queues.get(QueueName(above.parent))
    return found
