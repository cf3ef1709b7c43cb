"""What is known about evictions, for the length of a session: who may be evicted where, on which nodes it would help,
and searches that failed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from typing import Any

from stromboli.cluster import Job, JobKey, Moment, Queue, QueueName
from stromboli.scheduling.session import Session

from .candidates import Candidates, JoinedColumns, QueueColumns, StillEvictable
from .prospects import Prospects


class EvictionMemory:
    def __init__(self, session: Session) -> None:
        self._ledger = session.ledger
        # Searches without a result: when, and whether nothing had been tried before.
        self.failed: dict[Any, tuple[Moment, bool]] = {}
        self.prospects: dict[Any, Prospects] = {}
        self.candidates: dict[Any, Candidates] = {}
        self._evictable: dict[QueueName, QueueColumns] = {}
        self._joined: dict[frozenset[QueueName], JoinedColumns] = {}
        self.still_evictable = StillEvictable(session.ledger)
        self._compositions: dict[JobKey, Hashable] = {}

    def columns(self, queues: Sequence[Queue]) -> JoinedColumns:
        """Tasks of these queues that could be evicted."""
        key = frozenset([queue.name for queue in queues])
        known = self._joined.get(key)
        if known is None:
            known = self._joined[key] = JoinedColumns(map(self._columns_of, queues))
        return known

    def _columns_of(self, queue: Queue) -> QueueColumns:
        known = self._evictable.get(queue.name)
        if known is None:
            known = self._evictable[queue.name] = QueueColumns(self._ledger, queue, self.still_evictable)
        return known

    def composition(self, job: Job) -> Hashable:
        """Equal for jobs of equal tasks; nobody joins a job in a session."""
        known = self._compositions.get(job.key)
        if known is None:
            kinds = Counter(tuple(task.request.tolist()) for task in job.tasks.values())
            known = self._compositions[job.key] = frozenset(kinds.items())
        return known
