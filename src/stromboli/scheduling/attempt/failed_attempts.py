"""What failed stays failed until something changes, also from one cycle to the next.

A gang that cannot start is tried by several actions in every cycle, and mostly nothing has changed since the last one.
The outcome follows from the cluster (what matters for decisions is settled and counted), from what earlier actions of
the cycle did (what they settle counts as well; what they only try is the same as before), and from time. Whatever
depends on time says when it changes next (`Session.due`). So with nothing settled in between and nothing due, an
attempt would fail again, for the same reasons; and these are noted again.

While nodes are reserved for starved jobs, nothing is remembered: whose turn it is depends on time in many ways. Nor if
a plugin does not say what its answers depend on: they may change at any time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from stromboli.cluster import Job, JobKey
from stromboli.scheduling.explanation import JobNote
from stromboli.scheduling.session import Session

Found = TypeVar("Found")


@dataclass(frozen=True, slots=True)
class _Failure:
    note: JobNote  # of the job after the attempt
    due: float | None  # when something was to change even without an event


class _KnownFailures:
    """What is kept from one session to the next."""

    def __init__(self) -> None:
        self.known: dict[tuple[str, JobKey], _Failure] = {}
        self.stamp = -1  # all were recorded in this state


class FailedAttempts:
    def __init__(self, session: Session) -> None:
        self._session = session
        self._kept = session.memory(_KnownFailures)

    def once(self, way: str, job: Job, attempt: Callable[[], Found | None]) -> Found | None:
        """What an attempt for a job finds. One that found nothing (None) is not made again until something changes."""
        if self.repeat(way, job):
            return None
        found = attempt()
        if found is None:
            self.record(way, job)
        return found

    def once_for_all(self, way: str, jobs: Sequence[Job], attempt: Callable[[], bool]) -> None:
        """The same for jobs that are tried together. It is of no use as long as each of them was refused in one state.
        `attempt`: whether all of them were tried."""
        if all(self.repeat(way, job) for job in jobs):
            return
        before = self._session.ledger.changes
        if attempt() and self._session.ledger.changes == before:
            for job in jobs:
                self.record(way, job)

    def record(self, way: str, job: Job) -> None:
        """An attempt failed, and left nothing behind but notes."""
        session, kept, stamp = self._session, self._kept, self._session.ledger.changes
        if session.ledger.reserved_tasks or session.asks_every_task:
            return
        if kept.stamp != stamp:
            kept.stamp = stamp
            kept.known.clear()
        kept.known[way, job.key] = _Failure(session.notes.of(job).copy(), session.cycle.next_due)

    def repeat(self, way: str, job: Job) -> bool:
        """Whether the attempt would fail again; then it is noted why."""
        session, kept = self._session, self._kept
        if kept.stamp != session.ledger.changes or session.ledger.reserved_tasks:
            return False
        failure = kept.known.get((way, job.key))
        if failure is None or (failure.due is not None and session.now >= failure.due):
            return False
        if failure.due is not None:
            session.due(failure.due)
        session.notes.recall(job, failure.note.copy())
        return True
