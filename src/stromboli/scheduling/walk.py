"""The one order in which work is taken up: queue, then namespace inside it, then job.

Every action walks its jobs this way, so that what allocate gives, preempt and reclaim do not take back by another
rule. After each job the path it came from is judged anew, because what it was given changed the shares: the queue
goes back among the queues with a fresh key, and so does the namespace among its queue's namespaces.

Keys of others may grow stale when an action evicts; so a key is checked when its owner comes up, and goes back if it
is no longer the smallest. A key that became smaller would never come up to be checked. Where what one queue is given
can do that to others, the plugin says when, and all keys are asked for again. Where there is only one queue or one
namespace there is no choice, and no key is asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from heapq import heapify, heappop, heappush
from typing import Any

from stromboli.cluster import Job, Queue

from .session import Session


class _Lane:
    """The jobs of one namespace in one queue."""

    __slots__ = ("heap", "namespace")

    def __init__(self, namespace: str) -> None:
        self.namespace = namespace
        self.heap: list[tuple[Any, Job]] = []


class _Choice:
    """A heap of things whose keys are computed late and checked when they come up."""

    __slots__ = ("falls", "heap", "key", "seen")

    def __init__(self, things: Iterable[Any], key: Callable[[Any], Any], falls: Callable[[], int] = lambda: 0) -> None:
        """`falls`: grows when keys may have become smaller than they were when their owners were put in."""
        self.key = key
        self.falls = falls
        self.seen = falls()
        self.heap: list[tuple[Any, Any]] = [(None, thing) for thing in things]
        if len(self.heap) > 1:
            self.heap = [(key(thing), thing) for _, thing in self.heap]
            heapify(self.heap)

    def __len__(self) -> int:
        return len(self.heap)

    def pop(self) -> Any:
        falls = self.falls()
        if falls != self.seen:
            self.seen = falls
            if len(self.heap) > 1:
                self.heap = [(self.key(thing), thing) for _, thing in self.heap]
                heapify(self.heap)
        while len(self.heap) > 1:
            old, thing = heappop(self.heap)
            fresh = self.key(thing)
            if fresh == old or fresh <= self.heap[0][0]:
                return thing
            heappush(self.heap, (fresh, thing))
        return self.heap.pop()[1]

    def push(self, thing: Any) -> None:
        if not self.heap:
            self.heap.append((None, thing))
            return
        if len(self.heap) == 1 and self.heap[0][0] is None:
            only = self.heap[0][1]
            self.heap[0] = (self.key(only), only)
        heappush(self.heap, (self.key(thing), thing))


class Walk:
    """`next` gives the next job; `again` puts one back that still has something to do."""

    def __init__(
        self, session: Session, jobs: Iterable[Job], *, drop: Callable[[Queue], bool] = lambda queue: False
    ) -> None:
        """`drop`: asked whenever a queue comes up; True leaves the queue out for the rest of the walk."""
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
            lane.heap.append((session.job_key(job), job))
        self._namespaces: dict[str, _Choice] = {}
        for name, lanes in self._lanes.items():
            for lane in lanes.values():
                heapify(lane.heap)
            self._namespaces[name] = _Choice(lanes.values(), self._namespace_key(owners[name]))
        in_order = [owners[name] for name in sorted(owners)]
        self._queues = _Choice(in_order, session.queue_key, session.queue_key_falls)
        self._at: tuple[Queue, _Lane] | None = None
        self.dropped: list[Job] = []  # jobs of queues that were left out

    def _namespace_key(self, queue: Queue) -> Callable[[_Lane], Any]:
        session = self._session
        if session.namespace_scope == "withinPriority":
            return lambda lane: (-lane.heap[0][1].priority, session.namespace_key(queue, lane.namespace))
        return lambda lane: session.namespace_key(queue, lane.namespace)

    def next(self) -> Job | None:
        self._return()
        while len(self._queues):
            queue: Queue = self._queues.pop()
            if self._drop(queue):
                self._leave_out(queue)
                continue
            lane: _Lane = self._namespaces[queue.name].pop()
            self._at = (queue, lane)
            return heappop(lane.heap)[1]
        return None

    def again(self, job: Job) -> None:
        """The job `next` gave last has more to do; it goes back with a fresh key."""
        assert self._at is not None
        heappush(self._at[1].heap, (self._session.job_key(job), job))

    def stop_queue(self) -> None:
        """Leave out the rest of the queue that came up last."""
        assert self._at is not None
        queue, lane = self._at
        if lane.heap:
            self._namespaces[queue.name].push(lane)
        self._leave_out(queue)
        self._at = None

    def _return(self) -> None:
        if self._at is None:
            return
        queue, lane = self._at
        self._at = None
        namespaces = self._namespaces[queue.name]
        if lane.heap:
            namespaces.push(lane)
        if len(namespaces):
            self._queues.push(queue)

    def _leave_out(self, queue: Queue) -> None:
        left = [entry for _, lane in self._namespaces.pop(queue.name).heap for entry in lane.heap]
        self.dropped.extend(job for _, job in sorted(left, key=lambda entry: entry[0]))
