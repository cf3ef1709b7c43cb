"""What failed stays failed until something changes, also from one cycle to the next.

A gang that cannot start is tried by several actions in every cycle, and mostly nothing has changed since the last one.
The outcome follows from the cluster (`Ledger.changes` says whether it changed in a way that matters), from what earlier
actions of the cycle did (what they settle counts as a change; what they only try is the same as before), and from
time. Whatever depends on time says when it changes next (`Session.due`). So with an equal number of changes and nothing
due, an attempt would fail again, for the same reasons; and these are noted again.

While nodes are reserved for starved jobs, nothing is remembered: whose turn it is depends on time in many ways. Nor if
a plugin does not say what its answers depend on: they may change at any time.
"""

from __future__ import annotations

from dataclasses import dataclass

from stromboli.cluster import Job, JobKey
from stromboli.scheduling.explanation import JobNote
from stromboli.scheduling.session import Session


@dataclass(frozen=True, slots=True)
class _Failure:
    note: JobNote  # of the job after the attempt
    due: float | None  # when something was to change even without an event


class FailedAttempts:
    def __init__(self) -> None:
        self._changes = -1
        self._known: dict[tuple[str, JobKey], _Failure] = {}  # all with that number of changes

    def record(self, session: Session, attempt: str, job: Job) -> None:
        """`attempt`: a name for what was tried. It failed, and left nothing behind but notes."""
        if session.ledger.reserved_tasks or session.asks_every_task:
            return
        if self._changes != session.ledger.changes:
            self._changes = session.ledger.changes
            self._known.clear()
        self._known[attempt, job.key] = _Failure(session.notes.of(job).copy(), session.cycle.next_due)

    def repeat(self, session: Session, attempt: str, job: Job) -> bool:
        """Whether the attempt would fail again; then it is noted why."""
        failure = self._find(session, attempt, job)
        if failure is None:
            return False
        if failure.due is not None:
            session.due(failure.due)
        session.notes.recall(job, failure.note.copy())
        return True

    def _find(self, session: Session, attempt: str, job: Job) -> _Failure | None:
        if self._changes != session.ledger.changes or session.ledger.reserved_tasks:
            return None
        failure = self._known.get((attempt, job.key))
        if failure is None or (failure.due is not None and session.now >= failure.due):
            return None
        return failure
