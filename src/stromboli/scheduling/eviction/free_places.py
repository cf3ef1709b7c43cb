"""Places without evictions for a gang some of whose tasks need them: what is idle, or is being released anyway."""

from __future__ import annotations

import numpy as np

from stromboli.cluster import Node, Task
from stromboli.scheduling.session import Session
from stromboli.scheduling.statement import Statement


def fits_without(session: Session, statement: Statement, task: Task, *, lending: bool = False) -> bool:
    """Promise the task what is idle, or is being released anyway; False if there is no such room. `lending`: its queue
    may go beyond what it deserves."""
    if session.take_kept_place(statement, task, promised=True):
        return True
    node = node_without_evictions(session, task, lending=lending)
    return node is not None and statement.pipeline(task, node)


def node_without_evictions(session: Session, task: Task, *, lending: bool = False) -> Node | None:
    """Where a task may go once those who are leaving anyway have left."""
    assert task.job is not None
    fitting = session.placement.fitting(task, ahead=True)
    if fitting.known_to_fail:
        return None
    later = session.placement.room_later(task.job)
    room = session.placement.room_now(task.job) if later is None else later
    own = session.books.own_rows(task)
    if own is not None and session.allocatable_on_own_rows(task) is None:
        rows = fitting.choose(task, 1, np.where(own[:, None], room, -1))
        if rows:
            return session.nodes.nodes[rows[0]]
    if session.allocatable(task.job.queue, task.request, job=task.job, lending=lending) is not None:
        return None
    rows = fitting.choose(task, 1, room)
    if not rows:
        fitting.mark_failed()
        return None
    return session.nodes.nodes[rows[0]]
