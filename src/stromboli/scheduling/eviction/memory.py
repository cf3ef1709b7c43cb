"""What is known about evictions, for the length of a session: who may be evicted where, plans, and searches that
failed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

from stromboli.cluster import Job, JobKey, Queue, QueueName, Status, Task
from stromboli.scheduling.session import Session

from .plans import EvictionPlan

EVICTABLE = frozenset({Status.BOUND, Status.RUNNING})


@dataclass(slots=True)
class KnownPlans:
    """Plans by row, and how far the ledger's log was read when they were made."""

    plans: dict[int, EvictionPlan]
    read_to: int


class EvictionMemory:
    def __init__(self, session: Session) -> None:
        self.failed: dict[Any, int] = {}  # searches without a result, and the session's version at that time
        self.plans: dict[Any, KnownPlans] = {}
        self._evictable: dict[QueueName, dict[int, list[Task]]] = {}
        self._compositions: dict[JobKey, Hashable] = {}

    def evictable(self, queue: Queue) -> dict[int, list[Task]]:
        """Tasks of a queue that were evictable when first asked, by row; nobody becomes evictable in a session."""
        known = self._evictable.get(queue.name)
        if known is None:
            known = self._evictable[queue.name] = _evictable_by_row(queue)
        return known

    def composition(self, job: Job) -> Hashable:
        """Equal for jobs of equal tasks; nobody joins a job in a session."""
        known = self._compositions.get(job.key)
        if known is None:
            kinds = Counter(tuple(task.request.tolist()) for task in job.tasks.values())
            known = self._compositions[job.key] = frozenset(kinds.items())
        return known


def _evictable_by_row(queue: Queue) -> dict[int, list[Task]]:
    by_row: dict[int, list[Task]] = {}
    for job in queue.jobs.values():
        if job.object is None or not (job.counts[Status.RUNNING] or job.counts[Status.BOUND]):
            continue
        for task in job.tasks.values():
            if task.status in EVICTABLE and task.node is not None and task.preemptable:
                by_row.setdefault(task.node.row, []).append(task)
    return by_row
