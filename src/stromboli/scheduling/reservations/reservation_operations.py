"""What happens to Reservations inside a statement: a pod uses one, or one gives way to somebody. And when places become
permanent: a Reservation that was looked for has its node.
"""

from __future__ import annotations

from collections.abc import Sequence

from stromboli.api.reservations import queue_of
from stromboli.cluster import Node, QueueName, Status, Task, TaskKey, Vector
from stromboli.cluster.resources import add_to
from stromboli.scheduling.session import Session
from stromboli.scheduling.statement import Kind, Operation, Statement

from .reservation_phases import become_available, wait_again


def consume(statement: Statement, task: Task, reservation: str, amount: Vector) -> None:
    """Use this much of a Reservation for a task, which is then placed on its node."""
    _draw(statement, reservation, amount)
    statement.do(Operation(CONSUME, task, (task.status, task.node), subject=reservation, amount=amount))


def consume_many(statement: Statement, uses: Sequence[tuple[Task, str, Vector]]) -> None:
    """`consume` for tasks of one queue and namespace, of Reservations on different nodes."""
    totals: dict[str, Vector] = {}
    done = statement.operations.append
    for task, reservation, amount in uses:
        add_to(totals, reservation, amount)
        done(Operation(CONSUME, task, (task.status, task.node), "", "", reservation, amount))
    statement.session.ledger.draw_many(totals)
    for reservation, total in totals.items():
        _count(statement, reservation, total)


def give_way(statement: Statement, reservation: str, task: Task, *, reason: str, message: str) -> Operation:
    """Let a Reservation go for a task, with all it holds; it will wait for a node again."""
    ledger = statement.session.ledger
    amount = ledger.holdings[reservation].remainder.copy()
    ledger.draw(reservation, amount)
    return statement.do(Operation(YIELD, task, (task.status, task.node), reason, message, reservation, amount))


def go_with_user(statement: Statement, task: Task, reason: str, message: str) -> None:
    """What a pod that is evicted uses of a Reservation would return there, so the Reservation goes with it."""
    name = task.uses.partition("/")[0]
    held = statement.session.ledger.holdings.get(name) if name else None
    if held is not None and held.id == task.uses and held.node is task.node:
        give_way(statement, name, task, reason=reason, message=message)


class NewUsers:
    """By task, the Reservation that it uses from now on: what a commit has found so far."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._uses: dict[TaskKey, str] = {}

    def add(self, task: Task, reservation: str) -> None:
        self._uses[task.key] = reservation

    def start(self, operation: Operation, tasks: Sequence[Task]) -> bool:
        """Before tasks are bound. True for the one that stands for a Reservation: it is no pod."""
        if operation.task.stands_for:
            become_available(self._session, operation.task)
            return True
        uses = self._uses
        for task in tasks:
            if task.uses or uses:
                self._session.ledger.set_use(task, uses.pop(task.key, ""))
        return False


def _draw(statement: Statement, reservation: str, amount: Vector) -> None:
    statement.session.ledger.draw(reservation, amount)
    _count(statement, reservation, amount)


def _count(statement: Statement, reservation: str, amount: Vector) -> None:
    """The queue that is charged for a Reservation no longer requests what is used of it."""
    known = statement.session.snapshot.reservations.get(reservation)
    if known is not None:  # otherwise it was given up meanwhile, with all that it held
        add_to(statement.session.consumed, QueueName(queue_of(known)), amount)


def _return(statement: Statement, operation: Operation) -> None:
    assert operation.amount is not None
    _draw(statement, operation.subject, -operation.amount)


def _settle_use(statement: Statement, operation: Operation) -> None:
    ledger, task = statement.session.ledger, operation.task
    if task.status is Status.PIPELINED:
        return  # it is only promised its place
    assert operation.amount is not None
    assert isinstance(statement.session, Session)
    if (held := ledger.holdings.get(operation.subject)) is not None:
        statement.session.state(NewUsers).add(task, held.id)
    ledger.settle_draw(operation.subject, operation.amount)


def _consume_again(statement: Statement, operation: Operation, node: Node | None) -> None:
    assert operation.amount is not None
    consume(statement, operation.task, operation.subject, operation.amount)


def _stay(statement: Statement, operation: Operation) -> None:
    assert operation.amount is not None
    statement.session.ledger.draw(operation.subject, -operation.amount)


def _give_up(statement: Statement, operation: Operation) -> None:
    wait_again(statement.session, operation.subject, operation.reason, operation.message)


def _give_way_again(statement: Statement, operation: Operation, node: Node | None) -> None:
    if not operation.task.uses:  # otherwise it goes with the pod that uses it
        give_way(statement, operation.subject, operation.task, reason=operation.reason, message=operation.message)


CONSUME = Kind("consume", again=_consume_again, undo=_return, commit=_settle_use, ties=True)
YIELD = Kind("yield", again=_give_way_again, undo=_stay, commit=_give_up, gives_way=True)
