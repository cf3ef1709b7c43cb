"""Short work on room that is being kept, if it ends before the room is needed.

Where jobs say how long they run (`scheduling.stromboli.io/estimate`), it can be known that a node set aside for a
starving job will not be complete before a certain time: some pods on it have that long to go. A task that ends before
then does not delay anybody.

The earliest start of a holder is the time at which the last of its nodes is free enough. A running pod without an
estimate may end at any moment, so it is taken to be gone already: then the earliest start comes sooner, and less is
let in. So with true estimates a holder is never delayed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stromboli.api import names
from stromboli.api.quantity import parse_duration
from stromboli.api.timestamps import parse_timestamp
from stromboli.cluster import OCCUPYING, Job, Node, Status, Task, Vector

from .reasons import Code
from .reserving import holders, reserved_tasks

if TYPE_CHECKING:
    from .session import Session


class Estimates:
    def __init__(self, session: Session) -> None:
        self._session = session
        self._starts: dict[int, float] = {}  # by row with reserved room: when its holder could start at the earliest
        for job in holders(session).values():
            tasks = [task for task in reserved_tasks(job) if task.node is not None]
            start = max((self._free_at(task) for task in tasks), default=session.now)
            for task in tasks:
                assert task.node is not None
                row = task.node.row
                self._starts[row] = min(start, self._starts.get(row, start))

    def known(self, job: Job) -> bool:
        """Whether all waiting tasks of a job say how long they run."""
        return all(estimate(task) is not None for task in self._session.pending_tasks(job))

    def row_for(self, task: Task) -> int | None:
        """A node that is kept for somebody else and on which the task would be gone in time."""
        session = self._session
        runs = estimate(task)
        if runs is None:
            return None
        fitting = session.placement.fitting(task)
        for row, start in sorted(self._starts.items()):
            reason = int(fitting.reasons[row])
            if reason and session.node_reasons[reason - 1].code != Code.NODE_RESOURCE_RESERVED:
                continue
            room = session.placement.room_now_on(row)
            if session.now + runs <= start and bool((room[fitting.columns] >= task.request[fitting.columns]).all()):
                assert task.job is not None
                if session.allocatable(task.job.queue, task.request, lending=True) is None:
                    return row
        return None

    def _free_at(self, task: Task) -> float:
        """When a node will have room for a task that is to get it, if everybody runs as long as they said."""
        node = task.node
        assert node is not None
        room = self._session.nodes.idle[node.row].copy()
        ends: list[tuple[float, str, Vector]] = []
        for other in node.tasks.values():
            if other.status in OCCUPYING or other.status is Status.RELEASING:
                end = self._ends_at(other, node)
                if end <= self._session.now:
                    room = room + other.request
                else:
                    ends.append((end, other.key, other.request))
        free = self._session.now
        for end, _, request in sorted(ends, key=lambda item: item[:2]):
            if bool(np.all(room >= task.request)):
                break
            room = room + request
            free = end
        return free

    def _ends_at(self, task: Task, node: Node) -> float:
        runs, started = estimate(task), task.pod.status.start_time
        if task.status is Status.RELEASING or runs is None:
            return self._session.now
        if started is None:  # being bound right now
            return self._session.now + runs if task.status is Status.BINDING else self._session.now
        return parse_timestamp(started) + runs


def estimate(task: Task) -> float | None:
    """How long a task says it runs, in seconds; by its pod, or else by its group."""
    said = task.pod.metadata.annotations.get(names.ESTIMATE)
    if said is None and task.job is not None and task.job.object is not None:
        said = task.job.object.metadata.annotations.get(names.ESTIMATE)
    if said is None:
        return None
    try:
        return parse_duration(said)
    except ValueError:
        return None  # what cannot be read says nothing
