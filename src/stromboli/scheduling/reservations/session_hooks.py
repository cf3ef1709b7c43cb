"""The extension points that Reservations use in a session."""

from __future__ import annotations

from typing import Final

from stromboli.scheduling.session import Session

from .admission import HeldForJobs
from .former_users import drop_former_users
from .giving_way import concessions, is_possible, protect_users
from .kept_room import kept_room
from .mismatches import Mismatches
from .reservation_operations import NewUsers, go_with_user
from .room import ReservedRoom
from .unplaced import is_configured, within_deserved

FEATURE: Final = "reservations"


def open_reservations(session: Session) -> None:
    """Without Reservations that list users, hold something, or wait for a node, only operations are registered. Who is
    listed counts also without the plugin: it may have been configured before."""
    with session.registering(FEATURE, tier=len(session.configuration.tiers)):
        session.add_operations(start=session.state(NewUsers).start, eviction=go_with_user)
        if session.snapshot.lists_users():
            session.add_close(lambda: drop_former_users(session))
    if not is_configured(session):
        return
    if session.snapshot.stand_ins:
        with session.registering(FEATURE, tier=len(session.configuration.tiers)):
            session.add_job_allocatable(
                lambda job, request, credit: within_deserved(session, job, request, credit),
                differs=lambda job: bool(job.stands_for),
            )
    if not session.ledger.holdings:
        return
    room = session.state(ReservedRoom)
    with session.registering(FEATURE, tier=len(session.configuration.tiers)):
        mismatches = session.state(Mismatches)
        session.add_remark(mismatches.remark)
        session.add_close(mismatches.tell_reservations)
        session.add_kept_places(room.find, room.place, room.place_many)
        session.add_admission_credit(session.state(HeldForJobs).credit)
        session.add_kept_room(lambda job, of_queue: kept_room(session, job, of_queue))
        session.add_concessions(
            lambda kind, task: concessions(session, kind, task), lambda kind: is_possible(session, kind)
        )
        session.add_preemptable(protect_users(session, "preemptable"), protects=True)
        session.add_reclaimable(protect_users(session, "reclaimable"), protects=True)
