"""Room that is set aside for a task which has starved: the operations of `starvation`.

The task occupies nothing. A Reservation in phase Waiting shows where the room is; it is created and deleted by
decisions. Gangs know of it too: a pod may take the place that was set aside for a sibling.
"""

from __future__ import annotations

from collections.abc import Sequence

from stromboli.api.waiting_reservations import waiting_name, waiting_reservation
from stromboli.cluster import Node, Status, Task
from stromboli.scheduling.decisions import Reserve, Unreserve
from stromboli.scheduling.framework import Framework
from stromboli.scheduling.statement import Kind, Operation, Statement

_RESERVED = Status.RESERVED


def set_aside(statement: Statement, task: Task, node: Node) -> None:
    statement.do(Operation(RESERVE, task, (task.status, task.node)))
    statement.move(task, _RESERVED, node)


def give_up(statement: Statement, task: Task, why: str = "") -> None:
    """Give up what is set aside for a task."""
    if task.status is not _RESERVED:
        raise ValueError(f"nothing is set aside for {task}")
    statement.do(Operation(RELEASE, task, (task.status, task.node), message=why))
    statement.move(task, Status.PENDING, None)


def note_start(session: Framework, operation: Operation, tasks: Sequence[Task]) -> bool:
    """A task that starts needs what was set aside for it no longer."""
    task = operation.task
    if task.true_status is _RESERVED:
        _unreserve(session, task, "the pod starts")
    return False


def _decide_reserve(statement: Statement, operation: Operation) -> None:
    session, task = statement.session, operation.task
    if task.status is not _RESERVED:
        return  # it was given up or used later in the same statement
    assert task.node is not None
    assert task.job is not None
    assert task.job.object is not None
    if task.true_status is _RESERVED:
        _unreserve(session, task, "another node is a better fit")
    session.ledger.settle(task, _RESERVED, task.node)
    reservation = waiting_reservation(task.pod, task.job.object, task.node.name)
    session.cycle.decisions.append(Reserve(task.key, task.node.name, reservation))


def _decide_release(statement: Statement, operation: Operation) -> None:
    task = operation.task
    if task.true_status is _RESERVED:
        _unreserve(statement.session, task, operation.message)
        task.true_status, task.true_node = Status.PENDING, None


def _unreserve(session: Framework, task: Task, why: str) -> None:
    """Delete the Reservation that shows what is set aside for a task so far."""
    node = "" if task.true_node is None else task.true_node.name
    session.cycle.decisions.append(Unreserve(task.key, node, waiting_name(task.pod), why))


def _reserve_again(statement: Statement, operation: Operation, node: Node | None) -> None:
    assert node is not None
    set_aside(statement, operation.task, node)


def _release_again(statement: Statement, operation: Operation, node: Node | None) -> None:
    give_up(statement, operation.task, operation.message)


RESERVE = Kind("reserve", again=_reserve_again, commit=_decide_reserve)
RELEASE = Kind("release", again=_release_again, commit=_decide_release)
