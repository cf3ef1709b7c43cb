"""reserve: set nodes aside for jobs that have starved.

Runs after allocate and preempt, so it sees only jobs that neither could help. A job that has waited longer than the
threshold gets room set aside on the nodes that have most of it idle; from then on those nodes take nobody else's pods
and drain as their pods finish. Nobody is evicted.

All or nothing: a job gets reservations for as many tasks as it needs to start, or none. At most a part of the nodes may
be set aside, for at most so many jobs, the most important first and then those that wait longest. If a job of higher
priority found a place in this cycle, lower ones wait for the next: what is free should go to it first.
"""

from __future__ import annotations

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
    holders,
    rank,
    release,
    reserved_rows,
    starved_since,
)
from stromboli.scheduling.session import Session


class Reserve(Action):
    name: ClassVar[str] = "reserve"

    def __init__(self, arguments: Arguments) -> None:
        self._rules = ReserveRules.read(arguments)

    def execute(self, session: Session) -> None:
        if not self._rules.percent or not self._rules.max_holders:
            return
        starving = [job for job in session.jobs if self._is_starving(session, job)]
        if not starving:
            return
        starving.sort(key=lambda job: rank(session, job))
        served = _highest_priority_served(session)
        order = _NodeOrder(session)
        most = self._rules.most_nodes(session)
        for job in starving:
            if served is not None and served > job.priority:
                break
            if not self._may_hold(session, job):
                break
            self._reserve(session, job, order, most)

    def _is_starving(self, session: Session, job: Job) -> bool:
        if not job.pending_count or job.is_condition_ready or session.job_ready(job) or job.key in session.promised:
            return False
        due = starved_since(session, job, self._rules) + self._rules.threshold
        if session.now <= due:
            session.due(due)
            return False
        return considered(session, job) and not above_deserved(session, job)

    def _may_hold(self, session: Session, job: Job) -> bool:
        """Whether a place among the holders is free, or can be had from one of lower priority."""
        now = holders(session)
        if job.key in now or len(now) < self._rules.max_holders:
            return True
        last = max(now.values(), key=lambda holder: rank(session, holder))
        if last.priority >= job.priority:
            return False
        release(session, last, f"{job.key} has a higher priority")
        return True

    def _reserve(self, session: Session, job: Job, order: _NodeOrder, most: int) -> None:
        session.let_go(job)
        statement = session.statement()
        taken = reserved_rows(session)
        own_use = _own_use(job)
        exceeded = 0
        for task in session.pending_tasks(job):
            if job.is_condition_ready:
                break
            if task.best_effort or task.status is Status.RESERVED:
                continue
            row, over_limit = _choose(session, task, order, taken, own_use, most)
            if row is None:
                exceeded += over_limit
                continue
            statement.reserve(task, session.nodes.nodes[row])
            taken.setdefault(row, set()).add(job.key)
        if job.is_condition_ready:
            statement.commit()
            return
        statement.discard()
        if exceeded:
            sentence = session.notes.of(job).limit_exceeded = limit_exceeded(exceeded, most)
            if not _said(job):
                notice = Notice("PodGroup", job.key, Code.RESERVATION_LIMIT_EXCEEDED, sentence, warning=True)
                session.cycle.decisions.append(notice)


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


def _choose(
    session: Session,
    task: Task,
    order: _NodeOrder,
    taken: dict[int, set[JobKey]],
    own_use: dict[int, np.ndarray],
    most: int,
) -> tuple[int | None, bool]:
    """The node to set room aside on; or None, and whether only the limit on nodes stood in the way.

    What is reserved on a node, together with what the job itself uses there, never exceeds what the node offers."""
    job = task.job
    assert job is not None
    nodes = session.nodes
    mask = session.placement.fitting(task, ahead=True).mask & nodes.schedulable
    fits = mask & (nodes.allocatable - nodes.reserved >= task.request).all(axis=1)
    for row, used in own_use.items():
        if fits[row] and bool((nodes.allocatable[row] - nodes.reserved[row] - used < task.request).any()):
            fits[row] = False
    mine = []
    for row, jobs in taken.items():
        if jobs != {job.key}:
            fits[row] = False
        elif fits[row]:
            mine.append(row)
    if mine:
        place = {int(row): position for position, row in enumerate(order.of(task))}
        return min(mine, key=lambda row: place[row]), False
    rows = order.of(task)
    rows = rows[fits[rows]]
    if len(rows) == 0:
        return None, False
    if len(taken) >= most:
        return None, True
    return int(rows[0]), False


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
