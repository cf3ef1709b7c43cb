"""Which objects a controller has to visit: those about which something changed, and those whose time has come.

A pass visits what is in the queue and nothing else, so its cost follows what happened, not how many objects there are.
Keys are added

    when something that a visit reads has changed      `add`, from the controller's `observe`
    when a visit returned changes                      `add`: they may fail, and nothing else would ask for them again
    for a time                                         `set_due`: TTLs, timeouts and delays

and a visit that finds nothing to do is the last one until then. An unnecessary visit does no harm. A missing one does,
so what is not sure to be unchanged is added.
"""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heapify, heappop, heappush


class WorkQueue:
    def __init__(self) -> None:
        self._keys: set[str] = set()
        self._dues: dict[str, float] = {}
        self._heap: list[tuple[float, str]] = []  # of `_dues`, and times that have been replaced since

    def __len__(self) -> int:
        """How many keys the next pass visits, not counting those that become due."""
        return len(self._keys)

    def add(self, key: str) -> None:
        self._keys.add(key)

    def add_all(self, keys: Iterable[str]) -> None:
        self._keys.update(keys)

    def set_due(self, key: str, due: float | None) -> None:
        """Visit this key at a time at the latest. It replaces the earlier time; None removes it."""
        if due is None:
            self._dues.pop(key, None)
        elif self._dues.get(key) != due:
            self._dues[key] = due
            heappush(self._heap, (due, key))
            if len(self._heap) > 2 * len(self._dues) + 64:
                self._heap = [(due, key) for key, due in self._dues.items()]
                heapify(self._heap)

    def take(self, now: float) -> list[str]:
        """The keys to visit now, sorted. They are in the queue no longer, and have no time any more if it has come."""
        while self._heap and self._heap[0][0] <= now:
            due, key = heappop(self._heap)
            if self._dues.get(key) == due:
                del self._dues[key]
                self._keys.add(key)
        taken = sorted(self._keys)
        self._keys.clear()
        return taken

    def next_due(self, now: float) -> float | None:
        """The first time after `now` that has been set."""
        while self._heap and self._dues.get(self._heap[0][1]) != self._heap[0][0]:
            heappop(self._heap)
        if self._heap and self._heap[0][0] > now:
            return self._heap[0][0]
        return min((due for due in self._dues.values() if due > now), default=None)
