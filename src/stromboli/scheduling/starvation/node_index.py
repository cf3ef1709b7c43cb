"""Behind rule 5, for speed: whose each node is, and the order of nodes, for all jobs in line."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from copy import copy

import numpy as np

from stromboli.cluster import Job, JobKey, Task
from stromboli.scheduling.callbacks import Rows
from stromboli.scheduling.gang import reserved_tasks
from stromboli.scheduling.session import Session

from .holders import reserved_rows


class NodeOwners:
    """Whose each node is, by row. Jobs are numbers here: where hundreds of jobs hold thousands of nodes, one look at a
    column is quicker than many looks at sets of names."""

    _NOBODY = 0
    _SEVERAL = -1

    def __init__(self, session: Session) -> None:
        self._numbers: dict[JobKey, int] = {}
        self._rows: Rows = np.full(len(session.nodes), self._NOBODY, dtype=np.int64)
        self._locked = np.zeros(len(session.nodes), dtype=np.bool_)
        self._locked[[node.row for node in session.ledger.locked.values()]] = True
        for row, jobs in reserved_rows(session).items():
            self._rows[row] = self._number(next(iter(jobs))) if len(jobs) == 1 else self._SEVERAL

    def __len__(self) -> int:
        """How many nodes are somebody's, without those that do not count."""
        return int(np.count_nonzero(self._rows[~self._locked]))

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
        self._keys = session.points.node_order_signature.calls
        self._known: dict[Hashable, tuple[Rows, Rows]] = {}

    def of(self, task: Task) -> tuple[Rows, Rows]:
        """The rows in order; and by row, its place in that order."""
        kind = (task.shape.id, *[key(task) for key in self._keys])
        known = self._known.get(kind)
        if known is None:
            order = np.argsort(-self._session.node_order_on_resource(task), kind="stable")
            places = np.empty_like(order)
            places[order] = np.arange(len(order))
            known = self._known[kind] = (order, places)
        return known
