"""Reservations without a node, and those whose time is over.

A Reservation gets its node from idle resources, in its turn, and within what its queue deserves. It borrows nothing,
and evicts nobody unless its template names a PriorityClass (see the action `preempt`). One that names a node which is
closed to it would wait for ever, so it fails at once.
"""

from __future__ import annotations

from stromboli.api.reservations import expires_at, has_expired, is_migration, pinned_node
from stromboli.cluster import Job, Status, Vector
from stromboli.scheduling.callbacks import Refusal
from stromboli.scheduling.explanation import Code
from stromboli.scheduling.session import Session
from stromboli.scheduling.sharing import over_deserved

from .reservation_phases import fail


def drop_expired(session: Session) -> None:
    """Release what expired Reservations hold, and look for no node for them, even if the controllers are late. Done
    before plugins divide the cluster. Without the plugin, no Reservation gets a node."""
    ledger, reservations = session.ledger, session.snapshot.reservations
    if (due := session.snapshot.expire_reservations(session.now)) is not None:
        session.due_at(due)
    for job in session.snapshot.stand_ins:
        reservation = reservations[job.stands_for]
        if has_expired(reservation, session.now):
            for task in job.tasks.values():
                ledger.move(task, Status.SUCCEEDED, None)
        elif (end := expires_at(reservation)) is not None:
            session.due_at(end)
    if not is_configured(session):
        session.snapshot.stand_ins.clear()


def is_configured(session: Session) -> bool:
    return bool(session.configuration.plugins("reservation"))


def waiting_stand_ins(session: Session) -> list[Job]:
    """The jobs that stand for Reservations without a node."""
    return [job for job in session.snapshot.stand_ins if job.counts[Status.PENDING]]


def preempting_stand_ins(session: Session) -> list[Job]:
    """Those of them for which others may be preempted."""
    return [job for job in waiting_stand_ins(session) if all(task.may_preempt for task in job.tasks.values())]


def within_deserved(session: Session, job: Job, request: Vector, credit: Vector | None) -> Refusal | None:
    """Why the queue of a Reservation without a node does not deserve what it would hold. Places of successors cost
    nobody. `request`: what it would hold beyond what others gave up for it; `credit`: see `Session.allocatable`."""
    if not job.stands_for or is_migration(session.snapshot.reservations[job.stands_for]):
        return None
    return over_deserved(session, job.queue, request, credit)


def fail_hopeless(session: Session) -> None:
    """Reservations for a node that is locked for another queue, or kept for a starved job."""
    for job in session.turns.each(waiting_stand_ins(session)):
        node = session.nodes.by_name.get(pinned_node(session.snapshot.reservations[job.stands_for]))
        task = next(iter(job.tasks.values()))
        if node is None:
            continue
        reason_id = int(session.placement.fitting(task).reasons[node.row])
        reason = session.node_reasons[reason_id - 1] if reason_id else None
        if reason is not None and reason.code in (Code.NODE_LOCKED_BY_QUEUE, Code.NODE_RESOURCE_RESERVED):
            message = f"Node {node.name} is closed to it: {reason.text}."
            fail(session, task, reason.code, message)
