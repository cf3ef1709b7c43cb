"""Moves as they are carried out: objects and the time in, writes out.

    plan ─▶ Reservation ─▶ Available ─▶ evict ─▶ a successor uses it ─▶ Succeeded
              │               │           │
              └───────────────┴───────────┴──▶ Failed: nothing is held, and both nodes rest

writes           what is to be written
start            the first writes of a plan
progress         what follows from the objects, in every pass
move_state       how far one move is, and what is wrong with it
successors       whether a successor can still come
gang_minimums    whether gangs can still spare the pods that are evicted next
group_status     `migrationInfo` and `migrationState` of PodGroups
"""

from .progress import advance, next_deadline
from .start import start_plan
from .writes import (
    AnnotateNode,
    CreateReservation,
    DeleteReservation,
    EvictPod,
    RemovePod,
    Report,
    UpdateGroup,
    UpdateReservation,
    Write,
)

__all__ = [
    "AnnotateNode",
    "CreateReservation",
    "DeleteReservation",
    "EvictPod",
    "RemovePod",
    "Report",
    "UpdateGroup",
    "UpdateReservation",
    "Write",
    "advance",
    "next_deadline",
    "start_plan",
]
