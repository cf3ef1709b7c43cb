"""Who could be evicted, as columns over all nodes.

The plugins have the last word on every eviction, and asking them about thousands of pods takes long. What they cannot
change is arithmetic: how much evictions could free on a node, if all were permitted, and how valuable the most valuable
victim would be at least. `Candidates` computes this for all nodes at once. The results are bounds: no plan of evictions
on a node is better than its bound, whatever the plugins say. So most nodes are never looked at.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from stromboli.cluster import Job, Ledger, Matrix, Queue, Status, Task, TaskKey, Vector
from stromboli.scheduling.gang import whole_groups

RUNS = frozenset({Status.BOUND, Status.RUNNING})
_BOUND, _RUNNING = Status.BOUND, Status.RUNNING  # members of an enumeration take long to find

Priorities = tuple[int, int]  # of a job, and of one of its tasks
Bound = tuple[Any, int, int, float]
"""The best that evictions on a node can come to: the rank of the most valuable victim, how many victims belong to jobs
that stop, how many there are, and when the youngest of them was created, negative."""
Integers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


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
    counts = job.counts
    return bool(counts[_RUNNING] or counts[_BOUND] or job.held)


def may_lose_tasks(ledger: Ledger, queue: Queue) -> bool:
    """Whether some task of a queue is evictable."""
    return any(
        task.preemptable and task.node is not None and is_evictable(ledger, task)
        for job in queue.jobs.values()
        if job.object is not None and has_evictable(job)
        for task in job.tasks.values()
    )


def _evictable_tasks(ledger: Ledger, job: Job) -> list[Task]:
    """Most of them run, so that is looked at first."""
    return [
        task
        for task in job.tasks.values()
        if task.preemptable and task.node is not None and (task.status in RUNS or is_evictable(ledger, task))
    ]


def runs_short_without(job: Job, tasks: Sequence[Task]) -> bool:
    """Whether a gang that can run now would lack some without these."""
    if job.ready_count - len(tasks) < job.min_available:
        return True
    if job.layout is not None:
        for policy in job.layout.policies:
            if policy.least and whole_groups(job, policy, without=tasks) < policy.least:
                return True
    if not job.roles_matter:
        return False
    roles = Counter(task.role for task in tasks)
    return any(job.role_occupied(role) - roles[role] < least for role, least in job.role_minimums.items())


def _vital(job: Job, tasks: Sequence[Task]) -> list[bool]:
    """Of each task, whether the job stops without it."""
    if not job.is_ready:
        return [False] * len(tasks)
    return [runs_short_without(job, (task,)) for task in tasks]


def _numbers(job: Job, tasks: Sequence[Task], known: dict[Priorities, int]) -> list[int]:
    """Of each task, the number of its priorities, which is added to those that are known."""
    own = [task.priority for task in tasks]
    number_of = {one: known.setdefault((job.priority, one), len(known)) for one in dict.fromkeys(own)}
    return [number_of[one] for one in own]


class StillEvictable:
    """Which of all tasks that were evictable still are, by number."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._numbers: dict[TaskKey, int] = {}
        self._flags: Flags = np.ones(0, dtype=np.bool_)
        self._changed = ledger.views.tasks()
        self._changed.renew()

    def add(self, tasks: Sequence[Task]) -> int:
        """Number tasks that are evictable now; returns the first number."""
        first = len(self._flags)
        self._numbers.update(zip([task.key for task in tasks], range(first, first + len(tasks)), strict=True))
        self._flags = np.concatenate((self._flags, np.ones(len(tasks), dtype=np.bool_)))
        return first

    def now(self) -> Flags:
        for task in self._changed.news():
            number = self._numbers.get(task.key)
            if number is not None:
                self._flags[number] = is_evictable(self._ledger, task)
        return self._flags


