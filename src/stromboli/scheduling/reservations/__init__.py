"""Reservations: resources of a node that are held for pods that are still to come.

`room` places a pod on what is held for it, `matches` finds out which Reservations a pod may use, `users` places such
pods before all others, `held_for_jobs` counts what is held for a job, and `kept_room` for one that has starved.
`unplaced` looks after Reservations without a node, and `giving_way` says when a Reservation is given up for somebody
else. `reservation_phases` says when one is Available, and `reservation_operations` what a statement does with it. What
they hold is in the ledger (`stromboli.cluster.reservations`). The plugin `reservation` turns all of it on.
"""

from .matches import Matches
from .reservation_phases import SCHEDULED, still_waits
from .room import ReservedRoom
from .session_hooks import open_reservations
from .unplaced import drop_expired, fail_hopeless, preempting_stand_ins, waiting_stand_ins
from .users import place_users

__all__ = [
    "SCHEDULED",
    "Matches",
    "ReservedRoom",
    "drop_expired",
    "fail_hopeless",
    "open_reservations",
    "place_users",
    "preempting_stand_ins",
    "still_waits",
    "waiting_stand_ins",
]
