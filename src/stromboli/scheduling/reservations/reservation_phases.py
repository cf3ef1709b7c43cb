"""When a Reservation is Available, Pending or Failed, and what its status says then.

It becomes Available as soon as the task that stands for it has a node. The controllers do the rest: they end it.
"""

from __future__ import annotations

from collections.abc import Iterable

from stromboli.api import Condition, Reservation
from stromboli.api.reservations import AVAILABLE, FAILED, PENDING, is_migration, reservation_id, reserved_amounts
from stromboli.api.timestamps import format_timestamp
from stromboli.cluster import Holding, Node, Status, Task
from stromboli.scheduling.callbacks import GroupCondition
from stromboli.scheduling.decisions import PatchReservation
from stromboli.scheduling.framework import Framework

SCHEDULED = "Scheduled"
READY = "Ready"
POD_REFUSED = "PodRefused"


def become_available(session: Framework, task: Task) -> None:
    """A Reservation got its node: it holds there what the task that stood for it was given."""
    ledger, name, node = session.ledger, task.stands_for, task.node
    assert node is not None
    decision = _available(session, name, node.name)
    ledger.nominate(task, "")
    ledger.settle(task, Status.SUCCEEDED, None)
    ledger.set_holding(name, _holding(session, task, node))
    ledger.assumed[name] = (AVAILABLE, node.name)
    session.cycle.decisions.append(decision)


def _holding(session: Framework, task: Task, node: Node) -> Holding:
    reservation = session.snapshot.reservations[task.stands_for]
    assert task.job is not None
    queue = None if is_migration(reservation) else task.job.queue
    return Holding(
        node, task.request.copy(), queue, task.namespace, shape=task.shape,
        id=reservation_id(reservation),
    )  # fmt: skip


def _available(session: Framework, name: str, node: str) -> PatchReservation:
    reservation = session.snapshot.reservations[name]
    conditions = (
        condition(session, name, SCHEDULED, "True", "Scheduled", f"It holds resources on node {node}."),
        condition(session, name, READY, "True", "Available", ""),
    )
    uid, gone = reservation.metadata.uid, _no_longer(reservation, conditions)
    return PatchReservation(name, uid, AVAILABLE, node, reserved_amounts(reservation), conditions, gone)


def wait_again(session: Framework, name: str, reason: str, message: str) -> None:
    """A Reservation gave way: it holds nothing any more."""
    said = condition(session, name, READY, "False", reason, message)
    uid = session.snapshot.reservations[name].metadata.uid
    session.ledger.set_holding(name, None)
    session.ledger.assumed[name] = (PENDING, "")
    session.cycle.decisions.append(PatchReservation(name, uid, PENDING, "", {}, (said,)))


def still_waits(
    session: Framework, name: str, reason: str, message: str, nominated: str, also: Iterable[GroupCondition]
) -> PatchReservation | None:
    """Why it has no node yet, and the node from which pods are evicted for it, if there is one. `also`: what features
    do about it. None if its status says so already."""
    reservation = session.snapshot.reservations[name]
    status = reservation.status
    said = [condition(session, name, one.type, "True", one.reason, one.message) for one in also]
    said.append(condition(session, name, SCHEDULED, "False", reason or "Unschedulable", message))
    gone = _no_longer(reservation, said)
    same = not gone and all(one in status.conditions for one in said)
    if same and (status.phase, status.node_name) == (PENDING, nominated):
        return None
    return PatchReservation(name, reservation.metadata.uid, PENDING, nominated, {}, tuple(said), gone)


def _no_longer(reservation: Reservation, said: Iterable[Condition]) -> tuple[str, ...]:
    """The types of conditions about what is done for it while it waits that no longer hold."""
    known = {SCHEDULED, READY, POD_REFUSED, *[one.type for one in said]}
    return tuple(one.type for one in reservation.status.conditions if one.type not in known)


def fail(session: Framework, task: Task, reason: str, message: str) -> None:
    """A Reservation can never have a node."""
    name = task.stands_for
    said = condition(session, name, SCHEDULED, "False", reason, message)
    uid = session.snapshot.reservations[name].metadata.uid
    session.cycle.decisions.append(PatchReservation(name, uid, FAILED, "", {}, (said,)))
    session.ledger.assumed[name] = (FAILED, "")
    session.ledger.settle(task, Status.SUCCEEDED, None)


def condition(session: Framework, name: str, kind: str, status: str, reason: str, message: str) -> Condition:
    """The one in the object if only its time would change."""
    for known in session.snapshot.reservations[name].status.conditions:
        if (known.type, known.status, known.reason, known.message) == (kind, status, reason, message):
            return known
    stamp = format_timestamp(session.now)
    return Condition(type=kind, status=status, reason=reason, message=message, last_transition_time=stamp)