class QueueColumns:
    """Tasks of a queue that were evictable when the session first needed them. Nobody becomes evictable in a
    session."""

    def __init__(self, ledger: Ledger, queue: Queue, still: StillEvictable) -> None:
        self.queue = queue
        self.tasks: list[Task] = []
        known: dict[Priorities, int] = {}
        priority_of: list[int] = []
        vital: list[bool] = []
        for job in queue.jobs.values():
            if job.object is not None and has_evictable(job):
                tasks = _evictable_tasks(ledger, job)
                self.tasks += tasks
                vital += _vital(job, tasks)
                priority_of += _numbers(job, tasks, known)
        first = still.add(self.tasks)
        self.numbers: Integers = np.arange(first, first + len(self.tasks))  # in StillEvictable
        self.namespaces = {task.namespace for task in self.tasks}
        rows = [task.node.row for task in self.tasks if task.node is not None]
        self.rows: Integers = np.array(rows, dtype=np.int64)
        shapes = {task.shape.id: task.shape for task in self.tasks}
        position = {shape_id: number for number, shape_id in enumerate(shapes)}
        kinds = np.array([position[task.shape.id] for task in self.tasks], dtype=np.int64)
        self.requests: Matrix = np.array([shape.request for shape in shapes.values()], dtype=np.int64)[kinds]
        self.created = np.array([task.created for task in self.tasks], dtype=np.float64)
        self.vital: Flags = np.array(vital, dtype=np.bool_)
        self.priorities: list[Priorities] = list(known)
        self.priority_of: Integers = np.array(priority_of, dtype=np.int64)  # by task

    def __bool__(self) -> bool:
        return bool(self.tasks)


class JoinedColumns:
    """The evictable tasks of several queues. Each claimant ranks the queues in its own way; all else is the same."""

    def __init__(self, parts: Iterable[QueueColumns]) -> None:
        parts = [part for part in parts if part]
        self.tasks = [task for part in parts for task in part.tasks]
        self.namespaces = set[str]().union(*[part.namespaces for part in parts])
        self.pairs = [(part.queue, pair) for part in parts for pair in part.priorities]
        firsts = np.cumsum([0, *[len(part.priorities) for part in parts]])
        lengths = [len(part.tasks) for part in parts]
        self.pair_of: Integers = _joined(parts, "priority_of", np.int64) + np.repeat(firsts[:-1], lengths)  # by task
        self.numbers: Integers = _joined(parts, "numbers", np.int64)
        self.rows: Integers = _joined(parts, "rows", np.int64)
        self.created = _joined(parts, "created", np.float64)
        self.vital = _joined(parts, "vital", np.bool_)
        self.requests = _joined(parts, "requests", np.int64) if parts else None
        self._order = np.argsort(self.rows, kind="stable")
        self._on: dict[int, list[Task]] = {}

    def on(self, row: int) -> list[Task]:
        """Those on one node; some may have been evicted since."""
        known = self._on.get(row)
        if known is None:
            first, last = np.searchsorted(self.rows, (row, row + 1), sorter=self._order).tolist()
            known = self._on[row] = [self.tasks[position] for position in self._order[first:last].tolist()]
        return known


