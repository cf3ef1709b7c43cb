"""Queues in the order in which they are served.

Keys of queues rise while queues get resources. They are computed late: a queue whose key is out of date goes back when
it reaches the top. Queues may form a tree in which they are compared by their ancestors. What one queue gets then
raises the keys of all queues below its ancestors. So there is a heap for each branch of the tree, and only the keys
along one path are computed again. Without a tree, there is one heap of all queues.

Keys that became smaller are not found this way. If giving resources to one queue can make the key of another smaller,
the plugin reports it (`queue_key_falls`), and all keys are computed again. Where there is no choice, no key is computed
at all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from heapq import heapify, heappop, heappush, heapreplace
from typing import Any

from stromboli.cluster import Queue

from .framework import Framework


class _Branch:
    """A queue or an inner node of the tree, with those below it that have a queue in line."""

    __slots__ = ("above", "heap", "key", "order", "queue")

    def __init__(self, above: _Branch | None, key: Callable[[], Any]) -> None:
        self.above = above
        self.key = key
        self.queue: Queue | None = None  # if it is in line; it goes before those below it
        self.heap: list[tuple[Any, _Branch]] = []  # keys may be out of date; None while there is only one
        self.order: tuple[list[_Branch], list[Any], list[_Branch]] | None = None  # the last `_sorted`

    @property
    def is_empty(self) -> bool:
        return self.queue is None and not self.heap

    def add(self, below: _Branch) -> None:
        heap = self.heap
        if not heap:
            heap.append((None, below))
            return
        if len(heap) == 1:
            heap[0] = (heap[0][1].key(), heap[0][1])
        heappush(heap, (below.key(), below))

    def first(self, current: _Branch | None) -> _Branch:
        """The first of those below, at the top of the heap. `current`: its key was computed just now."""
        heap = self.heap
        while len(heap) > 1:
            old, below = heap[0]
            if below is current:
                break
            fresh = below.key()
            if fresh != old:
                heapreplace(heap, (fresh, below))
            if heap[0][1] is below:
                break
        return heap[0][1]

    def in_order(self) -> list[Queue]:
        """The queues at or below it that are in line."""
        found = [] if self.queue is None else [self.queue]
        for below in self._sorted() if len(self.heap) > 1 else [below for _, below in self.heap]:
            if below.heap:
                found += below.in_order()
            elif below.queue is not None:
                found.append(below.queue)
        return found

    def _sorted(self) -> list[_Branch]:
        """Those below it, by their keys at this moment. Mostly few keys have changed since the last time, and none in
        most branches of a tree."""
        branches = [below for _, below in self.heap]
        keys = [below.key() for below in branches]
        known = self.order
        if known is None or known[0] != branches or known[1] != keys:
            order = sorted(range(len(keys)), key=keys.__getitem__)
            known = self.order = (branches, keys, [branches[position] for position in order])
        return known[2]

    def sort_again(self) -> None:
        if len(self.heap) > 1:
            self.heap = [(below.key(), below) for _, below in self.heap]
            heapify(self.heap)
        for _, below in self.heap:
            below.sort_again()


class QueueLine:
    def __init__(self, session: Framework, queues: Iterable[Queue]) -> None:
        self._session = session
        self._root = _Branch(None, lambda: None)
        self._branches: dict[str, _Branch] = {}
        self._may_fall = bool(session.points.queue_key_falls)
        self._falls = session.queue_key_falls()
        for queue in queues:
            self.push(queue)
        self._current: _Branch | None = None  # that was pushed, with its key, just before the next `pop`

    def __bool__(self) -> bool:
        return not self._root.is_empty

    def push(self, queue: Queue) -> None:
        branch = self._branches.get(queue.name) or self._branch_of(queue)
        joins = branch.queue is None and not branch.heap
        branch.queue = queue
        self._current = branch if joins else None
        while joins and branch.above is not None:
            joins = branch.above.is_empty
            branch.above.add(branch)
            branch = branch.above

    def in_order(self) -> list[Queue]:
        """All queues in line, by their keys at this moment."""
        return self._root.in_order()

    def pop(self) -> Queue | None:
        """The first in line, who leaves it."""
        if self._may_fall and (falls := self._session.queue_key_falls()) != self._falls:
            self._falls = falls
            self._root.sort_again()
        branch, current = self._root, self._current
        self._current = None
        while branch.queue is None:
            if not branch.heap:
                return None
            branch = branch.first(current)
        queue, branch.queue = branch.queue, None
        above = branch.above
        while above is not None and not branch.heap and branch.queue is None:
            heappop(above.heap)  # it is the first
            branch, above = above, above.above
        return queue

    def _branch_of(self, queue: Queue) -> _Branch:
        branch = self._root
        for name, key in self._session.queue_path(queue):
            known = self._branches.get(name)
            if known is None:
                known = self._branches[name] = _Branch(branch, key)
            branch = known
        return branch
