"""What the last cycle concluded, for a cycle in which nothing is different.

Hundreds of jobs may wait for hours, and to find the reason of each again takes longer than the rest of such a cycle. A
conclusion follows from the objects, from what the actions did, and from time where something said when it changes
(`Session.due`). So if no object has changed, neither this cycle nor the last one decided or tried anything, and nothing
is due, the reasons are those of the last cycle, and all objects say them already.

As for attempts that failed (`attempt.FailedAttempts`), nothing is remembered while nodes are reserved for starved jobs,
or if a plugin does not say what its answers depend on.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from stromboli.cluster import JobKey, Ledger, TaskKey, View
from stromboli.scheduling.decisions import Explanation
from stromboli.scheduling.session import Session


@dataclass(slots=True)
class LastConclusion:
    """Kept from one session to the next."""

    _ledger: Ledger | None = None  # whose objects it is about; None if it must not be repeated
    _views: tuple[View, ...] = ()
    _due: float | None = None  # when something was to change even without an event
    _reasons: dict[JobKey, Explanation] = field(default_factory=dict)
    _waiting: dict[TaskKey, Explanation] = field(default_factory=dict)

    def record(self, session: Session) -> None:
        cycle = session.cycle
        if not _is_repeatable(session):
            self._ledger = None
        elif session.ledger is not self._ledger:
            self._ledger = session.ledger
            self._views = (session.ledger.views.settled(), session.ledger.views.shown())
        for view in self._views:
            view.renew()
        self._due, self._reasons, self._waiting = cycle.next_due, dict(cycle.reasons), dict(cycle.waiting)

    def repeat(self, session: Session) -> bool:
        """Whether this session ends as the last one did; if so, its reasons are noted."""
        if session.ledger is not self._ledger or not all(view.is_current for view in self._views):
            return False
        if not _is_repeatable(session):
            return False
        if self._due is not None:
            if session.now >= self._due:
                return False
            session.due(self._due)
        session.cycle.reasons, session.cycle.waiting = dict(self._reasons), dict(self._waiting)
        return True


def _is_repeatable(session: Session) -> bool:
    """Whether the session decided nothing, tried nothing, and left nothing out."""
    cycle, ledger = session.cycle, session.ledger
    if cycle.decisions or cycle.contained or cycle.cut or cycle.not_reached or cycle.postponed_searches:
        return False
    return not (ledger.changed_jobs or ledger.reserved_tasks or ledger.held or session.asks_every_task)
