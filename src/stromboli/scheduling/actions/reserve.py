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

from collections.abc import Iterable
from typing import ClassVar

import numpy as np

from stromboli.cluster import Job, JobKey, Status, Task
from stromboli.scheduling.actions.allocate import considered
from stromboli.scheduling.arguments import Arguments
from stromboli.scheduling.callbacks import Rows
from stromboli.scheduling.decisions import Bind, Notice
from stromboli.scheduling.plugin import Action
from stromboli.scheduling.reasons import Code, limit_exceeded
from stromboli.scheduling.reserving import (
    STARVING,
    ReserveRules,
    above_deserved,
    condition_ready,
    has_starved,
    holders,
    rank,
    release,
    reserved_rows,
    reserved_tasks,
)
from stromboli.scheduling.session import Session
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
        if not job.pending_count or condition_ready(job) or session.job_ready(job) or job.key in session.promised:
            return False
        return has_starved(session, job, self._rules) and considered(session, job) and not above_deserved(session, job)


class _HandOut:
    """Nodes are set aside for one job after the other."""

    def __init__(self, session: Session, rules: ReserveRules) -> None:
        self._session = session
        self._most_holders = rules.max_holders
        self._most_nodes = rules.most_nodes(session)
        self._order = _NodeOrder(session)
        self._holders = holders(session)
        self._taken = reserved_rows(session)

    def serve(self, job: Job) -> bool:
        """Set nodes aside for a job; False if it has to wait for its turn, and those after it with it."""
        session = self._session
        session.let_go(job)
        displaced: list[Job] = []
        if job.key not in self._holders and len(self._holders) >= self._most_holders:
            last = max(self._holders.values(), key=lambda holder: rank(session, holder))
            if last.priority >= job.priority:
                return False
            displaced = [last]
        statement, over_limit = self._attempt(job, displaced)
        if condition_ready(job):
            statement.commit()
            self._holders, self._taken = holders(session), reserved_rows(session)
            return True
        statement.discard()
        if job.counts[Status.RESERVED]:
            # It needs more than before. What it holds is of no use by itself, and keeps others out.
            release(session, job, "the job needs more than can be set aside")
            self._holders, self._taken = holders(session), reserved_rows(session)
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

    def _attempt(self, job: Job, without: Iterable[Job]) -> tuple[Statement, int]:
        """Try to set aside what a job needs, as if some others held nothing any more; the second value is for how many
        tasks only the limit on nodes stood in the way."""
        session = self._session
        statement = session.statement()
        taken = self._taken
        for holder in without:
            for task in reserved_tasks(holder):
                statement.release(task, f"{job.key} has a higher priority")
            taken = {row: jobs for row, jobs in taken.items() if jobs != {holder.key}}
        choice = _Choice(session, job, self._order, taken, self._most_nodes)
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
        self._session.notes.of(job).limit_exceeded = sentence
        if not _said(job):
            notice = Notice("PodGroup", job.key, Code.RESERVATION_LIMIT_EXCEEDED, sentence, warning=True)
            self._session.cycle.decisions.append(notice)


class _NodeOrder:
    """Rows by how much is idle on them, best first; the same for all tasks of a kind, as nothing is used up here."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._known: dict[int, Rows] = {}

    def of(self, task: Task) -> Rows:
        order = self._known.get(task.shape.id)
        if order is None:
            scores = self._session.node_order_on_resource(task)
            order = self._known[task.shape.id] = np.argsort(-scores, kind="stable")
        return order


class _Choice:
    """Nodes for the tasks of one job. What is reserved on a node, together with what the job itself uses there, never
    exceeds what the node offers; nodes the job has already come first, as they count only once against the limit."""

    def __init__(
        self, session: Session, job: Job, order: _NodeOrder, taken: dict[int, set[JobKey]], most: int
    ) -> None:
        self._session = session
        self._order = order
        self._left = most - len(taken)
        self._mine = sorted(row for row, jobs in taken.items() if jobs == {job.key})
        self._closed = np.zeros(len(session.nodes), dtype=np.bool_)
        self._closed[[row for row, jobs in taken.items() if jobs != {job.key}]] = True
        self._own_use = _own_use(job)
        self._masks: dict[int, np.ndarray] = {}

    def row_for(self, task: Task) -> tuple[int | None, bool]:
        """The node to set room aside on; or None, and whether only the limit on nodes stood in the way."""
        nodes = self._session.nodes
        fits = self._suits(task) & (nodes.allocatable - nodes.reserved >= task.request).all(axis=1)
        for row, used in self._own_use.items():
            if fits[row] and bool((nodes.allocatable[row] - nodes.reserved[row] - used < task.request).any()):
                fits[row] = False
        order = self._order.of(task)
        mine = [row for row in self._mine if fits[row]]
        if mine:
            return int(next(row for row in order if row in mine)), False
        rows = order[fits[order]]
        if len(rows) == 0:
            return None, False
        return (int(rows[0]), False) if self._left > 0 else (None, True)

    def take(self, row: int) -> None:
        if row not in self._mine:
            self._mine.append(row)
            self._left -= 1

    def _suits(self, task: Task) -> np.ndarray:
        """Apart from room: it does not change while the tasks of one job are looked at, and they are often alike."""
        known = self._masks.get(task.shape.id)
        if known is None:
            mask = self._session.placement.fitting(task, ahead=True).mask & self._session.nodes.schedulable
            known = self._masks[task.shape.id] = mask & ~self._closed
        return known


def _own_use(job: Job) -> dict[int, np.ndarray]:
    """What running tasks of the job use, by row."""
    used: dict[int, np.ndarray] = {}
    for task in job.tasks.values():
        if task.node is not None and task.status is not Status.RESERVED:
            before = used.get(task.node.row)
            used[task.node.row] = task.request if before is None else before + task.request
    return used


def _highest_priority_served(session: Session) -> int | None:
    """Of the jobs that found a place in this cycle."""
    bound = {decision.job for decision in session.cycle.decisions if isinstance(decision, Bind)}
    return max((job.priority for job in session.jobs if job.key in bound), default=None)


def _said(job: Job) -> bool:
    assert job.object is not None
    told = {condition.reason for condition in job.object.status.conditions if condition.type == STARVING}
    return Code.RESERVATION_LIMIT_EXCEEDED in told
