"""Nodes set aside for jobs that have starved.

A job too big for the holes that small jobs leave would wait for ever. Once it has waited longer than a threshold, the
reserve action chooses nodes for it and sets room aside there: the nodes take no new pods of others and drain as their
pods finish, until the job fits.

docs/starvation.md has the rules as a numbered list. Each is one module, whose docstring begins with its number and
title; the other modules say what they are behind.

What is remembered is in objects: a Reservation in phase Waiting per task, and conditions of the PodGroup. A scheduler
that starts anew decides as the old one would have.
"""

from stromboli.cluster import Task
from stromboli.scheduling.operations.set_aside import note_start
from stromboli.scheduling.session import Session

from .clock import has_starved
from .displacement import displacements
from .drained_room import needed
from .feasibility import Feasibility
from .holders import FEATURE, holders, is_known_not_to_start, rank, reserved_rows
from .line import Line
from .namespace_holds import NamespaceHolds
from .queue_holds import QueueHolds
from .reservation_release import give_up_reservations
from .reserve_arguments import ReserveRules, Starvation
from .reserved_node_filter import close_reserved_nodes, room_for_others
from .shares import NamespaceParts, above_deserved
from .starving_conditions import note_progress, starving_conditions

__all__ = [
    "Feasibility",
    "Line",
    "NamespaceHolds",
    "NamespaceParts",
    "ReserveRules",
    "Starvation",
    "above_deserved",
    "has_starved",
    "holders",
    "is_known_not_to_start",
    "needed",
    "open_starvation",
    "rank",
]


def open_starvation(session: Session) -> None:
    """Also without the reserve action: what it set aside before is given up then."""
    rules = session.state(Starvation).rules
    holds = session.state(QueueHolds)

    def others_rows(task: Task) -> list[int]:
        """Nobody is evicted on nodes that are set aside for another job."""
        if not session.ledger.reserved_tasks and not session.state(Starvation).reserved_at_open:
            return []
        return [row for row, jobs in reserved_rows(session).items() if task.job is None or jobs != {task.job.key}]

    with session.registering(FEATURE):
        session.points.start.add(lambda operation, tasks: note_start(session, operation, tasks))
        if rules is not None:
            closes_node = rules.scope == "node"
            if closes_node:
                close_reserved_nodes(session)
            session.points.room.add(lambda room, job: room_for_others(session, room, job, only_pods=closes_node))
        # What a queue keeps from jobs that hold nothing depends on their priority only.
        session.points.job_allocatable.add(holds.refuse)
        session.points.job_allocatable_differs.add(lambda job: False)
        of_namespaces = session.state(NamespaceHolds)
        session.points.job_allocatable.add(of_namespaces.refuse)
        session.points.job_allocatable_differs.add(of_namespaces.concern)
        session.points.displacement.add(lambda job, evicting: displacements(session, job, evicting=evicting))
        session.points.closed_to_evictions.add(others_rows)
        session.points.group_conditions.add(lambda job: starving_conditions(session, job))
        session.points.close.add(lambda: note_progress(session))
    give_up_reservations(session)
