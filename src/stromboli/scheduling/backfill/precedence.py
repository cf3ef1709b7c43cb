"""Who may send a borrower away: gangs that came before it when it borrowed.

A borrower is sent away only by jobs that come before it in the order of jobs and were there when it started: others
have lent it nothing. What the borrower has *because* it borrowed must not count in that order. It makes the borrower's
share larger and its gang complete, so every equal job that still waits would come before it, evict it, and do no
better. For the same reason the places that a waiting job is tried with do not count either.
"""

from __future__ import annotations

from copy import copy
from typing import Any

from stromboli.api.timestamps import parse_timestamp
from stromboli.cluster import SHARED, Job, JobKey, Status, Task, TaskKey
from stromboli.scheduling.session import Session


class Precedence:
    def __init__(self, session: Session) -> None:
        self._session = session
        self._settled = session.ledger.views.settled()
        # What is tentative counts in none of them, so only what is settled changes them.
        self._keys: dict[JobKey, tuple[Any, ...]] = {}
        self._known: dict[tuple[JobKey, TaskKey], bool] = {}

    def key(self, job: Job) -> tuple[Any, ...]:
        """The job's place in the order of jobs, without what it has borrowed."""
        self._read()
        return self._key(job)

    def may_send_away(self, job: Job, borrower: Task) -> bool:
        self._read()
        pair = (job.key, borrower.key)
        known = self._known.get(pair)
        if known is None:
            known = self._known[pair] = self._find(job, borrower)
        return known

    def _read(self) -> None:
        if self._settled.changed():
            self._keys.clear()
            self._known.clear()

    def _find(self, job: Job, borrower: Task) -> bool:
        if borrower.job is None:
            return True
        started = borrower.pod.status.start_time
        if started is not None and job.created > parse_timestamp(started):
            return False
        return self._key(job) < self._key(borrower.job)

    def _key(self, job: Job) -> tuple[Any, ...]:
        if job.key not in self._keys:
            self._keys[job.key] = self._session.job_key(_without_borrowed(job))
        return self._keys[job.key]


def _without_borrowed(job: Job) -> Job:
    """The job as if its tasks on lent and on tentative places were still pending."""
    left_out = [task for task in job.tasks.values() if _is_left_out(task)]
    if not left_out:
        return job
    before = copy(job)
    before.allocated = job.allocated - sum(task.request for task in left_out)
    before.counts = [*job.counts]
    before.role_counts = {role: [*counts] for role, counts in job.role_counts.items()}
    for task in left_out:
        for counts in (before.counts, before.role_counts[task.role]):
            counts[task.status] -= 1
            counts[Status.PENDING] += 1
    return before


def _is_left_out(task: Task) -> bool:
    """A task without requests needs no room, and makes its gang complete also while it is pending."""
    if task.status not in SHARED or task.best_effort:
        return False
    return task.backfill or task.true_status not in SHARED
