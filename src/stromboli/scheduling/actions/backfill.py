"""backfill: place tasks that ask for nothing.

BestEffort tasks need no room, only a node that takes one more pod, so they are placed after everything else and
queues' limits do not hold them. A gang is still a gang: it gets its BestEffort tasks only if it is at its minimum
then.
"""

from __future__ import annotations

from typing import ClassVar

from stromboli.cluster import Job
from stromboli.scheduling.actions.allocate import considered
from stromboli.scheduling.completing import complete
from stromboli.scheduling.plugin import Action
from stromboli.scheduling.session import Session
from stromboli.scheduling.walking import Walk


class Backfill(Action):
    name: ClassVar[str] = "backfill"

    def execute(self, session: Session) -> None:
        jobs = [job for job in session.jobs if job.pending_best_effort and considered(session, job)]
        walk = Walk(session, jobs)
        while (job := walk.next()) is not None:
            self._place(session, job)

    def _place(self, session: Session, job: Job) -> None:
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
            if rows and statement.allocate(task, session.nodes.nodes[rows[0]]):
                note.found += 1
            elif note.histogram is None:
                note.histogram = fitting.histogram()
        if complete(job):
            statement.commit()
        else:
            statement.discard()
