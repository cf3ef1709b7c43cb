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
from stromboli.scheduling.gang import alike, allowed_by_queue, missing_tasks
from stromboli.scheduling.session import Session

from .job_kinds import JobKinds


def lacks_places(
    session: Session, job: Job, tasks: deque[Task], *, lending: bool = False, keeps_some: bool = False
) -> bool:
    """Whether the job cannot start, because there are not enough places for the first of its tasks. Then it is noted
    like a failed attempt. `tasks`: all that may be placed; `keeps_some`: it keeps places that are not enough, also
    those of the fallback placement, so there must be none."""
    if not tasks or not _has_waited(job) or session.job_ready(job) or session.points.kept_place.calls:
        return False
    count = session.state(_Counts).of(job, tasks, lending=lending, keeps_some=keeps_some)
    return count.short > 0 and _is_short(session, job, tasks[0], count, lending=lending)


def _is_short(session: Session, job: Job, first: Task, count: _Count, *, lending: bool) -> bool:
    if count.may_fall_back and _has_fallback(session, first, job):
        return False
    if not count.is_allowed and allowed_by_queue(session, job, first, count.short, lending)[0] < count.short:
        return False
    session.notes.attempt(job).blocked = first
    return True


def could_start_anywhere(session: Session, job: Job) -> bool:
    """Whether the job might start if no node were kept for others: all that is idle may be enough. Nothing is noted."""
    tasks = [task for task in session.pending_tasks(job) if not task.best_effort]
    if not tasks or session.points.kept_place.calls or session.books.own_rows(tasks[0]) is not None:
        return True
    if not session.placement.all_alike(tasks):
        return True
    fitting = session.placement.fitting(tasks[0], without=session.placement.live_owners)
    return fitting.places_at_most(session.placement.room_of_all()) >= missing_tasks(job)


def _has_waited(job: Job) -> bool:
    if job.object is not None:
        for condition in job.object.status.conditions:
            if condition.type == UNSCHEDULABLE:
                return True
    return False


class _Count(NamedTuple):
    short: int  # so many tasks are alike and have too few places together; 0 if they may have enough
    may_fall_back: bool  # whether the fallback placement may have a place for some job of this kind
    is_allowed: bool  # the queue may take these tasks, of any job of this kind
    at: tuple[int, int]  # the lengths of the ledger's logs of rows and queues when this was counted


class _Counts:
    """Jobs of one kind have equally many places, until the ledger's logs of rows and queues grow or a reservation
    changes: every task that moves on a node is in the logs, and what is kept from a job follows from its kind. Too few
    places stay too few until some are freed."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._freed_at = (-1, -1)  # the number of times that room was freed, and of changes of reservations
        self._known: dict[tuple[Hashable, bool, bool], _Count] = {}  # by kind, `lending` and `keeps_some`

    def of(self, job: Job, tasks: deque[Task], *, lending: bool, keeps_some: bool) -> _Count:
        kind = self._session.state(JobKinds).of(job)
        if kind is None:
            return _count(self._session, job, tasks, lending=lending, keeps_some=keeps_some)
        known = self._find(kind, job, tasks[0], lending=lending, keeps_some=keeps_some)
        if known is None or (not known.short and known.at != _logs(self._session)):
            known = _count(self._session, job, tasks, lending=lending, keeps_some=keeps_some)
            self._known[kind, lending, keeps_some] = known
        return known

    def _find(self, kind: Hashable, job: Job, first: Task, *, lending: bool, keeps_some: bool) -> _Count | None:
        ledger = self._session.ledger
        freed = (ledger.freed, ledger.reserved_epoch)
        if self._freed_at != freed:
            self._freed_at = freed
            self._known.clear()
            return None
        known = self._known.get((kind, lending, keeps_some))
        if known is None or not known.short or known.at[1] == len(ledger.queue_log):
            return known
        is_allowed = _is_allowed(self._session, job, first, known.short, lending=lending)
        known = known._replace(is_allowed=is_allowed, at=_logs(self._session))
        self._known[kind, lending, keeps_some] = known
        return known


def _logs(session: Session) -> tuple[int, int]:
    return len(session.ledger.log), len(session.ledger.queue_log)


def _count(session: Session, job: Job, tasks: deque[Task], *, lending: bool, keeps_some: bool) -> _Count:
    first = tasks[0]
    enough = _Count(0, may_fall_back=False, is_allowed=False, at=_logs(session))
    if first.nominated or job.counts[Status.RESERVED]:
        return enough
    group = alike(session, tasks, frozenset(), missing_tasks(job))
    needed = _needed(session, job, tasks, group)
    if needed == 0 or session.pre_filter(first) is not None or session.books.own_rows(first) is not None:
        return enough
    if not _lacks(session, job, first, 1 if keeps_some else needed):
        return enough
    may_fall_back = keeps_some and _has_fallback(session, first, None)
    is_allowed = _is_allowed(session, job, first, len(group), lending=lending)
    return _Count(len(group), may_fall_back, is_allowed, at=enough.at)


def _is_allowed(session: Session, job: Job, first: Task, count: int, *, lending: bool) -> bool:
    """Whether the queue may take so many tasks like the first one, of any job of this kind."""
    return session.alike_in_queue(job) and allowed_by_queue(session, job, first, count, lending)[0] == count


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
    return bool(session.points.room) and fitting.places_at_most(placement.room_at_most(job)) < needed


def _has_fallback(session: Session, first: Task, job: Job | None) -> bool:
    """Whether the fallback placement may have a place for the first task of a job, or of any job (None)."""
    return session.points.fallback_possible.any(first, job)
