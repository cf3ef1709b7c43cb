"""Count before placing: a gang that needs more places than there are is refused by one comparison.

Placing half a gang and taking it back costs many times more, and jobs that wait are tried in every cycle. What is
counted is never too low: filters that depend on neighbours are left out, and terminating pods count as gone. So a
refusal is certain. Whatever else may give tasks a place is left to the attempt itself.

Only jobs that waited in an earlier cycle are counted. Most others start, and there may be thousands of them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable
from typing import NamedTuple

from stromboli.cluster import Job, Status, Task
from stromboli.scheduling.explanation.conditions import UNSCHEDULABLE
from stromboli.scheduling.session import Session

from .gang_placement import alike, allowed_by_queue, missing_tasks
from .job_kinds import JobKinds


def lacks_places(
    session: Session, job: Job, tasks: deque[Task], *, lending: bool = False, keeps_some: bool = False
) -> bool:
    """Whether the job cannot start, because there are not enough places for the first of its tasks. Then it is noted
    like a failed attempt. `tasks`: all that may be placed; `keeps_some`: it keeps places that are not enough, also
    those of the fallback placement, so there must be none."""
    if not tasks or not _has_waited(job) or session.job_ready(job):
        return False
    if session.hooks("keptPlace"):
        return False
    first, count = tasks[0], session.state(_Counts).of(job, tasks, lending=lending, keeps_some=keeps_some)
    if count.short == 0 or (count.may_fall_back and _has_fallback(session, first, job)):
        return False
    if not count.is_allowed and allowed_by_queue(session, job, first, count.short, lending)[0] < count.short:
        return False
    session.notes.attempt(job).blocked = first
    return True


def lacks_places_everywhere(session: Session, job: Job) -> bool:
    """Whether the job could not start even if no node were kept for others: all that is idle is not enough. Nothing is
    noted."""
    tasks = [task for task in session.pending_tasks(job) if not task.best_effort]
    if not tasks or session.hooks("keptPlace") or session.books.own_rows(tasks[0]) is not None:
        return False
    if not session.placement.all_alike(tasks):
        return False
    fitting = session.placement.fitting(tasks[0], without=session.placement.live_owners)
    return fitting.places_at_most(session.placement.room_of_all()) < missing_tasks(job)


def _has_waited(job: Job) -> bool:
    return job.object is not None and any(known.type == UNSCHEDULABLE for known in job.object.status.conditions)


class _Count(NamedTuple):
    short: int  # so many tasks are alike and have too few places together; 0 if they may have enough
    may_fall_back: bool  # whether the fallback placement may have a place for some job of this kind
    is_allowed: bool  # the queue may take these tasks, of any job of this kind


_ENOUGH = _Count(0, may_fall_back=False, is_allowed=False)


class _Counts:
    """Jobs of one kind have equally many places, until the ledger's logs of rows and queues grow or a reservation
    changes: every task that moves on a node is in the logs, and what is kept from a job follows from its kind."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._counted_at = (-1, -1, -1)  # the lengths of the logs, and the number of changes of reservations
        self._known: dict[tuple[Hashable, bool, bool], _Count] = {}  # by kind, `lending` and `keeps_some`

    def of(self, job: Job, tasks: deque[Task], *, lending: bool, keeps_some: bool) -> _Count:
        kind = self._session.state(JobKinds).of(job)
        if kind is None:
            return _count(self._session, job, tasks, lending=lending, keeps_some=keeps_some)
        ledger = self._session.ledger
        state = (len(ledger.log), len(ledger.queue_log), ledger.reserved_epoch)
        if self._counted_at != state:
            self._counted_at = state
            self._known.clear()
        known = self._known.get((kind, lending, keeps_some))
        if known is None:
            known = _count(self._session, job, tasks, lending=lending, keeps_some=keeps_some)
            self._known[kind, lending, keeps_some] = known
        return known


def _count(session: Session, job: Job, tasks: deque[Task], *, lending: bool, keeps_some: bool) -> _Count:
    first = tasks[0]
    if first.nominated or job.counts[Status.RESERVED]:
        return _ENOUGH
    group = alike(session, tasks, frozenset(), missing_tasks(job))
    needed = _needed(session, job, tasks, group)
    if needed == 0 or session.pre_filter(first) is not None or session.books.own_rows(first) is not None:
        return _ENOUGH
    if not _lacks(session, job, first, 1 if keeps_some else needed):
        return _ENOUGH
    may_fall_back = keeps_some and _has_fallback(session, first, None)
    is_allowed = session.alike_in_queue(job) and (
        allowed_by_queue(session, job, first, len(group), lending)[0] == len(group)
    )
    return _Count(len(group), may_fall_back, is_allowed)


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


def _has_fallback(session: Session, first: Task, job: Job | None) -> bool:
    """Whether the fallback placement may have a place for the first task of a job, or of any job (None)."""
    rooms = [hook.call(job) for hook in session.hooks("fallbackRoom")]
    fitting = session.placement.fitting(first)
    return any(room is not None and fitting.places_at_most(room) for room in rooms)
