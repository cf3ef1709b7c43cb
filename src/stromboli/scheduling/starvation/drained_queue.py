"""Whether a queue's hard limits allow a job once all that may drain has drained."""

from __future__ import annotations

import numpy as np

from stromboli.cluster import Job, Vector
from stromboli.scheduling.callbacks import Refusal
from stromboli.scheduling.explanation import Code
from stromboli.scheduling.session import Session

from .drained_room import DrainedRoom
from .holders import WAITS


def over_quota(session: Session, job: Job, request: Vector, *, kept: Vector | None = None) -> Refusal | None:
    """`kept`: what else does not become free in the queue."""
    drains = job.queue.allocated - job.allocated - session.state(DrainedRoom).stays_in_queue(job)
    credit = drains if kept is None else drains - kept
    refusal = session.allocatable(job.queue, request, credit=credit)
    return refusal if refusal is not None and refusal.code == Code.QUEUE_OVER_QUOTA else None


def over_quota_for_ever(session: Session, job: Job, request: Vector) -> Refusal | None:
    """The queue's own limit is too small. One of a queue above it may be in use by others that drain."""
    refusal = over_quota(session, job, request)
    return refusal if refusal is not None and refusal.subject == job.queue.name else None


def needed(job: Job) -> Vector:
    """What the job requests at least to start: its largest waiting tasks are counted last."""
    missing = job.min_available - job.ready_count
    requests = sorted(
        (task.request for task in job.tasks.values() if task.status in WAITS and not task.gated),
        key=lambda request: tuple(request.tolist()),
    )
    return np.asarray(sum(requests[: max(missing, 0)], start=np.zeros_like(job.allocated)))
