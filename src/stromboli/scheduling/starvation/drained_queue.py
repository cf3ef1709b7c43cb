"""Whether a queue's hard limits allow a job once all that may drain has drained."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from stromboli.cluster import Job, QueueName, Vector
from stromboli.cluster.queue_guarantees import queues_below
from stromboli.scheduling.callbacks import Refusal
from stromboli.scheduling.explanation import Code
from stromboli.scheduling.session import Session

from .drained_room import DrainedRoom
from .holders import WAITS


def over_quota(
    session: Session, job: Job, request: Vector, *, kept: Mapping[QueueName, Vector] | None = None
) -> Refusal | None:
    """`kept`: what else does not become free, by queue. Where the limit of an ancestor is in the way, what the other
    queues below it have drains, too."""
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
