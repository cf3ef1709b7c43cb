"""Rule 4. What drains.

What is left of a node then is not the whole node: pods of services run on, and Reservations keep what they hold. A job
that does not fit beside those would wait on a reserved node for ever, so only what remains without them can be set
aside.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from stromboli.cluster import OCCUPYING, PODS, Job, JobKey, Matrix, Queue, QueueName, Status, Task, Vector
from stromboli.cluster.queue_guarantees import queues_below
from stromboli.cluster.resources import add_to
from stromboli.scheduling.callbacks import Refusal
from stromboli.scheduling.explanation import Code
from stromboli.scheduling.session import Session

WAITS = frozenset({Status.PENDING, Status.RESERVED, Status.CONDITIONAL})
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
                        add_to(stays, task.job.queue.name, task.request)
            known = self._known[kind] = (room, stays)
        return known

    def _held_by_queues(self) -> dict[QueueName, Vector]:
        """What Reservations hold, which does not drain."""
        held: dict[QueueName, Vector] = {}
        for one in self._session.ledger.holdings.values():
            if one.queue is not None:
                add_to(held, one.queue.name, one.remainder)
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


def over_quota(
    session: Session, job: Job, request: Vector, *, kept: Mapping[QueueName, Vector] | None = None
) -> Refusal | None:
    """Whether a queue's hard limits refuse a job then. `kept`: what else does not become free, by queue. Where the
    limit of an ancestor is in the way, what the other queues below it have drains, too."""
    kept = kept or {}
    drained = session.state(DrainedRoom)
    counted: set[str] = {job.queue.name}
    credit = job.queue.allocated - job.allocated - drained.stays_in_queue(job)
    if job.queue.name in kept:
        credit = credit - kept[job.queue.name]
    while True:
        refusal = session.allocatable(job.queue, request, credit=credit)
        if refusal is None or refusal.code != Code.QUEUE_OVER_QUOTA:
            return None
        others = _queues_below(session, refusal.subject) - counted
        if not others:
            return refusal
        for name in sorted(others):
            queue = session.queues[QueueName(name)]
            credit = credit + queue.allocated - drained.stays_in(job, queue)
            if queue.name in kept:
                credit = credit - kept[queue.name]
        counted |= others


def _queues_below(session: Session, name: str) -> frozenset[str]:
    """The queue itself and all below it. Limits are tested from the leaf to the root, so those below were passed."""
    return queues_below({queue.name: queue.parent for queue in session.queues.values()}).get(name, frozenset())


def needed(job: Job) -> Vector:
    """What the job requests at least to start: its largest waiting tasks are counted last."""
    missing = job.min_available - job.ready_count
    requests = sorted(
        (task.request for task in job.tasks.values() if task.status in WAITS and not task.gated),
        key=lambda request: tuple(request.tolist()),
    )
    return np.asarray(sum(requests[: max(missing, 0)], start=np.zeros_like(job.allocated)))
