"""Where on nodes tasks of a gang that are alike find room, by a list of sources that are tried in order: the node that
pods were evicted from for a task, what was set aside for it, idle room, and room that terminating pods leave.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from stromboli.cluster import Job, Matrix, Status, Task
from stromboli.scheduling.operations.set_aside import give_up
from stromboli.scheduling.placement import Fitting
from stromboli.scheduling.queue_books import RowMask
from stromboli.scheduling.session import Session
from stromboli.scheduling.statement import Statement

from .readiness import reserved_tasks


@dataclass(slots=True)
class _Search:
    session: Session
    statement: Statement
    fitting: Fitting
    group: Sequence[Task]
    only: RowMask | None  # the nodes in question, if not all
    placed: int = 0  # the tasks at the front of the group that have a place
    startable: int = 0  # how many of the group may start now
    ended: bool = False  # no other source is asked

    def within(self, room: Matrix) -> Matrix:
        return room if self.only is None else np.where(self.only[:, None], room, -1)


def place_on_nodes(
    session: Session, statement: Statement, fitting: Fitting, group: Sequence[Task], *, only: RowMask | None = None
) -> int:
    """The number of tasks that found a place."""
    if not group:
        return 0
    search = _Search(session, statement, fitting, group, only)
    for source in _SOURCES:
        source(search)
        if search.ended or search.placed == len(group):
            return search.placed
    first, missing = group[0], len(group) - search.placed
    if search.startable < len(group) and first.job is not None:
        refusal = session.may_start(first.job.queue, first.request * missing)
        if refusal is not None:
            session.notes.refuse(first.job, refusal)
    elif only is None:
        fitting.mark_failed()
    return search.placed


def _nominated(search: _Search) -> None:
    """A node was made free for this task: it goes there if it still can."""
    session, statement, task = search.session, search.statement, search.group[0]
    node = session.nodes.by_name.get(task.nominated) if task.nominated else None
    if node is None:
        return
    if search.fitting.takes(node.row, session.placement.room_now_on(node.row)) and session.startable(task):
        search.placed += statement.allocate(task, node)
    elif session.placement.fitting(task, ahead=True).takes_later(node.row):
        search.placed += statement.pipeline(task, node)


def _set_aside(search: _Search) -> None:
    """Room was set aside for this task: it goes there as soon as it can."""
    session, task = search.session, search.group[0]
    node = task.node if task.status is Status.RESERVED else None
    if node is not None and search.fitting.takes(node.row, session.placement.room_now_on(node.row)):
        search.placed += bool(session.startable(task)) and search.statement.allocate(task, node)


def _idle(search: _Search) -> None:
    session, group, first = search.session, search.group, search.group[0]
    if search.fitting.known_to_fail:
        search.ended = True
        return
    search.startable = session.startable(first, len(group))
    room = search.within(session.placement.room_now(first.job))
    rows = search.fitting.choose(first, search.startable, room) if search.startable else []
    if rows:
        nodes = [session.nodes.nodes[row] for row in rows]
        search.placed = search.statement.allocate_many(group[: len(rows)], nodes)
        _use_up(search.statement, first.job, rows[: search.placed])
        search.ended = search.placed < len(rows)


def _use_up(statement: Statement, job: Job | None, rows: list[int]) -> None:
    """A task that took the place set aside for a sibling has used up the sibling's reservation."""
    if job is not None and job.counts[Status.RESERVED]:
        for row in rows:
            for sibling in reserved_tasks(job):
                if sibling.node is not None and sibling.node.row == row:
                    give_up(statement, sibling, "a pod of the same job takes the place")
                    break


def _leaving(search: _Search) -> None:
    session, group, first = search.session, search.group, search.group[0]
    future = session.placement.room_later(first.job)
    if future is None or first.stands_for:  # a Reservation takes idle room only
        return
    if search.startable < len(group):  # nobody else has to leave free room to them
        future = np.where(session.nodes.releasing.any(axis=1, keepdims=True), future, -1)
    later = session.placement.fitting(first, ahead=True)
    rows = later.choose(first, len(group) - search.placed, search.within(future))
    for task, row in zip(group[search.placed :], rows, strict=False):
        if not search.statement.pipeline(task, session.nodes.nodes[row]):
            search.ended = True
            return
        search.placed += 1


_SOURCES: Final[tuple[Callable[[_Search], None], ...]] = (_nominated, _set_aside, _idle, _leaving)
