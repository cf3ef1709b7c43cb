"""What was promised to jobs that were let in, and is not occupied yet.

A job with `minResources` is let in (phase Inqueue) while there is room for that much; its pods may be created only
afterwards. Until they occupy what the job was let in for, the difference has to be kept free in the books, or the
same room would be promised twice. Both tests of the enqueue action, of the cluster as a whole and of one queue, are
made against these books.

    promised = minResources - what the job occupies, never below nothing
               for jobs let in, and for running jobs that have their gang and lost some pods since;
               pods held back by scheduling gates are not waited for
    elastic  = what the job occupies - minResources, never below nothing: more than it was let in for,
               and so no reason to keep another job out

Three mistakes are easy to make here. A pod that is being bound counts in what its job occupies, so it must not count
as promised any more. A job that one plugin would let in and another one would not is not let in: only `admit`
counts. And a job that states no minimum was promised nothing.

The books are made up when somebody first asks, and again only if pods were moved since.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stromboli.cluster import OCCUPYING, PODS, Job, JobKey, Matrix, Queue, Status, Vector

if TYPE_CHECKING:
    from .session import Session


class Promises:
    def __init__(self, session: Session) -> None:
        self._session = session
        self._row = {name: row for row, name in enumerate(session.queues)}
        self._admitted: set[JobKey] = set()  # let in during this session
        self._counted: set[JobKey] = set()  # whose promise is in the books
        self._read_to = -1  # length of the ledger's log when the books were made up
        self._promised: Matrix = np.zeros((len(self._row), session.axis.width), dtype=np.int64)
        self._elastic = self._promised.copy()

    def promised(self, queue: Queue) -> Vector:
        self._make_up()
        row: Vector = self._promised[self._row[queue.name]]
        return row

    def elastic(self, queue: Queue) -> Vector:
        self._make_up()
        row: Vector = self._elastic[self._row[queue.name]]
        return row

    def promised_everywhere(self) -> Vector:
        self._make_up()
        return np.asarray(self._promised.sum(axis=0), dtype=np.int64)

    def admit(self, job: Job) -> None:
        """A job was let in."""
        self._admitted.add(job.key)
        if job.min_resources is None or job.key in self._counted or not self._is_current():
            return
        self._counted.add(job.key)
        self._promised[self._row[job.queue.name]] += np.maximum(_expected(job) - _occupied(job), 0)

    def _is_current(self) -> bool:
        return self._read_to == len(self._session.ledger.log)

    def _make_up(self) -> None:
        if self._is_current():
            return
        self._read_to = len(self._session.ledger.log)
        self._promised[:] = 0
        self._elastic[:] = 0
        self._counted.clear()
        jobs = [job for job in self._session.jobs if job.min_resources is not None]
        if not jobs:
            return
        awaited = [self._is_awaited(job) for job in jobs]
        self._counted.update(job.key for job, waits in zip(jobs, awaited, strict=True) if waits)
        rows = [self._row[job.queue.name] for job in jobs]
        expected = np.array([_expected(job) if job.gated else job.min_resources for job in jobs])
        minimum = np.array([job.min_resources for job in jobs])
        occupied = np.array([job.allocated for job in jobs])
        occupied[:, PODS] = 0
        missing = np.maximum(expected - occupied, 0) * np.array(awaited)[:, None]
        np.add.at(self._promised, rows, missing)
        np.add.at(self._elastic, rows, np.maximum(occupied - minimum, 0))

    def _is_awaited(self, job: Job) -> bool:
        if job.phase == "Inqueue" or job.key in self._admitted:
            return True
        return job.phase == "Running" and sum(job.counts[s] for s in _OCCUPYING) >= job.min_available


_OCCUPYING = sorted(OCCUPYING)


def _occupied(job: Job) -> Vector:
    occupied = job.allocated.copy()
    occupied[PODS] = 0
    return occupied


def _expected(job: Job) -> Vector:
    """What a job may still come to occupy, out of its minimum: gated pods are not on their way."""
    assert job.min_resources is not None
    expected = job.min_resources.copy()
    if job.gated:
        for task in job.tasks.values():
            if task.gated and task.status is Status.PENDING:
                expected -= task.request
        expected = np.maximum(expected, 0)
        expected[PODS] = 0
    return expected
