"""Promising many tasks of a job at once the rooms that pods were evicted for.

A gang of hundreds for which pods are leaving is promised its rooms again in every cycle until they are gone. One by
one that takes longer than all the rest of such a cycle. Tasks of one kind, for which no filter looks at the other tasks
on nodes, need arithmetic only: each takes its request from what will be free on its node.
"""

from __future__ import annotations

from collections.abc import Iterable
from operator import ge, sub

from stromboli.cluster import Node, Status, Task
from stromboli.scheduling.placement import Fitting
from stromboli.scheduling.session import Session
from stromboli.scheduling.statement import Statement

_PENDING = Status.PENDING


def promise_rooms(session: Session, statement: Statement, tasks: Iterable[Task], *, unless_idle: bool) -> int:
    """Promise tasks at the front their rooms on the nodes that they are nominated to, as long as they are of one kind
    and their rooms will be free; how many were promised. Whoever comes next is left to the caller. `unless_idle`: only
    as long as their rooms are not free already."""
    chosen: list[Task] = []
    nodes: list[Node] = []
    placement, table = session.placement, session.nodes
    left: dict[int, list[int]] = {}  # what will be free on a node beside those chosen, of what they request
    for task in tasks:
        node = table.by_name.get(task.nominated) if task.nominated and task.status is _PENDING else None
        if node is None:
            break
        if not chosen:
            if not _may_batch(session, task):
                break
            first, key = task, placement.key(task)
            later, now = placement.fitting(task, ahead=True), placement.fitting(task)
        elif task.role != first.role or placement.key(task) != key:
            break
        row = node.row
        room = left.get(row)
        if room is None:
            room = later.room_later(row)
        wanted = later.wanted
        if not later.is_open(row) or not all(map(ge, room, wanted)):
            break
        if unless_idle and _is_idle(now, row, room):
            break
        left[row] = list(map(sub, room, wanted))
        chosen.append(task)
        nodes.append(node)
    return statement.pipeline_many(chosen, nodes) if len(chosen) > 1 else 0


def _may_batch(session: Session, task: Task) -> bool:
    """Whether tasks like this one may be promised rooms in one step, now and later."""
    assert task.job is not None
    if not session.may_batch(task.job):
        return False
    placement = session.placement
    return not any(placement.fitting(task, ahead=ahead).depends_on_neighbours for ahead in (True, False))


def _is_idle(now: Fitting, row: int, later: list[int]) -> bool:
    """Whether a task has its room already. A promise may use idle room, which is not free then."""
    return now.is_open(row) and all(map(ge, map(min, now.room_idle(row), later), now.wanted))
