"""Pods that fit a Reservation are placed before all others.

The resources are theirs already, so whether their queue has used up what it deserves, whose turn it is, and what a fifo
queue stops at does not matter. A gang whose members find too little this way is left to the ordered walk, where the
others get their places, and these theirs.
"""

from __future__ import annotations

from stromboli.cluster import Job, Status, Task
from stromboli.scheduling.gang import complete_with_best_effort, is_eligible
from stromboli.scheduling.session import Session

from .matches import Matches
from .room import ReservedRoom


def place_users(session: Session) -> None:
    if not session.hooks("keptPlace") or not session.state(Matches):
        return
    room = session.state(ReservedRoom)
    jobs = [job for job in session.jobs if job.counts[Status.PENDING] and _candidates(room, job)]
    for job in sorted(jobs, key=session.job_key):
        if is_eligible(session, job):
            _place(session, room, job)


def _candidates(room: ReservedRoom, job: Job) -> list[Task]:
    """Without those for which pods were evicted elsewhere: they keep what they were promised."""
    tasks = job.tasks.values()
    return [t for t in tasks if t.status is Status.PENDING and not t.gated and not t.nominated and room.count(t)]


def _place(session: Session, room: ReservedRoom, job: Job) -> None:
    statement = session.statement()
    tasks = sorted(_candidates(room, job), key=lambda task: (room.count(task), session.task_key(task)))
    for task in tasks:
        room.place(statement, task, False)
    if statement.operations and session.job_ready(job) and complete_with_best_effort(session, statement, job):
        statement.commit()
    else:
        statement.discard()
