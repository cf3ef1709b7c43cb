"""Whether a queue stays within what it deserves when resources are moved to it.

Ordinary placements are judged by `Session.allocatable`: there a plugin may lend. Here nothing is lent, and what the
queue deserves is that after the move: what it takes over from another queue is requested there no longer, so the others
divide it anew.
"""

from __future__ import annotations

from collections.abc import Sequence

from stromboli.cluster import Queue, Vector
from stromboli.scheduling.callbacks import Refusal
from stromboli.scheduling.explanation import Code
from stromboli.scheduling.session import Session


def over_deserved(session: Session, queue: Queue, request: Vector, credit: Vector | None = None) -> Refusal | None:
    """Why the queue may not have so much more; None if it may, or if no plugin says what queues deserve. `credit`: what
    is counted as the queue's, and is not to be."""
    need, held = request.tolist(), (queue.allocated if credit is None else queue.allocated - credit).tolist()
    for deserved_amounts in session.points.deserved_amounts.calls:
        deserved = deserved_amounts(queue, {})
        if not _short(session, need, held, deserved):
            continue
        deserved = deserved_amounts(queue, session.consumed)
        for name, column in _short(session, need, held, deserved):
            return Refusal(
                Code.QUEUE_OVER_DESERVED, resource=name, need=need[column], have=held[column], total=deserved[column],
                subject=queue.name,
            )  # fmt: skip
    return None


def _short(session: Session, need: list[int], held: list[int], deserved: Sequence[int]) -> list[tuple[str, int]]:
    """(resource, column) of what would be above it, in the order of names."""
    return [
        (name, column)
        for name, column in session.axis.shared()
        if need[column] > 0 and held[column] + need[column] > deserved[column]
    ]
