"""Placing a gang, all or nothing.

`place_gang` places tasks of one job up to the point where the job can start. A job that is not ready gets tasks until
it is; one that is ready gets one more, so that jobs share what is left turn by turn. Tasks that are alike are placed by
one kernel call. What does not fit into idle room may be promised room that is being released.

`start_gang` commits that if the job can start, and discards it otherwise. Only the allocate action also keeps what was
placed for a job that waits for terminating pods.
"""

from __future__ import annotations

from collections import deque
from itertools import islice, takewhile

import numpy as np

from stromboli.cluster import Job, Matrix, Status, Task, TaskKey
from stromboli.scheduling.callbacks import Refusal
from stromboli.scheduling.operations.set_aside import give_up
from stromboli.scheduling.placement import Fitting
from stromboli.scheduling.queue_books import RowMask
from stromboli.scheduling.session import Session
from stromboli.scheduling.statement import Statement

from .best_effort import complete_with_best_effort
from .kept_places import largest_first, promised_first, with_choices
from .nominated_tasks import promise_rooms
from .readiness import reserved_tasks

_CONDITIONAL = Status.CONDITIONAL
_RESERVED = Status.RESERVED


def start_gang(session: Session, statement: Statement, job: Job, tasks: deque[Task]) -> bool:
    """All or nothing: whether the job could be placed as far as it can start."""
    place_gang(session, statement, job, tasks)
    if session.job_ready(job) and complete_with_best_effort(session, statement, job):
        statement.commit()
        return True
    statement.discard()
    return False


def place_afresh(session: Session, job: Job, tasks: deque[Task], *, lending: bool) -> Statement:
    """`place_gang` in a statement of its own. A gang whose pods differ in size may find no places in its own order,
    because a small pod takes the room that only a large one needs: then the large ones choose first."""
    in_order, statement = list(tasks), session.statement()
    needs_all = len(in_order) > 1 and not session.job_ready(job) and missing_tasks(job) >= len(in_order)
    place_gang(session, statement, job, tasks, lending=lending)
    if not needs_all or _has_some_place(session, job):
        return statement
    by_size = largest_first(session, in_order)
    if by_size == in_order:
        return statement
    for order in (by_size, in_order):  # if that fails, too, everything is as it was
        statement.discard()
        statement = session.statement()
        tasks.clear()
        tasks.extend(order)
        place_gang(session, statement, job, tasks, lending=lending)
        if session.job_ready(job):
            break
    return statement


def _has_some_place(session: Session, job: Job) -> bool:
    """Whether the job can start, or waits for what it was promised."""
    return session.job_ready(job) or session.job_pipelined(job) or bool(job.counts[_CONDITIONAL])


