"""What the queues hold, in units of work: a single pod, or a gang with the pods above its minimum.

A job that reached its minimum is one unit: its core is the minimum, its other pods are the extras. The pods of a job
without a minimum, or below it, are units of their own.

Evictions of a statement that is still being made can be left out (`before`), so that a plan can be compared with what
was there when it began. Units are counted again only for jobs that changed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from stromboli.cluster import OCCUPYING, Job, JobKey, Queue, QueueName, Status, Task
from stromboli.scheduling.framework import Framework

from .packing import Amounts, Unit

Units = Counter[Unit]

_HELD = OCCUPYING | {Status.PIPELINED}


class _Books:
    """The units of one queue, and what each job adds to them."""

    def __init__(self) -> None:
        self.by_job: dict[JobKey, tuple[object, Units]] = {}
        self.units: Units = Counter()
        self.read_to = -1  # length of the ledger's log


class WorkUnits:
    def __init__(self, session: Framework) -> None:
        self._ledger = session.ledger
        self._books: dict[QueueName, _Books] = {}
        self._evicted: dict[JobKey, list[Task]] = {}
        self._evicted_at = -1

    def now(self, queue: Queue) -> Units:
        """The units of a queue as it is. Not to be changed."""
        books = self._books.get(queue.name)
        position = len(self._ledger.log)
        if books is None:
            books = self._books[queue.name] = _Books()
            changed: Iterable[Job] = queue.jobs.values()
        elif books.read_to == position:
            return books.units
        else:
            changed = [job for job in self._ledger.changed_jobs.values() if job.queue is queue]
        books.read_to = position
        for job in changed:
            self._recount(books, job)
        return books.units

    def _recount(self, books: _Books, job: Job) -> None:
        known = books.by_job.get(job.key)
        signature = (job.allocated.tobytes(), tuple(job.counts), job.min_available)
        if known is not None:
            if known[0] == signature:
                return
            books.units.subtract(known[1])
        units = units_of(job, held_tasks(job)) if job.allocated.any() else Counter()
        books.by_job[job.key] = (signature, units)
        books.units.update(units)
        if known is not None:
            for unit in known[1]:
                if not books.units[unit]:
                    del books.units[unit]

    def before(self, queue: Queue) -> Units:
        """The units of a queue without the evictions of the statement that is being made."""
        units = self.now(queue)
        jobs = [evicted[0].job for evicted in self.evicted().values()]
        mine = [job for job in jobs if job is not None and job.queue is queue]
        if mine:
            units = units.copy()
            for job in mine:
                held = held_tasks(job)
                units.subtract(units_of(job, held))
                units.update(units_of(job, [*held, *self.evicted()[job.key]]))
            units = +units
        return units

    def evicted(self) -> dict[JobKey, list[Task]]:
        """Tasks that are evicted in the statement that is being made, by job."""
        if self._evicted_at != len(self._ledger.log):
            self._evicted_at = len(self._ledger.log)
            self._evicted = {}
            for task in self._ledger.tentative.values():
                if task.status is Status.RELEASING and task.true_status in OCCUPYING and task.job is not None:
                    self._evicted.setdefault(task.job.key, []).append(task)
        return self._evicted


def held_tasks(job: Job) -> list[Task]:
    """The tasks that count in what a job holds."""
    return [task for task in job.tasks.values() if task.status in _HELD]


def units_of(job: Job, tasks: Iterable[Task]) -> Units:
    """What a job would be, in units, if it held these tasks."""
    tasks = list(tasks)
    if not tasks:
        return Counter()
    shapes = {task.shape.id: task.shape for task in tasks}
    of_shape: dict[int, Amounts] = {shape_id: tuple(shape.request.tolist()) for shape_id, shape in shapes.items()}
    if len(shapes) > 1:  # else the order does not matter
        tasks.sort(key=lambda task: task.key)
    amounts = [of_shape[task.shape.id] for task in tasks]
    least = job.min_available - job.counts[Status.SUCCEEDED]
    if least <= 1 or len(amounts) < least:
        return Counter({Unit(amount): number for amount, number in Counter(amounts).items()})
    extras = Counter(amounts[least:])
    return Counter({Unit(_sum(amounts[:least]), tuple(sorted(extras.items()))): 1})


def _sum(amounts: Sequence[Amounts]) -> Amounts:
    return tuple([sum(column) for column in zip(*amounts, strict=True)])
