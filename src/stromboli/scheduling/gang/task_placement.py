"""Places for tasks of one job, source by source.

Tasks that are alike are placed by one kernel call. What does not fit into idle room may be promised room that is being
released. Which tasks, and where they may go, is up to the caller (`gang`, `close_gang`).
"""

from __future__ import annotations

from collections import deque
from itertools import islice, takewhile

from stromboli.cluster import Job, Status, Task, TaskKey
from stromboli.scheduling.callbacks import Refusal
from stromboli.scheduling.placement import Fitting
from stromboli.scheduling.session import Session
from stromboli.scheduling.statement import Statement

from .kept_places import promised_first, with_choices
from .node_sources import place_on_nodes
from .nominated_tasks import promise_rooms

_CONDITIONAL = Status.CONDITIONAL
_RESERVED = Status.RESERVED


def place_on_open_nodes(
    session: Session,
    statement: Statement,
    job: Job,
    tasks: deque[Task],
    *,
    lending: bool = False,
    conditionally: bool = True,
    together: int = 0,
) -> None:
    """Place tasks from the front of `tasks` until the job becomes ready, or, if it is, one task; on all nodes, or on
    those of the domain that is looked at. `together`: so many from the front, whether the job is ready or not.

    Tasks taken off the deque were placed or failed; neither is tried again in this action. With `lending`, queues
    may go beyond what they deserve; `conditionally`, tasks may count on room that is lent to others.
    """
    attempt = _Attempt(session, statement, job, tasks, lending, conditionally)
    before = len(statement)
    if together:
        attempt.place_together(together)
        return
    while tasks:
        attempt.ready = session.job_ready(job)
        if attempt.ready and len(statement) > before:
            break
        if attempt.take_kept_places() or attempt.drop_if_alike_failed() or attempt.promise_rooms():
            continue
        if not attempt.place_next():
            break


class _Attempt:
    """One call of `place_gang`. Its sources of places, in order: those that are kept for single tasks; rooms that pods
    were evicted for; nodes of the queue's own; other nodes, as `node_sources` has them; and what is lent to others."""

    def __init__(
        self, session: Session, statement: Statement, job: Job, tasks: deque[Task], lending: bool, conditionally: bool
    ) -> None:
        self._session = session
        self._statement = statement
        self._job = job
        self._tasks = tasks
        self._lending = lending
        self._conditionally = conditionally
        self.ready = False  # whether the job can start with what it has
        self._together = 0  # how many from the front are placed all or none, if that is not up to the job
        self._note = session.notes.attempt(job)
        self._failed: set[tuple[str, object]] = set()
        self._failed_roles: set[str] = set()
        _narrow_first(session, job, tasks)
        ordered, self._kept = with_choices(session, tasks)
        if self._kept:
            set_order(tasks, ordered)

    def place_together(self, count: int) -> None:
        """So many from the front, or fewer if one of them has no place."""
        self.ready = self._session.job_ready(self._job)
        last = len(self._tasks) - count
        while (left := len(self._tasks) - last) > 0:
            self._together = left
            if not self.take_kept_places() and not self.promise_rooms() and not self.place_next():
                return

    @property
    def _missing(self) -> int:
        return self._together or (1 if self.ready else missing_tasks(self._job))

    def take_kept_places(self) -> bool:
        """Whether places are kept for tasks at the front. They took them, or the first one has to find another."""
        tasks, first = self._tasks, self._tasks[0]
        if first.key not in self._kept:
            return False
        front = list(islice(takewhile(lambda task: task.key in self._kept, tasks), self._missing))
        placed = self._session.take_kept_places(self._statement, front)
        self._drop(placed)
        if placed < len(front):
            still = self._session.with_kept_places(tasks)
            self._kept = frozenset([task.key for _, task in still if placed or task is not first])
        return True

    def drop_if_alike_failed(self) -> bool:
        if self._failed and self._kind(self._tasks[0]) in self._failed:
            self._drop(1)
            return True
        return False

    def promise_rooms(self) -> bool:
        """A promise makes no job ready, so as many as wait for leaving pods can be promised their rooms."""
        if self._job.counts[_CONDITIONAL]:
            return False
        promised = promise_rooms(self._session, self._statement, self._tasks, unless_idle=True)
        self._drop(promised)
        return promised > 0

    def place_next(self) -> bool:
        """Place tasks at the front that are alike; whether it is worth going on."""
        session, job, first = self._session, self._job, self._tasks[0]
        refusal = session.pre_filter(first)
        self._refuse(refusal)
        fitting = session.placement.fitting(first)
        if not self.ready and not self._together and _fits_with_lent_room(job):
            return False
        most = 1 if fitting.alone or _has_its_place(first) else self._missing
        group = alike(session, self._tasks, self._kept, most)
        placed = allowed = 0
        if refusal is None:
            placed = self._place_on_own_rows(fitting, group)
            allowed = placed + self._allowed(group[placed:])
            placed += place_on_nodes(session, self._statement, fitting, group[placed:allowed])
        if placed < len(group) and self._conditionally and not self.ready and not job.stands_for:
            placed += self._place_otherwise(group[placed:])
        self._drop(placed)
        if placed == len(group):
            return True
        return self._go_on_without(first, is_blocked=placed < allowed) and not self._together

    def _allowed(self, group: list[Task]) -> int:
        """How many of these the queue may have. It was asked about a nominated task when others were evicted for it,
        which counts as the queue's since."""
        if not group or group[0].nominated:
            return len(group)
        allowed, refusal = allowed_by_queue(self._session, self._job, group[0], len(group), self._lending)
        self._refuse(refusal)
        return allowed

    def _place_on_own_rows(self, fitting: Fitting, group: list[Task]) -> int:
        """Nodes that are the queue's own come before all others, and count as its already."""
        session, first = self._session, group[0]
        own = session.books.own_rows(first)
        if own is None or first.nominated:
            return 0
        if first.status is _RESERVED and (first.node is None or not own[first.node.row]):
            return 0
        count = len(group)
        while count and session.allocatable_on_own_rows(first, count) is not None:
            count -= 1
        return place_on_nodes(session, self._statement, fitting, group[:count], only=own)

    def _place_otherwise(self, group: list[Task]) -> int:
        """Places of another kind, if a feature has some for tasks that found no room. A job that runs already does not
        count on them: they are for those that cannot start without."""
        place = self._session.points.fallback_placement
        return sum(takewhile(bool, (place.any(self._statement, task) for task in group)))

    def _refuse(self, refusal: Refusal | None) -> None:
        if refusal is not None:
            self._session.notes.refuse(self._job, refusal)

    def _drop(self, count: int) -> None:
        for _ in range(count):
            self._tasks.popleft()

    def _kind(self, task: Task) -> tuple[str, object]:
        return (task.role, self._session.placement.key(task))

    def _go_on_without(self, task: Task, *, is_blocked: bool) -> bool:
        """After a task found no place: can the job still get something useful?"""
        job = self._job
        self._failed.add(self._kind(task))
        self._failed_roles.add(task.role)
        self._drop(1)
        if is_blocked and self._note.blocked is None:
            self._note.blocked = task
        if job.min_available == len(job.tasks):
            return False  # every single task is needed
        others = [other for other in self._tasks if self._kind(other) not in self._failed]
        if job.role_minimums and not job.roles_matter:
            return job.ready_count + len(others) >= job.min_available
        return all(
            job.role_occupied(role, with_pipelined=True) + sum(other.role == role for other in others)
            >= job.role_minimums.get(role, 0)
            for role in self._failed_roles
        )


