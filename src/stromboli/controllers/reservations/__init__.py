"""Reservations: what becomes of them once they are created.

The scheduler finds a node for a Reservation, and takes it back if somebody else needs the resources more. Everything
else is here: `controller` says whom to visit and when, and `lifecycle` what a visit comes to, from the Reservation, its
node and the pods there. Nothing is remembered, so a restart changes nothing.
"""

from .reservation_controller import DEFAULT_RETENTION, ReservationController

__all__ = ["DEFAULT_RETENTION", "ReservationController"]
