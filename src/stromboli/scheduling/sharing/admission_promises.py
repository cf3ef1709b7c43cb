"""What was promised to admitted jobs and is not used yet.

A job with `minResources` is admitted (phase Inqueue) if there is room for that much; its pods may be created only
afterwards. Until the pods use what the job was admitted for, the difference must count as used, or the same room would
be promised twice. Both checks of the enqueue action, for the cluster and for a queue, use these sums.

    promised = minResources - what the job uses, at least 0;
               for admitted jobs, and for running jobs that reached their minimum and lost pods since;
               gated pods do not count
    elastic  = what the job uses - minResources, at least 0: more than it was admitted for,
               so it does not keep other jobs from being admitted

Three mistakes are easy to make here. A pod that is being bound counts as used, so it must not count as promised, too. A
job that one plugin would admit and another one rejects is not admitted: only `admit` counts. And a job that states no
minimum was promised nothing.

The sums are computed on first use, and again only after a change of the ledger. The column "pods" has no meaning here:
the number of pods is a limit of nodes.
"""

from __future__ import annotations

import numpy as np

from stromboli.cluster import OCCUPYING, Job, JobKey, Matrix, Queue, Status, Vector
from stromboli.scheduling.framework import Framework


class AdmissionPromises:
    def __init__(self, session: Framework) -> None:
        self._session = session
        self.admitting = False  # while jobs are admitted, promises count as used
        self._row = {name: row for row, name in enumerate(session.queues)}
        self._counted: set[JobKey] = set()  # jobs whose promise is in the sums
        self._read_to = -1  # length of the ledger's log when the sums were computed
        self._promised: Matrix = np.zeros((len(self._row), session.axis.width), dtype=np.int64)
        self._elastic = self._promised.copy()
        self._everywhere = session.axis.zeros()  # the sum of what is promised
        self._in_namespace: dict[tuple[str, str], Vector] | None = None  # by queue and namespace
        self._below: dict[str, list[tuple[int, Vector]]] = {}  # by queue: (priority, what jobs up to it hold)

    def promised(self, queue: Queue) -> Vector:
        self._update()
        row: Vector = self._promised[self._row[queue.name]]
        return row

    def elastic(self, queue: Queue) -> Vector:
        self._update()
        row: Vector = self._elastic[self._row[queue.name]]
        return row

    def promised_everywhere(self) -> Vector:
        self._update()
        return self._everywhere

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
        """What a namespace has in a queue, for the order of namespaces; None if nothing."""
        held = queue.by_namespace.get(namespace)
        if not self.admitting:
            return held
        promised = self.promised_in(queue, namespace)
        return promised if held is None else np.asarray(held + promised)

    def held_below(self, queue: Queue, priority: int) -> Vector:
        """What jobs of lower priority in the queue have and were promised, without elastic parts: a job of this
        priority could preempt it."""
        self._update()
        known = self._below.get(queue.name)
        if known is None:
            by_priority: dict[int, Vector] = {}
            for job in queue.jobs.values():
                held = by_priority.setdefault(job.priority, self._session.axis.zeros())
                held += job.allocated
                if job.min_resources is not None and job.phase != "Pending":
                    held -= np.maximum(job.allocated - job.min_resources, 0)
                if job.key in self._counted:
                    held += _missing(job)
            known = self._below[queue.name] = sorted(by_priority.items(), key=lambda item: item[0])
        return sum((held for below, held in known if below < priority), start=self._session.axis.zeros())

    def admit(self, job: Job) -> None:
        """A job was admitted; its phase says so from now on."""
        if job.min_resources is None or job.key in self._counted:
            return
        self._counted.add(job.key)
        missing = _missing(job)
        self._promised[self._row[job.queue.name]] += missing
        self._everywhere += missing
        if self._in_namespace is not None:
            self._add_to_namespace(job, missing)

    def _add_to_namespace(self, job: Job, missing: Vector) -> None:
        assert self._in_namespace is not None
        key = (job.queue.name, job.namespace)
        if key in self._in_namespace:
            self._in_namespace[key] += missing
        else:
            self._in_namespace[key] = missing.copy()

    def _update(self) -> None:
        position = len(self._session.ledger.log)
        if position == self._read_to:
            return
        self._read_to = position
        self._counted.clear()
        self._in_namespace = None
        self._below.clear()
        self._everywhere[:] = 0
        for queue, row in zip(self._session.queues.values(), self._row.values(), strict=True):
            promised, elastic = self._sums(queue)
            self._promised[row] = promised
            self._elastic[row] = elastic
            self._everywhere += promised

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
                self._counted.add(job.key)
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
        if job.phase == "Inqueue":
            return True
        return job.phase == "Running" and sum(job.counts[s] for s in _OCCUPYING) >= job.min_available


_OCCUPYING = sorted(OCCUPYING)


def _missing(job: Job) -> Vector:
    return np.asarray(np.maximum(_expected(job) - job.allocated, 0))


def _expected(job: Job) -> Vector:
    """The minimum of a job, without its gated pods: nobody knows when they can be scheduled."""
    assert job.min_resources is not None
    expected = job.min_resources.copy()
    if job.gated:
        for task in job.tasks.values():
            if task.gated and task.status is Status.PENDING:
                expected -= task.request
        expected = np.maximum(expected, 0)
    return expected
