"""reserve: set nodes aside for jobs that have starved.

Runs after allocate and preempt, so it sees only jobs that neither could help. A job that has waited longer than the
threshold gets room set aside on the nodes that have most of it idle; from then on those nodes take nobody else's pods
and drain as their pods finish. Nobody is evicted.

All or nothing: a job gets reservations for as many tasks as it needs to start, or none. At most a part of the nodes may
be set aside, for at most so many jobs, the most important first and then those that wait longest. If a job of higher
priority found a place in this cycle, lower ones wait for the next: what is free should go to it first.

Who is first in line is not passed by. A wide job may have to wait until nodes held by others are given back; if
narrower ones took what is left meanwhile, again and again, it would wait for ever. Only a job that could not be served
even if nobody else held anything stands in nobody's way.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from stromboli.cluster import Job, Status
from stromboli.scheduling.configuration import Arguments
from stromboli.scheduling.decisions import Bind, Notice
from stromboli.scheduling.eviction import Nominations
from stromboli.scheduling.explanation import Code
from stromboli.scheduling.explanation.reasons import limit_exceeded
from stromboli.scheduling.gang import TentativePlaces, condition_ready, is_eligible, reserved_tasks
from stromboli.scheduling.plugin import Action
from stromboli.scheduling.session import Session
from stromboli.scheduling.starvation import (
    STARVING,
    NodeChoice,
    NodeOrder,
    NodeOwners,
    ReserveRules,
    above_deserved,
    has_starved,
    holders,
    rank,
    release,
)
from stromboli.scheduling.statement import Statement


class Reserve(Action):
    name: ClassVar[str] = "reserve"

    def __init__(self, arguments: Arguments) -> None:
        self._rules = ReserveRules.read(arguments)

    def execute(self, session: Session) -> None:
        if not self._rules.sets_aside:
            return
        starving = [job for job in session.jobs if self._is_starving(session, job)]
        if not starving:
            return
        starving.sort(key=lambda job: rank(session, job))
        served = _highest_priority_served(session)
        hand_out = _HandOut(session, self._rules)
        for job in starving:
            if served is not None and served > job.priority:
                break
            if not hand_out.serve(job):
                break

    def _is_starving(self, session: Session, job: Job) -> bool:
        if not job.pending_count or _is_provided_for(job) or session.job_ready(job):
            return False
        if job in session.state(Nominations):
            return False
        return has_starved(session, job, self._rules) and is_eligible(session, job) and not above_deserved(session, job)


class _HandOut:
    """Nodes are set aside for one job after the other."""

    def __init__(self, session: Session, rules: ReserveRules) -> None:
        self._session = session
        self._most_holders = rules.max_holders
        self._most_nodes = rules.most_nodes(session)
        self._order = NodeOrder(session)
        self._look_again()

    def _look_again(self) -> None:
        self._holders = holders(self._session)
        self._owners = NodeOwners(self._session)

    def serve(self, job: Job) -> bool:
        """Set nodes aside for a job; False if it has to wait for its turn, and those after it with it."""
        session = self._session
        displaced: list[Job] = []
        if job.key not in self._holders and len(self._holders) >= self._most_holders:
            last = max(self._holders.values(), key=lambda holder: rank(session, holder))
            if last.priority >= job.priority:
                return False
            displaced = [last]
        with session.state(TentativePlaces).suspended(job):
            return self._set_aside(job, displaced)

    def _set_aside(self, job: Job, displaced: list[Job]) -> bool:
        session = self._session
        statement, over_limit = self._attempt(job, displaced)
        if condition_ready(job):
            statement.commit()
            if displaced:
                self._look_again()
            else:
                self._holders[job.key] = job
                self._owners.add(job)
            return True
        statement.discard()
        if job.counts[Status.RESERVED]:
            # It needs more than before. What it holds is of no use by itself, and keeps others out.
            release(session, job, "the job needs more than can be reserved")
            self._look_again()
        others = [holder for holder in self._holders.values() if holder is not job]
        if others:
            statement, over_limit = self._attempt(job, others)
            would_do = condition_ready(job)
            statement.discard()
            if would_do:
                return False
        if over_limit:
            self._say_limit(job, over_limit)
        return True

    def _attempt(self, job: Job, without: Sequence[Job]) -> tuple[Statement, int]:
        """Try to set aside what a job needs, as if some others held nothing any more; the second value is for how many
        tasks only the limit on nodes stood in the way."""
        session = self._session
        statement = session.statement()
        for holder in without:
            for task in reserved_tasks(holder):
                statement.release(task, f"{job.key} has a higher priority")
        choice = NodeChoice(session, job, self._order, self._owners.without(without), self._most_nodes)
        over_limit = 0
        for task in session.pending_tasks(job):
            if condition_ready(job):
                break
            if task.best_effort or task.status is Status.RESERVED:
                continue
            row, limited = choice.row_for(task)
            if row is None:
                over_limit += limited
                continue
            statement.reserve(task, session.nodes.nodes[row])
            choice.take(row)
        return statement, over_limit

    def _say_limit(self, job: Job, over_limit: int) -> None:
        sentence = limit_exceeded(over_limit, self._most_nodes)
        self._session.notes.of(job).conditions.append((STARVING, Code.RESERVATION_LIMIT_EXCEEDED, sentence))
        if not _said(job):
            notice = Notice("PodGroup", job.key, Code.RESERVATION_LIMIT_EXCEEDED, sentence, warning=True)
            self._session.cycle.decisions.append(notice)


def _is_provided_for(job: Job) -> bool:
    """Whether room is promised to a job or set aside. Lent room that it only counts on is not: others may have it set
    aside for themselves, and then it counts in vain."""
    return condition_ready(job) and not job.counts[Status.CONDITIONAL]


def _highest_priority_served(session: Session) -> int | None:
    """Of the jobs that found a place in this cycle."""
    bound = {decision.job for decision in session.cycle.decisions if isinstance(decision, Bind)}
    return max((job.priority for job in session.jobs if job.key in bound), default=None)


def _said(job: Job) -> bool:
    assert job.object is not None
    told = {condition.reason for condition in job.object.status.conditions if condition.type == STARVING}
    return Code.RESERVATION_LIMIT_EXCEEDED in told
