"""The pods of a job in buckets: those of a bucket should be on one node, those of different buckets need not be.

Pods that have a node are in the bucket of that node. Each of the others chooses a bucket, the most urgent roles first:
the one with which it gains most; of equally good ones the one that requests least, so that buckets are of one size; and
a new one if there is none in which it loses nothing. Buckets are found once in a session.

Thousands of buckets may be equally good, so buckets with the same numbers of roles are kept together, the smallest
first.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from typing import Final

from stromboli.cluster import CPU, MEMORY, OCCUPYING, PODS, Job, Node, Status, Task, TaskKey, Vector
from stromboli.cluster.model import WAITING

from .task_wishes import Wishes

_MEBI = 1 << 20
_STAYS: Final = OCCUPYING | {Status.PIPELINED}

_Kind = tuple[tuple[str, int], ...]  # the numbers of a bucket's roles


@dataclass(eq=False)
class Bucket:
    index: int
    roles: dict[str, int] = field(default_factory=dict)
    tasks: list[Task] = field(default_factory=list)
    waiting: int = 0  # of them, when it was filled
    load: int = 0  # what these request, in thousandths of a core, Mi of memory, and units of other resources

    @property
    def kind(self) -> _Kind:
        return tuple(sorted(self.roles.items()))

    def add(self, task: Task) -> None:
        self.tasks.append(task)
        self.roles[task.role] = self.roles.get(task.role, 0) + 1
        if task.status in WAITING:
            self.waiting += 1
            self.load += _size(task.request)


class Buckets:
    def __init__(self, job: Job, wishes: Wishes) -> None:
        self._wishes = wishes
        self._all: list[Bucket] = []
        self._by_kind: dict[_Kind, list[tuple[int, int]]] = {}  # heaps of (load, index)
        self.of_task: dict[TaskKey, Bucket] = {}
        tasks = [task for task in job.tasks.values() if task.role in wishes.urgency]
        self._by_node([(node.name, task) for task in tasks if (node := place_of(task)) is not None])
        waiting = [task for task in tasks if task.status in WAITING]
        for task in sorted(waiting, key=lambda task: (wishes.rank(task.role), task.index, task.key)):
            self._choose(task)
        self.largest = max((len(bucket.tasks) for bucket in self._all), default=0)

    def _by_node(self, placed: list[tuple[str, Task]]) -> None:
        by_node: dict[str, Bucket] = {}
        for name, task in sorted(placed, key=lambda one: (one[0], one[1].key)):
            if name not in by_node:
                by_node[name] = self._new()
            self._put(task, by_node[name])
        for bucket in self._all:
            self._by_kind.setdefault(bucket.kind, []).append((bucket.load, bucket.index))
        for heap in self._by_kind.values():
            heapify(heap)

    def _choose(self, task: Task) -> None:
        best: tuple[int, int, int] | None = None
        found: _Kind = ()
        for kind, heap in self._by_kind.items():
            gain = self._wishes.gain(task.role, dict(kind))
            if gain >= 0 and (best is None or (-gain, *heap[0]) < best):
                best, found = (-gain, *heap[0]), kind
        if best is None:
            bucket = self._new()
        else:
            bucket = self._all[best[2]]
            heappop(self._by_kind[found])
            if not self._by_kind[found]:
                del self._by_kind[found]
        self._put(task, bucket)
        heappush(self._by_kind.setdefault(bucket.kind, []), (bucket.load, bucket.index))

    def _new(self) -> Bucket:
        self._all.append(Bucket(len(self._all)))
        return self._all[-1]

    def _put(self, task: Task, bucket: Bucket) -> None:
        bucket.add(task)
        self.of_task[task.key] = bucket


def place_of(task: Task) -> Node | None:
    """The node on which a task stays, or that it is promised."""
    return task.node if task.status in _STAYS else None


def _size(request: Vector) -> int:
    amounts = request.tolist()
    others = sum(amount for column, amount in enumerate(amounts) if column not in (CPU, MEMORY, PODS))
    return int(amounts[CPU] + amounts[MEMORY] // _MEBI + 1000 * others)
