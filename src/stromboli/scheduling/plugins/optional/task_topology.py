"""Pods of a job that talk to each other share nodes, as its annotations say (`task_wishes`).

The pods of a job are put into buckets (`task_buckets`), each of which should be on one node. Buckets are placed one
after the other, the largest first, and in each the pods in the order of roles that the job states. A node gets a point
for each pod of the bucket that is there, and for each that would still fit there, the pod in question among them; and
loses one for each pod of the job there from which that pod should be apart. The largest bucket makes 100 points.

    task-topology.weight: 1     multiplies the score

These are wishes: no node is closed to a pod, and nothing is evicted. Only jobs with pods that wait and with such
annotations cost anything.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np

from stromboli.cluster import Job, JobKey, LogView, Task, TaskKey
from stromboli.scheduling.callbacks import Horizon, NodeScore, Rows, Scope, Scores
from stromboli.scheduling.configuration.arguments import Arguments
from stromboli.scheduling.plugin import Plugin
from stromboli.scheduling.session import Session

from .task_buckets import Bucket, Buckets, place_of
from .task_wishes import Wishes, has_wishes, wishes_of


class TaskTopology(Plugin):
    name = "task-topology"

    def __init__(self, arguments: Arguments) -> None:
        self._weight = arguments.number("task-topology.weight", 1)

    def open(self, session: Session) -> None:
        jobs = [job for job in session.waiting if has_wishes(job)]
        if not jobs:
            return
        self._session = session
        self._groups = {job.key: _Group(session, job) for job in jobs}
        self._changed: LogView[Task] = session.ledger.views.tasks()
        self._changed.renew()
        shapes = {task.shape.id for job in jobs for task in job.tasks.values()}
        session.add_task_order(self._order)
        if self._weight:
            session.add_score(
                self._score, depends_on=self._kind, scope=Scope.CLUSTER, keyed=lambda shape: shape.id in shapes
            )

    def _group_of(self, task: Task) -> _Group | None:
        return None if task.job is None else self._groups.get(task.job.key)

    def _order(self, task: Task) -> tuple[Any, ...]:
        """The same for all pods of jobs that have no wishes; pods of different jobs are never compared."""
        group = self._group_of(task)
        if group is None:
            return ()
        bucket, rank = group.buckets.of_task.get(task.key), group.wishes.rank(task.role)
        return (1, 0, 0, rank) if bucket is None else (0, -bucket.waiting, bucket.index, rank)

    def _kind(self, task: Task) -> Hashable:
        group = self._group_of(task)
        bucket = None if group is None else group.buckets.of_task.get(task.key)
        if group is None or bucket is None:
            return None
        return group.key, bucket.index, task.role

    def _score(self, task: Task) -> NodeScore | None:
        group = self._group_of(task)
        bucket = None if group is None else group.buckets.of_task.get(task.key)
        if group is None or bucket is None:
            return None
        scale = 100.0 * self._weight / group.buckets.largest

        def score(rows: Rows) -> Scores:
            self._follow()
            points = group.there(bucket, task, rows) + self._still_fit(bucket, task, rows)
            return points.astype(np.float64) * scale

        return score

    def _follow(self) -> None:
        """Read which pods have got or lost their place."""
        for task in self._changed.news():
            group = self._group_of(task)
            if group is not None:
                group.note(task)

    def _still_fit(self, bucket: Bucket, task: Task, rows: Rows) -> Rows:
        """How many pods of the bucket that wait would fit on each node together, beginning with one like this."""
        nodes = self._session.nodes
        others = [other for other in bucket.tasks if place_of(other) is None]
        alike = next((position for position, other in enumerate(others) if other.shape is task.shape), None)
        if alike is not None:
            del others[alike]
        sums = np.cumsum([task.request, *(other.request for other in others)], axis=0)
        room = nodes.idle if self._session.horizon is Horizon.NOW else nodes.future_idle
        fit = np.full(len(rows), len(sums), dtype=np.int64)
        for column in np.flatnonzero(sums[-1]).tolist():
            fit = np.minimum(fit, np.searchsorted(sums[:, column], room[rows, column], side="right"))
        return fit


class _Group:
    """A job with wishes, and where its pods are."""

    def __init__(self, session: Session, job: Job) -> None:
        wishes = wishes_of(job)
        self._nodes = len(session.nodes)
        self.key: JobKey = job.key
        self.wishes = Wishes() if wishes is None else wishes
        self.buckets = Buckets(job, self.wishes)
        self._rows: dict[TaskKey, int] = {}
        self._roles: dict[int, dict[str, int]] = {}  # by row
        self._in_bucket: dict[int, dict[int, int]] = {}  # by bucket and row
        for task in job.tasks.values():
            self.note(task)

    def note(self, task: Task) -> None:
        before = self._rows.pop(task.key, None)
        if before is not None:
            self._count(task, before, -1)
        node = place_of(task)
        if node is not None:
            self._rows[task.key] = node.row
            self._count(task, node.row, 1)

    def _count(self, task: Task, row: int, number: int) -> None:
        roles = self._roles.setdefault(row, {})
        roles[task.role] = roles.get(task.role, 0) + number
        bucket = self.buckets.of_task.get(task.key)
        if bucket is not None:
            here = self._in_bucket.setdefault(bucket.index, {})
            here[row] = here.get(row, 0) + number

    def there(self, bucket: Bucket, task: Task, rows: Rows) -> Rows:
        """By row: pods of the bucket, less those of the job from which a task like this should be apart."""
        by_row: dict[int, int] = dict(self._in_bucket.get(bucket.index, {}))
        for row, roles in self._roles.items():
            by_row[row] = by_row.get(row, 0) - self.wishes.loss(task.role, roles)
        values = np.zeros(self._nodes, dtype=np.int64)
        for row, number in by_row.items():
            values[row] = number
        return values[rows]