def _fits_with_lent_room(job: Job) -> bool:
    """It fits if lent room is given back; more of it would not help anybody."""
    return bool(job.counts[_CONDITIONAL]) and _counted(job) >= job.min_available and not job.roles_matter


def set_order(tasks: deque[Task], ordered: list[Task]) -> None:
    tasks.clear()
    tasks.extend(ordered)


def _counted(job: Job) -> int:
    """The tasks that have a place of any kind."""
    return job.ready_count + job.pending_best_effort + job.waiting_count + job.counts[Status.CONDITIONAL]


def missing_tasks(job: Job) -> int:
    """How many more tasks the job needs, at least one."""
    return max(1, job.min_available - _counted(job))


def _narrow_first(session: Session, job: Job, tasks: deque[Task]) -> None:
    """Tasks that few nodes can run come first, if the gang does not run yet. Not before tasks that a role needs."""
    narrow_of = session.points.narrow
    if (
        not narrow_of
        or len(tasks) < 2
        or session.job_ready(job)
        or (job.roles_matter and missing_tasks(job) < len(tasks))
    ):
        return
    narrow = set(narrow_of.of(job, list(tasks)))
    if narrow:
        set_order(tasks, promised_first(sorted(tasks, key=lambda task: task.key not in narrow)))


def alike(session: Session, tasks: deque[Task], kept: frozenset[TaskKey], most: int) -> list[Task]:
    """Tasks at the front that are of the same kind, `most` at most. `kept`: those that have places of their own."""
    first = tasks[0]
    role, shape, group = first.role, first.shape, [first]
    for task in islice(tasks, 1, most):
        if task.role != role or task.nominated or task.status is _RESERVED or task.shape is not shape:
            break
        if kept and task.key in kept:
            break
        group.append(task)
    return session.placement.alike_at_front(group)


def _has_its_place(task: Task) -> bool:
    """A node was made free, or is being kept free, for this one task."""
    return task.nominated != "" or task.status is Status.RESERVED


def allowed_by_queue(session: Session, job: Job, task: Task, count: int, lending: bool) -> tuple[int, Refusal | None]:
    """How many of `count` equal tasks the queue may take, and what it says to the next one."""
    request = task.request
    if count > 1 and session.allocatable(job.queue, request * count, job=job, lending=lending) is None:
        return count, None
    for number in range(1, count + 1):
        refusal = session.allocatable(job.queue, request * number, job=job, lending=lending)
        if refusal is not None:
            return number - 1, refusal
    return count, None
