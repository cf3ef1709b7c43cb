"""Promises kept from one cycle to the next.

When pods are evicted for a task, the task is nominated to their node, and the nomination outlives the session (it is
written to the pod). Until the task is placed, every session begins by promising it that room again, so that neither
the evicted pods' successors nor anybody else takes it, and nobody is evicted a second time for the same task.

A node may be lost while the pods leave it, or a limit reached. A gang that cannot start with what is left of its
promise keeps that and completes it with room that is free or leaving. If that is not enough, it gives all of it back at
once: half a promise is of no use to the gang, and nobody else could use the room (see `returned_promises`).
"""

from __future__ import annotations

from stromboli.cluster import Job, JobKey
from stromboli.scheduling.gang import conditionally_ready, home_domain, promise_rooms, with_choices
from stromboli.scheduling.session import Session
from stromboli.scheduling.statement import Statement

from .free_places import fits_without
from .returned_promises import ReturnedPromises, returned_conditions


class Nominations:
    """Room kept for tasks that others were evicted for, by job: statements that are neither committed nor discarded."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._kept: dict[JobKey, Statement] = {}

    def __contains__(self, job: Job) -> bool:
        return job.key in self._kept

    def honour(self) -> None:
        """Pipeline nominated tasks onto their nodes; a nomination that cannot come true any more is withdrawn."""
        found: dict[JobKey, Job] = {}
        stand_ins = {job.key for job in self._session.snapshot.stand_ins}
        for task in self._session.ledger.nominated.values():
            job = task.job
            if job is not None and not job.put_aside and (not task.stands_for or job.key in stand_ins):
                found[job.key] = job
        jobs = sorted(found.values(), key=self._session.job_key)
        nodes = {job.key: _nominated_nodes(job) for job in jobs}
        for job in self._session.turns.each(jobs):
            self._hold(job)
        # Only when all have what is left of their own: nobody completes a promise with the room of another.
        for job in self._session.turns.each(jobs):
            self._complete(job, nodes[job.key])

    def keep(self, job: Job) -> None:
        """Promise the nominated tasks of a job their room again."""
        nodes = _nominated_nodes(job)
        self._hold(job)
        self._complete(job, nodes)

    def give_up(self, job: Job) -> None:
        self._kept.pop(job.key).discard()

    def jobs(self) -> list[Job]:
        """Jobs with kept room, in order."""
        session = self._session
        known = [*session.jobs, *session.snapshot.stand_ins] if self._kept else []
        return sorted((job for job in known if job.key in self._kept), key=session.job_key)

    def _hold(self, job: Job) -> None:
        statement = self._session.statement()
        if _hold(self._session, statement, job):
            self._kept[job.key] = statement

    def _complete(self, job: Job, nodes: set[str]) -> None:
        """See that the job can start with what it is promised, or give it back. `nodes`: that it was nominated to."""
        session = self._session
        if session.job_pipelined(job) or conditionally_ready(job):
            return
        statement = session.statement()
        if job.key in self._kept:
            for task in with_choices(session, session.pending_tasks(job))[0]:
                if session.job_pipelined(job):
                    break
                with session.inside(home_domain(session, task)):
                    if not fits_without(session, statement, task):
                        break
        if session.job_pipelined(job):
            for operation in statement.operations:
                if operation.task.node is not None:
                    session.ledger.nominate(operation.task, operation.task.node.name)
            self._kept[job.key].merge(statement)
            return
        statement.discard()
        if job.key in self._kept:
            self.give_up(job)
        for task in [task for task in job.tasks.values() if task.key in session.ledger.nominated]:
            session.ledger.nominate(task, "")
        if nodes:
            session.state(ReturnedPromises).add(job, nodes)


def open_nominations(session: Session) -> None:
    session.state(Nominations).honour()
    with session.registering("eviction"):
        session.points.group_conditions.add(lambda job: returned_conditions(session, job))
        session.points.stand_in_conditions.add(lambda job: returned_conditions(session, job))


def _nominated_nodes(job: Job) -> set[str]:
    return {task.nominated for task in job.tasks.values() if task.nominated}


def _hold(session: Session, statement: Statement, job: Job) -> bool:
    """Promise the nominated tasks of a job their rooms; False if none of them can have it."""
    can_start = job.queue.open and session.job_valid(job) is None
    tasks, _ = with_choices(session, [task for task in session.pending_tasks(job) if task.nominated])
    promised = promise_rooms(session, statement, tasks, unless_idle=False) if can_start else 0
    for task in tasks[promised:]:
        if can_start and session.take_kept_place(statement, task, promised=True):
            continue
        node = session.nodes.by_name.get(task.nominated)
        possible = node is not None and can_start and session.placement.fitting(task, ahead=True).takes_later(node.row)
        if not possible or node is None or not statement.pipeline(task, node):
            session.ledger.nominate(task, "")
    return bool(statement.operations)
