"""Which objects a controller has to visit: those about which something changed, and those whose time has come.

A pass visits what is in the queue and nothing else, so its cost follows what happened, not how many objects there are.
Keys are added

    when something that a visit reads has changed      `add`, from the controller's `observe`
    when a visit returned changes                      `add`: they may fail, and nothing else would ask for them again
    for a time                                         `set_due`: TTLs, timeouts and delays

and a visit that finds nothing to do is the last one until then. An unnecessary visit does no harm. A missing one does,
so what is not sure to be unchanged is added.

A pass may visit only so many. Then namespaces have equal parts of it, and what is left of one goes to the others: who
submits a hundred thousand objects waits for them, and others do not. Inside a namespace, who came first is first.
"""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heapify, heappop, heappush
from itertools import islice


class WorkQueue:
    def __init__(self) -> None:
        self._keys: dict[str, dict[str, None]] = {}  # by namespace, in the order in which they came
        self._dues: dict[str, float] = {}
        self._heap: list[tuple[float, str]] = []  # of `_dues`, and times that have been replaced since

    def __len__(self) -> int:
        """How many keys the next pass visits, not counting those that become due."""
        return sum(len(keys) for keys in self._keys.values())

    def add(self, key: str) -> None:
        self._keys.setdefault(_namespace(key), {})[key] = None

    def add_all(self, keys: Iterable[str]) -> None:
        for key in keys:
            self.add(key)

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

    def due(self, key: str) -> float | None:
        """The time that was set for this key and has not come."""
        return self._dues.get(key)

    def take(self, now: float, most: int | None = None) -> list[str]:
        """The keys to visit now, sorted, and at most so many. They are in the queue no longer, and have no time any
        more if it has come."""
        while self._heap and self._heap[0][0] <= now:
            due, key = heappop(self._heap)
            if self._dues.get(key) == due:
                del self._dues[key]
                self.add(key)
        if most is None or len(self) <= most:
            taken = sorted(key for keys in self._keys.values() for key in keys)
            self._keys.clear()
            return taken
        return sorted(self._fair_parts(most))

    def _fair_parts(self, left: int) -> list[str]:
        """Namespaces with few keys first: what they leave of their parts is for the others. If there is not one key for
        each, those that have waited longest."""
        taken: list[str] = []
        in_order = list(self._keys)
        if len(in_order) <= left:
            in_order.sort(key=lambda namespace: len(self._keys[namespace]))
        for place, namespace in enumerate(in_order):
            part = -(-left // (len(in_order) - place))
            if not part:
                break
            keys = self._keys.pop(namespace)
            mine = list(islice(keys, part))
            taken += mine
            left -= len(mine)
            if len(mine) < len(keys):
                for key in mine:
                    del keys[key]
                self._keys[namespace] = keys
        return taken

    def next_due(self, now: float) -> float | None:
        """The first time after `now` that has been set."""
        while self._heap and self._dues.get(self._heap[0][1]) != self._heap[0][0]:
            heappop(self._heap)
        if self._heap and self._heap[0][0] > now:
            return self._heap[0][0]
        return min((due for due in self._dues.values() if due > now), default=None)


def by_turns(keys: Iterable[str]) -> list[str]:
    """One key of each namespace, then the second of each, and so on."""
    turn: dict[str, int] = {}
    numbered: list[tuple[int, str]] = []
    for key in keys:
        namespace = _namespace(key)
        turn[namespace] = number = turn.get(namespace, -1) + 1
        numbered.append((number, key))
    return [key for _, key in sorted(numbered, key=lambda item: item[0])]


def _namespace(key: str) -> str:
    return key.partition("/")[0]
