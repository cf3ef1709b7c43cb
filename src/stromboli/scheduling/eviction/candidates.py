"""Who could be evicted, as columns over all nodes.

The plugins have the last word on every eviction, and asking them about thousands of pods takes long. What they cannot
change is arithmetic: how much evictions could free on a node, if all were permitted, and how valuable the most valuable
victim would be at least. `Candidates` computes this for all nodes at once. The results are bounds: no plan of evictions
on a node is better than its bound, whatever the plugins say. So most nodes are never looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from stromboli.cluster import Job, Ledger, Matrix, Queue, Status, Task, Vector

RUNS = frozenset({Status.BOUND, Status.RUNNING})

Integers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Bound:
    """The best that evictions on a node can come to: the rank of the most valuable victim, the number of victims, and
    when the youngest of them was created."""

    row: int
    worst: Any
    count: int
    youngest: float


def is_evictable(ledger: Ledger, task: Task) -> bool:
    """Whether the task runs, or has had its place since an earlier cycle and waits for its bind. A bind that is on its
    way cannot be stopped, and what was decided in this cycle is not taken back in it."""
    if task.status in RUNS:
        return True
    if task.status is not Status.BINDING:
        return False
    held = ledger.held.get(task.key)
    return held is not None and held.standing


def has_evictable(job: Job) -> bool:
    """Whether some of its tasks may be evictable."""
    return bool(job.counts[Status.RUNNING] or job.counts[Status.BOUND] or job.held)


def may_lose_tasks(ledger: Ledger, queue: Queue) -> bool:
    """Whether some task of a queue is evictable."""
    return any(
        task.preemptable and is_evictable(ledger, task)
        for job in queue.jobs.values()
        if job.object is not None and has_evictable(job)
        for task in job.tasks.values()
    )


class QueueColumns:
    """Tasks of a queue that were evictable when the session first needed them, in the order of rows. Nobody becomes
    evictable in a session."""

    def __init__(self, ledger: Ledger, queue: Queue) -> None:
        self.queue = queue
        self.tasks = [
            task
            for job in queue.jobs.values()
            if job.object is not None and has_evictable(job)
            for task in job.tasks.values()
            if task.preemptable and (task.status in RUNS or is_evictable(ledger, task))
        ]
        self.at = len(ledger.log)  # when that was
        rows = [task.node.row for task in self.tasks if task.node is not None]
        self.rows: Integers = np.array(rows, dtype=np.int64)
        shapes = [task.shape for task in self.tasks]
        distinct = list(dict.fromkeys(shapes))
        position = {shape: number for number, shape in enumerate(distinct)}
        kinds = [position[shape] for shape in shapes]
        self.requests: Matrix = np.array([shape.request for shape in distinct], dtype=np.int64)[kinds]
        self.created = np.array([task.created for task in self.tasks], dtype=np.float64)

    def __bool__(self) -> bool:
        return bool(self.tasks)


class Candidates:
    """The evictable tasks of several queues. `rank`: how much a queue minds to lose a task; lower loses first."""

    def __init__(self, ledger: Ledger, columns: Iterable[QueueColumns], rank: Callable[[Queue], Any]) -> None:
        self._ledger = ledger
        parts = [part for part in columns if part]
        self.tasks = [task for part in parts for task in part.tasks]
        self._at = max((part.at for part in parts), default=-1)
        self.namespaces = {task.namespace for task in self.tasks}
        ranks = [(rank(part.queue), part) for part in parts]
        values = [
            (own, task.job.priority, task.priority)
            for own, part in ranks
            for task in part.tasks
            if task.job is not None
        ]
        self._worst_of = sorted(set(values))
        position = {value: number for number, value in enumerate(self._worst_of)}
        self._levels: Integers = np.array([position[value] for value in values], dtype=np.int64)
        self._rows = _joined([part.rows for part in parts], np.int64)
        self._created = _joined([part.created for part in parts], np.float64)
        self._requests = np.concatenate([part.requests for part in parts]) if parts else None
        self._order = np.argsort(self._rows, kind="stable")
        self._on: dict[int, list[Task]] = {}

    def on(self, row: int) -> list[Task]:
        """Those on one node; some may have been evicted since."""
        known = self._on.get(row)
        if known is None:
            first, last = np.searchsorted(self._rows, (row, row + 1), sorter=self._order).tolist()
            known = self._on[row] = [self.tasks[position] for position in self._order[first:last].tolist()]
        return known

    def evictable(self, *, inside: Job | None = None, outside: Job | None = None, best_effort: bool = False) -> Flags:
        """Which of them could still be evicted. `inside`: of this job only; `outside`: not of this job. `best_effort`:
        only those that request nothing."""
        tasks, ledger = self.tasks, self._ledger
        flags = np.ones(len(tasks), dtype=np.bool_)
        if self._at != len(ledger.log):
            flags[:] = [task.status in RUNS or is_evictable(ledger, task) for task in tasks]
        if inside is not None:
            flags &= np.array([task.job is inside for task in tasks], dtype=np.bool_)
        if outside is not None and has_evictable(outside):
            flags &= np.array([task.job is not outside for task in tasks], dtype=np.bool_)
        if best_effort:
            flags &= np.array([task.best_effort for task in tasks], dtype=np.bool_)
        return flags

    def places(self, wanted: Vector, room: Matrix, open_to: Flags, among: Flags) -> int:
        """How many tasks that want this much fit on the nodes at most, if all of `among` were evicted."""
        columns = np.flatnonzero(wanted)
        most = room[:, columns].copy()
        if self._requests is not None:
            np.add.at(most, self._rows[among], self._requests[among][:, columns])
        each = np.maximum(most // wanted[columns], 0).min(axis=1)
        return int(each[open_to].sum())

    def bounds(self, wanted: Vector, columns: Integers, room: Matrix, open_to: Flags, among: Flags) -> list[Bound]:
        """For each node where evicting some of `among` could make room for a task that wants this much."""
        chosen = np.flatnonzero(among & open_to[self._rows])
        if self._requests is None or not len(chosen):
            return []
        need = wanted[columns]
        short: Matrix = need - room[:, columns]
        requests: Matrix = self._requests[:, columns]
        level_of_row = self._levels_needed(chosen, requests, short)
        rows = self._rows[chosen]
        chosen = chosen[self._levels[chosen] <= level_of_row[rows]]
        if not len(chosen):
            return []
        chosen = chosen[np.argsort(self._rows[chosen], kind="stable")]
        starts, distinct = _segments(self._rows[chosen])
        largest = np.maximum.reduceat(requests[chosen], starts, axis=0)
        youngest = np.maximum.reduceat(self._created[chosen], starts)
        missing = np.maximum(short[distinct], 0)
        counts = np.maximum(-(-missing // np.maximum(largest, 1)), 1).max(axis=1)
        return [
            Bound(row, self._worst_of[level], count, created)
            for row, level, count, created in zip(
                distinct.tolist(), level_of_row[distinct].tolist(), counts.tolist(), youngest.tolist(), strict=True
            )
        ]

    def _levels_needed(self, chosen: Integers, requests: Matrix, short: Matrix) -> Integers:
        """By row, up to which level tasks have to go until enough is free; -1 where that is never so."""
        needed: Integers = np.full(len(short), -1, dtype=np.int64)
        left = short.copy()
        chosen = chosen[np.lexsort((self._rows[chosen], self._levels[chosen]))]
        ends, _ = _segments(self._levels[chosen])
        for group in np.split(chosen, ends[1:]):
            starts, rows = _segments(self._rows[group])
            left[rows] -= np.add.reduceat(requests[group], starts, axis=0)
            enough = rows[(left[rows] <= 0).all(axis=1) & (needed[rows] < 0)]
            needed[enough] = self._levels[group[0]]
        return needed


def _segments(ordered: Integers) -> tuple[Integers, Integers]:
    """Where each run of equal values starts, and the values; `ordered` is not empty."""
    starts = np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1])))
    return starts, ordered[starts]


def _joined(parts: Sequence[npt.NDArray[Any]], kind: Any) -> npt.NDArray[Any]:
    return np.concatenate(parts) if parts else np.zeros(0, dtype=kind)
