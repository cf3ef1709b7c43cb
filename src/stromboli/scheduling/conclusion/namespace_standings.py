"""Which namespace goes first inside a queue.

When jobs of several namespaces in one queue wait for nodes, the next free resources go to the namespace with the
smallest weighted share. That is the reason for the others: it says more about when they start than the nodes do.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from stromboli.cluster import SHARED, Job, Queue
from stromboli.scheduling.callbacks import Refusal
from stromboli.scheduling.explanation.reasons import Code, goes_before, share_ahead
from stromboli.scheduling.framework import Framework


class Standings:
    """The waiting namespaces of each queue with their keys, computed at the end of a cycle."""

    def __init__(self, session: Framework, found_no_node: Iterable[Job]) -> None:
        """`found_no_node`: jobs that wait only because there is not enough room on nodes."""
        self._session = session
        self._waiting: dict[str, dict[str, Any]] = {}  # by queue, then namespace: its key
        if not session.points.namespace_order:
            return
        for job in found_no_node:
            queue = self._waiting.setdefault(job.queue.name, {})
            if job.namespace not in queue:
                queue[job.namespace] = session.namespace_share_key(job.queue, job.namespace)

    def ahead_of(self, job: Job) -> Refusal | None:
        """The waiting namespace that goes before this job's because of its share, if there is one."""
        waiting = self._waiting.get(job.queue.name, {})
        mine = waiting.get(job.namespace)
        if mine is None or len(waiting) < 2:
            return None
        first = min(waiting, key=lambda namespace: (waiting[namespace], namespace))
        if waiting[first] >= mine:
            return None
        return Refusal(Code.NAMESPACE_SHARE_AHEAD, subject=self._sentence(job.queue, first, job.namespace))

    def _sentence(self, queue: Queue, first: str, behind: str) -> str:
        of_first = self._session.namespace_share(queue, first)
        of_behind = self._session.namespace_share(queue, behind)
        if of_first is None or of_behind is None:
            return goes_before(first, behind)
        promised = self._has_promised(queue, first) or self._has_promised(queue, behind)
        return share_ahead(first, *of_first, behind, *of_behind, with_promised=promised)

    def _has_promised(self, queue: Queue, namespace: str) -> bool:
        """Whether the share of a namespace includes pods that have no node yet."""
        return any(
            task.job is not None and task.job.queue is queue and task.namespace == namespace
            for task in self._session.ledger.tentative.values()
            if task.status in SHARED and task.true_status not in SHARED
        )
