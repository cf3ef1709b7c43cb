"""Short work on room that is being kept, if it ends before the room is needed.

Where jobs say how long they run (`scheduling.stromboli.io/estimate`), it can be known that a job for which room is kept
cannot start before a certain time: some pods in its way have that long to go. A task that ends before then does not
delay anybody.

The earliest start of a job is the first time at which as many of its tasks as it needs could have room, on whichever
nodes may take them: not only on those kept for it, because it starts elsewhere if it can. A running pod without an
estimate may end at any moment, so it is taken to be gone already, and so is one that has overrun its own. All this can
only make the answer too early, and then less is let in. So with true estimates nobody is delayed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import numpy as np

from stromboli.api import names
from stromboli.api.quantity import parse_duration
from stromboli.api.timestamps import parse_timestamp
from stromboli.cluster import OCCUPYING, Job, Matrix, Status, Task, Vector
from stromboli.scheduling.callbacks import Horizon, ReasonIds, Rows
from stromboli.scheduling.explanation.reasons import Code
from stromboli.scheduling.gang import TentativePlaces, conditionally_ready, reserved_tasks
from stromboli.scheduling.session import Session
from stromboli.scheduling.starvation import holders


class Estimates:
    """By row on which room is kept: when it could be needed at the earliest."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._needed_at: dict[int, float] = {}
        places = session.state(TentativePlaces)
        kept = {job.key: _rows(reserved_tasks(job)) for job in holders(session).values()}
        jobs = {job.key: job for job in session.jobs if job.key in kept}
        for job in [job for job in session.jobs if job in places and conditionally_ready(job)]:
            # What it counts on is remembered here from now on, so that room it would hold idle can be looked at.
            kept[job.key] = _rows(task for task in job.tasks.values() if task.status in _COUNTS_ON)
            jobs[job.key] = job
            places.give_up(job)
        if not kept:
            return
        self._room, self._ends = self._outlook()
        for key, rows in kept.items():
            start = self._earliest_start(jobs[key])
            for row in rows:
                self._needed_at[row] = min(start, self._needed_at.get(row, start))

    def known(self, job: Job) -> bool:
        """Whether all waiting tasks of a job say how long they run."""
        return all(estimate(task) is not None for task in self._session.pending_tasks(job))

    def row_for(self, task: Task) -> int | None:
        """A node on which room is kept for somebody else, and on which the task would be gone in time."""
        session = self._session
        runs = estimate(task)
        if runs is None or task.job is None:
            return None
        # Not beyond what its queue deserves: a queue that has more loses what is set aside for its jobs.
        if session.allocatable(task.job.queue, task.request) is not None:
            return None
        fitting = session.placement.fitting(task)
        for row, needed_at in sorted(self._needed_at.items()):
            if session.now + runs > needed_at:
                continue
            session.due(needed_at - runs)  # later than that, it would not be gone in time
            if self._may_take(fitting.reasons, row):
                room = session.placement.room_now_on(row)
                if bool((room[fitting.columns] >= task.request[fitting.columns]).all()):
                    return row
        return None

    def _may_take(self, reasons: ReasonIds, row: int) -> bool:
        """Whether nothing but being kept for somebody speaks against a node."""
        reason = int(reasons[row])
        return not reason or self._session.node_reasons[reason - 1].code == Code.NODE_RESOURCE_RESERVED

    def _suits(self, task: Task) -> Matrix:
        """By row, whether a task could go there, were it not for room, for neighbours that end, and for being kept."""
        reasons = self._session.placement.fitting(task, horizon=Horizon.DRAINED).reasons
        return np.array([self._may_take(reasons, row) for row in range(len(reasons))], dtype=np.int64)

    # -- how long it takes --------------------------------------------------------------------------------------

    def _outlook(self) -> tuple[Matrix, list[tuple[float, int, Vector]]]:
        """What is free at once, if those who do not say otherwise end now; and who ends when, on which row."""
        session = self._session
        room = session.nodes.idle.copy()
        ends: list[tuple[float, int, Vector]] = []
        for node in session.nodes.nodes:
            for task in node.tasks.values():
                if task.status in OCCUPYING or task.status is Status.RELEASING:
                    end = self._ends_at(task)
                    if end <= session.now:
                        room[node.row] += task.request
                    else:
                        ends.append((end, node.row, task.request))
        ends.sort(key=lambda item: item[:2])
        if ends:
            session.due_at(ends[0][0])  # from then on that one has overrun its estimate, if it still runs
        return room, ends

    def _earliest_start(self, job: Job) -> float:
        session = self._session
        tasks = [task for task in session.pending_tasks(job) if not task.best_effort]
        missing = job.min_available - job.ready_count - job.pending_best_effort
        signature = session.placement.signature
        waiting = Counter(signature(task) for task in tasks)
        examples = {signature(task): task for task in tasks}
        suits = {kind: self._suits(task) for kind, task in examples.items()}
        room = self._room.copy()
        # How many tasks of each kind fit on each row now. A kind counts with no more tasks than there are of it.
        fits = {kind: _how_many(room, task.request) * suits[kind] for kind, task in examples.items()}
        now = session.now
        position = 0
        while sum(min(waiting[kind], int(rows.sum())) for kind, rows in fits.items()) < missing:
            if position == len(self._ends):
                break  # it waits for something else than room; by then all are gone who are here now
            now, row, request = self._ends[position]
            position += 1
            room[row] += request
            for kind, task in examples.items():
                if suits[kind][row]:
                    fits[kind][row] = _how_many(room[row : row + 1], task.request)[0]
        return now

    def _ends_at(self, task: Task) -> float:
        runs, started = estimate(task), task.pod.status.start_time
        if task.status is Status.RELEASING or runs is None:
            return self._session.now
        if started is None:  # being bound right now
            return self._session.now + runs if task.status is Status.BINDING else self._session.now
        return parse_timestamp(started) + runs


_COUNTS_ON = frozenset({Status.ALLOCATED, Status.PIPELINED, Status.CONDITIONAL})


def _rows(tasks: Iterable[Task]) -> list[int]:
    return sorted({task.node.row for task in tasks if task.node is not None})


def _how_many(room: Matrix, request: Vector) -> Rows:
    """How many tasks with such a request fit, by row."""
    asked = request > 0
    counts: Rows = (np.maximum(room[:, asked], 0) // request[asked]).min(axis=1)
    return counts


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
