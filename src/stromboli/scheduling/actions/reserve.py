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
from copy import copy
from typing import ClassVar

import numpy as np

from stromboli.cluster import Job, JobKey, Status, Task
from stromboli.scheduling.callbacks import Rows
from stromboli.scheduling.configuration.arguments import Arguments
from stromboli.scheduling.decisions import Bind, Notice
from stromboli.scheduling.explanation.reasons import Code, limit_exceeded
from stromboli.scheduling.plugin import Action
from stromboli.scheduling.session import Session
from stromboli.scheduling.starvation.reserving import (
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
from stromboli.scheduling.statement import Statement

from .allocate import considered


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
        if not job.pending_count or _is_provided_for(job) or session.job_ready(job) or job.key in session.promised:
            return False
        return has_starved(session, job, self._rules) and considered(session, job) and not above_deserved(session, job)


class _HandOut:
    """Nodes are set aside for one job after the other."""

    def __init__(self, session: Session, rules: ReserveRules) -> None:
        self._session = session
        self._most_holders = rules.max_holders
        self._most_nodes = rules.most_nodes(session)
        self._order = _NodeOrder(session)
        self._look_again()

    def _look_again(self) -> None:
        self._holders = holders(self._session)
        self._owners = _Owners(self._session)

    def serve(self, job: Job) -> bool:
        """Set nodes aside for a job; False if it has to wait for its turn, and those after it with it."""
        session = self._session
        displaced: list[Job] = []
        if job.key not in self._holders and len(self._holders) >= self._most_holders:
            last = max(self._holders.values(), key=lambda holder: rank(session, holder))
            if last.priority >= job.priority:
                return False
            displaced = [last]
        with session.laid_aside(job):
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
        choice = _Choice(session, job, self._order, self._owners.without(without), self._most_nodes)
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


class _Owners:
    """Whose each node is, by row. Jobs are numbers here: where hundreds of jobs hold thousands of nodes, one look at a
    column is quicker than many looks at sets of names."""

    _NOBODY = 0
    _SEVERAL = -1

    def __init__(self, session: Session) -> None:
        self._numbers: dict[JobKey, int] = {}
        self._rows: Rows = np.full(len(session.nodes), self._NOBODY, dtype=np.int64)
        for row, jobs in reserved_rows(session).items():
            self._rows[row] = self._number(next(iter(jobs))) if len(jobs) == 1 else self._SEVERAL

    def __len__(self) -> int:
        """How many nodes are somebody's."""
        return int(np.count_nonzero(self._rows))

    def _number(self, job: JobKey) -> int:
        return self._numbers.setdefault(job, len(self._numbers) + 1)

    def add(self, job: Job) -> None:
        self._rows[[task.node.row for task in reserved_tasks(job) if task.node is not None]] = self._number(job.key)

    def without(self, jobs: Sequence[Job]) -> _Owners:
        """As if these jobs held nothing."""
        if not jobs:
            return self
        other = copy(self)
        gone = np.isin(self._rows, [self._number(job.key) for job in jobs])
        other._rows = np.where(gone, self._NOBODY, self._rows)
        return other

    def rows_of(self, job: Job) -> list[int]:
        rows: list[int] = np.flatnonzero(self._rows == self._number(job.key)).tolist()
        return rows

    def open_to(self, job: Job) -> np.ndarray:
        return np.asarray((self._rows == self._NOBODY) | (self._rows == self._number(job.key)))


class _NodeOrder:
    """Rows by how much is idle on them, best first; the same for all tasks of a kind, as nothing is used up here."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._known: dict[int, tuple[Rows, Rows]] = {}

    def of(self, task: Task) -> tuple[Rows, Rows]:
        """The rows in order; and by row, its place in that order."""
        known = self._known.get(task.shape.id)
        if known is None:
            order = np.argsort(-self._session.node_order_on_resource(task), kind="stable")
            places = np.empty_like(order)
            places[order] = np.arange(len(order))
            known = self._known[task.shape.id] = (order, places)
        return known


class _Choice:
    """Nodes for the tasks of one job. What is reserved on a node, together with what the job itself uses there, never
    exceeds what the node offers; nodes the job has already come first, as they count only once against the limit.

    While a job is served, its nodes only fill up. So what fits a kind of task is worked out once, and afterwards only
    the node that was taken last is looked at again."""

    def __init__(self, session: Session, job: Job, order: _NodeOrder, owners: _Owners, most: int) -> None:
        self._session = session
        self._order = order
        self._left = most - len(owners)
        self._mine = owners.rows_of(job)
        self._open = owners.open_to(job)
        self._own_use = _own_use(job)
        self._kinds: dict[int, tuple[Task, np.ndarray, list[int]]] = {}

    def row_for(self, task: Task) -> tuple[int | None, bool]:
        """The node to set room aside on; or None, and whether only the limit on nodes stood in the way."""
        _, fits, best_last = self._kind(task)
        mine = [row for row in self._mine if fits[row]]
        if mine:
            places = self._order.of(task)[1]
            return min(mine, key=lambda row: int(places[row])), False
        while best_last and not fits[best_last[-1]]:
            best_last.pop()
        if not best_last:
            return None, False
        return (best_last[-1], False) if self._left > 0 else (None, True)

    def take(self, row: int) -> None:
        """Room was set aside on this node."""
        if row not in self._mine:
            self._mine.append(row)
            self._left -= 1
        for task, fits, _ in self._kinds.values():
            fits[row] = fits[row] and self._has_room(task, row)

    def _kind(self, task: Task) -> tuple[Task, np.ndarray, list[int]]:
        """One task of the kind, which nodes fit it, and those in order."""
        known = self._kinds.get(task.shape.id)
        if known is None:
            nodes = self._session.nodes
            suits = self._session.placement.fitting(task, ahead=True, nothing_reserved=True).mask & nodes.schedulable
            fits = suits & self._open & (nodes.allocatable - nodes.reserved >= task.request).all(axis=1)
            for row in self._own_use:
                fits[row] = fits[row] and self._has_room(task, row)
            order = self._order.of(task)[0]
            known = self._kinds[task.shape.id] = (task, fits, order[fits[order]][::-1].tolist())
        return known

    def _has_room(self, task: Task, row: int) -> bool:
        nodes = self._session.nodes
        left = nodes.allocatable[row] - nodes.reserved[row] - self._own_use.get(row, 0)
        return bool((left >= task.request).all())


def _is_provided_for(job: Job) -> bool:
    """Whether room is promised to a job or set aside. Lent room that it only counts on is not: others may have it set
    aside for themselves, and then it counts in vain."""
    return condition_ready(job) and not job.counts[Status.CONDITIONAL]


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
