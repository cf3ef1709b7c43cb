"""What the plugin `reservation` registers."""

from __future__ import annotations

from stromboli.scheduling.session import Session

from .admission import admission_credit
from .giving_way import concessions
from .room import ReservedRoom


def open_reservations(session: Session) -> None:
    """To be called while the plugin is opened. Without Reservations that hold something nothing is registered."""
    if session.ledger.holdings:
        room = session.state(ReservedRoom)
        session.add_kept_places(room.count, room.place)
        session.add_admission_credit(lambda job: admission_credit(session, job))
        session.add_concessions(lambda kind, task: concessions(session, kind, task))
