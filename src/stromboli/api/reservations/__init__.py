"""Reservations that hold resources of a node for pods that are still to come: what their fields mean.

The scheduler, the controllers and the reports all read these objects. What a field means is written here once, so they
cannot disagree about who may use a reservation or when it ends. Reservations of the action `reserve`, in phase Waiting,
hold nothing; `waiting_reservations` is about them.
"""

from __future__ import annotations

from .fields import (
    AVAILABLE,
    EXPIRED,
    FAILED,
    OVER,
    PENDING,
    SUCCEEDED,
    expires_at,
    has_expired,
    is_held,
    is_migration,
    is_over,
    is_waiting_for_room,
    namespace_of,
    pinned_node,
    preemptor_class,
    queue_of,
    reserved_amounts,
    serves_queue,
)
from .owners import (
    is_user,
    may_use,
    may_use_elsewhere,
    reservation_id,
    user_reference,
    uses,
    with_users,
    without_users,
)

__all__ = [
    "AVAILABLE",
    "EXPIRED",
    "FAILED",
    "OVER",
    "PENDING",
    "SUCCEEDED",
    "expires_at",
    "has_expired",
    "is_held",
    "is_migration",
    "is_over",
    "is_user",
    "is_waiting_for_room",
    "may_use",
    "may_use_elsewhere",
    "namespace_of",
    "pinned_node",
    "preemptor_class",
    "queue_of",
    "reservation_id",
    "reserved_amounts",
    "serves_queue",
    "user_reference",
    "uses",
    "with_users",
    "without_users",
]
