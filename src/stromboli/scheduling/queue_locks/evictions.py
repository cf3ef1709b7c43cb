"""Clearing locked nodes, for queues with the policy Guaranteed.

The lock itself is the claimant: no pod of the queue has to wait for the room. While what is idle on the queue's nodes,
together with what it uses there, is less than what it is guaranteed, preemptable pods of other queues are evicted. All
protecting plugins are asked, and no queue falls below its own guarantee. What a queue is promised does not count there:
until it comes true, the queue would have less than it is guaranteed, and nobody waits for this room. Queues that have
more than they deserve lose first, then as few pods as possible go.

The rate is limited by the controllers: in each of their rounds they name one node of a queue (`status.reservation.
evicting`), and only that node is cleared.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from stromboli.cluster import PODS, Job, Node, Queue, QueueName, Status, Task, Vector
from stromboli.cluster.ledger import SHARED
from stromboli.cluster.queue_guarantees import evicts, is_about_nodes, never_drains
from stromboli.scheduling.explanation import reasons
from stromboli.scheduling.session import Session
from stromboli.scheduling.sharing import LeavingPods
from stromboli.scheduling.statement import Statement

from .books import LockBooks

EVICTABLE = frozenset({Status.BOUND, Status.RUNNING})
REASON = "NodeLocked"
_BINDING = SHARED - EVICTABLE


@dataclass(frozen=True, slots=True)
class _Unit:
    """What can only go together, and what it frees on the node."""

    tasks: tuple[Task, ...]
    frees: Vector
    whole: bool = False  # all that is left of a gang


def clear_locked_nodes(session: Session) -> None:
    """Evict pods of others where the controllers say so."""
    books = session.books
    if not isinstance(books, LockBooks):
        return
    for queue in session.turns.each(queue for _, queue in sorted(books.owners.items())):
        if queue.object is None or not evicts(queue.object.spec.guarantee):
            continue
        node = session.nodes.by_name.get(queue.object.status.reservation.evicting)
        if node is not None and node.lock is not None and node.lock.owner is queue:
            _Clearing(session, books, queue, node).run()


class _Clearing:
    """One node of one queue."""

    def __init__(self, session: Session, books: LockBooks, queue: Queue, node: Node) -> None:
        self._session = session
        self._books = books
        self._queue = queue
        self._node = node
        assert node.lock is not None
        self._own = node.lock.opens_to
        self._deserved: dict[QueueName, Vector] | None = None  # once this node is cleared
        self._promises: dict[QueueName, Vector] = {}
        self._nodes = [
            other
            for other in session.ledger.locked.values()
            if other.lock is not None and other.lock.owner.name in self._own
        ]

    def run(self) -> None:
        statement = self._session.statement()
        evicted: list[_Unit] = []
        while (short := self._short()).any():
            unit = self._next(short)
            if unit is None:
                break
            self._evict(statement, unit)
            evicted = _with(evicted, unit)
        for unit in evicted[:-1]:
            for task in unit.tasks:
                statement.spare(task)
            if self._short().any():
                self._evict(statement, unit)
        statement.commit()

    def _evict(self, statement: Statement, unit: _Unit) -> None:
        for task in unit.tasks:
            statement.evict(task, reason=REASON, message=reasons.cleared(self._node.name, self._queue.name))

    def _short(self) -> Vector:
        """What is missing of the guarantee, as far as pods of others on this node use it."""
        foreign = self._foreign_use(self._node)
        assert self._queue.object is not None
        if is_about_nodes(self._queue.object):
            return foreign
        wanted = self._session.axis.zeros() if self._queue.guarantee is None else self._queue.guarantee
        there = sum((self._usable(node) for node in self._nodes), start=self._session.axis.zeros())
        return np.asarray(np.minimum(np.maximum(wanted - there, 0), foreign))

    def _usable(self, node: Node) -> Vector:
        """What the queue uses on a node or could use once terminating pods are gone."""
        room = np.maximum(self._session.nodes.future_idle_of(node.row), 0)
        own = (t.request for t in node.tasks.values() if self._is_own(t) and t.status in SHARED)
        usable = np.asarray(sum(own, start=room))
        usable[PODS] = 0
        return usable

    def _foreign_use(self, node: Node) -> Vector:
        used = self._session.axis.zeros()
        for task in node.tasks.values():
            if task.status in EVICTABLE and not self._is_own(task) and not never_drains(task.pod):
                used += task.request
        used[PODS] = 0
        return used

    def _is_own(self, task: Task) -> bool:
        return task.job is not None and task.job.queue.name in self._own

    # -- victims --------------------------------------------------------------------------------------------------

    def _next(self, short: Vector) -> _Unit | None:
        """The unit to evict next: of a queue above what it deserves, one that suffices (the smallest), else the one
        that helps most."""
        units = [unit for unit in self._units() if bool((np.minimum(unit.frees, short) > 0).any())]
        if not units:
            return None

        def key(unit: _Unit) -> tuple[bool, bool, int, float, tuple[int, ...]]:
            suffices = bool((unit.frees >= short).all())
            needed = short > 0
            helps = float((np.minimum(unit.frees, short)[needed] / short[needed]).sum())
            size = tuple(unit.frees.tolist()) if suffices else ()
            return (not self._is_above_deserved(unit), not suffices, len(unit.tasks), -helps, size)

        return min(units, key=key)

    def _is_above_deserved(self, unit: _Unit) -> bool:
        job = unit.tasks[0].job
        assert job is not None
        if self._deserved is None:
            division, books = self._session.division, LockBooks(self._session, cleared=True)
            self._deserved = {} if division is None else division(books)
        deserved = self._deserved.get(job.queue.name)
        if deserved is None:
            return False
        counts = (unit.frees > 0) & (np.arange(len(deserved)) != PODS)
        return bool((counts & (job.queue.allocated > deserved)).any())

    def _units(self) -> list[_Unit]:
        """Single tasks above their gang's minimum and whole gangs; of equal ones the last in the order comes first."""
        by_job: dict[str, list[Task]] = {}
        for task in self._node.tasks.values():
            if task.status in EVICTABLE and task.job is not None and not self._is_own(task):
                by_job.setdefault(task.job.key, []).append(task)
        units: list[_Unit] = []
        for tasks in by_job.values():
            job = tasks[0].job
            assert job is not None
            if job.object is None or not job.queue.reclaimable:
                continue
            single = [_Unit((task,), task.request) for task in tasks if self._may_go(job, [task], whole=False)]
            units += single or self._whole_gang(job)
        units.sort(key=lambda unit: self._order(unit.tasks[0]), reverse=True)
        return units

    def _whole_gang(self, job: Job) -> list[_Unit]:
        """Unless one of them is just being bound."""
        members = sorted((task for task in job.tasks.values() if task.status in EVICTABLE), key=lambda task: task.key)
        binding = any(task.node is not None and task.status in _BINDING for task in job.tasks.values())
        if binding or not self._may_go(job, members, whole=True):
            return []
        here = (task.request for task in members if task.node is self._node)
        return [_Unit(tuple(members), np.asarray(sum(here, start=self._session.axis.zeros())), whole=True)]

    def _order(self, task: Task) -> tuple[object, object]:
        assert task.job is not None
        return (self._session.job_key(task.job), self._session.task_key(task))

    def _promised(self, queue: Queue) -> Vector:
        """What pods of a queue are promised; evictions here do not change it."""
        known = self._promises.get(queue.name)
        if known is None:
            known = self._promises[queue.name] = self._session.state(LeavingPods).promised(queue)
        return known

    def _may_go(self, job: Job, tasks: list[Task], *, whole: bool) -> bool:
        gives = np.asarray(sum((task.request for task in tasks), start=self._session.axis.zeros()))
        after = job.queue.allocated - self._promised(job.queue) - gives
        if self._books.falls_below_guarantee(job.queue, after, gives):
            return False
        if any(never_drains(task.pod) for task in tasks):
            return False
        # Nobody waits for this room, so the plugins that protect pods are asked on behalf of a pod of no job.
        return not any(
            self._session.protected("reclaimable", replace(task, job=None, node=None), task, whole=whole)
            for task in tasks
        )


def _with(evicted: list[_Unit], unit: _Unit) -> list[_Unit]:
    """If the rest of a gang goes, all of it does: spared pods above its minimum would be left alone."""
    if not unit.whole:
        return [*evicted, unit]
    job = unit.tasks[0].job
    gang = [one for one in evicted if one.tasks[0].job is job]
    tasks = tuple(task for one in (*gang, unit) for task in one.tasks)
    frees = np.asarray(sum((one.frees for one in gang), start=unit.frees))
    return [*(one for one in evicted if one.tasks[0].job is not job), _Unit(tasks, frees, whole=True)]