def place_gang(
    session: Session,
    statement: Statement,
    job: Job,
    tasks: deque[Task],
    *,
    lending: bool = False,
    conditionally: bool = True,
) -> None:
    """Place tasks from the front of `tasks` until the job becomes ready, or, if it is, one task.

    Tasks taken off the deque were placed or failed; neither is tried again in this action. With `lending`, queues
    may go beyond what they deserve; `conditionally`, tasks may count on room that is lent to others.
    """
    note = session.notes.attempt(job)
    failed: set[tuple[str, object]] = set()
    failed_roles: set[str] = set()
    before = len(statement)
    _narrow_first(session, job, tasks)
    ordered, kept = with_choices(session, tasks)
    if kept:
        tasks.clear()
        tasks.extend(ordered)
    while tasks:
        ready = session.job_ready(job)
        if ready and len(statement) > before:
            break
        first = tasks[0]
        if first.key in kept:
            front = _at_the_front(tasks, kept, 1 if ready else missing_tasks(job))
            placed = session.take_kept_places(statement, front)
            for _ in range(placed):
                tasks.popleft()
            if placed < len(front):
                kept = frozenset([t.key for _, t in session.with_kept_places(tasks) if placed or t is not first])
            if placed:
                continue
        kind = (first.role, session.placement.key(first))
        if kind in failed:
            tasks.popleft()
            continue
        # A promise makes no job ready, so as many as wait for leaving pods can be promised their rooms.
        if first.nominated and not job.counts[_CONDITIONAL]:
            promised = promise_rooms(session, statement, tasks, unless_idle=True)
            if promised:
                for _ in range(promised):
                    tasks.popleft()
                continue
        refusal = session.pre_filter(first)
        if refusal is not None:
            session.notes.refuse(job, refusal)
        fitting = session.placement.fitting(first)
        missing = 1 if ready else missing_tasks(job)
        counted = _counted(job)
        if not ready and job.counts[Status.CONDITIONAL] and counted >= job.min_available and not job.roles_matter:
            break  # it fits if lent room is given back; more of it would not help anybody
        group = alike(session, tasks, kept, 1 if fitting.alone or _has_its_place(first) else missing)
        placed = _place_on_own_rows(session, statement, fitting, group) if refusal is None else 0
        rest = group[placed:]
        # The queue was asked about a nominated task when others were evicted for it. It counts as the queue's since.
        allowed = 1 if refusal is None and first.nominated else 0
        if refusal is None and rest and not first.nominated:
            allowed, refusal = allowed_by_queue(session, job, first, len(rest), lending)
            if refusal is not None:
                session.notes.refuse(job, refusal)
        allowed += placed
        placed += _place(session, statement, fitting, rest[: allowed - placed]) if allowed > placed else 0
        # A job that runs already does not count on lent room: it is taken back for those that cannot start without.
        counts_on_lent = conditionally and not ready and not job.stands_for
        while counts_on_lent and placed < len(group) and _place_otherwise(session, statement, group[placed]):
            placed += 1
        for _ in range(placed):
            tasks.popleft()
        if placed < len(group):
            tasks.popleft()
            failed.add(kind)
            failed_roles.add(first.role)
            if placed < allowed and note.blocked is None:
                note.blocked = first
            if not _worth_going_on(job, tasks, failed, failed_roles, session):
                break


def _counted(job: Job) -> int:
    """The tasks that have a place of any kind."""
    return job.ready_count + job.pending_best_effort + job.waiting_count + job.counts[Status.CONDITIONAL]


def missing_tasks(job: Job) -> int:
    """How many more tasks the job needs, at least one."""
    return max(1, job.min_available - _counted(job))


def _at_the_front(tasks: deque[Task], among: frozenset[TaskKey], most: int) -> list[Task]:
    """The first tasks, as long as they are some of these."""
    return list(islice(takewhile(lambda task: task.key in among, tasks), most))


def _narrow_first(session: Session, job: Job, tasks: deque[Task]) -> None:
    """Tasks that few nodes can run come first, if the gang does not run yet. Not before tasks that a role needs."""
    hooks = session.hooks("narrow")
    if not hooks or len(tasks) < 2 or session.job_ready(job) or (job.roles_matter and missing_tasks(job) < len(tasks)):
        return
    narrow = {key for hook in hooks for key in hook.call(job, list(tasks))}
    if narrow:
        ordered = promised_first(sorted(tasks, key=lambda task: task.key not in narrow))
        tasks.clear()
        tasks.extend(ordered)


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


def _place_on_own_rows(session: Session, statement: Statement, fitting: Fitting, group: list[Task]) -> int:
    """Nodes that are the queue's own come before all others, and count as its already; the number of tasks that found
    a place there."""
    first = group[0]
    own = session.books.own_rows(first)
    if own is None or first.nominated:
        return 0
    if first.status is Status.RESERVED and (first.node is None or not own[first.node.row]):
        return 0
    count = len(group)
    while count and session.allocatable_on_own_rows(first, count) is not None:
        count -= 1
    return _place(session, statement, fitting, group[:count], only=own) if count else 0


