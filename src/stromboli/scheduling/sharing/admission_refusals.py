"""Why a job is not admitted to a queue that may have all that there is: with what would make a difference.

Room on nodes that take no pods may come back, and pods that are in no queue may end. Who reads that a job can never be
admitted gives it up, so both are stated.
"""

from __future__ import annotations

from stromboli.scheduling.callbacks import Refusal
from stromboli.scheduling.explanation import Code
from stromboli.scheduling.session import Session


def no_room_to_admit(session: Session, resource: str, *, need: int, held: int, limit: int, promised: int) -> Refusal:
    """`held`: what counts as used of the limit; `promised`: the part of it that admitted jobs do not use yet."""
    column = session.axis.index[resource]
    closed = session.closed_room[column]
    return Refusal(
        Code.INSUFFICIENT_NODE, resource=resource, need=need, have=max(limit - held, 0), total=limit, kept=promised,
        closed=closed, outside=max(session.undivided(column) - closed, 0),
    )  # fmt: skip
