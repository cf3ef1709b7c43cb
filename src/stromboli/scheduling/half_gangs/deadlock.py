"""Gangs that lack pods and hold what each other needs: one of them is sent away.

No action helps them. Each goes first in its namespace, but nothing becomes free: their own pods hold it, also in other
queues, and wait. So at the end of a cycle, when nobody could help them and nothing is leaving that they could use, the
gangs are looked at together. One whose pods make room for another to be completed is evicted as a whole, once it has
waited for `gangDeadlockTimeout`: the one of the lowest priority, then the one that started last. What it leaves is
promised to the other in the same statement. Plugins that protect pods are asked about each of them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from stromboli.api.timestamps import parse_timestamp
from stromboli.cluster import Job, Status, Task
from stromboli.scheduling.attempt import FailedAttempts
from stromboli.scheduling.eviction import fits_without
from stromboli.scheduling.explanation import gang_reasons, waiting_since
from stromboli.scheduling.explanation.display_names import display_name
from stromboli.scheduling.gang import conditionally_ready, is_eligible, is_half_gang
from stromboli.scheduling.session import Session
from stromboli.scheduling.statement import Statement

REASON = "GangDeadlock"
ON_NODES = frozenset({Status.BINDING, Status.BOUND, Status.RUNNING})
EVICTABLE = frozenset({Status.BOUND, Status.RUNNING})


def resolve_deadlock(session: Session, halves: Sequence[Job], timeout: float) -> None:
    """`halves`: gangs that lacked pods when the session began."""
    stuck = _stuck(session, halves)
    if len(stuck) < 2:
        return
    dues = [waiting_since(session, job) + timeout for job in stuck]
    if session.now <= min(dues):
        session.due(min(dues))
        return
    found = _way_out(session, stuck)
    if found is None:
        return
    leaves, _, statement = found
    due = waiting_since(session, leaves) + timeout
    if session.now > due:
        statement.commit()
    else:
        statement.discard()
        session.due(due)


def foreseen_deadlock(session: Session, job: Job) -> tuple[Job, Job] | None:
    """At the end of a cycle: the gang that will be sent away, and the one that is completed then, if this job is one
    of them."""
    if not is_half_gang(job):
        return None
    found = _way_out(session, _stuck(session, [one for one in session.waiting if is_half_gang(one)]))
    if found is None:
        return None
    leaves, completed, statement = found
    statement.discard()
    return (leaves, completed) if job is leaves or job is completed else None


def _stuck(session: Session, halves: Sequence[Job]) -> list[Job]:
    """Who is sent away last comes first: the highest priority, then the one that started first."""
    stuck = [job for job in halves if is_stuck(session, job)]
    return sorted(stuck, key=lambda job: (-job.priority, _started(job), job.key))


def _way_out(session: Session, stuck: Sequence[Job]) -> tuple[Job, Job, Statement] | None:
    """Who is sent away, who is completed then, and the statement that does it, neither committed nor discarded."""
    for leaves in reversed(stuck):
        found = _makes_room(session, leaves, [job for job in stuck if job is not leaves])
        if found is not None:
            return leaves, *found
    return None


def is_stuck(session: Session, job: Job) -> bool:
    """Whether it still lacks pods after all actions, and waits for nothing but room. Nodes that are reserved for it do
    not help while the pods of another such gang are there."""
    if not is_half_gang(job) or job.held or not is_eligible(session, job):
        return False
    return not session.job_pipelined(job) and not conditionally_ready(job)


def _started(job: Job) -> float:
    """When the first of its pods did, of those that are left."""
    times = [_start_of(task) for task in job.tasks.values() if task.status in ON_NODES]
    return min(times, default=0.0)


def _start_of(task: Task) -> float:
    written = task.pod.status.start_time
    return task.created if written is None else parse_timestamp(written)


def _makes_room(session: Session, leaves: Job, others: Sequence[Job]) -> tuple[Job, Statement] | None:
    """Which of the others can be completed if this gang is sent away, and the statement that does it."""
    return session.state(FailedAttempts).once(REASON, leaves, lambda: _room_of(session, leaves, others))


def _room_of(session: Session, leaves: Job, others: Sequence[Job]) -> tuple[Job, Statement] | None:
    members = [task for _, task in sorted(leaves.tasks.items()) if task.status in ON_NODES]
    for other in others:
        if not _may_go(session, members, other) or _something_leaves(session, other):
            continue
        statement = session.statement()
        message = gang_reasons.sent_away(display_name(leaves), display_name(other))
        for task in members:
            statement.evict(task, reason=REASON, message=message)
        if _completes(session, statement, other):
            return other, statement
        statement.discard()
    return None


def _may_go(session: Session, members: Sequence[Task], other: Job) -> bool:
    tasks = session.pending_tasks(other)
    return bool(tasks) and all(
        task.status in EVICTABLE and not session.protected("reclaimable", tasks[0], task, whole=True)
        for task in members
    )


def _something_leaves(session: Session, job: Job) -> bool:
    """Whether pods are leaving nodes that the job could use: perhaps that is enough."""
    rows = np.flatnonzero(session.nodes.releasing.any(axis=1))
    if not len(rows):
        return False
    return any(session.placement.fitting(task, ahead=True).mask[rows].any() for task in session.pending_tasks(job))


def _completes(session: Session, statement: Statement, job: Job) -> bool:
    for task in session.pending_tasks(job):
        if session.job_pipelined(job):
            break
        if not fits_without(session, statement, task, lending=True):
            return False
    return session.job_pipelined(job)
