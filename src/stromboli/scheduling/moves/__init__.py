"""Pods that the descheduler moves, as the scheduler sees them.

A Reservation that replaces a running pod keeps a place for its successor (`stromboli.api.migration_reservations`). It
may hold that place only if the pod can leave at any time: without it, its gang must have its minimum and its disruption
budgets must allow one more disruption. From then on the pod counts as gone, so nobody else evicts it, or a sibling that
its gang cannot spare (`departing_pods`). A node that was emptied comes last for a while, except for the job that it was
emptied for (`emptied_nodes`). `successors` finds the places.
"""

from stromboli.scheduling.session import Session

from .departing_pods import Leaving, note_leaving, open_leaving
from .emptied_nodes import open_emptied_nodes
from .successors import is_successor, place_successors

__all__ = ["Leaving", "is_successor", "note_leaving", "open_moves", "place_successors"]


def open_moves(session: Session) -> None:
    open_emptied_nodes(session)
    open_leaving(session)
