"""reserve: set nodes aside for jobs that have starved.

Runs after allocate and preempt, so it sees only jobs that neither could help. A job that has waited longer than the
threshold gets room set aside on the nodes that have most of it idle; from then on those nodes take nobody else's pods
and drain as their pods finish. Nobody is evicted.

All or nothing: a job gets reservations for as many tasks as it needs to start, or none (docs/starvation.md has the
rules). If a job of higher priority found a place in this cycle, lower ones wait for the next: what is free should go to
it first.
"""

from __future__ import annotations

from typing import ClassVar

from stromboli.cluster import Job, Status
from stromboli.scheduling.configuration import Arguments
from stromboli.scheduling.decisions import Bind
from stromboli.scheduling.eviction import Nominations
from stromboli.scheduling.gang import condition_ready, is_eligible
from stromboli.scheduling.plugin import Action
from stromboli.scheduling.session import Session
from stromboli.scheduling.starvation import (
    Line,
    NamespaceHolds,
    NamespaceParts,
    ReserveRules,
    above_deserved,
    has_starved,
    rank,
)


class Reserve(Action):
    name: ClassVar[str] = "reserve"

    def __init__(self, arguments: Arguments) -> None:
        self._rules = ReserveRules.read(arguments)

    def execute(self, session: Session) -> None:
        if not self._rules.sets_aside:
            return
        untried = session.turns.not_reached.get("allocate", {})  # they may need no nodes of their own
        starving = [job for job in session.waiting if job.key not in untried and self._is_starving(session, job)]
        if not starving and not session.ledger.reserved_tasks:
            return
        starving.sort(key=lambda job: rank(session, job))
        served = _highest_priority_served(session)
        line = Line(session, self._rules)
        for job in session.turns.while_time(starving):
            if served is not None and served > job.priority:
                break
            line.serve(job)
        session.turns.current = None
        line.move_stuck()

    def _is_starving(self, session: Session, job: Job) -> bool:
        if not job.pending_count or _is_provided_for(job) or session.job_ready(job):
            return False
        if job in session.state(Nominations) or not has_starved(session, job, self._rules):
            return False
        if not is_eligible(session, job) or above_deserved(session, job):
            return False
        if session.state(NamespaceHolds).holds_back(job):
            return False  # it could not start on its nodes
        if session.why_no_nodes(job) is not None:
            return False
        return not session.state(NamespaceParts).above_part(job, to_drain=True)


def _is_provided_for(job: Job) -> bool:
    """Whether room is promised to a job or set aside. Lent room that it only counts on is not: others may have it set
    aside for themselves, and then it counts in vain."""
    return condition_ready(job) and not job.counts[Status.CONDITIONAL]


def _highest_priority_served(session: Session) -> int | None:
    """Of the jobs that found a place in this cycle."""
    bound = {decision.job for decision in session.cycle.decisions if isinstance(decision, Bind)}
    return max((job.priority for job in session.waiting if job.key in bound), default=None)
