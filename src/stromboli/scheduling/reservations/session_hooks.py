"""The extension points that Reservations use in a session."""

from __future__ import annotations

from typing import Final

from stromboli.scheduling.decisions import DropUsers
from stromboli.scheduling.session import Session

from .giving_way import concessions, is_possible, protect_users
from .held_for_jobs import HeldForJobs
from .kept_room import kept_room
from .mismatches import Mismatches
from .reservation_operations import NewUsers, go_with_user
from .room import ReservedRoom
from .unplaced import is_configured, within_deserved

FEATURE: Final = "reservations"


def open_reservations(session: Session) -> None:
    """Without Reservations that list users, hold something, or wait for a node, only operations are registered. Who is
    listed counts also without the plugin: it may have been configured before."""
    with session.registering(FEATURE):
        session.points.start.add(session.state(NewUsers).start)
        session.points.eviction.add(go_with_user)
        if session.snapshot.lists_users():
            session.points.close.add(lambda: _drop_former_users(session))
    if not is_configured(session):
        return
    if session.snapshot.stand_ins:
        with session.registering(FEATURE):
            session.points.job_allocatable.add(
                lambda job, request, credit: within_deserved(session, job, request, credit)
            )
            session.points.job_allocatable_differs.add(lambda job: bool(job.stands_for))
    if not session.ledger.holdings:
        return
    room = session.state(ReservedRoom)
    with session.registering(FEATURE):
        mismatches = session.state(Mismatches)
        session.points.remark.add(mismatches.remark)
        session.points.close.add(mismatches.tell_reservations)
        session.points.kept_places.add(room.find)
        session.points.kept_rows.add(room.rows)
        session.points.kept_place.add(room.place)
        session.points.kept_places_of_many.add(room.place_many)
        session.points.admission_credit.add(session.state(HeldForJobs).credit)
        session.points.kept_room.add(lambda job, of_queue: kept_room(session, job, of_queue))
        session.points.concessions.add(lambda kind, task: concessions(session, kind, task))
        session.points.concessions_possible.add(lambda kind: is_possible(session, kind))
        session.add_preemptable(protect_users(session, "preemptable"), protects=True)
        session.add_reclaimable(protect_users(session, "reclaimable"), protects=True)


def _drop_former_users(session: Session) -> None:
    """Pods that are listed as users of a Reservation, and are not.

    The list is written before the bind. If the scheduler is killed in between, or the server refuses the bind, the pod
    is listed and has no node. What becomes of it is decided as for any other pod: if it gets this place again, it stays
    on the list, and otherwise it is removed, before it is bound anywhere. So this is done when all places are given.
    Pods that ended, or are gone, are removed as well.
    """
    for former in session.snapshot.former_users():
        meta = former.reservation.metadata
        session.cycle.decisions.append(DropUsers(meta.name, meta.uid, former.pods, former.unseen))
