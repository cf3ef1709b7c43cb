"""Which jobs hold reserved room, where, and who comes first among them."""

from __future__ import annotations

import numpy as np

from stromboli.cluster import Job, JobKey, Status, Vector
from stromboli.scheduling.explanation import waiting_since
from stromboli.scheduling.gang import reserved_tasks
from stromboli.scheduling.session import Session

FEATURE = "starvation"
"""The name under which the feature registers its callbacks."""

STARVING = "Starving"
"""The condition of a group that has waited too long: what is done about it."""


def holders(session: Session) -> dict[JobKey, Job]:
    """Jobs that room is set aside for, by key."""
    jobs = {task.job.key: task.job for task in session.ledger.reserved_tasks.values() if task.job is not None}
    return dict(sorted(jobs.items()))


def reserved_rows(session: Session) -> dict[int, set[JobKey]]:
    """Rows with reserved room, and the jobs it is for."""
    rows: dict[int, set[JobKey]] = {}
    for task in session.ledger.reserved_tasks.values():
        if task.node is not None and task.job is not None:
            rows.setdefault(task.node.row, set()).add(task.job.key)
    return rows


def rank(session: Session, job: Job) -> tuple[int, float, JobKey]:
    """Who may hold reservations first: by priority, then who waits longest."""
    return (-job.priority, waiting_since(session, job), job.key)


def release(session: Session, job: Job, why: str) -> None:
    statement = session.statement()
    for task in reserved_tasks(job):
        statement.release(task, why)
    statement.commit()


def above_deserved(session: Session, job: Job) -> bool:
    """Strictly more than the queue deserves, in something the job asks for."""
    deserved = session.deserved.get(job.queue.name)
    if deserved is None:
        return False
    asked = wanted(job) > 0
    return bool(((job.queue.allocated > deserved) & asked & (session.total > 0)).any())


def wanted(job: Job) -> Vector:
    """What the waiting tasks of a job ask for."""
    total = np.zeros_like(job.allocated)
    for task in job.tasks.values():
        if task.status in (Status.PENDING, Status.RESERVED, Status.CONDITIONAL):
            total += task.request
    return total
