"""Promises kept from one cycle to the next.

When pods are evicted for a task, the task is nominated to their node, and the nomination outlives the session (it is
written to the pod). Until the task is placed, every session begins by promising it that room again, so that neither
the evicted pods' successors nor anybody else takes it, and nobody is evicted a second time for the same task.
"""

from __future__ import annotations

from stromboli.cluster import Job, JobKey
from stromboli.scheduling.gang import promise_rooms
from stromboli.scheduling.session import Session
from stromboli.scheduling.statement import Statement


class Nominations:
    """Room kept for tasks that others were evicted for, by job: statements that are neither committed nor discarded."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._kept: dict[JobKey, Statement] = {}

    def __contains__(self, job: Job) -> bool:
        return job.key in self._kept

    def honour(self) -> None:
        """Pipeline nominated tasks onto their nodes; a nomination that cannot come true any more is withdrawn."""
        jobs: dict[JobKey, Job] = {}
        for task in self._session.ledger.nominated.values():
            if task.job is not None:
                jobs[task.job.key] = task.job
        for job in sorted(jobs.values(), key=self._session.job_key):
            self.keep(job)

    def keep(self, job: Job) -> None:
        """Promise the nominated tasks of a job their room again."""
        statement = self._session.statement()
        if _hold(self._session, statement, job):
            self._kept[job.key] = statement

    def give_up(self, job: Job) -> None:
        self._kept.pop(job.key).discard()

    def jobs(self) -> list[Job]:
        """Jobs with kept room, in order."""
        kept = [job for job in self._session.jobs if job.key in self._kept] if self._kept else []
        return sorted(kept, key=self._session.job_key)


def open_nominations(session: Session) -> None:
    session.state(Nominations).honour()


def _hold(session: Session, statement: Statement, job: Job) -> bool:
    """Promise the nominated tasks of a job their rooms; False if none of them can have it."""
    can_start = job.queue.open and session.job_valid(job) is None
    tasks = [task for task in session.pending_tasks(job) if task.nominated]
    promised = promise_rooms(session, statement, tasks, unless_idle=False) if can_start else 0
    for task in tasks[promised:]:
        if can_start and session.take_kept_place(statement, task, promised=True):
            continue
        node = session.nodes.by_name.get(task.nominated)
        possible = (
            node is not None
            and can_start
            and session.placement.fitting(task, ahead=True).takes_later(node.row)
        )
        if not possible or node is None or not statement.pipeline(task, node):
            session.ledger.nominate(task, "")
    return bool(statement.operations)
