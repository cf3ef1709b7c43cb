"""The ledger: who occupies what, kept in columns.

One table says, for every status of a task, which columns of its node the task's request adds to. A change of status
is always `leave` then `enter`; nothing else writes the columns, the counters of jobs, or what queues and namespaces
have. So one property keeps all of it honest: the columns rebuilt from the tasks equal the columns kept
incrementally, after any sequence of operations (`validate`).

Columns, per node and resource (rows are nodes in the order of names)::

    allocatable  what the node offers            used         what tasks hold, holdings included
    idle         allocatable - used              releasing    the part of used that is on its way out
    pipelined    promised out of what is released
    backfilled   the part of used that is lent   conditional  promised out of idle + backfilled
    reserved     set aside for starving jobs     held         remainders of Reservations, part of used

`idle` may be negative: a node can shrink below what runs on it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from .model import OCCUPYING, WAITING, Job, JobKey, Node, Queue, Status, Task, TaskKey
from .resources import PODS, Matrix, ResourceAxis, Vector

NO_POD_LIMIT = 1 << 40
"""What the column "pods" holds for a node that states no limit."""

COLUMNS = ("idle", "used", "releasing", "pipelined", "backfilled", "conditional", "reserved", "held")

_OCCUPY = (("idle", -1), ("used", +1))
EFFECTS: dict[Status, tuple[tuple[str, int], ...]] = {
    Status.PENDING: (),
    Status.PIPELINED: (("pipelined", +1),),
    Status.CONDITIONAL: (("conditional", +1),),
    Status.RESERVED: (("reserved", +1),),
    Status.ALLOCATED: _OCCUPY,
    Status.BINDING: _OCCUPY,
    Status.BOUND: _OCCUPY,
    Status.RUNNING: _OCCUPY,
    Status.RELEASING: (*_OCCUPY, ("releasing", +1)),
    Status.SUCCEEDED: (),
    Status.FAILED: (),
    Status.UNKNOWN: _OCCUPY,
}
"""Which columns a task's request is added to (+1) or taken from (-1) while it is on a node in that status.
A backfill task in an occupying status is in `backfilled` as well."""

SHARED = OCCUPYING | {Status.PIPELINED}
"""Statuses that count in what a job, its namespace and its queue have. A released task's share is free at once,
and what is only conditional or reserved was not given to anybody yet."""


@dataclass(slots=True)
class Holding:
    """What is left of a Reservation on a node, and the queue that pays for it (None: nobody does)."""

    node: Node
    remainder: Vector
    queue: Queue | None
    namespace: str = ""


class NodeTable:
    """The columns. Rows follow the order of node names, so the first of several best rows is the first by name."""

    def __init__(self, axis: ResourceAxis) -> None:
        self.axis = axis
        self.nodes: list[Node] = []
        self.by_name: dict[str, Node] = {}
        self.locked_by: list[str | None] = []  # the queue each node is locked for
        self.allocatable: Matrix = np.zeros((0, axis.width), dtype=np.int64)
        self.idle = self.allocatable.copy()
        self.used = self.allocatable.copy()
        self.releasing = self.allocatable.copy()
        self.pipelined = self.allocatable.copy()
        self.backfilled = self.allocatable.copy()
        self.conditional = self.allocatable.copy()
        self.reserved = self.allocatable.copy()
        self.held = self.allocatable.copy()
        self.ready: npt.NDArray[np.bool_] = np.zeros(0, dtype=np.bool_)
        self.schedulable: npt.NDArray[np.bool_] = np.zeros(0, dtype=np.bool_)

    def __len__(self) -> int:
        return len(self.nodes)

    def column(self, name: str) -> Matrix:
        column: Matrix = getattr(self, name)
        return column

    @property
    def future_idle(self) -> Matrix:
        """What will be free once everything on its way out is gone and every promise is kept."""
        return self.idle + self.releasing - self.pipelined

    def future_idle_of(self, row: int) -> Vector:
        return np.asarray(self.idle[row] + self.releasing[row] - self.pipelined[row])

    @property
    def accessible(self) -> Matrix:
        """What could be had if all lent room were given back, less what is already counted on."""
        return self.idle + self.backfilled - self.conditional

    def set_node(self, node: Node) -> None:
        """Write a node's own facts into its row; `idle` follows."""
        row = node.row
        amounts = dict(node.allocatable)
        amounts.setdefault("pods", NO_POD_LIMIT)
        self.allocatable[row] = self.axis.vector(amounts)
        self.idle[row] = self.allocatable[row] - self.used[row]
        self.ready[row] = node.ready
        self.schedulable[row] = node.schedulable

    def lay_out(self, nodes: Iterable[Node]) -> None:
        """Put rows in the order of names again after nodes came or went; known rows keep their amounts."""
        ordered = sorted(nodes, key=lambda node: node.name)
        old = np.array([node.row for node in ordered], dtype=np.int64)
        known = old >= 0
        width = self.axis.width

        def permuted(column: Matrix) -> Matrix:
            fresh = np.zeros((len(ordered), width), dtype=np.int64)
            fresh[known, : column.shape[1]] = column[old[known]]
            return fresh

        locks = {node.name: self.locked_by[node.row] for node in ordered if node.row >= 0}
        for name in ("allocatable", *COLUMNS):
            setattr(self, name, permuted(self.column(name)))
        for name in ("ready", "schedulable"):
            flags = np.zeros(len(ordered), dtype=np.bool_)
            flags[known] = getattr(self, name)[old[known]]
            setattr(self, name, flags)
        self.nodes = ordered
        self.by_name = {node.name: node for node in ordered}
        self.locked_by = [locks.get(node.name) for node in ordered]
        for row, node in enumerate(ordered):
            new = node.row < 0
            node.row = row
            if new:
                self.set_node(node)

    def widen(self) -> None:
        """Follow the axis when it became wider."""
        short = self.axis.width - self.allocatable.shape[1]
        if short > 0:
            for name in ("allocatable", *COLUMNS):
                setattr(self, name, np.pad(self.column(name), ((0, 0), (0, short))))


