"""The condition by which the controllers say that they have rejected an object."""

from __future__ import annotations

from typing import Final

from stromboli.api.kinds import Queue

ACCEPTED: Final = "Accepted"


def rejection_of(queue: Queue) -> str:
    """Why the Queue controller has rejected a queue, by its condition; "" if it has not."""
    return next((c.message for c in queue.status.conditions if c.type == ACCEPTED and c.status == "False"), "")
