"""When a reservation is given up: it has lost its reason, or there are too many."""

from __future__ import annotations

from stromboli.api.waiting_reservations import reserved_node_of
from stromboli.cluster import Job, TaskKey
from stromboli.scheduling.decisions import Unreserve
from stromboli.scheduling.gang import reserved_tasks
from stromboli.scheduling.session import Session

from .holders import FEATURE, holders, rank, release, reserved_rows
from .rules import Starvation
from .shares import NamespaceParts, above_deserved


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
        most = rules.most_nodes(session)
        for job in sorted(holders(session).values(), key=lambda job: rank(session, job), reverse=True):
            if len(reserved_rows(session)) <= most:
                break
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
    for task in reserved_tasks(job):
        node = task.node
        if node is None:
            return "a node was deleted"
        if not node.ready or not node.schedulable:
            return f"node {node.name} is cordoned or not ready"
        if not session.placement.fitting(task, ahead=True, without=FEATURE).mask[node.row]:
            return f"node {node.name} no longer matches the pod"
        if bool((session.nodes.allocatable[node.row] < task.request).any()):
            return f"node {node.name} is now too small"
    return None


def _forget_strangers(session: Session) -> None:
    """Reservations whose pod is gone, or no longer waits."""
    for name, task_key in sorted(session.snapshot.waiting_reservations()):
        if TaskKey(task_key) not in session.ledger.reserved_tasks:
            node = reserved_node_of(session.snapshot.reservations[name])
            session.cycle.decisions.append(Unreserve(TaskKey(task_key), node, name, "its pod is no longer waiting"))
