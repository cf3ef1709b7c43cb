"""What Reservations keep for a job that has starved.

What they hold does not drain, so it is not set aside for anybody. For a job whose own pods may use it, it is room that
the job will find there, as much of it as these pods can use.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import numpy as np

from stromboli.cluster import PODS, Job, Task, Vector
from stromboli.cluster.resources import add_to
from stromboli.scheduling.session import Session

from .matches import Matches
from .room import ReservedRoom


def kept_room(session: Session, job: Job, of_queue: bool) -> Mapping[int, Vector]:
    """By row: how much of what is held there the waiting pods of a job can use. `of_queue`: only of Reservations that
    its own queue is charged for."""
    if not session.state(Matches):
        return {}
    room, found = session.state(ReservedRoom), dict[str, tuple[int, Vector]]()
    kinds = Counter[tuple[int, int]]()
    examples: dict[tuple[int, int], Task] = {}
    for _, task in room.find([task for task in session.pending_tasks(job) if not task.best_effort]):
        kind = (id(session.state(Matches).of(task)), task.shape.id)
        kinds[kind] += 1
        examples[kind] = task
    for kind, number in kinds.items():
        task = examples[kind]
        for _, usable, held, pods in room.usable(task):
            if of_queue and held.queue is not job.queue:
                continue
            amount = np.zeros_like(held.remainder)
            columns = list(usable.columns)
            amount[columns] = task.request[columns] * min(number, pods)
            amount[PODS] = held.remainder[PODS]
            if usable.object.spec.allocate_once:
                amount = held.remainder.copy()  # what its pod leaves is free
            _, known = found.get(usable.name, (held.node.row, amount))
            found[usable.name] = (held.node.row, np.maximum(known, amount))
    by_row: dict[int, Vector] = {}
    for row, amount in found.values():
        add_to(by_row, row, amount)
    return by_row