class Candidates:
    """The evictable tasks of several queues. `rank`: how much a queue minds to lose a task; lower loses first."""

    def __init__(self, columns: JoinedColumns, rank: Callable[[Queue], Any], still: StillEvictable) -> None:
        self._still = still
        self.tasks = columns.tasks
        self.namespaces = columns.namespaces
        self.on = columns.on
        values = [(rank(queue), *pair) for queue, pair in columns.pairs]
        self._worst_of = sorted(set(values))
        position = {value: number for number, value in enumerate(self._worst_of)}
        levels = np.array([position[value] for value in values], dtype=np.int64)
        self._levels: Integers = levels[columns.pair_of]
        self._numbers = columns.numbers
        self._rows = columns.rows
        self._created = columns.created
        self._vital = columns.vital
        self._requests = columns.requests

    def evictable(self, *, inside: Job | None = None, outside: Job | None = None, best_effort: bool = False) -> Flags:
        """Which of them could still be evicted. `inside`: of this job only; `outside`: not of this job. `best_effort`:
        only those that request nothing."""
        tasks = self.tasks
        flags = self._still.now()[self._numbers]
        if inside is not None:
            flags &= np.array([task.job is inside for task in tasks], dtype=np.bool_)
        if outside is not None and has_evictable(outside):
            flags &= np.array([task.job is not outside for task in tasks], dtype=np.bool_)
        if best_effort:
            flags &= np.array([task.best_effort for task in tasks], dtype=np.bool_)
        return flags

    def places(self, wanted: Vector, room: Matrix, open_to: Flags, among: Flags) -> Integers:
        """By row, how many tasks that want this much fit on a node at most, if all of `among` were evicted."""
        columns = np.flatnonzero(wanted)
        most = room[:, columns].copy()
        if self._requests is not None:
            np.add.at(most, self._rows[among], self._requests[among][:, columns])
        each: Integers = np.maximum(most // wanted[columns], 0).min(axis=1)
        each[~open_to] = 0
        return each

    def bounds(
        self, wanted: Vector, columns: Integers, room: Matrix, open_to: Flags, among: Flags, *, gangs: bool
    ) -> dict[int, Bound]:
        """By row, for each node where evicting some of `among` could make room for a task that wants this much.
        `gangs`: jobs have a minimum."""
        chosen = np.flatnonzero(among & open_to[self._rows])
        if self._requests is None or not len(chosen):
            return {}
        need = wanted[columns]
        short: Matrix = need - room[:, columns]
        requests: Matrix = self._requests[:, columns]
        level_of_row = self._levels_needed(chosen, requests, short)
        rows = self._rows[chosen]
        chosen = chosen[self._levels[chosen] <= level_of_row[rows]]
        if not len(chosen):
            return {}
        chosen = chosen[np.argsort(self._rows[chosen], kind="stable")]
        starts, distinct = _segments(self._rows[chosen])
        largest = np.maximum.reduceat(requests[chosen], starts, axis=0)
        youngest = np.maximum.reduceat(self._created[chosen], starts)
        missing = np.maximum(short[distinct], 0)
        counts = np.maximum(-(-missing // np.maximum(largest, 1)), 1).max(axis=1)
        stopped = np.where(np.logical_and.reduceat(self._vital[chosen] & gangs, starts), counts, 0)
        worst = [self._worst_of[level] for level in level_of_row[distinct].tolist()]
        bounds = zip(worst, stopped.tolist(), counts.tolist(), (-youngest).tolist(), strict=True)
        return dict(zip(distinct.tolist(), bounds, strict=True))

    def _levels_needed(self, chosen: Integers, requests: Matrix, short: Matrix) -> Integers:
        """By row, up to which level tasks have to go until enough is free; -1 where that is never so."""
        needed: Integers = np.full(len(short), -1, dtype=np.int64)
        chosen = chosen[np.lexsort((self._levels[chosen], self._rows[chosen]))]
        starts, rows = _segments(self._rows[chosen])
        # What is free on a node when this one and all before it are gone, and what was before the first.
        freed = np.cumsum(requests[chosen], axis=0)
        before = np.zeros((len(rows), freed.shape[1]), dtype=np.int64)
        before[1:] = freed[starts[1:] - 1]
        number = np.diff(starts, append=len(chosen))
        missing = np.repeat(before + short[rows], number, axis=0)
        never = len(self._worst_of)
        level = np.where((freed >= missing).all(axis=1), self._levels[chosen], never)
        first = np.minimum.reduceat(level, starts)
        needed[rows] = np.where(first < never, first, -1)
        return needed


def _segments(ordered: Integers) -> tuple[Integers, Integers]:
    """Where each run of equal values starts, and the values; `ordered` is not empty."""
    starts = np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1])))
    return starts, ordered[starts]


def _joined(parts: Sequence[QueueColumns], column: str, kind: Any) -> npt.NDArray[Any]:
    return np.concatenate([getattr(part, column) for part in parts]) if parts else np.zeros(0, dtype=kind)
