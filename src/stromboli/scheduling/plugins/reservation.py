"""Reservations: resources held for pods that are still to come.

A Reservation gets a node as a pod made from its template would, and holds its resources there until pods that it names
use them or its time is over. Such pods go there before nodes are searched for anybody. Without this plugin Reservations
that hold resources keep them, but nobody can use them, and others get no node.

The plugin itself registers nothing: Reservations take part in every step of a cycle, and `scheduling.reservations` does
all of it if the plugin is configured.
"""

from __future__ import annotations

from stromboli.scheduling.plugin import Plugin
from stromboli.scheduling.session import Session


class ReservationPlugin(Plugin):
    name = "reservation"

    def open(self, session: Session) -> None:
        """See `scheduling.reservations.session_hooks`."""
