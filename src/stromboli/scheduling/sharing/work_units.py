"""What the queues hold, in units of work: a single pod, or a gang with the pods above its minimum.

A job that reached its minimum is one unit: its core is the minimum, its other pods are the extras. The pods of a job
without a minimum, or below it, are units of their own.

Evictions of a statement that is still being made can be left out (`before`), so that a plan can be compared with what
was there when it began. Units are counted again only for jobs that changed. For most jobs that is no work: if all tasks
have the same shape, their number says it all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from stromboli.cluster import OCCUPYING, Job, JobKey, Queue, QueueName, Status, Task, TaskKey
from stromboli.scheduling.framework import Framework

from .packing import Amounts, Unit

Units = dict[Unit, int]

_RELEASING = Status.RELEASING
_HELD = OCCUPYING | {Status.PIPELINED}
_HELD_INDEXES = tuple(sorted(int(status) for status in _HELD))


class TaskGroup(NamedTuple):
    """Tasks of one job. Of those that are all alike only the number is known."""

    number: int
    request: list[int]  # of all together
    tasks: Sequence[Task] | None


class _Books:
    """The units of one queue, and what each job adds to them: as it is, and without tentative evictions."""

    def __init__(self) -> None:
        self.by_job: dict[JobKey, tuple[Units, Units]] = {}
        self.now: Units = {}
        self.before: Units = {}


class _Lost:
    """What a queue loses in the statement that is being made."""

    def __init__(self, queue: Queue) -> None:
        self.queue = queue
        self.number = 0
        self.amounts = [0] * len(queue.allocated)

    def add(self, task: Task, sign: int) -> None:
        self.number += sign
        self.amounts = [has + sign * one for has, one in zip(self.amounts, task.request.tolist(), strict=True)]


class WorkUnits:
    def __init__(self, session: Framework) -> None:
        self._ledger = session.ledger
        self._books: dict[QueueName, _Books] = {}
        self._evicted: dict[JobKey, dict[TaskKey, Task]] = {}
        self._lost: dict[QueueName, _Lost] = {}
        self._alike: dict[JobKey, Amounts | None] = {}  # the request of each task, if all are alike
        for task in self._ledger.tentative.values():
            if task.job is not None:
                self._note(task, task.job)
        self._changed = self._ledger.views.tasks()
        self._changed.renew()

    def now(self, queue: Queue) -> Units:
        """The units of a queue as it is. Not to be changed."""
        return self._read(queue).now

    def before(self, queue: Queue) -> Units:
        """The units of a queue without the evictions of the statement that is being made. Not to be changed."""
        return self._read(queue).before

    def losers(self) -> list[Queue]:
        """Queues of tasks that are evicted in the statement that is being made."""
        self._follow()
        return [lost.queue for lost in self._lost.values()]

    def evicted_amount(self, queue: Queue) -> list[int]:
        """What a queue loses in the statement that is being made."""
        self._follow()
        lost = self._lost.get(queue.name)
        return [] if lost is None else lost.amounts

    # -- of one job -----------------------------------------------------------------------------------------------

    def of(self, job: Job, *, without: TaskGroup | None = None, also: TaskGroup | None = None) -> Units:
        """What a job would be, in units, with some tasks fewer or more than it holds."""
        amounts = self.alike(job)
        if amounts is None:
            gone = set() if without is None or without.tasks is None else {task.key for task in without.tasks}
            more = () if also is None or also.tasks is None else also.tasks
            return units_of(job, [*(task for task in held_tasks(job) if task.key not in gone), *more])
        number = held_number(job)
        number += (0 if also is None else also.number) - (0 if without is None else without.number)
        return _equal_units(amounts, number, job.min_available - job.counts[Status.SUCCEEDED])

    def group(self, job: Job, tasks: Collection[Task]) -> TaskGroup:
        group = self.alike_group(job, len(tasks))
        return group or TaskGroup(len(tasks), total_request(job, tasks), list(tasks))

    def alike_group(self, job: Job, number: int) -> TaskGroup | None:
        """So many tasks of a job, if all of its tasks are alike."""
        amounts = self.alike(job)
        return None if amounts is None else TaskGroup(number, [number * amount for amount in amounts], None)

    def alike(self, job: Job) -> Amounts | None:
        """What each task of a job requests, if all have the same shape."""
        if job.key not in self._alike:
            shapes = {task.shape.id: task.shape for task in job.tasks.values()}
            same = tuple(next(iter(shapes.values())).request.tolist()) if len(shapes) == 1 else None
            self._alike[job.key] = same
        return self._alike[job.key]

    # -- following the ledger -------------------------------------------------------------------------------------

    def _read(self, queue: Queue) -> _Books:
        self._follow()
        books = self._books.get(queue.name)
        if books is None:
            books = self._books[queue.name] = _Books()
            for job in queue.jobs.values():
                self._recount(books, job)
        return books

    def _follow(self) -> None:
        changed: dict[JobKey, Job] = {}
        for task in self._changed.news():
            if task.job is not None:
                self._note(task, task.job)
                changed[task.job.key] = task.job
        for job in changed.values():
            books = self._books.get(job.queue.name)
            if books is not None:
                self._recount(books, job)

    def _note(self, task: Task, job: Job) -> None:
        """Record whether a task is evicted."""
        is_evicted = task.status is _RELEASING and task.true_status in OCCUPYING
        evicted = self._evicted.get(job.key)
        if is_evicted == (evicted is not None and task.key in evicted):
            return
        if is_evicted:
            self._evicted.setdefault(job.key, {})[task.key] = task
            self._lost.setdefault(job.queue.name, _Lost(job.queue)).add(task, +1)
        elif evicted is not None:
            del evicted[task.key]
            if not evicted:
                del self._evicted[job.key]
            lost = self._lost[job.queue.name]
            lost.add(task, -1)
            if not lost.number:
                del self._lost[job.queue.name]

    def _recount(self, books: _Books, job: Job) -> None:
        known = books.by_job.pop(job.key, None)
        if known is not None:
            _add(books.now, known[0], -1)
            _add(books.before, known[1], -1)
        now = self.of(job) if job.allocated.any() else {}
        evicted = self._evicted.get(job.key)
        before = self.of(job, also=self.group(job, evicted.values())) if evicted else now
        if now or before:
            books.by_job[job.key] = (now, before)
            _add(books.now, now, +1)
            _add(books.before, before, +1)


def held_tasks(job: Job) -> list[Task]:
    """The tasks that count in what a job holds."""
    return [task for task in job.tasks.values() if task.status in _HELD]


def held_number(job: Job) -> int:
    return sum([job.counts[index] for index in _HELD_INDEXES])


def units_of(job: Job, tasks: Iterable[Task]) -> Units:
    """What a job would be, in units, if it held these tasks."""
    tasks = sorted(tasks, key=lambda task: task.key)
    shapes = {task.shape.id: task.shape for task in tasks}
    of_shape: dict[int, Amounts] = {shape_id: tuple(shape.request.tolist()) for shape_id, shape in shapes.items()}
    amounts = [of_shape[task.shape.id] for task in tasks]
    least = job.min_available - job.counts[Status.SUCCEEDED]
    if least <= 1 or len(amounts) < least:
        return {Unit(amount): number for amount, number in Counter(amounts).items()}
    extras = Counter(amounts[least:])
    return {Unit(_sum(amounts[:least]), tuple(sorted(extras.items()))): 1}


def total_request(job: Job, tasks: Iterable[Task]) -> list[int]:
    total = np.zeros_like(job.allocated)
    for task in tasks:
        total += task.shape.request
    amounts: list[int] = total.tolist()
    return amounts


def _equal_units(amounts: Amounts, number: int, least: int) -> Units:
    if number <= 0:
        return {}
    if least <= 1 or number < least:
        return {Unit(amounts): number}
    extras = ((amounts, number - least),) if number > least else ()
    return {Unit(tuple([least * amount for amount in amounts]), extras): 1}


def _add(total: Units, units: Mapping[Unit, int], sign: int) -> None:
    for unit, number in units.items():
        count = total.get(unit, 0) + sign * number
        if count:
            total[unit] = count
        else:
            del total[unit]


def _sum(amounts: Sequence[Amounts]) -> Amounts:
    return tuple([sum(column) for column in zip(*amounts, strict=True)])
