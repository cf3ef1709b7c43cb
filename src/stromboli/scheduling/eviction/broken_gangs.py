"""Gangs that stop because of the evictions for another.

Victims are chosen pod by pod, each time those that do the least harm. Together they may stop a gang that could have
gone on: the first pod of the claimant took somebody from a node where others would have done, and for the second only
pods of a gang at its minimum are left. So a small claimant that stops gangs is tried again, with all of those gangs
protected, with each of them, and its pods in the other order; if that breaks others, also with those. The way that does
the least harm is taken.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from stromboli.cluster import Job, JobKey, Task
from stromboli.scheduling.session import Session
from stromboli.scheduling.statement import EVICT, Statement

from .plans import EvictionUnit

MOST_PODS: Final = 8  # that the claimant lacks; for more, what the plans say pod by pod has to do
MOST_GANGS: Final = 4
MOST_CHOICES: Final = 12  # of what is protected


def broken_gangs(session: Session, gone: Sequence[EvictionUnit]) -> list[JobKey]:
    """Jobs that could run before these were evicted, and cannot now."""
    found: dict[JobKey, None] = {}
    for unit in gone:
        job = unit.tasks[0].job
        if job is not None and unit.was_ready and not session.job_ready(job):
            found[job.key] = None
    return list(found)


def choices(broken: Sequence[JobKey]) -> Iterator[frozenset[JobKey]]:
    """What to protect, one choice after the other."""
    if 0 < len(broken) <= MOST_GANGS:
        yield frozenset()
        yield frozenset(broken)
        if len(broken) > 1:
            for one in broken:
                yield frozenset({one})


def harm(session: Session, statement: Statement, gone: Sequence[EvictionUnit]) -> tuple[Any, ...]:
    """Of the evictions in a statement, as plans are compared: priorities, victims of jobs that stop, all victims."""
    victims = [operation.task for operation in statement.operations if operation.kind is EVICT]
    could_run = {unit.tasks[0].job.key for unit in gone if unit.was_ready and unit.tasks[0].job is not None}
    worst = max(map(_priorities, victims), default=(-(2**63), 0))
    return (worst, sum(_stopped(session, task, could_run) for task in victims), len(victims))


def _priorities(task: Task) -> tuple[int, int]:
    return _job(task).priority, task.priority


def _stopped(session: Session, task: Task, could_run: set[JobKey]) -> bool:
    job = _job(task)
    return job.key in could_run and not session.job_ready(job)


def _job(task: Task) -> Job:
    assert task.job is not None
    return task.job
