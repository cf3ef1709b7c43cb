"""The order in which actions take jobs: by queue, then by namespace inside the queue, then by job.

Every action walks its jobs in this order, so preempt and reclaim do not take back by another rule what allocate gave.
What a job gets changes the shares. So after each job its queue goes back to the other queues with a new key, and its
namespace to the other namespaces of the queue.

If the last cycle ended before some jobs had their turn (see `turns`), these go before all others of their queue and
priority.

An action may also change the keys of others, by evictions. So a key is computed again when its owner reaches the top,
and the owner goes back if it is no longer first. For queues, `queue_line` does this. With only one queue or namespace,
no key is computed at all.
"""

from __future__ import annotations

from bisect import insort
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping
from heapq import heapify, heappop, heappush, heapreplace
from typing import Any

from stromboli.cluster import Job, Queue

from .queue_line import QueueLine
from .session import Session


class _Lane:
    """The jobs of one namespace in one queue, in order. Those before `at` have had their turn."""

    __slots__ = ("at", "entries", "namespace")

    def __init__(self, namespace: str) -> None:
        self.namespace = namespace
        self.entries: list[tuple[Any, Job]] = []
        self.at = 0

    def __bool__(self) -> bool:
        return self.at < len(self.entries)

    @property
    def first(self) -> Job:
        return self.entries[self.at][1]

    def pop(self) -> Job:
        self.at += 1
        return self.entries[self.at - 1][1]

    def push(self, key: Any, job: Job) -> None:
        insort(self.entries, (key, job), lo=self.at)


class _LazyHeap:
    """A heap whose keys are computed late, and checked when an item reaches the top."""

    __slots__ = ("heap", "key")

    def __init__(self, things: Iterable[Any], key: Callable[[Any], Any]) -> None:
        self.key = key
        self.heap: list[tuple[Any, Any]] = [(None, thing) for thing in things]
        if len(self.heap) > 1:
            self.heap = [(key(thing), thing) for _, thing in self.heap]
            heapify(self.heap)

    def __len__(self) -> int:
        return len(self.heap)

    def pop(self) -> Any:
        heap = self.heap
        while len(heap) > 1:
            old, thing = heap[0]
            fresh = self.key(thing)
            if fresh != old:
                heapreplace(heap, (fresh, thing))
            if heap[0][1] is thing:
                heappop(heap)
                return thing
        return heap.pop()[1]

    def push(self, thing: Any) -> None:
        if not self.heap:
            self.heap.append((None, thing))
            return
        if len(self.heap) == 1 and self.heap[0][0] is None:
            only = self.heap[0][1]
            self.heap[0] = (self.key(only), only)
        heappush(self.heap, (self.key(thing), thing))


