"""What each queue asks for, in nodes and amounts, and whether a new guarantee is accepted.

A percentage asks for a number of nodes, `floor(nodes · value)`; amounts ask for so much of each resource. If a queue
gives both, the one counts whose nodes hold the larger dominant share. That is found out on empty nodes, so it changes
only with the nodes and the guarantee, not with what happens to run.

A parent asks only for what the locks of the queues below it do not cover.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from stromboli.api import Queue
from stromboli.api.quantity import amounts
from stromboli.cluster.queue_guarantees import dimensions, guaranteed_amounts, guaranteed_fraction, is_bare

from . import messages
from .demand import Demand
from .node_use import ClusterView, Flags
from .score import Amounts, Nodes, Rows, sum_of
from .search import best_set


@dataclass(frozen=True, slots=True)
class Refused:
    reason: str
    message: str


class Guarantees:
    """The demands of queues in one view of the cluster."""

    def __init__(self, view: ClusterView) -> None:
        self.view = view
        self.counted = int(view.counts.sum())
        self._total: Amounts = view.sizes[:, view.counts].sum(axis=1)
        self._known: dict[str, Demand] = {}
        self._needs: dict[str, int] = {}

    def demand(self, queue: Queue) -> Demand:
        """What a queue asks for, whatever is locked already."""
        name = queue.metadata.name
        if name not in self._known:
            self._known[name] = self._demand(queue)
        return self._known[name]

    def demand_beside(self, queue: Queue, below: Iterable[int]) -> Demand:
        """What is left to lock for a queue if these nodes are locked for queues below it."""
        demand = self.demand(queue)
        rows = list(below)
        if not rows:
            return demand
        if demand.count is not None:
            return Demand(demand.target, max(demand.count - len(rows), 0), demand.most)
        covered = (self.view.sizes[:, rows] - self.view.fixed[:, rows]).sum(axis=1)
        return Demand(np.maximum(demand.target - covered, 0))

    def needed_nodes(self, queue: Queue) -> int:
        """How many nodes a queue would lock if all of them were free."""
        name = queue.metadata.name
        if name not in self._needs:
            demand = self.demand(queue)
            rows = np.flatnonzero(self.view.counts)
            self._needs[name] = demand.count if demand.count is not None else len(self._ideal(demand, rows))
        return self._needs[name]

    def number_of_nodes(self, queue: Queue) -> int | None:
        """What the percentage comes to; None without one."""
        fraction = guaranteed_fraction(queue.spec.guarantee)
        return None if fraction is None else int(self.counted * fraction)

    # -- a new guarantee ------------------------------------------------------------------------------------------

    def judge(self, queue: Queue, *, demand: Demand, taken: Iterable[int], others: int, most: int) -> Refused | None:
        """Why a new guarantee is refused. `demand`: what it asks for beside the queues below; `taken`: nodes locked
        for others; `others`: how many nodes those may need."""
        view = self.view
        void = messages.VOID_AS_LOCK if is_bare(queue.spec.guarantee) else messages.VOID
        for name, asked in sorted(guaranteed_amounts(queue.spec.guarantee, view.offered).items()):
            total = float(self._total[view.column[name]]) if name in view.column else 0.0
            if asked > total:
                return Refused("ExceedsCluster", messages.exceeds_cluster(name, asked, total, void))
        free = view.counts.copy()
        free[list(taken)] = False
        rows = np.flatnonzero(free)
        empty = self._empty(rows)
        allowed = best_set(empty, demand, most=max(most - others, 0))
        if bool(demand.is_met(sum_of(empty, allowed))[0]):
            return None
        ideal = self._ideal(demand, rows)
        met = bool(demand.is_met(sum_of(empty, ideal))[0])
        needed = len(ideal) if met or demand.count is None else demand.count
        if needed + others > most:
            return Refused("ExceedsMaxReservedPercent", messages.exceeds_limit(needed, others, most, void))
        if demand.count is not None and demand.most is not None:
            return Refused("ExceedsCapability", messages.exceeds_capability(demand.count))
        asked_for = {name: demand.target[view.column[name]] for name in view.resources}
        missing = {name: n for name, n in asked_for.items() if n}
        return Refused("TooFewNodes", messages.too_few_nodes(missing, void))

    # -- demands --------------------------------------------------------------------------------------------------

    def _demand(self, queue: Queue) -> Demand:
        by_amounts = self._by_amounts(queue)
        by_number = self._by_number(queue)
        if by_number is None or by_amounts is None:
            return by_number or by_amounts or Demand(self.view.vector({}))
        rows = np.flatnonzero(self.view.counts)
        asked = (by_amounts.target > 0) | (by_number.target > 0)
        shares = [self._dominant_share(rows, self._ideal(demand, rows), asked) for demand in (by_amounts, by_number)]
        return by_number if shares[1] > shares[0] else by_amounts

    def _by_amounts(self, queue: Queue) -> Demand | None:
        asked = guaranteed_amounts(queue.spec.guarantee, self.view.offered)
        return Demand(self.view.vector(asked)) if asked else None

    def _by_number(self, queue: Queue) -> Demand | None:
        fraction, count = guaranteed_fraction(queue.spec.guarantee), self.number_of_nodes(queue)
        if fraction is None or count is None:
            return None
        target = self._total * float(fraction) * self._named(dimensions(queue.spec.guarantee, self.view.offered))
        return Demand(target, count, self._capability(queue))

    def _named(self, resources: Iterable[str]) -> Amounts:
        return self.view.vector(dict.fromkeys(resources, 1))

    def _capability(self, queue: Queue) -> Amounts | None:
        """What the queue may have; None without a limit. CPU or memory of 0 is no limit."""
        limits = {
            name: n for name, n in amounts(queue.spec.capability).items() if n > 0 or name not in ("cpu", "memory")
        }
        if not limits:
            return None
        most = np.full(len(self.view.resources), np.inf)
        for name, limit in limits.items():
            if name in self.view.column:
                most[self.view.column[name]] = limit
        return most

    def _dominant_share(self, rows: Rows, chosen: list[int], asked: Flags) -> Fraction:
        held = self.view.sizes[:, rows[chosen]].sum(axis=1)
        shares = [
            Fraction(int(held[column]), int(self._total[column]))
            for column in np.flatnonzero(asked)
            if self._total[column] > 0
        ]
        return max(shares, default=Fraction(0))

    def _ideal(self, demand: Demand, rows: Rows) -> list[int]:
        return best_set(self._empty(rows), demand, most=len(rows))

    def _empty(self, rows: Rows) -> Nodes:
        """These nodes as if nothing but what never drains ran on them."""
        sizes = self.view.sizes[:, rows]
        covers = sizes - self.view.fixed[:, rows]
        names = tuple(self.view.names[row] for row in rows)
        return Nodes(names, sizes, covers, np.zeros_like(sizes), covers)
