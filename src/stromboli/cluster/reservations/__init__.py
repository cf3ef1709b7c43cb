"""Reservations as the scheduler sees them: what they hold, and those that wait for a node.

`reservation_index` derives both from the objects and the pods that use them, which `listed_users` finds, and `stand_in`
makes the task that is placed for a Reservation. `replaced_pods` knows the pod that a Reservation replaces. Waiting
Reservations of starved jobs are not here: they reserve a node for a pod that exists (see `task_index`).
"""

from .listed_users import FormerUsers, ListedUsers
from .replaced_pods import replaced_task, waits_for_eviction
from .reservation_index import ReservationIndex

__all__ = ["FormerUsers", "ListedUsers", "ReservationIndex", "replaced_task", "waits_for_eviction"]
