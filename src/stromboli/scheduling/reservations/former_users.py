"""Pods that are listed as users of a Reservation, and are not.

The list is written before the bind. If the scheduler is killed in between, or the server refuses the bind, the pod is
listed and has no node. What becomes of it is decided as for any other pod: if it gets this place again, it stays on the
list, and otherwise it is removed, before it is bound anywhere. Pods that ended, or are gone, are removed as well.
"""

from __future__ import annotations

from stromboli.scheduling.decisions import DropUsers
from stromboli.scheduling.session import Session


def drop_former_users(session: Session) -> None:
    """At the end of a session: all places are given."""
    for former in session.snapshot.former_users():
        meta = former.reservation.metadata
        session.cycle.decisions.append(DropUsers(meta.name, meta.uid, former.pods, former.unseen))
