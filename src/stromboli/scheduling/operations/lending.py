"""Tasks on lent room: the operations of `backfill`, of which Reservations lend as well.

A task may be marked as running on room that is lent to it, and one that waits may count on room that is lent to others.
"""

from __future__ import annotations

from stromboli.cluster import Node, Status, Task
from stromboli.scheduling.statement import Kind, Operation, Statement


def lend(statement: Statement, task: Task) -> None:
    """Mark a placed task as running on lent room."""
    statement.do(Operation(LEND, task, (task.status, task.node)))
    _mark(statement, task, True)


def count_on_lent(statement: Statement, task: Task, node: Node) -> None:
    """Give a task a conditional place, on idle and lent room together."""
    statement.do(Operation(CONDITION, task, (task.status, task.node)))
    statement.move(task, Status.CONDITIONAL, node)


def _mark(statement: Statement, task: Task, lent: bool) -> None:
    ledger = statement.session.ledger
    ledger.leave(task)
    task.backfill = lent
    ledger.enter(task)


def _count_again(statement: Statement, operation: Operation, node: Node | None) -> None:
    assert node is not None
    count_on_lent(statement, operation.task, node)


LEND = Kind(
    "lend",
    again=lambda statement, operation, node: lend(statement, operation.task),
    undo=lambda statement, operation: _mark(statement, operation.task, False),
)
CONDITION = Kind("condition", again=_count_again)
