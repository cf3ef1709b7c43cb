"""A pod on resources that are held for it.

A Reservation can be used by a pod if it has enough left of everything that it names; what it does not name comes from
the node. One Reservation is used, never two together, and never one with a part from the node's idle resources. Of
several, the one with the least left over is used; then the oldest; then by name.

The node must still pass all filters, with what the pod uses given back. Two are left out: a node that was locked for
another queue, or is being kept for a starved job, stays open to those it was held for before. Scores are not computed.
The queue's hard limits apply, and the pod is tested without what the Reservation has counted for it. What the queue
deserves does not matter if it is charged for the Reservation already; otherwise it must stay within that.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import takewhile
from math import inf, lcm
from typing import Final, NamedTuple

import numpy as np

from stromboli.api.migration_reservations import is_lent
from stromboli.api.reservations import is_migration
from stromboli.cluster import PODS, Holding, Job, NodeTable, Queue, Task, Vector
from stromboli.scheduling.callbacks import Refusal
from stromboli.scheduling.operations.lending import lend
from stromboli.scheduling.placement import Fitting
from stromboli.scheduling.session import Session
from stromboli.scheduling.sharing import over_deserved
from stromboli.scheduling.statement import Statement

from .matches import Matches, MatchSet, Usable
from .reservation_operations import consume, consume_many

_LEFT_OUT: Final = ("node_reservation", "queue_reservation", "starvation")


class Choice(NamedTuple):
    """A Reservation that has enough for a pod of one shape, and for how many; the smallest rank is the best."""

    rank: tuple[int, float, str]
    usable: Usable
    held: Holding
    pods: int


_NOTHING: Final[list[Choice]] = []


@dataclass(slots=True)
class _Choices:
    """The choices of a set for pods of one shape, the best first. `held`: what they were found by."""

    held: list[Holding | None]
    ranked: list[Choice | None]  # in the order of the set
    best: list[Choice]
    epoch: int


class ReservedRoom:
    def __init__(self, session: Session) -> None:
        self._session = session
        self._matches = session.state(Matches)
        self._taken: dict[tuple[int, tuple[int, ...], int], Vector] = {}
        totals: list[int] = session.total.tolist()
        one = lcm(*[total for total in totals if total > 0])
        self._weights = [one // total if total > 0 else 0 for total in totals]  # to add up shares exactly

    def may_use_any(self, job: Job) -> bool:
        """Whether a task of this job might use a Reservation."""
        alike = self._matches.of_job(job)
        return alike is None or bool(alike[0].usable)

    def find(self, tasks: Collection[Task]) -> list[tuple[int, Task]]:
        """Those of these tasks of a job that could use a Reservation now, with the number of their choices."""
        first = next(iter(tasks), None)
        if first is None or first.job is None or not self.may_use_any(first.job):
            return []
        if self._matches.of_job(first.job) is not None and not self._session.ledger.any_nominated:
            number = len(self.usable(first))
            return [(number, task) for task in tasks] if number else []
        counted = [(len(self.usable(task)), task) for task in tasks]
        return [(number, task) for number, task in counted if number]

    def usable(self, task: Task) -> list[Choice]:
        """Those with enough left for the task, the best first. One for which pods were evicted keeps to its node."""
        matches = self._matches.of(task)
        if not matches.usable:
            return _NOTHING
        choices = matches.by_shape.get(task.shape.id)
        if choices is None or choices.epoch != self._session.ledger.held_epoch:
            choices = self._look(matches, choices, task)
        if task.nominated:
            return [one for one in choices.best if one.held.node.name == task.nominated]
        return choices.best

    def rows(self, tasks: Sequence[Task]) -> dict[int, int]:
        """By row, how many of these tasks of a job could use Reservations there at most."""
        kinds = {(id(self._matches.of(task)), task.shape.id, task.nominated): task for task in tasks}
        pods: dict[int, int] = {}
        for task in kinds.values():
            for choice in self.usable(task):
                pods[choice.held.node.row] = pods.get(choice.held.node.row, 0) + choice.pods
        return pods

    def slots(self, tasks: Sequence[Task]) -> int:
        """How many of these tasks of a job, at least one, could use Reservations at most."""
        if tasks[0].job is not None and self._matches.of_job(tasks[0].job) is not None:
            return self._slots_for(tasks[0])
        kinds = {(id(self._matches.of(task)), task.shape.id): task for task in tasks}
        return sum(self._slots_for(task) for task in kinds.values())

    def slots_for_alike(self, job: Job) -> float:
        """How many tasks of a job could use Reservations at most, if they are all alike; otherwise it is unknown."""
        if self._matches.of_job(job) is None or self._session.ledger.any_nominated:
            return inf
        return self._slots_for(next(iter(job.tasks.values())))

    def _slots_for(self, task: Task) -> int:
        return sum([choice.pods for choice in self.usable(task)])

    def _look(self, matches: MatchSet, known: _Choices | None, task: Task) -> _Choices:
        """Look again at Reservations that have changed; each change makes a new holding."""
        holdings, usable = self._session.ledger.holdings, matches.usable
        if known is None:
            known = _Choices([None] * len(usable), [None] * len(usable), [], -1)
            matches.by_shape[task.shape.id] = known
        changed = False
        for position, one in enumerate(usable):
            held = holdings.get(one.name)
            if held is not known.held[position]:
                changed = True
                known.held[position] = held
                known.ranked[position] = None if held is None else self._rank(task, one, held)
        if changed:
            known.best = sorted(one for one in known.ranked if one is not None)
        known.epoch = self._session.ledger.held_epoch
        return known

    def _rank(self, task: Task, usable: Usable, held: Holding) -> Choice | None:
        """None if it has not enough for the task."""
        left, request = held.remainder.tolist(), task.shape.request.tolist()
        share, pods = 0, inf
        for column in usable.columns:
            has, wanted = left[column], request[column]
            if has < wanted:
                return None
            share += (has - wanted) * self._weights[column]
            if wanted > 0:
                pods = min(pods, has // wanted)
        if pods == inf:
            return None
        once = usable.object.spec.allocate_once
        return Choice((share, usable.created, usable.name), usable, held, 1 if once else int(pods))

    def place(self, statement: Statement, task: Task, promised: bool) -> bool:
        return any(self._use(statement, task, one.usable, one.held, promised) for one in list(self.usable(task)))

    def place_many(self, statement: Statement, tasks: Sequence[Task]) -> int:
        """Tasks of one job that are alike are placed together: each Reservation takes as many as it has room for, the
        best first, as one after the other would. 0 if they have to be placed one by one."""
        first, session = tasks[0], self._session
        if len(tasks) == 1 or session.points.desk.hears_all or not self.usable(first):
            return 0
        plan, alike = self._plan_together(tasks)
        if not plan:
            return 0
        uses: list[tuple[Task, str, Vector]] = []
        nodes, mark = [], len(statement)
        for usable, held, times in plan:
            left = held.remainder
            for _ in range(times):
                taken = self._consumed(left, first, usable)
                uses.append((alike[len(uses)], usable.name, taken))
                nodes.append(held.node)
                left = left - taken if times > 1 else left
        consume_many(statement, uses)
        assert first.job is not None
        if self.refusal(first, *plan[0][:2], len(uses)) is None:
            return statement.allocate_many([task for task, _, _ in uses], nodes)
        statement.discard(down_to=mark)
        return 0

    def _plan_together(self, tasks: Sequence[Task]) -> tuple[list[tuple[Usable, Holding, int]], Sequence[Task]]:
        """Which Reservations take how many, and the first tasks, which are alike; an empty plan if it is not one that
        the books could enter at once."""
        first, fitting = tasks[0], self.fitting(tasks[0])
        plan = [] if fitting.depends_on_neighbours else self._plan(first, len(tasks), fitting)
        places = sum(times for _, _, times in plan)
        alike = self._alike(tasks[:places]) if places > 1 else []
        if len(alike) < 2:
            return [], ()
        if len(alike) < places:
            plan = self._plan(first, len(alike), fitting)
        nodes = {held.node.name for _, held, _ in plan}
        payers = {(id(held.queue), held.namespace) for _, held, _ in plan}
        return (plan, alike) if len(nodes) == len(plan) and len(payers) == 1 else ([], ())

    def _alike(self, tasks: Sequence[Task]) -> list[Task]:
        """The first tasks that look the same to all Reservations."""
        first, matches_of = tasks[0], self._matches.of
        if first.job is not None and self._matches.of_job(first.job) and not self._session.ledger.any_nominated:
            return list(tasks)
        matches = matches_of(first)
        return list(
            takewhile(lambda t: t.shape is first.shape and not t.nominated and matches_of(t) is matches, tasks)
        )  # fmt: skip

    def _plan(self, task: Task, count: int, fitting: Fitting) -> list[tuple[Usable, Holding, int]]:
        """Which Reservations take how many of so many tasks. Where the node does not pass, it takes none."""
        plan, request, nodes = [], task.request.tolist(), self._session.nodes
        asked, mask = fitting.columns.tolist(), fitting.mask
        from_node: dict[tuple[int, ...], list[int]] = {}  # the columns that a Reservation does not have
        for _, usable, held, pods in self.usable(task):
            if not count:
                break
            times = min(count, pods)
            columns = from_node.get(usable.columns)
            if columns is None:
                columns = from_node[usable.columns] = [one for one in asked if one not in usable.columns]
            row = held.node.row
            if mask[row] and (not columns or self._node_has(nodes, held, columns, request, times)):
                plan.append((usable, held, times))
                count -= times
        return plan

    def _node_has(self, nodes: NodeTable, held: Holding, columns: list[int], request: list[int], times: int) -> bool:
        """Whether a node has so many requests in columns that a Reservation on it does not name."""
        idle = nodes.idle[held.node.row].tolist()
        if self._session.ledger.in_transit:
            idle = np.minimum(idle, nodes.future_idle_of(held.node.row)).tolist()
        own = int(held.remainder[PODS])
        return all(idle[one] + (own if one == PODS else 0) >= request[one] * times for one in columns)

    def _use(self, statement: Statement, task: Task, usable: Usable, held: Holding, promised: bool) -> bool:
        session, mark, node = self._session, len(statement), held.node
        assert task.job is not None
        if session.pre_filter(task) is not None:
            return False
        consume(statement, task, usable.name, self._consumed(held.remainder, task, usable))
        session.ledger.tried = usable.name
        try:
            fits = self.refusal(task, usable, held, starts=not promised) is None and (
                self.fitting(task).takes(node.row, session.placement.room_now_on(node.row))
            )
        finally:
            session.ledger.tried = ""
        if fits and (statement.pipeline(task, node) if promised else statement.allocate(task, node)):
            if not promised and is_lent(usable.object):
                lend(statement, task)
            return True
        statement.discard(down_to=mark)
        return False

    def refusal(
        self, task: Task, usable: Usable, held: Holding, count: int = 1, *, starts: bool = True
    ) -> Refusal | None:
        """Why the queue of a task may not have so many like it, when what they use of a Reservation is given back. If
        another queue was charged for that, they take it to theirs, so they are tested as on any other place; only
        whose turn it is does not matter. If they start now, pods that terminate count as well. The successor of a pod
        that was moved is not asked: the queue had that pod, also if its limit is lower by now, and a move must not
        lose it."""
        job = task.job
        assert job is not None
        if is_migration(usable.object) and (held.queue is None or held.queue is job.queue):
            return None
        refusal = self._over_limit(task, job.queue, held, count)
        return refusal or (self._session.may_start(job.queue, task.request * count) if starts else None)

    def _over_limit(self, task: Task, queue: Queue, held: Holding, count: int) -> Refusal | None:
        session, request = self._session, task.request * count
        if held.queue is None or held.queue is queue:
            return session.within_hard_limits(queue, request)
        own = session.books.own_rows(task)
        if own is not None and own[held.node.row]:
            return session.allocatable_on_own_rows(task, count)
        refusal = session.allocatable(queue, request, job=task.job, lending=True)
        return refusal or over_deserved(session, queue, request)

    def refusal_on_trial(self, task: Task, usable: Usable, held: Holding) -> Refusal | None:
        """The same for a task that has not given anything back yet."""
        statement = self._session.statement()
        consume(statement, task, usable.name, self._consumed(held.remainder, task, usable))
        refusal = self.refusal(task, usable, held)
        statement.discard()
        return refusal

    def fitting(self, task: Task) -> Fitting:
        """What the node of a Reservation must pass for a task that uses it."""
        return self._session.placement.fitting(task, without=_LEFT_OUT)

    def _consumed(self, remainder: Vector, task: Task, usable: Usable) -> Vector:
        """What a pod takes of a Reservation. One that is for a single pod goes whole: what is left of it is free. Not
        to be changed: pods of one shape take the same."""
        if usable.object.spec.allocate_once:
            return remainder
        place = min(1, int(remainder[PODS]))
        key = (task.shape.id, usable.columns, place)
        taken = self._taken.get(key)
        if taken is None:
            taken = self._taken[key] = np.zeros_like(remainder)
            columns = list(usable.columns)
            taken[columns] = task.request[columns]
            taken[PODS] = place
        return taken
