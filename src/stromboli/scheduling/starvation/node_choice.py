"""Which nodes are set aside for a job: those that have most idle, its own first, each for one job."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy

import numpy as np

from stromboli.cluster import Job, JobKey, Status, Task
from stromboli.scheduling.callbacks import Rows
from stromboli.scheduling.gang import reserved_tasks
from stromboli.scheduling.session import Session

from .holders import FEATURE, reserved_rows


class NodeOwners:
    """Whose each node is, by row. Jobs are numbers here: where hundreds of jobs hold thousands of nodes, one look at a
    column is quicker than many looks at sets of names."""

    _NOBODY = 0
    _SEVERAL = -1

    def __init__(self, session: Session) -> None:
        self._numbers: dict[JobKey, int] = {}
        self._rows: Rows = np.full(len(session.nodes), self._NOBODY, dtype=np.int64)
        for row, jobs in reserved_rows(session).items():
            self._rows[row] = self._number(next(iter(jobs))) if len(jobs) == 1 else self._SEVERAL

    def __len__(self) -> int:
        """How many nodes are somebody's."""
        return int(np.count_nonzero(self._rows))

    def _number(self, job: JobKey) -> int:
        return self._numbers.setdefault(job, len(self._numbers) + 1)

    def add(self, job: Job) -> None:
        self._rows[[task.node.row for task in reserved_tasks(job) if task.node is not None]] = self._number(job.key)

    def without(self, jobs: Sequence[Job]) -> NodeOwners:
        """As if these jobs held nothing."""
        if not jobs:
            return self
        other = copy(self)
        gone = np.isin(self._rows, [self._number(job.key) for job in jobs])
        other._rows = np.where(gone, self._NOBODY, self._rows)
        return other

    def rows_of(self, job: Job) -> list[int]:
        rows: list[int] = np.flatnonzero(self._rows == self._number(job.key)).tolist()
        return rows

    def is_of(self, job: Job) -> np.ndarray:
        return np.asarray(self._rows == self._number(job.key))

    def open_to(self, job: Job) -> np.ndarray:
        return np.asarray((self._rows == self._NOBODY) | (self._rows == self._number(job.key)))


class NodeOrder:
    """Rows by how much is idle on them, best first; the same for all tasks of a kind, as nothing is used up here."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._known: dict[int, tuple[Rows, Rows]] = {}

    def of(self, task: Task) -> tuple[Rows, Rows]:
        """The rows in order; and by row, its place in that order."""
        known = self._known.get(task.shape.id)
        if known is None:
            order = np.argsort(-self._session.node_order_on_resource(task), kind="stable")
            places = np.empty_like(order)
            places[order] = np.arange(len(order))
            known = self._known[task.shape.id] = (order, places)
        return known


class NodeChoice:
    """Nodes for the tasks of one job. What is reserved on a node, together with what the job itself uses there, never
    exceeds what the node offers; nodes the job has already come first, as they count only once against the limit.

    While a job is served, its nodes only fill up. So what fits a kind of task is worked out once, and afterwards only
    the node that was taken last is looked at again."""

    def __init__(
        self,
        session: Session,
        job: Job,
        order: NodeOrder,
        owners: NodeOwners,
        most: int,
        closed: np.ndarray | None = None,
    ) -> None:
        """`most`: how many nodes may be set aside in all; `closed`: rows that are kept for jobs before this one."""
        self._session = session
        self._order = order
        self._left = most - len(owners)
        self._mine = owners.rows_of(job)
        self._open = owners.open_to(job)
        if closed is not None:
            self._open &= ~closed | owners.is_of(job)
        self._own_use = _own_use(job)
        self._kinds: dict[int, tuple[Task, np.ndarray, list[int]]] = {}

    def row_for(self, task: Task) -> tuple[int | None, bool]:
        """The node to set room aside on; or None, and whether only the limit on nodes stood in the way."""
        _, fits, best_last = self._kind(task)
        mine = [row for row in self._mine if fits[row]]
        if mine:
            places = self._order.of(task)[1]
            return min(mine, key=lambda row: int(places[row])), False
        while best_last and not fits[best_last[-1]]:
            best_last.pop()
        if not best_last:
            return None, False
        return (best_last[-1], False) if self._left > 0 else (None, True)

    def take(self, row: int) -> None:
        """Room was set aside on this node."""
        if row not in self._mine:
            self._mine.append(row)
            self._left -= 1
        for task, fits, _ in self._kinds.values():
            fits[row] = fits[row] and self._has_room(task, row)

    def _kind(self, task: Task) -> tuple[Task, np.ndarray, list[int]]:
        """One task of the kind, which nodes fit it, and those in order."""
        known = self._kinds.get(task.shape.id)
        if known is None:
            nodes = self._session.nodes
            suits = self._session.placement.fitting(task, ahead=True, without=FEATURE).mask & nodes.schedulable
            fits = suits & self._open & (nodes.allocatable - nodes.reserved >= task.request).all(axis=1)
            for row in self._own_use:
                fits[row] = fits[row] and self._has_room(task, row)
            order = self._order.of(task)[0]
            known = self._kinds[task.shape.id] = (task, fits, order[fits[order]][::-1].tolist())
        return known

    def _has_room(self, task: Task, row: int) -> bool:
        nodes = self._session.nodes
        left = nodes.allocatable[row] - nodes.reserved[row] - self._own_use.get(row, 0)
        return bool((left >= task.request).all())


def _own_use(job: Job) -> dict[int, np.ndarray]:
    """What running tasks of the job use, by row."""
    used: dict[int, np.ndarray] = {}
    for task in job.tasks.values():
        if task.node is not None and task.status is not Status.RESERVED:
            before = used.get(task.node.row)
            used[task.node.row] = task.request if before is None else before + task.request
    return used
