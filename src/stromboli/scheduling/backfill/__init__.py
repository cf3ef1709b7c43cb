"""Room that a waiting gang holds, lent to others and given back.

`lent_room` counts on lent room and takes it back, `precedence` says who may do so, `estimates` finds short work that
ends before the room is needed, `rules` has the arguments of the action.
"""

from stromboli.scheduling.session import Session

from .backfill_arguments import FEATURE, BackfillRules, Lending
from .estimates import Estimates
from .lent_room import (
    LentRoom,
    conditionally_ready_condition,
    could_borrow,
    ends_some_day,
    may_borrow,
    not_counted_on,
    note_conditional,
    note_kept,
    place_conditionally,
    take_back,
)

__all__ = [
    "BackfillRules",
    "Estimates",
    "Lending",
    "could_borrow",
    "ends_some_day",
    "may_borrow",
    "note_conditional",
    "open_backfill",
    "take_back",
]


def open_backfill(session: Session) -> None:
    if session.state(Lending).rules.lends:
        with session.registering(FEATURE):
            session.points.room.add(lambda room, job: not_counted_on(session, room))
            session.points.group_conditions.add(lambda job: conditionally_ready_condition(session, job))
            session.points.close.add(lambda: note_kept(session))
            session.points.fallback_placement.add(lambda statement, task: place_conditionally(session, statement, task))
            session.points.fallback_possible.add(lambda task, job: session.state(LentRoom).may_have_place(task, job))
