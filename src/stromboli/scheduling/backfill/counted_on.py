"""What a job counts on: lent room that it would have back, and the places that it has there already.

Every conditional place of a gang asks for all of this. Added up anew each time, a gang of n pods beside n borrowers
would take n² steps, in every cycle in which it waits. So it is kept by node for the job that asked last, and only nodes
that have changed since are looked at again. What is settled changes who may send whom away; then all nodes are.
"""

from __future__ import annotations

import numpy as np

from stromboli.cluster import OCCUPYING, Job, Matrix, Node, Status, Task, Vector
from stromboli.scheduling.session import Session

from .backfill_arguments import FEATURE, Lending
from .precedence import Precedence


def lent_tasks(node: Node) -> list[Task]:
    """Backfill tasks on a node that are not leaving yet."""
    return [task for task in node.tasks.values() if task.backfill and task.status in OCCUPYING]


def may_count_on(session: Session, job: Job, borrower: Task) -> bool:
    """Where borrowers are not evicted, only on those that end."""
    leaves = borrower.ends or session.state(Lending).rules.evicts
    return leaves and session.state(Precedence).may_send_away(job, borrower)


def accessible(session: Session, job: Job | None, lent: Matrix) -> Matrix:
    """What a job could have if `lent` were given back, less what others already count on; None: any job."""
    return np.asarray(session.placement.room_now(job, without=FEATURE) + lent - session.nodes.conditional)


class CountedOn:
    def __init__(self, session: Session) -> None:
        self._session = session
        self._settled = session.ledger.views.settled()
        self._last: JobCounts | None = None

    def by(self, job: Job) -> JobCounts:
        if self._settled.changed() or self._last is None or self._last.job is not job:
            self._last = JobCounts(self._session, job)
        self._last.update()
        return self._last


class JobCounts:
    def __init__(self, session: Session, job: Job) -> None:
        self._session, self.job = session, job
        self.lent = np.zeros_like(session.nodes.backfilled)  # what others would give back to the job
        self._to_queue = np.zeros_like(self.lent)  # of that, what its own queue would have back
        self._asked = np.zeros_like(self.lent)  # the job's own conditional places
        mine = [task.node.row for task in job.tasks.values() if task.status is Status.CONDITIONAL and task.node]
        for row in {*np.flatnonzero(session.nodes.backfilled.any(axis=1)).tolist(), *mine}:
            self._look(row)
        self._rows = session.ledger.views.rows()
        self._rows.renew()

    def update(self) -> None:
        for row in set(self._rows.news()):
            self._look(row)

    def _look(self, row: int) -> None:
        session, job, node = self._session, self.job, self._session.nodes.nodes[row]
        for amounts in (self.lent, self._to_queue, self._asked):
            amounts[row] = 0
        for task in lent_tasks(node):
            if may_count_on(session, job, task):
                self.lent[row] += task.request
                if task.job is not None and task.job.queue is job.queue:
                    self._to_queue[row] += task.request
        for task in node.tasks.values():
            if task.status is Status.CONDITIONAL and task.job is job:
                self._asked[row] += task.request

    def with_place(self, task: Task, row: int) -> tuple[Vector, Vector]:
        """What all conditional places of the job request, with one for this task; and what the job's queue would have
        back on their nodes."""
        places = np.append(np.flatnonzero(self._asked.any(axis=1)), row)
        return self._asked.sum(axis=0) + task.request, self._to_queue[np.unique(places)].sum(axis=0)
