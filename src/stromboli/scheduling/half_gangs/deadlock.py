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
from stromboli.scheduling.eviction import fits_without
from stromboli.scheduling.explanation import gang_reasons, waiting_since
from stromboli.scheduling.explanation.display_names import display_name
from stromboli.scheduling.gang import FailedAttempts, conditionally_ready, is_eligible, is_half_gang
from stromboli.scheduling.session import Session
from stromboli.scheduling.statement import Statement

REASON = "GangDeadlock"
_ON_NODES = frozenset({Status.BINDING, Status.BOUND, Status.RUNNING})
_EVICTABLE = frozenset({Status.BOUND, Status.RUNNING})


def resolve_deadlock(session: Session, halves: Sequence[Job], timeout: float) -> None:
    """`halves`: gangs that lacked pods when the session began."""
    stuck = [job for job in halves if _is_stuck(session, job)]
    if len(stuck) < 2:
        return
    dues = [waiting_since(session, job) + timeout for job in stuck]
    if session.now <= min(dues):
        session.due(min(dues))
        return
    stuck.sort(key=lambda job: (-job.priority, _started(job), job.key))
    for leaves in reversed(stuck):
        others = [job for job in stuck if job is not leaves]
        if _makes_room(session, leaves, others, timeout):
            return


def _is_stuck(session: Session, job: Job) -> bool:
    """Whether it still lacks pods after all actions, and waits for nothing but room. Nodes that are reserved for it do
    not help while the pods of another such gang are there."""
    if not is_half_gang(job) or job.held or not is_eligible(session, job):
        return False
    return not session.job_pipelined(job) and not conditionally_ready(job)


def _started(job: Job) -> float:
    """When the first of its pods did, of those that are left."""
    times = [_start_of(task) for task in job.tasks.values() if task.status in _ON_NODES]
    return min(times, default=0.0)


def _start_of(task: Task) -> float:
    written = task.pod.status.start_time
    return task.created if written is None else parse_timestamp(written)


def _makes_room(session: Session, leaves: Job, others: Sequence[Job], timeout: float) -> bool:
    """Whether sending this gang away lets one of the others be completed. It is sent away if it has waited long
    enough; if not, nobody is, before it has."""
    failures = session.memory(FailedAttempts)
    if failures.repeat(session, REASON, leaves):
        return False
    members = [task for _, task in sorted(leaves.tasks.items()) if task.status in _ON_NODES]
    for other in others:
        if not _may_go(session, members, other) or _something_leaves(session, other):
            continue
        statement = session.statement()
        message = gang_reasons.sent_away(display_name(leaves), display_name(other))
        for task in members:
            statement.evict(task, reason=REASON, message=message)
        if _completes(session, statement, other):
            due = waiting_since(session, leaves) + timeout
            if session.now > due:
                statement.commit()
            else:
                statement.discard()
                session.due(due)
            return True
        statement.discard()
    failures.record(session, REASON, leaves)
    return False


def _may_go(session: Session, members: Sequence[Task], other: Job) -> bool:
    tasks = session.pending_tasks(other)
    return bool(tasks) and all(
        task.status in _EVICTABLE and not session.protected("reclaimable", tasks[0], task, whole=True)
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
