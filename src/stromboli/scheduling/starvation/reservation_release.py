"""Rule 12. When a reservation ends."""

from __future__ import annotations

from typing import Final

from stromboli.api import names
from stromboli.api.timestamps import parse_timestamp
from stromboli.api.waiting_reservations import reserved_node_of
from stromboli.cluster import OCCUPYING, Job, Matrix, Node, Task, TaskKey
from stromboli.scheduling.callbacks import Horizon
from stromboli.scheduling.decisions import Unreserve
from stromboli.scheduling.gang import reserved_tasks
from stromboli.scheduling.operations.set_aside import give_up, set_aside
from stromboli.scheduling.placement import Fitting
from stromboli.scheduling.session import Session

from .drained_room import DrainedRoom, needed, over_quota
from .holders import FEATURE, counted_rows, holders, rank, release
from .namespace_holds import NamespaceHolds
from .reserve_arguments import Starvation
from .shares import NamespaceParts, above_deserved

CLEARING_TIMEOUT: Final = 300.0  # seconds until the descheduler must have named the pods that leave a node


def give_up_reservations(session: Session) -> None:
    """Release what has lost its reason, before anything else happens in a session."""
    _forget_strangers(session)
    rules = session.state(Starvation).rules
    for job in holders(session).values():
        if job.object is None:
            release(session, job, "its PodGroup was deleted")
    kept = 0
    for job in sorted(holders(session).values(), key=lambda job: rank(session, job)):
        why = "the reserve action is not configured" if rules is None else _lost_reason(session, job)
        if why is None and rules is not None and kept >= rules.max_holders:
            why = "too many jobs hold reservations"
        if why is None:
            kept += 1
        else:
            release(session, job, why)
    if rules is not None:
        for job in sorted(holders(session).values(), key=lambda job: rank(session, job), reverse=True):
            if counted_rows(session) > rules.most_nodes(session, job.queue):
                release(session, job, "fewer nodes may be reserved now")


def _lost_reason(session: Session, job: Job) -> str | None:
    if not job.queue.open:
        return f"queue {job.queue.name} is not open"
    if job.ready_count >= job.min_available:
        return "the job has all the nodes it needs"
    if session.job_valid(job) is not None:
        return "the job has too few pods"
    if job.phase == "Pending" and session.has_action("enqueue"):
        return "the job is no longer admitted"
    if above_deserved(session, job):
        return f"queue {job.queue.name} has more than its deserved share"
    if session.state(NamespaceParts).above_part(job):
        return f"namespace {job.namespace} has more than its part of queue {job.queue.name}"
    if session.state(NamespaceHolds).holds_back(job):
        return f"another job of namespace {job.namespace} goes first"
    if over_quota(session, job, needed(job)) is not None:
        return f"queue {job.queue.name} may not have that much"
    return session.why_no_nodes(job) or _lost_places(session, job)


def _lost_places(session: Session, job: Job) -> str | None:
    """All of its places are tested together, as when they were chosen."""
    room = session.state(DrainedRoom).of(job).copy()
    for task in job.tasks.values():
        if task.node is not None and task.status in OCCUPYING:
            room[task.node.row] -= task.request
    statement = session.statement()
    tasks = reserved_tasks(job)
    places = [(task, task.node) for task in tasks]
    together = any(_fitting(session, task).depends_on_neighbours for task in tasks)
    for task in tasks if together else ():
        give_up(statement, task)
    why: str | None = None
    for task, node in places:
        why = "a node was deleted" if node is None else _lost_place(session, task, node, room)
        if why is not None:
            break
        if together and node is not None:
            set_aside(statement, task, node)
    statement.discard()
    return why


def _lost_place(session: Session, task: Task, node: Node, room: Matrix) -> str | None:
    """`room`: what those before it have left; what it takes is subtracted."""
    if not node.ready or not node.schedulable:
        return f"node {node.name} is cordoned or not ready"
    if not _fitting(session, task).is_open(node.row):
        return f"node {node.name} no longer matches the pod"
    room[node.row] -= task.request
    if bool((room[node.row] < 0).any()) and not _is_being_cleared(session, task):
        return f"node {node.name} is now too small"
    return None


def _is_being_cleared(session: Session, task: Task) -> bool:
    """The descheduler sets a node aside before it says which pods will leave it. Until it has, these pods seem to stay
    for ever. If it never does, because it is gone, the reservation is given up after a while."""
    reservation = session.snapshot.reservation_of(task.key)
    if reservation is None or names.MIGRATION_PLAN not in reservation.metadata.annotations:
        return False
    created = reservation.metadata.creation_timestamp
    until = (session.now if created is None else parse_timestamp(created)) + CLEARING_TIMEOUT
    if session.now <= until:
        session.due(until)
        return True
    return False


def _fitting(session: Session, task: Task) -> Fitting:
    return session.placement.fitting(task, horizon=Horizon.DRAINED, without=(FEATURE,))


def _forget_strangers(session: Session) -> None:
    """Reservations whose pod is gone, or no longer waits."""
    for name, task_key in sorted(session.snapshot.waiting_reservations()):
        if TaskKey(task_key) not in session.ledger.reserved_tasks:
            node = reserved_node_of(session.snapshot.reservations[name])
            session.cycle.decisions.append(Unreserve(TaskKey(task_key), node, name, "its pod is no longer waiting"))
