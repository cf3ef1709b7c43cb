"""The nodes on which evictions could help one kind of task, the most promising first.

Every node starts with its bound (`Candidates.bounds`), and a plan is made only for the node that is first by its key.
If the plan turns out worse than the bound, the node goes back in line with the plan's key. So with a thousand nodes and
a gang of hundreds, about one plan is made for each task.

A key that was right once stays a bound while evictions go on: whoever loses pods is protected more, and whoever gets
room is entitled to less. Where this does not hold, nodes go back to their first bounds:

- a node that changed has no bound any more; its plan is made again (`changed`),
- a gang that was broken up is not protected any more (`forget_plans`),
- another job searches, or more leaves than arrives, so that somebody may be entitled to more; or what costs depend on
  has changed (`forget_unsure`). Plans that no other verdict could make better stay (`EvictionPlan.sure`).

Only between plans whose victims are alike in rank and number, the order of jobs may have changed meanwhile, so that one
of the victims is a few pods younger than the key says.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from heapq import heapify, heappop, heappush, heapreplace
from typing import Any

from stromboli.cluster import LogView, Moment, Node

from .candidates import Bound, Candidates
from .plans import EvictionPlan

Key = tuple[Any, ...]

_FIRST = -1
"""The cost of a node without a bound: less than any cost, so its plan is made before others are compared."""


class Prospects:
    def __init__(
        self, candidates: Candidates, bounds: Mapping[int, Bound], nodes: list[Node], rows: LogView[int]
    ) -> None:
        self.candidates = candidates
        self.rows = rows  # those that changed
        # When the last evictions were planned, and what the evictor's job had before.
        self.ended: tuple[Moment, Hashable] | None = None
        self.cost_basis: Hashable = None  # what costs depended on at the last search
        self.closed: Collection[int] = ()  # rows on which nobody may be evicted
        self._nodes = nodes
        self._bounds: dict[int, Key] = {row: (0, *bound, nodes[row].name) for row, bound in bounds.items()}
        self._keys: dict[int, Key] = {}
        self._heap: list[tuple[Key, int]] = []
        self._plans: dict[int, EvictionPlan] = {}  # made in the present state
        self._sure: dict[int, Key] = {}  # keys that are bounds whatever the plugins say
        self._failed: dict[int, Key] = {}  # plans that did not work when they were tried
        self.forget_unsure()

    # -- changes ------------------------------------------------------------------------------------------------

    def forget_unsure(self) -> None:
        """The plugins may say yes now where they said no."""
        keys = {**self._bounds, **self._sure}
        self._keys = {row: key for row, key in keys.items() if row not in self.closed} if self.closed else keys
        self._heap = [(key, row) for row, key in self._keys.items()]
        heapify(self._heap)
        self._plans.clear()
        self._failed.clear()

    def forget_plans(self, rows: Iterable[int]) -> None:
        """The plans on these nodes may be better now: what is left of a broken gang can go without stopping a job."""
        for row in rows:
            if row in self._bounds:
                cost, *bound = self._bounds[row]
                if cost != _FIRST:
                    self._bounds[row] = (cost, bound[0], 0, *bound[2:])
                self._put(row, self._bounds[row])

    def changed(self, rows: Iterable[int]) -> None:
        """Tasks came to these nodes or left them."""
        self._plans.clear()
        for row in rows:
            if self.candidates.on(row):
                self._bounds[row] = (_FIRST, self._nodes[row].name)
                self._sure.pop(row, None)
                self._put(row, self._bounds[row])

    def retry_failed(self) -> None:
        """Plans that did not work may work now."""
        for row, key in self._failed.items():
            if row not in self._keys:
                self._put(row, key)
        self._failed.clear()

    # -- the best -----------------------------------------------------------------------------------------------

    def best(self, plan_on: Callable[[int], EvictionPlan | None]) -> EvictionPlan | None:
        """The best plan at this moment; None if there is none on any node."""
        heap = self._heap
        while heap:
            key, row = heap[0]
            if self._keys.get(row) is not key:
                heappop(heap)  # it has another key by now
                continue
            plan = self._plans.get(row)
            if plan is not None:
                return plan
            plan = plan_on(row)
            if plan is None:
                heappop(heap)
                del self._keys[row]
                continue
            self._plans[row] = plan
            self._keys[row] = plan.key
            if plan.sure:
                self._sure[row] = plan.key
            self._replace_first(plan.key, row)
        return None

    def set_aside(self, plan: EvictionPlan) -> None:
        """It is being tried."""
        del self._keys[plan.node.row]

    def put_back(self, plan: EvictionPlan) -> None:
        self._put(plan.node.row, plan.key)

    def put_instead(self, plan: EvictionPlan) -> None:
        """The plan that was tried on this node did not work; this one may."""
        self._plans[plan.node.row] = plan
        self._put(plan.node.row, plan.key)

    def put_away(self, plan: EvictionPlan) -> None:
        """It did not work, and will not until something changes."""
        self._failed[plan.node.row] = plan.key

    def _put(self, row: int, key: Key) -> None:
        if row not in self.closed:
            self._keys[row] = key
            if self._heap and self._heap[0][1] == row:  # with a key that is out of date now
                self._replace_first(key, row)
            else:
                heappush(self._heap, (key, row))

    def _replace_first(self, key: Key, row: int) -> None:
        """Give the first in line another key. Mostly it stays the first, the next victim on the same node, and then no
        other keys need be compared: a gang that preempts takes a twentieth longer without this."""
        heap, entry = self._heap, (key, row)
        if (len(heap) < 2 or entry < heap[1]) and (len(heap) < 3 or entry < heap[2]):
            heap[0] = entry
        else:
            heapreplace(heap, entry)
