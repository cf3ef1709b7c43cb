"""Rule 5 for groups that must be close together: all nodes in one domain.

Domains are tried from the one in which the fewest pods of the job have to wait for others to leave. While the job holds
nodes, only domains around these are tried: it keeps its domain as long as its turn lasts. Only what the job finds in
one domain is kept from others behind it in line.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from stromboli.cluster import Job, Status, Task
from stromboli.cluster.topology import Closeness, Domain
from stromboli.scheduling.callbacks import Horizon
from stromboli.scheduling.gang import PLACED
from stromboli.scheduling.session import Session
from stromboli.scheduling.topology import domains_to_clear

from ..drained_room import DrainedRoom
from ..holders import FEATURE


def domains_for(
    session: Session, job: Job, closeness: Closeness, members: Sequence[Task], tasks: Sequence[Task], needed: int
) -> list[Domain]:
    """Those that could be enough for so many of these tasks once all that may drain has drained, the best first.
    `members`: all of the group."""
    if not tasks:
        return []
    held = [task for task in members if task.status in PLACED or task.status is Status.RESERVED]
    placed = [task.node.row for task in held if task.node is not None]
    drained, now = session.state(DrainedRoom).of(job), session.placement.room_at_most(job)
    kinds = session.placement.kinds(tasks)
    fittings = [
        (session.placement.fitting(first, horizon=Horizon.DRAINED, without=(FEATURE,)), number)
        for first, number in kinds
    ]
    most = [(fitting.places_by_row(np.asarray(drained)), number) for fitting, number in fittings]
    free = [(fitting.places_by_row(now), number) for fitting, number in fittings]
    return domains_to_clear(session, closeness, placed, needed, most=most, free=free)