class Walk:
    """`next` returns the next job; `again` puts it back if it has more to do."""

    def __init__(
        self, session: Session, jobs: Iterable[Job], *, drop: Callable[[Queue], bool] = lambda queue: False
    ) -> None:
        """`drop`: called for each queue that is next; True skips the queue for the rest of the walk."""
        self._session = session
        self._drop = drop
        self._lanes: dict[str, dict[str, _Lane]] = {}
        owners: dict[str, Queue] = {}
        for job in jobs:
            lanes = self._lanes.setdefault(job.queue.name, {})
            owners[job.queue.name] = job.queue
            lane = lanes.get(job.namespace)
            if lane is None:
                lane = lanes[job.namespace] = _Lane(job.namespace)
            lane.entries.append((session.job_key(job), job))
        self._first = session.turns.first()
        for lanes in self._lanes.values() if self._first else ():
            self._lift(lanes.values())
        self._namespaces: dict[str, _LazyHeap] = {}
        for name, lanes in self._lanes.items():
            for lane in lanes.values():
                lane.entries.sort(key=_key)
            self._namespaces[name] = _LazyHeap(lanes.values(), self._namespace_key(owners[name]))
        in_order = [owners[name] for name in sorted(owners)]
        # A queue with jobs that the last cycle did not get to has one turn before the others. Its key may never be the
        # smallest as long as the first queue's jobs find no place.
        in_front = self._passed_over_queues(in_order) if self._first else []
        lacks_turns = {queue.name for queue in in_front}
        self._passed_over = deque(in_front)
        self._queues = QueueLine(session, [queue for queue in in_order if queue.name not in lacks_turns])
        self._at: tuple[Queue, _Lane] | None = None  # where the last job came from
        self.dropped: list[Job] = []  # jobs of queues that were skipped
        self.is_cut = False  # it ended because there was no more time

    def _namespace_key(self, queue: Queue) -> Callable[[_Lane], Any]:
        session, first = self._session, self._first
        last = len(first)
        if session.namespace_scope == "withinPriority":
            return lambda lane: (
                -lane.first.priority, first.get(lane.first.key, last), session.namespace_key(queue, lane.namespace)
            )  # fmt: skip
        if first:
            return lambda lane: (first.get(lane.first.key, last), session.namespace_key(queue, lane.namespace))
        return lambda lane: session.namespace_key(queue, lane.namespace)

    def next(self) -> Job | None:
        """The next job, whose turn it is now. None if no job is left, or no time."""
        turns = self._session.turns
        turns.current = None
        self._put_back()
        if turns.is_limited and (self._passed_over or self._queues) and not turns.may_go_on():
            self._cut()
        while (queue := self._passed_over.popleft() if self._passed_over else self._queues.pop()) is not None:
            if self._drop(queue):
                self._skip(queue)
                continue
            lane: _Lane = self._namespaces[queue.name].pop()
            self._at = (queue, lane)
            job = lane.pop()
            turns.take(job)
            return job
        return None

    def again(self, job: Job) -> None:
        """Put the last job of `next` back, with a new key."""
        assert self._at is not None
        key = self._session.job_key(job)
        self._at[1].push((key, 1, key) if self._first else key, job)

    def stop_queue(self) -> None:
        """Skip the remaining jobs of the last job's queue."""
        assert self._at is not None
        queue, lane = self._at
        if lane:
            self._namespaces[queue.name].push(lane)
        self._skip(queue)
        self._at = None

    def _cut(self) -> None:
        """There is no time for those that are left."""
        before = len(self.dropped)
        for queue in [*self._passed_over, *self._queues.in_order()]:
            self._skip(queue)
        self._passed_over.clear()
        self._queues = QueueLine(self._session, [])
        self._session.turns.miss(self.dropped[before:])
        self.is_cut = True

    def _passed_over_queues(self, queues: Iterable[Queue]) -> list[Queue]:
        """The queues of jobs that the last cycle did not get to, in the order of these jobs."""
        first, places = self._first, list[tuple[int, Queue]]()
        for queue in queues:
            jobs = [job for lane in self._lanes[queue.name].values() for _, job in lane.entries if job.key in first]
            if jobs:
                places.append((min(first[job.key] for job in jobs), queue))
        return [queue for _, queue in sorted(places, key=_key)]

    def _lift(self, lanes: Collection[_Lane]) -> None:
        """Put those of a queue that the last cycle did not get to before all others of their priority. The new keys are
        to be compared with each other only."""
        entries = [entry for lane in lanes for entry in lane.entries]
        best: dict[int, Any] = {}
        for key, job in entries:
            best[job.priority] = min(key, best.get(job.priority, key))
        for lane in lanes:
            lane.entries = [(self._lifted(key, job, best), job) for key, job in lane.entries]

    def _lifted(self, key: Any, job: Job, best: Mapping[int, Any]) -> Any:
        place = self._first.get(job.key)
        return (key, 1, key) if place is None else (best[job.priority], 0, place)

    def _put_back(self) -> None:
        if self._at is None:
            return
        queue, lane = self._at
        self._at = None
        namespaces = self._namespaces[queue.name]
        if lane:
            namespaces.push(lane)
        if len(namespaces):
            self._queues.push(queue)

    def _skip(self, queue: Queue) -> None:
        left = [entry for _, lane in self._namespaces.pop(queue.name).heap for entry in lane.entries[lane.at :]]
        self.dropped.extend(job for _, job in sorted(left, key=_key))


def _key(entry: tuple[Any, Any]) -> Any:
    return entry[0]