def _place(
    session: Session, statement: Statement, fitting: Fitting, group: list[Task], *, only: RowMask | None = None
) -> int:
    """Idle room first, then room that is being released; the number of tasks that found a place. `only`: the nodes in
    question, if not all."""
    first = group[0]
    if first.nominated and _place_on_nominated(session, statement, fitting, first):
        return 1
    if first.status is Status.RESERVED and _place_on_reserved(session, statement, fitting, first):
        return 1
    if fitting.known_to_fail:
        return 0
    nodes, startable = session.nodes, session.startable(first, len(group))
    room = _only(session.placement.room_now(first.job), only)
    rows = fitting.choose(first, startable, room) if startable else []
    placed = statement.allocate_many(group[: len(rows)], [nodes.nodes[row] for row in rows]) if rows else 0
    _use_up(statement, first.job, rows[:placed])
    if placed < len(rows) or placed == len(group):
        return placed
    future = session.placement.room_later(first.job)
    if future is not None and not first.stands_for:  # a Reservation takes idle room only
        later = session.placement.fitting(first, ahead=True)
        if startable < len(group):  # nobody else has to leave free room to them
            future = _only(future, np.asarray(nodes.releasing.any(axis=1)))
        chosen = later.choose(first, len(group) - placed, _only(future, only))
        for task, row in zip(group[placed:], chosen, strict=False):
            if not statement.pipeline(task, nodes.nodes[row]):
                return placed
            placed += 1
    if placed < len(group) and startable < len(group) and first.job is not None:
        refusal = session.may_start(first.job.queue, first.request * (len(group) - placed))
        if refusal is not None:
            session.notes.refuse(first.job, refusal)
    elif placed < len(group) and only is None:
        fitting.mark_failed()
    return placed


def _only(room: Matrix, rows: RowMask | None) -> Matrix:
    """No room but on these nodes."""
    return room if rows is None else np.where(rows[:, None], room, -1)


def _place_otherwise(session: Session, statement: Statement, task: Task) -> bool:
    """A place of another kind, if a feature has one for a task that found no room."""
    return any(hook.call(statement, task) for hook in session.hooks("fallbackPlacement"))


def _place_on_nominated(session: Session, statement: Statement, fitting: Fitting, task: Task) -> bool:
    """A node was made free for this task: it goes there if it still can."""
    node = session.nodes.by_name.get(task.nominated)
    if node is None:
        return False
    if fitting.takes(node.row, session.placement.room_now_on(node.row)) and session.startable(task):
        return statement.allocate(task, node)
    later = session.placement.fitting(task, ahead=True)
    if later.takes_later(node.row):
        return statement.pipeline(task, node)
    return False


def _place_on_reserved(session: Session, statement: Statement, fitting: Fitting, task: Task) -> bool:
    """Room was set aside for this task: it goes there as soon as it can."""
    node = task.node
    if node is None or not fitting.takes(node.row, session.placement.room_now_on(node.row)):
        return False
    return bool(session.startable(task)) and statement.allocate(task, node)


def _use_up(statement: Statement, job: Job | None, rows: list[int]) -> None:
    """A task that took the place set aside for a sibling has used up the sibling's reservation."""
    if job is not None and job.counts[Status.RESERVED]:
        for row in rows:
            for sibling in reserved_tasks(job):
                if sibling.node is not None and sibling.node.row == row:
                    give_up(statement, sibling, "a pod of the same job takes the place")
                    break


def _worth_going_on(
    job: Job, tasks: deque[Task], failed: set[tuple[str, object]], failed_roles: set[str], session: Session
) -> bool:
    """After a task found no place: can the job still get something useful?"""
    if job.min_available == len(job.tasks):
        return False  # every single task is needed
    others = [task for task in tasks if (task.role, session.placement.key(task)) not in failed]
    if job.role_minimums and not job.roles_matter:
        return job.ready_count + len(others) >= job.min_available
    return all(
        job.role_occupied(role, with_pipelined=True) + sum(task.role == role for task in others)
        >= job.role_minimums.get(role, 0)
        for role in failed_roles
    )
