"""Places of jobs that cannot start yet, kept until a later action of the cycle decides about them.

A job that finds places for some of its tasks only holds them in a statement that is neither committed nor discarded.
The backfill action lends such room; other actions give it up when they try the job again.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from stromboli.cluster import Job, JobKey, Status
from stromboli.scheduling.session import Session
from stromboli.scheduling.statement import Statement

from .readiness import conditionally_ready


class TentativePlaces:
    def __init__(self, session: Session) -> None:
        self._kept: dict[JobKey, Statement] = {}
        self.given_up: set[int] = set()  # rows where kept places were given up in this session

    def __contains__(self, job: Job) -> bool:
        return job.key in self._kept

    def keep(self, job: Job, statement: Statement) -> None:
        """Leave the places in force until another action decides."""
        self._kept[job.key] = statement

    def unready(self) -> list[Job]:
        """Jobs whose places are kept although they are not enough, even if lent room is counted."""
        kept = [statement.operations[0].task.job for statement in self._kept.values() if statement.operations]
        return [job for job in kept if job is not None and not conditionally_ready(job)]

    def give_up(self, job: Job) -> None:
        statement = self._kept.pop(job.key, None)
        if statement is not None:
            for operation in statement.operations:
                if operation.task.node is not None:
                    self.given_up.add(operation.task.node.row)
            statement.discard()

    @contextmanager
    def suspended(self, job: Job) -> Iterator[None]:
        """Without what is kept for a job. It is kept again afterwards, unless room was set aside for the job."""
        statement = self._kept.pop(job.key, None)
        if statement is None:
            yield
            return
        script = statement.suspend()
        yield
        if not job.counts[Status.RESERVED]:
            statement.repeat(script)
            self.keep(job, statement)
