"""Count before placing: a gang that needs more places than there are is refused by one comparison.

Placing half a gang and taking it back costs many times more, and jobs that wait are tried in every cycle. What is
counted is never too low: filters that depend on neighbours are left out, and terminating pods count as gone. So a
refusal is certain. Whatever else may give tasks a place is left to the attempt itself.

Only jobs that waited in an earlier cycle are counted. Most others start, and there may be thousands of them.
"""

from __future__ import annotations

from collections import deque

from stromboli.cluster import Job, Status, Task
from stromboli.scheduling.explanation.conditions import UNSCHEDULABLE
from stromboli.scheduling.session import Session

from .gang_placement import alike, allowed_by_queue, missing_tasks


def lacks_places(
    session: Session, job: Job, tasks: deque[Task], *, lending: bool = False, keeps_some: bool = False
) -> bool:
    """Whether the job cannot start, because there are not enough places for the first of its tasks. Then it is noted
    like a failed attempt. `tasks`: all that may be placed; `keeps_some`: it keeps places that are not enough, also
    those of the fallback placement, so there must be none."""
    if not tasks or not _has_waited(job) or session.job_ready(job):
        return False
    first = tasks[0]
    if first.nominated or job.counts[Status.RESERVED] or session.hooks("keptPlace"):
        return False
    group = alike(session, tasks, frozenset(), missing_tasks(job))
    needed = _needed(session, job, tasks, group)
    if needed == 0 or session.pre_filter(first) is not None or session.books.own_rows(first) is not None:
        return False
    if not _lacks(session, job, first, 1 if keeps_some else needed) or (keeps_some and _has_fallback(session, first)):
        return False
    if allowed_by_queue(session, job, first, len(group), lending)[0] < len(group):
        return False
    session.notes.attempt(job).blocked = first
    return True


def _has_waited(job: Job) -> bool:
    return job.object is not None and any(known.type == UNSCHEDULABLE for known in job.object.status.conditions)


def _needed(session: Session, job: Job, tasks: deque[Task], group: list[Task]) -> int:
    """How many of the first tasks, which are alike, must have a place for the job to start; 0 if others may take their
    part."""
    if job.min_available == len(job.tasks):
        return len(group)
    if not job.roles_matter:
        return len(group) if len(alike(session, tasks, frozenset(), len(tasks))) == len(tasks) else 0
    role = group[0].role
    others = deque(task for task in tasks if task.role == role)
    if len(alike(session, others, frozenset(), len(others))) < len(others):
        return 0
    return max(0, job.role_minimums.get(role, 0) - job.role_occupied(role, with_pipelined=True))


def _lacks(session: Session, job: Job, first: Task, needed: int) -> bool:
    """Whether there are fewer places than that for tasks like the first one."""
    fitting, placement = session.placement.fitting(first), session.placement
    if fitting.places_at_most(placement.room_of_all()) < needed:
        return True
    return bool(session.hooks("room")) and fitting.places_at_most(placement.room_at_most(job)) < needed


def _has_fallback(session: Session, first: Task) -> bool:
    """Whether the fallback placement may have a place for the first task."""
    assert first.job is not None
    rooms = [hook.call(first.job) for hook in session.hooks("fallbackRoom")]
    fitting = session.placement.fitting(first)
    return any(room is not None and fitting.places_at_most(room) for room in rooms)
