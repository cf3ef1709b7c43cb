"""The features that take part in every session, in the order in which they are opened.

This is the one place that names them all. A feature registers its callbacks when the session is opened, after the
plugins, and keeps its state in the session (`Session.state`); neither the session nor the features below it know of
each other, except where `docs/design.md` says so.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from .backfill import open_backfill
from .bind_backoff import open_bind_backoff
from .eviction import open_nominations
from .half_gangs import open_half_gangs
from .moves import note_leaving, open_moves
from .queue_gates import open_queue_gates
from .queue_locks import clear_locked_nodes, lock_nodes
from .reservations import drop_expired, open_reservations
from .session import Session
from .starvation import open_starvation
from .volumes import open_volumes, settle_volumes

PREPARATIONS: Final[tuple[Callable[[Session], None], ...]] = (
    drop_expired,
    settle_volumes,
    Session.divide,
    lock_nodes,
    note_leaving,
)
"""What features do before plugins are opened: plugins divide the cluster when they are, so they must know by then what
is in whose reach, and must see the room that is given back because volumes did not come."""

FEATURES: Final[tuple[Callable[[Session], None], ...]] = (
    open_bind_backoff,  # before all that place something: filters must be complete by then
    open_reservations,
    open_moves,
    open_starvation,
    open_backfill,
    open_half_gangs,
    open_nominations,
    open_volumes,
    clear_locked_nodes,
    open_queue_gates,  # at the end of a cycle: after all that give room back
)
