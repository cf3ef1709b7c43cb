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
        with session.registering(FEATURE, tier=len(session.configuration.tiers)):
            session.add_room(lambda room, job: not_counted_on(session, room))
            session.add_group_conditions(lambda job: conditionally_ready_condition(session, job))
            session.add_close(lambda: note_kept(session))
            session.add_fallback_placement(
                lambda statement, task: place_conditionally(session, statement, task),
                is_possible=lambda task, job: session.state(LentRoom).may_have_place(task, job),
            )
