"""A pod on resources that are held for it.

A Reservation can be used by a pod if it has enough left of everything that it names; what it does not name comes from
the node. One Reservation is used, never two together, and never one with a part from the node's idle resources. Of
several, the one with the least left over is used; then the oldest; then by name.

The node must still pass all filters, with what the pod uses given back. Two are left out: a node that was locked for
another queue, or is being kept for a starved job, stays open to those it was held for before. Scores are not computed.
The queue's hard limits apply, and the pod is tested without what the Reservation has counted for it; what the queue
deserves does not matter, because the Reservation has it already.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any, Final

import numpy as np

from stromboli.api.migration_reservations import is_lent
from stromboli.cluster import PODS, Holding, Task, Vector
from stromboli.scheduling.session import Session
from stromboli.scheduling.statement import Statement

from .matches import Matches, Usable

_LEFT_OUT: Final = ("node_reservation", "queue_reservation", "starvation")


class ReservedRoom:
    def __init__(self, session: Session) -> None:
        self._session = session
        self._matches = session.state(Matches)
        self._total: list[int] = session.total.tolist()

    def count(self, task: Task) -> int:
        """How many Reservations a task could use now."""
        return len(self.usable(task)) if self._matches else 0

    def usable(self, task: Task) -> list[tuple[Usable, Holding]]:
        """Those with enough left for the task. One for which pods were evicted keeps to its node."""
        holdings = self._session.ledger.holdings
        found = []
        for usable in self._matches.of(task):
            held = holdings.get(usable.name)
            if held is None or (task.nominated and held.node.name != task.nominated):
                continue
            if _covers(held.remainder, task.request, usable):
                found.append((usable, held))
        return found

    def place(self, statement: Statement, task: Task, promised: bool) -> bool:
        if not self._matches:
            return False
        candidates = self.usable(task)
        if len(candidates) > 1:
            candidates.sort(key=lambda pair: self._rank(task, *pair))
        return any(self._use(statement, task, usable, held, promised) for usable, held in candidates)

    def _rank(self, task: Task, usable: Usable, held: Holding) -> Any:
        left = (held.remainder - task.request).tolist()
        shares = [Fraction(left[column], self._total[column]) for column in usable.columns if self._total[column] > 0]
        return (sum(shares, start=Fraction(0)), usable.created, usable.name)

    def _use(self, statement: Statement, task: Task, usable: Usable, held: Holding, promised: bool) -> bool:
        session, mark, node = self._session, len(statement), held.node
        assert task.job is not None
        if session.pre_filter(task) is not None:
            return False
        statement.consume(task, usable.name, _consumed(held.remainder, task.request, usable))
        session.ledger.tried = usable.name
        try:
            fits = session.within_hard_limits(task.job.queue, task.request) is None and self._fits(task, node.row)
        finally:
            session.ledger.tried = ""
        if fits and (statement.pipeline(task, node) if promised else statement.allocate(task, node)):
            if not promised and is_lent(usable.object):
                statement.lend(task)
            return True
        statement.discard(down_to=mark)
        return False

    def _fits(self, task: Task, row: int) -> bool:
        placement = self._session.placement
        return placement.fitting(task, without=_LEFT_OUT).takes(row, placement.room_now_on(row))


def _covers(remainder: Vector, request: Vector, usable: Usable) -> bool:
    wanted = request[usable.columns]
    return bool((wanted <= remainder[usable.columns]).all()) and bool(wanted.any())


def _consumed(remainder: Vector, request: Vector, usable: Usable) -> Vector:
    """What a pod takes of a Reservation. One that is for a single pod goes whole: what is left of it is free."""
    if usable.object.spec.allocate_once:
        return remainder.copy()
    taken = np.zeros_like(remainder)
    taken[usable.columns] = request[usable.columns]
    taken[PODS] = min(1, int(remainder[PODS]))
    return taken
