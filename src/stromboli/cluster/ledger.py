"""The ledger: which tasks occupy which resources.

A table (`EFFECTS`) says, for every status of a task, which columns of its node (see node_table) the task's request is
added to. A change of status is always `leave` and then `enter`; nothing else writes the columns, the counters of jobs,
or the allocations of queues and namespaces. So one property covers all of them: after any sequence of operations, the
columns equal those rebuilt from the tasks (see ledger_validation).

A session changes statuses tentatively with `move` and `draw`; `settle` makes a change permanent, and `restore` undoes
the tentative ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from stromboli.api.reservations import PENDING

from .holdings import JobBooks, LedgerViews
from .model import OCCUPYING, WAITING, Job, Lock, Node, Queue, QueueName, Status, Task, TaskKey
from .resources import PODS, ResourceAxis
from .volumes.held_bind import FormerHold, HeldBind

_OCCUPIES = (("idle", -1), ("used", +1))
EFFECTS: dict[Status, tuple[tuple[str, int], ...]] = {
    Status.PENDING: (),
    Status.PIPELINED: (("pipelined", +1),),
    Status.CONDITIONAL: (("conditional", +1),),
    Status.RESERVED: (("reserved", +1),),
    Status.ALLOCATED: _OCCUPIES,
    Status.BINDING: _OCCUPIES,
    Status.BOUND: _OCCUPIES,
    Status.RUNNING: _OCCUPIES,
    Status.RELEASING: (*_OCCUPIES, ("releasing", +1)),
    Status.SUCCEEDED: (),
    Status.FAILED: (),
    Status.UNKNOWN: _OCCUPIES,
}
"""Which columns a task's request is added to (+1) or taken from (-1) while it is on a node in that status.
A backfill task in an occupying status counts in `backfilled` as well."""

ON_NODE = frozenset(status for status, effects in EFFECTS.items() if ("used", +1) in effects)
"""Statuses in which a task uses resources of its node."""

SHARED = OCCUPYING | {Status.PIPELINED}
"""Statuses that count in the allocation of a job, its namespace and its queue. The share of a releasing task is free at
once; conditional and reserved tasks have not been allocated yet."""

# Looked up once: members of an enumeration take as long to find as an addition of two vectors.
_ALLOCATED = Status.ALLOCATED
_BINDING = Status.BINDING
_PENDING = Status.PENDING
_PIPELINED = Status.PIPELINED
_RELEASING = Status.RELEASING
_RESERVED = Status.RESERVED


class Ledger(JobBooks):
    """Moves tasks between statuses and updates every column and counter."""

    def __init__(self, axis: ResourceAxis) -> None:
        super().__init__(axis)
        # For whoever keeps an answer about the ledger: nobody else reads the counters and logs.
        self.views = LedgerViews(self)
        # Grows whenever the cluster may have changed in a way that matters for decisions: by events, and by what
        # sessions settle. What sessions only try does not count.
        self.changes = 0
        # Grows with other events, apart from those about nodes: what objects say may differ then.
        self.status_changes = 0
        # Grows with those of these changes that concern nodes: what they offer, and whom they accept.
        self.node_changes = 0
        # Tasks that a session has moved tentatively: status or node differ from true_status and true_node.
        self.tentative: dict[TaskKey, Task] = {}
        # Waiting tasks for which pods are being evicted from a node: a nomination outlives the session.
        self.nominated: dict[TaskKey, Task] = {}
        # Tasks that have their place and wait for volumes, in the order in which they were placed.
        self.held: dict[TaskKey, HeldBind] = {}
        # Waiting tasks that an earlier scheduler held, until a session has looked at them.
        self.formerly_held: dict[TaskKey, FormerHold] = {}
        # Waiting tasks whose last bind the server refused.
        self.refused_binds: dict[TaskKey, Task] = {}
        # How many of these were refused again, since one of them was bound after all.
        self.refused_again = 0
        # Tasks without a node whose pods have, or had, the gate of their queue.
        self.queue_gated: dict[TaskKey, Task] = {}
        # Tasks in status Reserved, on any node; and a number that changes whenever they do.
        self.reserved_tasks: dict[TaskKey, Task] = {}
        self.reserved_epoch = 0
        # Tasks that count as ending because they are about to be moved away, until that is off.
        self.departing: dict[TaskKey, Task] = {}
        # Nodes that are locked for a queue, by name.
        self.locked: dict[str, Node] = {}

    # -- one task -----------------------------------------------------------------------------------------------

    def move(self, task: Task, status: Status, node: Node | None) -> None:
        """Give a task a status and a node tentatively: its true status and node stay as they are."""
        stays = node is task.node and task.status in OCCUPYING
        if stays and status in OCCUPYING:
            self._set_status(task, status)
        elif stays and status is _RELEASING and node is not None and not task.backfill:
            self._set_releasing(task, node)
        elif status is _PIPELINED and task.status is _PENDING and task.job is not None and node is not None:
            self._set_pipelined(task, task.job, node)
        else:
            self.leave(task)
            task.status = status
            task.node = node
            self.enter(task)
        if status == task.true_status and node is task.true_node:
            self.tentative.pop(task.key, None)
        else:
            self.tentative[task.key] = task

    def settle(self, task: Task, status: Status, node: Node | None) -> None:
        """Give a task a status and a node permanently."""
        self.changes += status is not task.true_status or node is not task.true_node
        if self.held and status is not _BINDING:
            self.release(task)
        task.true_status = status
        task.true_node = node
        task.true_backfill = task.backfill
        if task.status is not status or task.node is not node:
            self.move(task, status, node)
        else:
            self.tentative.pop(task.key, None)
            if task.job is not None:
                self.task_log.append(task)

    def bind(self, task: Task, node: Node) -> None:
        """Give a pending task of a job, that is not gated and requests something, its place: `settle` with the status
        Binding. There may be ten thousand such tasks in a session, so this does only what they need."""
        job, request, row = task.job, task.shape.request, node.row
        assert job is not None
        self.changes += 1
        idle, used = self.table.idle[row], self.table.used[row]
        idle -= request
        used += request
        if task.backfill:
            self.table.backfilled[row] += request
        self.log.append(row)
        self.task_log.append(task)
        self.changed_jobs[job.key] = job
        for counts in (job.counts, job.role_counts[task.role]):
            counts[_PENDING] -= 1
            counts[_BINDING] += 1
        job.queue.wanted -= request
        self._add_share(job, request, +1)
        if node.lock is not None:
            self._occupy(node.lock, job.queue, request)
        task.status = task.true_status = _BINDING
        task.node = task.true_node = node
        task.true_backfill = task.backfill
        node.tasks[task.key] = task
        self.tentative.pop(task.key, None)

    def rows_assigned(self, placed: Iterable[tuple[Task, Node]]) -> None:
        """The nodes of these tasks have rows now: `settle` there. What they occupy is in their shares already, and
        there may be thousands of such tasks when a scheduler starts, so their requests are added up by node."""
        plain: list[Task] = []
        rows: list[int] = []
        for task, node in placed:
            is_plain = task.node is None and task.status is task.true_status and node.lock is None
            if not is_plain or task.status not in OCCUPYING or task.backfill:
                self.settle(task, task.true_status, node)
                continue
            task.node = task.true_node = node
            task.true_backfill = False
            node.tasks[task.key] = task
            plain.append(task)
            rows.append(node.row)
            if task.job is not None:
                self.changed_jobs[task.job.key] = task.job
                self.task_log.append(task)
        self.changes += len(plain)
        if plain:
            self.log.extend(self.table.occupy(rows, [task.shape for task in plain]))
            for row, task in zip(rows, plain, strict=True):
                if task.job is None:
                    self.table.foreign[row] += task.shape.request

    def nominate(self, task: Task, node: str) -> None:
        """Record that pods are evicted from a node for a task ("" removes the nomination)."""
        self.changes += node != task.nominated
        task.nominated = node
        if task.stands_for:
            self.assumed[task.stands_for] = (PENDING, node)
        if node:
            self.nominated[task.key] = task
        else:
            self.nominated.pop(task.key, None)

    def promised(self) -> dict[str, list[Task]]:
        """The tasks that room is kept for while pods leave, by the node."""
        found: dict[str, list[Task]] = {}
        for task_key in sorted(self.nominated):
            task = self.nominated[task_key]
            found.setdefault(task.nominated, []).append(task)
        return found

    @property
    def any_nominated(self) -> bool:
        """Whether some task is nominated to a node: pods are evicted for it, or its bind waits."""
        return bool(self.nominated or self.held)

    def hold(self, job: Job, tasks: Sequence[Task], held: Sequence[HeldBind]) -> None:
        """The tasks of a job have their places, but their binds wait. Nominations on the pods survive a restart."""
        keys = [task.key for task in tasks]
        self.held.update(zip(keys, held, strict=True))
        for key in keys if self.nominated else ():
            self.nominated.pop(key, None)
        for task, one in zip(tasks, held, strict=True):
            task.nominated = one.node
        job.held += len(tasks)
        self.changes += len(tasks)

    def release(self, task: Task) -> None:
        """The bind of a task no longer waits."""
        if self.held.pop(task.key, None) is not None:
            assert task.job is not None
            task.job.held -= 1
            self.changed_jobs[task.job.key] = task.job
            self.nominate(task, "")

    def note_change(self) -> None:
        """Something happened that matters for decisions and is not in the columns: an attempt that failed may end
        otherwise now."""
        self.changes += 1

    def set_phase(self, job: Job, phase: str) -> None:
        """Record what a session decided about a job's phase."""
        self.changes += phase != job.phase
        job.phase = phase

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
        if status is _RESERVED:
            self.reserved_epoch += 1
            if sign > 0:
                self.reserved_tasks[task.key] = task
            else:
                self.reserved_tasks.pop(task.key, None)
        if node is not None:
            self._apply_to_node(task, node, sign)
            if node.lock is not None and _takes(task, node.lock):
                self._occupy(node.lock, _queue_of(task), sign * task.shape.request)
        job = task.job
        if job is not None:
            self._count(task, sign)
            if status in SHARED:
                self._add_share(job, task.shape.request, sign)
            elif status is _RELEASING and node is not None:
                self._add_leaving(task, job, sign)
            elif status in WAITING and not task.gated:
                if sign > 0:
                    job.queue.wanted += task.shape.request
                else:
                    job.queue.wanted -= task.shape.request

    def _apply_to_node(self, task: Task, node: Node, sign: int) -> None:
        status, request, row, table = task.status, task.shape.request, node.row, self.table
        for column, effect in EFFECTS[status]:
            if effect * sign > 0:
                table.column(column)[row] += request
            else:
                table.column(column)[row] -= request
        if task.backfill and status in OCCUPYING:
            table.backfilled[row] += sign * request
        if task.job is None and status in ON_NODE:
            table.foreign[row] += sign * request
        self.log.append(row)
        if sign < 0 or status is _RELEASING:
            self.freed += 1
        if status is _RELEASING or status is _PIPELINED:
            self.in_transit += sign

    def _set_releasing(self, task: Task, node: Node) -> None:
        """Evict a task: its share is free, and its room is still occupied."""
        request, job = task.shape.request, task.job
        self.table.releasing[node.row] += request
        self.log.append(node.row)
        self.freed += 1
        self.in_transit += 1
        self._set_status(task, _RELEASING)
        if job is not None:
            self._add_share(job, request, -1)
            self._add_leaving(task, job, +1)
            if node.lock is not None and not _takes(task, node.lock):
                self._occupy(node.lock, job.queue, -request)

    def _set_pipelined(self, task: Task, job: Job, node: Node) -> None:
        """Promise a pending task room that will be free."""
        request = task.shape.request
        self.table.pipelined[node.row] += request
        self.log.append(node.row)
        self.in_transit += 1
        self._set_status(task, _PIPELINED)
        task.node = node
        node.tasks[task.key] = task
        if not task.gated:
            job.queue.wanted -= request
        self._add_share(job, request, +1)
        if node.lock is not None:
            self._occupy(node.lock, job.queue, request)

    # -- many tasks of one job ----------------------------------------------------------------------------------

    def settle_binding(self, tasks: Sequence[Task]) -> None:
        """Make the places of allocated tasks of one job permanent; equivalent to one `settle` each."""
        if any(task.status is not _ALLOCATED for task in tasks):
            for task in tasks:  # the same statement reserved the place before
                self.settle(task, _BINDING, task.node)
            return
        self.changes += len(tasks)
        self._set_status_of_many(tasks, _BINDING)
        for task in tasks:
            task.true_status = _BINDING
            task.true_node = task.node
            task.true_backfill = task.backfill
            self.tentative.pop(task.key, None)

    def place_many(self, tasks: Sequence[Task], status: Status, nodes: Sequence[Node]) -> None:
        """Move pending tasks of one job and one shape to nodes at once; equivalent to one `move` each."""
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
        self._set_status_of_many(tasks, status)
        for task, node in zip(tasks, nodes, strict=True):
            task.node = node
            node.tasks[task.key] = task
            self.tentative[task.key] = task
        if status is _PIPELINED:
            self.in_transit += len(tasks)
        total = request * len(tasks)
        job.queue.wanted -= total
        self._add_share(job, total, +1)
        if self.locked:
            for node in nodes:
                if node.lock is not None:
                    self._occupy(node.lock, job.queue, request)

    def take_back_many(self, tasks: Sequence[Task]) -> None:
        """Move tasks of one job and one shape that were placed tentatively, and are not lent their room, back to
        Pending; equivalent to one `move` each."""
        first = tasks[0]
        job, status, request = first.job, first.status, first.shape.request
        assert job is not None
        nodes = [task.node for task in tasks if task.node is not None]
        distinct, times = np.unique(np.array([node.row for node in nodes], dtype=np.int64), return_counts=True)
        amounts = times[:, None] * request[None, :]
        for column, effect in EFFECTS[status]:
            self.table.column(column)[distinct] -= effect * amounts
        self.log.extend(distinct.tolist())
        self.freed += len(tasks)
        if status is _PIPELINED:
            self.in_transit -= len(tasks)
        self._set_status_of_many(tasks, _PENDING)
        for task, node in zip(tasks, nodes, strict=True):
            del node.tasks[task.key]
            task.node = None
            if task.true_status is _PENDING and task.true_node is None:
                self.tentative.pop(task.key, None)
            else:
                self.tentative[task.key] = task
            if node.lock is not None:
                self._occupy(node.lock, job.queue, -request)
        job.queue.wanted += request * sum([not task.gated for task in tasks])
        self._add_share(job, request * len(tasks), -1)

    # -- locks --------------------------------------------------------------------------------------------------

    def lock(self, node: Node, owner: Queue | None, opens_to: frozenset[QueueName] = frozenset()) -> None:
        """Lock a node for a queue and those below it, or unlock it (None). What nobody uses there counts in the owner's
        allocation from now on."""
        self.changes += 1
        if node.lock is not None:
            node.lock.owner.unused -= node.lock.unused
            self._charge_queue(node.lock.owner, -node.lock.unused)
            node.lock = None
            del self.locked[node.name]
        if owner is not None:
            offers = self.table.allocatable[node.row] * node.takes_pods
            offers[PODS] = 0
            zeros = self.axis.zeros()
            node.lock = lock = Lock(owner, opens_to, offers, zeros, {}, zeros.copy())
            self.locked[node.name] = node
            self._occupy(lock, None, zeros.copy())
            for task in node.tasks.values():
                if _takes(task, lock):
                    self._occupy(lock, _queue_of(task), task.shape.request)
            for holding in self.holdings_on.get(node.name, {}).values():
                self._occupy_by_holding(holding, +1)

    # -- back to the true state ---------------------------------------------------------------------------------

    def restore(self) -> None:
        """Undo all tentative changes of tasks and holdings."""
        self.restore_holdings()
        for key in sorted(self.tentative):
            task = self.tentative[key]
            self.leave(task)
            task.status = task.true_status
            task.node = task.true_node
            task.backfill = task.true_backfill
            self.enter(task)
        self.tentative.clear()

    def widen(self) -> None:
        """Pad everything to the width of the axis."""
        self.table.widen()
        for node in self.locked.values():
            if node.lock is not None:
                node.lock.widen(self.axis)
        self.widen_holdings()


def _takes(task: Task, lock: Lock) -> bool:
    """Whether a task takes part of a locked node. A terminating task of the owner does not: what it leaves is the
    owner's before and after. What others leave is the owner's when they are gone."""
    status = task.status
    if status in SHARED:
        return True
    queue = _queue_of(task)
    return status in ON_NODE and (queue is None or queue.name not in lock.opens_to)


def _queue_of(task: Task) -> Queue | None:
    return None if task.job is None else task.job.queue
