"""What was promised to admitted jobs and is not used yet.

A job with `minResources` is admitted (phase Inqueue) if there is room for that much; its pods may be created only
afterwards. Until the pods use what the job was admitted for, the difference must count as used, or the same room would
be promised twice. Both checks of the enqueue action, for the cluster and for a queue, use these sums.

    promised = minResources - what the job uses, at least 0;
               for admitted jobs, and for running jobs that reached their minimum and lost pods since;
               gated pods do not count unless they wait for their queue, nor do jobs whose pods could not start on
               empty nodes
    elastic  = what the job uses - minResources, at least 0: more than it was admitted for,
               so it does not keep other jobs of its queue from being admitted

What jobs of lower priority hold is room for a job that may preempt them: their elastic part, and the minimum, too, if
the whole job can be evicted. Two jobs cannot count on the same victims. When the first of them is admitted, it is
promised what it needs, and that is no room for the second.

A job that cannot start, however long it waits, would keep its promise for ever, and others would wait for it in vain.
So it is promised nothing as soon as it has pods that show this (`gang.empty_nodes`). Its phase stays Inqueue. When a
node is added on which it fits, its promise counts again.

Three mistakes are easy to make here. A pod that is being bound counts as used, so it must not count as promised, too. A
job that one plugin would admit and another one rejects is not admitted: only `admit` counts. And a job that states no
minimum was promised nothing.

The sums are computed on first use, and again only after a change of the ledger. The column "pods" has no meaning here:
the number of pods is a limit of nodes.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stromboli.cluster import OCCUPYING, Job, JobKey, Matrix, Queue, Status, Vector
from stromboli.scheduling.gang import EmptyNodes
from stromboli.scheduling.session import Session

from .leaving_pods import LeavingPods


class _Room(NamedTuple):
    """What could be taken from jobs of one priority: of their minimums, with what they were promised, and beyond."""

    minimum: Vector
    elastic: Vector


class AdmissionPromises:
    def __init__(self, session: Session) -> None:
        self._session = session
        self._empty_nodes = session.state(EmptyNodes)
        self.admitting = False  # while jobs are admitted, promises count as used
        self._row = {name: row for row, name in enumerate(session.queues)}
        self._counted: dict[JobKey, Job] = {}  # jobs whose promise is in the sums
        self._awaited: list[Job] = []  # the same, those admitted last at the end
        self._rows = session.ledger.views.rows()
        self._promised: Matrix = np.zeros((len(self._row), session.axis.width), dtype=np.int64)
        self._elastic = self._promised.copy()
        self._everywhere = session.axis.zeros()  # the sum of what is promised
        self._in_namespace: dict[tuple[str, str], Vector] | None = None  # by queue and namespace
        self._below: dict[str, dict[int, _Room]] = {}  # by queue and priority

    def promised(self, queue: Queue) -> Vector:
        self._update()
        row: Vector = self._promised[self._row[queue.name]]
        return row

    def elastic(self, queue: Queue) -> Vector:
        self._update()
        row: Vector = self._elastic[self._row[queue.name]]
        return row

    def committed(self, queue: Queue) -> Vector:
        """What a queue has and was promised, without what its jobs use beyond what they were admitted for."""
        return np.asarray(queue.occupied + self.promised(queue) - self.elastic(queue))

    def promised_everywhere(self) -> Vector:
        self._update()
        return self._everywhere

    def awaited(self) -> list[Job]:
        """The jobs that were promised something, those admitted last at the end. Not to be changed; it is another list
        when the sums are computed again."""
        self._update()
        return self._awaited

    def missing(self, job: Job) -> Vector:
        """What one of them was promised and does not use yet."""
        return _missing(job)

    def promised_in(self, queue: Queue, namespace: str) -> Vector:
        """What was promised to the jobs of one namespace in a queue."""
        self._update()
        if self._in_namespace is None:
            self._in_namespace = {}
            for name in self._row:
                for job in self._session.queues[name].jobs.values():
                    if job.key in self._counted:
                        self._add_to_namespace(job, _missing(job))
        known = self._in_namespace.get((queue.name, namespace))
        return self._session.axis.zeros() if known is None else known

    def held_by(self, queue: Queue) -> Vector:
        """What a queue has, for the order of queues."""
        return np.asarray(queue.allocated + self.promised(queue)) if self.admitting else queue.allocated

    def held_in(self, queue: Queue, namespace: str) -> Vector | None:
        """What a namespace has in a queue, for the order of namespaces; None if nothing. Pods that terminate count
        until they are gone."""
        held = queue.by_namespace.get(namespace)
        if namespace in queue.leaving_in:
            leaving = self._session.state(LeavingPods).inside(queue, namespace)
            held = leaving if held is None else np.asarray(held + leaving)
        if not self.admitting:
            return held
        promised = self.promised_in(queue, namespace)
        return promised if held is None else np.asarray(held + promised)

    def room_below(self, job: Job, *, with_elastic: bool) -> Vector:
        """What a job could preempt in its queue, and what was promised to jobs of lower priority. `with_elastic`:
        including elastic parts. Where those count as free for everybody, they must not be subtracted twice."""
        self._update()
        pending = [task for task in job.tasks.values() if task.status is _PENDING]
        if pending and not any(task.may_preempt for task in pending):
            return self._session.axis.zeros()
        by_priority = self._below.get(job.queue.name)
        if by_priority is None:
            by_priority = self._below[job.queue.name] = {}
            for other in job.queue.jobs.values():
                if other.key in self._counted or other.allocated.any():
                    self._add_room(other, by_priority)
        room = self._session.axis.zeros()
        for priority, (minimum, elastic) in by_priority.items():
            if priority < job.priority:
                room += minimum + elastic if with_elastic else minimum
        return room

    def _add_room(self, job: Job, by_priority: dict[int, _Room]) -> None:
        room = by_priority.setdefault(job.priority, _Room(self._session.axis.zeros(), self._session.axis.zeros()))
        evictable = _evictable(job)
        beyond = np.zeros_like(evictable)
        if job.min_resources is not None and job.phase != "Pending":
            beyond = np.minimum(evictable, np.maximum(job.allocated - job.min_resources, 0))
        room.elastic[:] += beyond
        room.minimum[:] += evictable - beyond
        if job.key in self._counted:
            room.minimum[:] += _missing(job)

    def admit(self, job: Job) -> None:
        """A job was admitted; its phase says so from now on."""
        if job.min_resources is None or job.key in self._counted or self._empty_nodes.is_hopeless(job):
            return
        self._counted[job.key] = job
        self._awaited.append(job)
        missing = _missing(job)
        self._promised[self._row[job.queue.name]] += missing
        self._everywhere += missing
        if self._in_namespace is not None:
            self._add_to_namespace(job, missing)
        if (rooms := self._below.get(job.queue.name)) is not None:
            zeros = self._session.axis.zeros()
            rooms.setdefault(job.priority, _Room(zeros, zeros.copy())).minimum[:] += missing

    def admit_all(self) -> None:
        """Several jobs were admitted, as their phases say."""
        self._rows = self._session.ledger.views.rows()  # that nobody has looked at

    def _add_to_namespace(self, job: Job, missing: Vector) -> None:
        assert self._in_namespace is not None
        key = (job.queue.name, job.namespace)
        if key in self._in_namespace:
            self._in_namespace[key] += missing
        else:
            self._in_namespace[key] = missing.copy()

    def _update(self) -> None:
        if not self._rows.changed():
            return
        self._counted.clear()
        self._in_namespace = None
        self._below.clear()
        self._everywhere[:] = 0
        for queue, row in zip(self._session.queues.values(), self._row.values(), strict=True):
            promised, elastic = self._sums(queue)
            self._promised[row] = promised
            self._elastic[row] = elastic
            self._everywhere += promised
        self._awaited = list(self._counted.values())

    def _sums(self, queue: Queue) -> tuple[Vector | int, Vector | int]:
        """(promised, elastic) of one queue. Most jobs of a long queue are not admitted and have neither."""
        minimums: list[Vector] = []
        occupied: list[Vector] = []
        expected: dict[int, Vector] = {}  # by position, where it differs from the minimum
        awaited: list[bool] = []
        for job in queue.jobs.values():
            if job.min_resources is None or job.object is None:
                continue
            is_awaited = self._is_awaited(job)
            if is_awaited:
                self._counted[job.key] = job
            elif job.phase == "Pending":
                continue
            if job.gated:
                expected[len(minimums)] = _expected(job)
            minimums.append(job.min_resources)
            occupied.append(job.allocated)
            awaited.append(is_awaited)
        if not minimums:
            return 0, 0
        shape = (len(minimums), -1)
        least = np.concatenate(minimums).reshape(shape)
        difference = least - np.concatenate(occupied).reshape(shape)
        elastic = np.maximum(-difference, 0).sum(axis=0)
        for position, amount in expected.items():
            difference[position] += amount - least[position]
        missing = np.maximum(difference, 0)[np.array(awaited)]
        return np.asarray(missing.sum(axis=0)), np.asarray(elastic)

    def _is_awaited(self, job: Job) -> bool:
        if job.phase == "Running":
            if job.ready_count - job.counts[_SUCCEEDED] < job.min_available:
                return False
        elif job.phase != "Inqueue":
            return False
        return not job.counts[_PENDING] or not self._empty_nodes.is_hopeless(job)


_HELD = OCCUPYING | {Status.PIPELINED}
_PENDING = Status.PENDING
_SUCCEEDED = Status.SUCCEEDED


def _evictable(job: Job) -> Vector:
    """What could be evicted of a job: all of it, or what is above its minimum if some of its pods must stay."""
    held = [task for task in job.tasks.values() if task.status in _HELD]
    may_go = [task for task in held if task.preemptable]
    if len(may_go) < len(held):
        above = 0 if job.goes_whole else max(len(held) - job.min_available, 0)
        return sum((task.request for task in may_go[:above]), start=np.zeros_like(job.allocated))
    return job.allocated


def _missing(job: Job) -> Vector:
    return np.asarray(np.maximum(_expected(job) - job.allocated, 0))


def _expected(job: Job) -> Vector:
    """The minimum of a job, without pods that have gates of others: nobody knows when they can be scheduled."""
    assert job.min_resources is not None
    expected = job.min_resources.copy()
    if job.gated:
        for task in job.tasks.values():
            if task.gated and not task.awaits_queue and task.status is _PENDING:
                expected -= task.request
        expected = np.maximum(expected, 0)
    return expected
