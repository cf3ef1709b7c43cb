"""What is written into the status of a Reservation when the scheduler decides about it."""

from __future__ import annotations

from stromboli.api import Condition
from stromboli.api.reservations import AVAILABLE, PENDING, is_migration, reservation_annotation, reserved_amounts
from stromboli.api.timestamps import format_timestamp
from stromboli.cluster import Holding, Node, Task

from .decisions import PatchReservation
from .framework import Framework

SCHEDULED = "Scheduled"
READY = "Ready"


def new_holding(session: Framework, task: Task, node: Node) -> Holding:
    """What a Reservation holds when the task that stands for it is placed on a node."""
    reservation = session.snapshot.reservations[task.stands_for]
    assert task.job is not None
    queue = None if is_migration(reservation) else task.job.queue
    return Holding(
        node, task.request.copy(), queue, task.namespace, shape=task.shape,
        annotation=reservation_annotation(reservation),
    )  # fmt: skip


def reservation_holds(session: Framework, name: str, node: str) -> PatchReservation:
    reservation = session.snapshot.reservations[name]
    conditions = (
        condition(session, name, SCHEDULED, "True", "Scheduled", f"It holds resources on node {node}."),
        condition(session, name, READY, "True", "Available", ""),
    )
    uid = reservation.metadata.uid
    return PatchReservation(name, uid, AVAILABLE, node, reserved_amounts(reservation), conditions)


def reservation_gives_way(session: Framework, name: str, reason: str, message: str) -> PatchReservation:
    said = condition(session, name, READY, "False", reason, message)
    uid = session.snapshot.reservations[name].metadata.uid
    return PatchReservation(name, uid, PENDING, "", {}, (said,))


def reservation_waits(session: Framework, name: str, reason: str, message: str) -> PatchReservation | None:
    """Why it has no node yet; None if its status says so already."""
    reservation = session.snapshot.reservations[name]
    said = condition(session, name, SCHEDULED, "False", reason or "Unschedulable", message)
    if said in reservation.status.conditions and reservation.status.phase == PENDING:
        return None
    return PatchReservation(name, reservation.metadata.uid, PENDING, "", {}, (said,))


def reservation_fails(session: Framework, name: str, phase: str, reason: str, message: str) -> PatchReservation:
    said = condition(session, name, SCHEDULED, "False", reason, message)
    return PatchReservation(name, session.snapshot.reservations[name].metadata.uid, phase, "", {}, (said,))


def condition(session: Framework, name: str, kind: str, status: str, reason: str, message: str) -> Condition:
    """The one in the object if only its time would change."""
    for known in session.snapshot.reservations[name].status.conditions:
        if (known.type, known.status, known.reason, known.message) == (kind, status, reason, message):
            return known
    stamp = format_timestamp(session.now)
    return Condition(type=kind, status=status, reason=reason, message=message, last_transition_time=stamp)