class Ledger:
    """Moves tasks between statuses and keeps every column and counter in step."""

    def __init__(self, axis: ResourceAxis) -> None:
        self.axis = axis
        self.table = NodeTable(axis)
        self.holdings: dict[str, Holding] = {}  # by the name of the Reservation
        # What a session has taken out of holdings and not made true.
        self.drawn: dict[str, Vector] = {}
        # Rows in the order they were written: caches over the columns remember how far they have read.
        self.log: list[int] = []
        # Grows whenever room may have become free: who found none before need not look again until it does.
        self.freed = 0
        # Tasks on nodes that are leaving or were promised room: none of them, and idle is all there is to know.
        self.in_transit = 0
        # Tasks whose status or node differs from what is so outside the session.
        self.strayed: dict[TaskKey, Task] = {}
        # Waiting tasks for which a node was made free: what they were promised outlives the session.
        self.nominated: dict[TaskKey, Task] = {}
        # Tasks for which room is set aside, on whichever node; and a number that changes whenever that does.
        self.reserved_tasks: dict[TaskKey, Task] = {}
        self.reserved_epoch = 0
        # Jobs any of whose tasks moved since the log was cleared.
        self.changed_jobs: dict[str, Job] = {}

    # -- one task -----------------------------------------------------------------------------------------------

    def move(self, task: Task, status: Status, node: Node | None) -> None:
        """Give a task a status and a node. This is a session's word: what is so outside stays as it was."""
        old = task.status
        if node is task.node and old in OCCUPYING and status in OCCUPYING:
            self._count(task, -1)
            task.status = status
            self._count(task, +1)
        else:
            self.leave(task)
            task.status = status
            task.node = node
            self.enter(task)
        if status == task.true_status and node is task.true_node:
            self.strayed.pop(task.key, None)
        else:
            self.strayed[task.key] = task

    def settle(self, task: Task, status: Status, node: Node | None) -> None:
        """Say what is so, from now on, for everybody."""
        task.true_status = status
        task.true_node = node
        task.true_backfill = task.backfill
        if task.status is not status or task.node is not node:
            self.move(task, status, node)
        else:
            self.strayed.pop(task.key, None)

    def nominate(self, task: Task, node: str) -> None:
        """Remember that a node is being made free for a task ("": no more)."""
        task.nominated = node
        if node:
            self.nominated[task.key] = task
        else:
            self.nominated.pop(task.key, None)

    def enter(self, task: Task) -> None:
        self._apply(task, +1)
        if task.node is not None:
            task.node.tasks[task.key] = task

    def leave(self, task: Task) -> None:
        self._apply(task, -1)
        if task.node is not None:
            task.node.tasks.pop(task.key, None)

    def _apply(self, task: Task, sign: int) -> None:
        status = task.status
        node = task.node
        if status is Status.RESERVED:
            self.reserved_epoch += 1
            if sign > 0:
                self.reserved_tasks[task.key] = task
            else:
                self.reserved_tasks.pop(task.key, None)
        if node is not None:
            request = task.shape.request
            table = self.table
            row = node.row
            for column, effect in EFFECTS[status]:
                if effect * sign > 0:
                    table.column(column)[row] += request
                else:
                    table.column(column)[row] -= request
            if task.backfill and status in OCCUPYING:
                table.backfilled[row] += sign * request
            self.log.append(row)
            if sign < 0 or status is Status.RELEASING:
                self.freed += 1
            if status is Status.RELEASING or status is Status.PIPELINED:
                self.in_transit += sign
        job = task.job
        if job is not None:
            self._count(task, sign)
            if status in SHARED:
                self._share(job, task.shape.request, sign)
            elif status in WAITING and not task.gated:
                if sign > 0:
                    job.queue.wanted += task.shape.request
                else:
                    job.queue.wanted -= task.shape.request

    def _share(self, job: Job, amount: Vector, sign: int) -> None:
        queue = job.queue
        inside = queue.by_namespace.get(job.namespace)
        if inside is None:
            inside = queue.by_namespace[job.namespace] = self.axis.zeros()
        if sign > 0:
            job.allocated += amount
            queue.allocated += amount
            inside += amount
        else:
            job.allocated -= amount
            queue.allocated -= amount
            inside -= amount

    def _count(self, task: Task, sign: int, times: int = 1) -> None:
        job = task.job
        if job is None:
            return
        self.changed_jobs[job.key] = job
        change = sign * times
        status = task.status
        job.counts[status] += change
        waits_for_nothing = status is Status.PENDING and task.shape.best_effort
        if waits_for_nothing:
            job.pending_best_effort += change
        if task.gated and status is Status.PENDING:
            job.gated += change
        if task.role:
            counts = job.role_counts.get(task.role)
            if counts is None:
                counts = job.role_counts[task.role] = [0] * len(Status)
            counts[status] += change
            if waits_for_nothing:
                before = job.role_pending_best_effort.get(task.role, 0)
                job.role_pending_best_effort[task.role] = before + change

    # -- many tasks of one job and shape ------------------------------------------------------------------------

    def place_many(self, tasks: Sequence[Task], status: Status, nodes: Sequence[Node]) -> None:
        """Move pending tasks of one job and one shape onto nodes at once; the same as one `move` each."""
        first = tasks[0]
        request = first.shape.request
        table = self.table
        rows = [node.row for node in nodes]
        distinct, times = np.unique(np.array(rows, dtype=np.int64), return_counts=True)
        amounts = times[:, None] * request[None, :]
        for column, effect in EFFECTS[status]:
            table.column(column)[distinct] += effect * amounts
        self.log.extend(distinct.tolist())
        job = first.job
        assert job is not None
        for task, node in zip(tasks, nodes, strict=True):
            self._count(task, -1)
            task.status = status
            task.node = node
            self._count(task, +1)
            node.tasks[task.key] = task
            self.strayed[task.key] = task
        if status is Status.PIPELINED:
            self.in_transit += len(tasks)
        total = request * len(tasks)
        job.queue.wanted -= total
        self._share(job, total, +1)

    # -- holdings -----------------------------------------------------------------------------------------------

    def set_holding(self, name: str, holding: Holding | None) -> Holding | None:
        """Say what a Reservation holds, for everybody (None: nothing any more); returns what it held before."""
        self.drawn.pop(name, None)
        return self._put_holding(name, holding)

    def draw(self, name: str, amount: Vector) -> None:
        """Take this much out of a holding, or with a negative amount put it back. This is a session's word."""
        held = self.holdings[name]
        self._put_holding(name, replace(held, remainder=held.remainder - amount))
        self._note_drawn(name, amount)

    def settle_draw(self, name: str, amount: Vector) -> None:
        """What was drawn is gone for everybody."""
        self._note_drawn(name, -amount)

    def _note_drawn(self, name: str, amount: Vector) -> None:
        drawn = self.drawn.pop(name, self.axis.zeros()) + amount
        if drawn.any():
            self.drawn[name] = drawn

    def _put_holding(self, name: str, holding: Holding | None) -> Holding | None:
        before = self.holdings.pop(name, None)
        if before is not None:
            self._hold(before, -1)
        if holding is not None:
            self.holdings[name] = holding
            self._hold(holding, +1)
        return before

    def _hold(self, holding: Holding, sign: int) -> None:
        row = holding.node.row
        table = self.table
        amount = sign * holding.remainder
        table.idle[row] -= amount
        table.used[row] += amount
        table.held[row] += amount
        self.log.append(row)
        self.freed += 1
        if holding.queue is not None:
            queue = holding.queue
            queue.allocated += amount
            if holding.namespace:
                inside = queue.by_namespace.setdefault(holding.namespace, self.axis.zeros())
                inside += amount

    # -- honesty ------------------------------------------------------------------------------------------------

    def restore(self) -> None:
        """Put every strayed task, and every holding drawn from, back to what is so outside the session."""
        for name in sorted(self.drawn):
            self.draw(name, -self.drawn[name])
        for key in sorted(self.strayed):
            task = self.strayed[key]
            self.leave(task)
            task.status = task.true_status
            task.node = task.true_node
            task.backfill = task.true_backfill
            self.enter(task)
        self.strayed.clear()

    def validate(self, tasks: Iterable[Task], jobs: Iterable[Job], queues: Iterable[Queue]) -> None:
        """Raise AssertionError unless columns and counters are what the tasks say."""
        everything = list(tasks)
        shadow = Ledger(self.axis)
        shadow.table.lay_out(
            [Node(n.name, n.object, -1, n.labels, n.ready, n.schedulable, n.allocatable) for n in self.table.nodes]
        )
        twin_queue = {
            queue.name: Queue(queue.name, self.axis.zeros(), self.axis.zeros()) for queue in queues
        }
        twin_job = {
            job.key: Job(job.key, job.name, job.namespace, twin_queue[job.queue.name], self.axis.zeros())
            for job in jobs
        }
        for name, held in self.holdings.items():
            node = shadow.table.by_name[held.node.name]
            payer = None if held.queue is None else twin_queue[held.queue.name]
            shadow.set_holding(name, Holding(node, held.remainder, payer, held.namespace))
        for task in everything:
            twin = _twin(task, shadow, twin_job)
            shadow.enter(twin)
            if task.node is not None:
                assert task.node.tasks.get(task.key) is task, f"{task} is not among the tasks of its node"
        for node in self.table.nodes:
            listed = set(node.tasks)
            true = set(shadow.table.by_name[node.name].tasks)
            assert listed == true, f"node {node.name} lists {sorted(listed ^ true)} wrongly"
        assert self.in_transit == shadow.in_transit, "tasks in transit are miscounted"
        for column in ("allocatable", *COLUMNS):
            mine, rebuilt = self.table.column(column), shadow.table.column(column)
            assert (mine == rebuilt).all(), f"column {column} is off on rows {np.argwhere(mine != rebuilt)}"
        assert (self.table.idle == self.table.allocatable - self.table.used).all()
        for job in jobs:
            other = twin_job[job.key]
            assert job.counts == other.counts, f"{job}: counts {job.counts} should be {other.counts}"
            assert (job.allocated == other.allocated).all(), f"{job}: allocated is off"
            assert job.pending_best_effort == other.pending_best_effort, f"{job}: pending BestEffort is off"
            assert job.gated == other.gated, f"{job}: gated is off"
            for role, counts in job.role_counts.items():
                assert counts == other.role_counts.get(role, [0] * len(Status)), f"{job}: role {role} is off"
        for queue in queues:
            reckoned = twin_queue[queue.name]
            assert (queue.allocated == reckoned.allocated).all(), f"{queue}: allocated is off"
            assert (queue.wanted == reckoned.wanted).all(), f"{queue}: wanted is off"
            for namespace, amount in queue.by_namespace.items():
                true_amount = reckoned.by_namespace.get(namespace, self.axis.zeros())
                assert (amount == true_amount).all(), f"{queue}: namespace {namespace} is off"


def _twin(task: Task, shadow: Ledger, jobs: dict[JobKey, Job]) -> Task:
    node = None if task.node is None else shadow.table.by_name[task.node.name]
    return Task(
        key=task.key, name=task.name, namespace=task.namespace, uid=task.uid, pod=task.pod, shape=task.shape,
        job=None if task.job is None else jobs[task.job.key], priority=task.priority, role=task.role,
        index=task.index, created=task.created, preemptable=task.preemptable, may_preempt=task.may_preempt,
        gated=task.gated, backfill=task.backfill, nominated=task.nominated, status=task.status, node=node,
    )  # fmt: skip


__all__ = ["COLUMNS", "EFFECTS", "NO_POD_LIMIT", "PODS", "SHARED", "Holding", "Ledger", "NodeTable"]
