"""backfill: let nothing lie idle.

First, where ordinary tasks may be backfilled, what gangs that cannot start were tried with is given up and lent to jobs
that fit there and can start whole; their pods are marked, so that the room can be taken back. Gangs that are
conditionally ready keep what they count on.

Then tasks that ask for nothing are placed. BestEffort tasks need no room, only a node that takes one more pod, and
queues' limits do not hold them. A gang is still a gang: it gets its BestEffort tasks only if it is at its minimum then.
"""

from __future__ import annotations

from typing import ClassVar

from stromboli.cluster import Job, Status
from stromboli.scheduling.attempt import BACKFILL, make_ready, requesting
from stromboli.scheduling.backfill import BackfillRules, Estimates, may_borrow
from stromboli.scheduling.configuration import Arguments
from stromboli.scheduling.gang import (
    TentativePlaces,
    complete,
    complete_with_best_effort,
    is_close,
    is_eligible,
)
from stromboli.scheduling.operations.lending import lend
from stromboli.scheduling.plugin import Action
from stromboli.scheduling.session import Session
from stromboli.scheduling.statement import ALLOCATE
from stromboli.scheduling.walk import Walk


class Backfill(Action):
    name: ClassVar[str] = "backfill"

    def __init__(self, arguments: Arguments) -> None:
        self._rules = BackfillRules.read(arguments)

    def execute(self, session: Session) -> None:
        if self._rules.lends:
            self._lend(session)
        if self._rules.uses_estimates:
            self._fill_until_needed(session)
        # Where it matters with which others they are, allocate has placed them.
        jobs = [
            job for job in session.waiting
            if job.pending_best_effort and not is_close(job) and is_eligible(session, job)
        ]  # fmt: skip
        walk = Walk(session, jobs)
        while (job := walk.next()) is not None:
            self._place_best_effort(session, job)

    def _lend(self, session: Session) -> None:
        if not session.state(TentativePlaces).given_up:
            return
        holders = [job for job in session.waiting if job.counts[Status.RESERVED] and is_eligible(session, job)]
        walk = Walk(session, [*holders, *(job for job in session.waiting if self._may_start(session, job))])
        while (job := walk.next()) is not None:
            if self._start_on_lent_room(session, job):
                walk.again(job)

    def _may_start(self, session: Session, job: Job) -> bool:
        places = session.state(TentativePlaces)
        waits = job.counts[Status.PENDING] and not job.counts[Status.RESERVED] and job not in places
        return bool(waits) and is_eligible(session, job)

    def _start_on_lent_room(self, session: Session, job: Job) -> bool:
        """True if it started and has more tasks."""
        tasks = requesting(session, job)
        said = session.notes.of(job)
        # Who cannot be sent away again takes the room for good; so does a job that nodes are reserved for.
        borrows = may_borrow(session, job) and not job.counts[Status.RESERVED]
        lendable = session.state(TentativePlaces).given_up if borrows else set()
        statement = session.statement()
        is_ready = make_ready(session, statement, job, tasks, BACKFILL)
        if not is_ready or not statement.operations:
            statement.discard()
            session.notes.recall(job, said)  # what allocate found counts
            return False
        if not complete_with_best_effort(session, statement, job):
            statement.discard()
            return False
        for operation in list(statement.operations):
            node = operation.task.node
            if operation.kind is ALLOCATE and node is not None and node.row in lendable:
                lend(statement, operation.task)
        statement.commit()
        session.notes.pardon(job)
        return bool(tasks)

    def _fill_until_needed(self, session: Session) -> None:
        estimates = Estimates(session)
        jobs = [job for job in session.waiting if self._may_start(session, job) and may_borrow(session, job)]
        jobs = [job for job in jobs if estimates.known(job)]
        walk = Walk(session, jobs)
        while (job := walk.next()) is not None:
            statement = session.statement()
            tasks = [task for task in session.pending_tasks(job) if not task.best_effort]
            for task in tasks:
                row = estimates.row_for(task)
                if row is None or not session.startable(task) or not statement.allocate(task, session.nodes.nodes[row]):
                    break
                lend(statement, task)
            if statement.operations and complete(job):
                statement.commit()
                session.notes.pardon(job)
            else:
                statement.discard()

    def _place_best_effort(self, session: Session, job: Job) -> None:
        note = session.notes.of(job)
        statement = session.statement()
        for task in session.pending_tasks(job):
            if not task.best_effort:
                continue
            refusal = session.pre_filter(task)
            if refusal is not None:
                session.notes.refuse(job, refusal)
                continue
            fitting = session.placement.fitting(task)
            rows = fitting.choose(task, 1, session.placement.room_now())
            placed = bool(rows) and statement.allocate(task, session.nodes.nodes[rows[0]])
            if not placed and note.blocked is None:
                note.blocked = task
        if complete(job):
            statement.commit()
        else:
            statement.discard()
