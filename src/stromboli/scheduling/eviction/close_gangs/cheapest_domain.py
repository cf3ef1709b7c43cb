"""Making room for a group that must be close together: all its victims are in one domain.

Domains are compared by what the evictions in each of them cost; of equals the lower tier is taken. Nothing is evicted
where no domain could be enough. Up to `MOST_DOMAINS` are tried, those first in which the fewest tasks need evictions:
to try one means to look for all victims there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from stromboli.cluster import Task
from stromboli.cluster.topology import Closeness, Domain
from stromboli.scheduling.gang import placed_rows
from stromboli.scheduling.session import Session
from stromboli.scheduling.topology import domains_to_clear

from ..victims import VictimSearch

MOST_DOMAINS: Final = 16

Cost = tuple[Any, ...]
NO_EVICTIONS: Final[Cost] = ()
"""It costs nothing: allocate will see to it."""


def cheapest_domain(
    session: Session,
    closeness: Closeness,
    members: Sequence[Task],
    tasks: Sequence[Task],
    needed: int,
    search: VictimSearch,
    cost_here: Callable[[], Cost | None],
) -> Domain | None:
    """The domain in which to make room for so many of these tasks; None if there is none. `members`: all of the group.
    `cost_here`: what evictions in the domain that is looked at cost, None if they are not enough; it leaves no
    trace."""
    best: tuple[Cost, Domain] | None = None
    for domain in _promising(session, closeness, members, tasks, needed, search):
        with session.inside(domain):
            cost = cost_here()
        if cost == NO_EVICTIONS:
            return domain
        if cost is not None and (best is None or cost < best[0]):
            best = (cost, domain)
    return None if best is None else best[1]


def _promising(
    session: Session,
    closeness: Closeness,
    members: Sequence[Task],
    tasks: Sequence[Task],
    needed: int,
    search: VictimSearch,
) -> list[Domain]:
    room = session.placement.room_at_most(tasks[0].job)
    kinds = session.placement.kinds(tasks)
    most = [(search.most_places_by_row(first), number) for first, number in kinds]
    free = [(session.placement.fitting(first, ahead=True).places_by_row(room), number) for first, number in kinds]
    return domains_to_clear(session, closeness, placed_rows(members), needed, most=most, free=free)[:MOST_DOMAINS]
