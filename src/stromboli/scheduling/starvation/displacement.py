"""Rule 6. Who goes before a holder.

A job is never kept waiting by what was set aside for somebody behind it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from stromboli.cluster import Job
from stromboli.scheduling.explanation import waiting_since
from stromboli.scheduling.gang import reserved_tasks
from stromboli.scheduling.operations.set_aside import give_up
from stromboli.scheduling.session import Session
from stromboli.scheduling.statement import Statement

from .clock import has_starved
from .holders import holders, one_then_several, rank, usable_rows
from .reserve_arguments import ReserveRules, Starvation
from .shares import NamespaceParts

GiveUp = Callable[[Statement], None]


def displacements(session: Session, job: Job, *, evicting: bool) -> list[GiveUp]:
    """Ways to give up reserved room in favour of a job, least important holders first: one holder's, then several
    holders' together. `evicting`: others would be evicted there for the job."""
    rules = session.state(Starvation).rules
    if rules is None or not session.ledger.reserved_tasks:
        return []
    behind = _behind(session, job, rules, evicting=evicting)
    return [_give_up(job, choice) for choice in one_then_several(behind)]


def _behind(session: Session, job: Job, rules: ReserveRules, *, evicting: bool) -> list[Job]:
    """The holders that the job goes before, the least important first."""
    others = [holder for holder in session.state(_Holders).all() if holder is not job]
    found = [holder for holder in others if holder.priority < job.priority] if rules.yields else []
    equal = [holder for holder in others if holder.priority == job.priority]
    if equal and not evicting and has_starved(session, job, rules):
        found += [holder for holder in equal if _goes_before(session, job, holder)]
    return sorted(found, key=lambda holder: rank(session, holder), reverse=True)


class _Holders:
    """Jobs that hold reserved room now. Asked for each of hundreds of waiting jobs, between which little changes."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._tasks = session.ledger.views.tasks()
        self._known: list[Job] = []

    def all(self) -> list[Job]:
        if self._tasks.changed():
            self._known = [holder for holder in holders(self._session).values() if reserved_tasks(holder)]
        return self._known


def _goes_before(session: Session, job: Job, holder: Job) -> bool:
    """Among jobs of one priority that have starved."""
    if (waiting_since(session, job), job.key) >= (waiting_since(session, holder), holder.key):
        return False
    # It may have the nodes, not what the holder's queue keeps for it; and not ahead of its namespace's turn.
    rows = [task.node.row for task in reserved_tasks(holder) if task.node is not None]
    usable = usable_rows(session, session.pending_tasks(job))
    return bool(usable[rows].any()) and not session.state(NamespaceParts).above_part(job)


def _give_up(job: Job, choice: Sequence[Job]) -> GiveUp:
    def carry_out(statement: Statement) -> None:
        for holder in choice:
            why = "has a higher priority" if holder.priority < job.priority else "has waited longer and starts there"
            for task in reserved_tasks(holder):
                give_up(statement, task, f"{job.key} {why}")

    return carry_out
