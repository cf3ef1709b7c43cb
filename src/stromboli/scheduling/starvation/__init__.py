"""Nodes set aside for jobs that have starved.

A job too big for the holes that small jobs leave would wait for ever. Once it has waited longer than a threshold, the
reserve action chooses nodes for it and sets room aside there: the nodes take no new pods of others and drain as their
pods finish, until the job fits. `clock` says who has starved, `holders` who holds what, `reserved_room` whom it is
closed to, `node_choice` which nodes are chosen, `reservation_release` when they are given up, `progress` what users are
told.

What is remembered is in objects: a Reservation in phase Waiting per task, and the PodGroup's condition `Waiting`. A
scheduler that starts anew decides as the old one would have.
"""

from stromboli.scheduling.session import Session

from .clock import has_starved
from .holders import FEATURE, STARVING, above_deserved, holders, rank, release, reserved_rows
from .node_choice import NodeChoice, NodeOrder, NodeOwners
from .progress import note_progress
from .reservation_release import give_up_reservations
from .reserved_room import close_reserved_nodes, room_for_others
from .rules import ReserveRules, Starvation

__all__ = [
    "STARVING",
    "NodeChoice",
    "NodeOrder",
    "NodeOwners",
    "ReserveRules",
    "Starvation",
    "above_deserved",
    "has_starved",
    "holders",
    "open_starvation",
    "rank",
    "release",
    "reserved_rows",
]


def open_starvation(session: Session) -> None:
    """Also without the reserve action: what it set aside before is given up then."""
    rules = session.state(Starvation).rules
    with session.registering(FEATURE, tier=len(session.configuration.tiers)):
        if rules is not None and rules.scope == "node":
            close_reserved_nodes(session)
        if rules is not None and rules.scope == "amount":
            session.add_room(lambda room, job: room_for_others(session, room, job))
        session.add_closed_to_evictions(lambda task: reserved_rows(session))
        session.add_close(lambda: note_progress(session))
    give_up_reservations(session)
