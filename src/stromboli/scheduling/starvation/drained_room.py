"""What nodes and queues will have once all that may drain has drained.

A reserved node drains as its pods finish. What is left then is not the whole node: pods of services run on, and
Reservations keep what they hold. A job that does not fit beside those would wait on a reserved node for ever, so only
what remains without them can be set aside. Pods that the job may evict, because it ranks higher or because their queue
has more than it deserves, are not in its way.
"""

from __future__ import annotations

import numpy as np

from stromboli.cluster import OCCUPYING, PODS, Job, JobKey, Matrix, Queue, QueueName, Status, Task, Vector
from stromboli.scheduling.session import Session

_USES = OCCUPYING | {Status.PIPELINED}


class DrainedRoom:
    """Jobs of one queue and priority get the same answers, but for what they use themselves."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self.look_again()

    def look_again(self) -> None:
        """Pods of services may have been placed."""
        nodes = self._session.nodes.nodes
        self._endless = [t for node in nodes for t in node.tasks.values() if not t.ends and t.status in _USES]
        self._of_job: dict[JobKey, list[Task]] = {}
        for task in self._endless:
            if task.job is not None:
                self._of_job.setdefault(task.job.key, []).append(task)
        self._known: dict[tuple[QueueName, int], tuple[Matrix, dict[QueueName, Vector]]] = {}

    def of(self, job: Job) -> Matrix:
        """By row: what a job will find there, apart from what it uses itself and from what is set aside for others."""
        room, _ = self._left_for(job)
        own = [task for task in self._of_job.get(job.key, ()) if not self._may_evict(job, task)]
        kept = self._session.kept_room(job)
        if own or kept:
            room = room.copy()
            for task in own:
                if task.node is not None:
                    room[task.node.row] += task.request
            for row, amount in kept:
                room[row] += amount
        return room

    def stays_in_queue(self, job: Job) -> Vector:
        """What the job's queue will still have, in other jobs and for other pods."""
        mine = [task for task in self._of_job.get(job.key, ()) if task.node is not None]
        own = [-task.request for task in mine if not self._may_evict(job, task)]
        kept = [-amount for _, amount in self._session.kept_room(job, of_queue=True)]
        return sum([*own, *kept], start=self.stays_in(job, job.queue))

    def stays_in(self, job: Job, queue: Queue) -> Vector:
        """What a queue will still have when a job waits for it to drain."""
        _, stays = self._left_for(job)
        return stays.get(queue.name, self._session.axis.zeros())

    def stays_in_namespace(self, job: Job) -> Vector:
        """What the job's namespace will still have in its queue."""
        requests = (
            task.request
            for task in self._endless
            if task.job is not None and task.job.queue is job.queue and task.job.namespace == job.namespace
        )
        return sum(requests, start=self._session.axis.zeros())

    def _left_for(self, job: Job) -> tuple[Matrix, dict[QueueName, Vector]]:
        """By row: the room; by queue: what stays."""
        kind = (job.queue.name, job.priority)
        known = self._known.get(kind)
        if known is None:
            nodes = self._session.nodes
            room, stays = nodes.allocatable - nodes.held, self._held_by_queues()
            for task in self._endless:
                # Some were only promised a place when the list was made, and have given it back since.
                if task.node is not None and not self._may_evict(job, task):
                    room[task.node.row] -= task.request
                    if task.job is not None:
                        name = task.job.queue.name
                        stays[name] = stays[name] + task.request if name in stays else task.request
            known = self._known[kind] = (room, stays)
        return known

    def _held_by_queues(self) -> dict[QueueName, Vector]:
        """What Reservations hold, which does not drain."""
        held: dict[QueueName, Vector] = {}
        for one in self._session.ledger.holdings.values():
            if one.queue is not None:
                name = one.queue.name
                held[name] = held[name] + one.remainder if name in held else one.remainder
        return held

    def _may_evict(self, job: Job, task: Task) -> bool:
        """Whether preempt or reclaim could make a pod that does not end give way. They ask more than that, and they ask
        again when it comes to it."""
        session, other = self._session, task.job
        if other is None or not task.preemptable:
            return False
        if other.queue is job.queue:
            return other.priority < job.priority and session.has_action("preempt")
        deserved = session.deserved.get(other.queue.name)
        above = deserved is not None and bool(np.delete(other.queue.allocated > deserved, PODS).any())
        return above and other.queue.reclaimable and session.has_action("reclaim")
