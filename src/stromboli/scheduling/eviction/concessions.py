"""What gives way before any pod is evicted.

Somebody may hold room on a node without a pod (`ExtensionPoints.add_concessions`). To take that costs no work, so it is
taken first: alone where that is enough, and together with evictions where it is not. Whatever turns out not to be
needed stays as it was.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from stromboli.cluster import Node, Task
from stromboli.scheduling.callbacks import Concession, EvictionKind
from stromboli.scheduling.session import Session
from stromboli.scheduling.statement import Operation, Statement

from .reprieve import fits_within, still_within
from .victims import VictimSearch


def make_room(statement: Statement, task: Task, search: VictimSearch) -> bool:
    """Promise a task a place that others give up for it; False, and nothing done, if nothing works."""
    session = search.session
    found = _concessions(session, search.kind, task)
    if not found:
        return search.make_room(statement, task)
    if _without_evictions(session, statement, task, search.kind, found):
        return True
    assert task.job is not None
    had = task.job.queue.allocated.copy()
    given = [(concession, concession.carry_out(statement, task)) for concession in found]
    if not search.make_room(statement, task):
        for _, operation in reversed(given):
            statement.take_back(operation)
        return False
    _put_back(session, statement, given, lambda: still_within(session, task, search.kind, had), task)
    return True


def _concessions(session: Session, kind: EvictionKind, task: Task) -> list[Concession]:
    """By rank, without those on nodes where nobody may be evicted for this task."""
    found = session.points.concessions.of(kind, task)
    if not found:
        return []
    closed = set(session.points.closed_to_evictions.of(task))
    open_to = session.placement.fitting(task, ahead=True).mask
    usable = [concession for concession in found if concession.row not in closed and open_to[concession.row]]
    return sorted(usable, key=lambda concession: (concession.rank, concession.row))


def _without_evictions(
    session: Session, statement: Statement, task: Task, kind: EvictionKind, found: Sequence[Concession]
) -> bool:
    """On the node where the least valuable of them are enough."""
    by_row: dict[int, list[Concession]] = {}
    for concession in found:
        by_row.setdefault(concession.row, []).append(concession)
    plans = []
    for row, here in by_row.items():
        room, chosen = session.nodes.future_idle_of(row), list[Concession]()
        for concession in here:
            if bool((room >= task.request).all()):
                break
            room = room + concession.amount
            chosen.append(concession)
        if chosen and bool((room >= task.request).all()):
            plans.append((chosen[-1].rank, len(chosen), row, chosen))
    assert task.job is not None
    for _, _, row, chosen in sorted(plans, key=lambda plan: plan[:3]):
        node, mark, had = session.nodes.nodes[row], len(statement), task.job.queue.allocated.copy()
        for concession in chosen:
            concession.carry_out(statement, task)
        if fits_within(session, task, node, kind, had) and statement.pipeline(task, node):
            return True
        statement.discard(down_to=mark)
    return False


def _put_back(
    session: Session,
    statement: Statement,
    given: Sequence[tuple[Concession, Operation]],
    is_allowed: Callable[[], bool],
    task: Task,
) -> None:
    """The most valuable first, as far as nobody has been promised the room, and as the limits of the queue allow it
    together with the task."""
    nodes: list[Node] = session.nodes.nodes
    for concession, operation in reversed(given):
        if operation in statement.operations:
            future = session.nodes.future_idle_of(nodes[concession.row].row)
            if bool((future >= concession.amount).all()):
                statement.take_back(operation)
                if not is_allowed():
                    concession.carry_out(statement, task)
