"""Promising many tasks of a job at once the rooms that pods were evicted for.

A gang of hundreds for which pods are leaving is promised its rooms again in every cycle until they are gone. One by
one that takes longer than all the rest of such a cycle. Tasks of one kind, for which no filter looks at the other tasks
on nodes, need arithmetic only: each takes its request from what will be free on its node.
"""

from __future__ import annotations

from collections.abc import Iterable
from operator import ge, sub

from stromboli.cluster import Node, Status, Task
from stromboli.scheduling.session import Session
from stromboli.scheduling.statement import Statement

_PENDING = Status.PENDING


def promise_rooms(session: Session, statement: Statement, tasks: Iterable[Task], *, unless_idle: bool) -> int:
    """Promise tasks at the front their rooms on the nodes that they are nominated to, as long as they are of one kind
    and their rooms will be free; how many were promised. Whoever comes next is left to the caller. `unless_idle`: only
    as long as their rooms are not free already."""
    if session.hooks("keptPlace") or session.hooks("prePredicate"):
        return 0
    chosen: list[Task] = []
    nodes: list[Node] = []
    placement, table = session.placement, session.nodes
    left: dict[int, list[int]] = {}  # what will be free on a node beside those chosen, of what they request
    for task in tasks:
        node = table.by_name.get(task.nominated) if task.nominated and task.status is _PENDING else None
        if node is None:
            break
        if not chosen:
            first, key = task, placement.key(task)
            later, now = placement.fitting(task, ahead=True), placement.fitting(task)
            if later.depends_on_neighbours or now.depends_on_neighbours:
                break
        elif task.role != first.role or placement.key(task) != key:
            break
        row = node.row
        room = left.get(row)
        if room is None:
            room = later.room_later(row)
        wanted = later.wanted
        if not later.mask[row] or not all(map(ge, room, wanted)):
            break
        # A promise may use idle room, which is not free then.
        if unless_idle and now.mask[row] and all(map(ge, map(min, now.room_idle(row), room), wanted)):
            break
        left[row] = list(map(sub, room, wanted))
        chosen.append(task)
        nodes.append(node)
    return statement.pipeline_many(chosen, nodes) if len(chosen) > 1 else 0
