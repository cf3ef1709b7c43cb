"""What a job counts on is kept from one conditional place to the next. It must be what a look at everything finds."""

from __future__ import annotations

import numpy as np
import pytest

from stromboli.cluster import OCCUPYING, Job, Status, Task, Vector
from stromboli.scheduling.backfill import counted_on
from stromboli.scheduling.backfill.counted_on import CountedOn, JobCounts
from stromboli.scheduling.session import Session
from together.worlds import world


def borrowers(session: Session) -> list[Task]:
    tasks = [task for node in session.nodes.nodes for task in node.tasks.values()]
    return [task for task in tasks if task.backfill and task.status in OCCUPYING]


class Compared(CountedOn):
    """Compares every answer with a sum over all borrowers, or over all tasks of the job."""

    asked = 0
    with_places = 0

    def by(self, job: Job) -> JobCounts:
        counts, session = super().by(job), self._session
        lent = session.nodes.backfilled.copy()
        for task in borrowers(session):
            if task.node is not None and not counted_on.may_count_on(session, job, task):
                lent[task.node.row] -= task.request
        assert (counts.lent == lent).all()
        return ComparedCounts(session, job, counts)


class ComparedCounts(JobCounts):
    def __init__(self, session: Session, job: Job, kept: JobCounts) -> None:
        super().__init__(session, job)
        self._kept = kept

    def with_place(self, task: Task, row: int) -> tuple[Vector, Vector]:
        asked, credit = self._kept.with_place(task, row)
        mine = [one for one in self.job.tasks.values() if one.status is Status.CONDITIONAL]
        rows = {row, *(one.node.row for one in mine if one.node is not None)}
        back = [
            one.request
            for one in borrowers(self._session)
            if one.node is not None and one.node.row in rows and one.job is not None
            and one.job.queue is self.job.queue and counted_on.may_count_on(self._session, self.job, one)
        ]  # fmt: skip
        assert (asked == sum((one.request for one in mine), start=task.request)).all()
        assert (credit == sum(back, start=np.zeros_like(task.request))).all()
        Compared.asked += 1
        Compared.with_places += bool(mine) and bool(back)
        return asked, credit


def test_what_is_kept_is_what_a_look_at_everything_finds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stromboli.scheduling.backfill.lent_room.CountedOn", Compared)
    for seed in range(16):
        drawn = world(seed)
        if drawn.lending:
            drawn.situation().run()
    assert Compared.asked > 50
    assert Compared.with_places > 10
