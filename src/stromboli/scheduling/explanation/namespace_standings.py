"""Which namespace goes first inside a queue.

When jobs of several namespaces in one queue wait for nodes, the next free resources go to the namespace with the
smallest weighted share. That is the reason for the others: it says more about when they start than the nodes do.
"""

from __future__ import annotations

from typing import Any

from stromboli.cluster import Job, Queue
from stromboli.scheduling.callbacks import Refusal
from stromboli.scheduling.framework import Framework

from .notes import Notes
from .reasons import Code, share_ahead


class Standings:
    """The waiting namespaces of each queue with their keys, computed at the end of a cycle."""

    def __init__(self, session: Framework, notes: Notes) -> None:
        self._session = session
        self._waiting: dict[str, dict[str, Any]] = {}  # by queue, then namespace: its key
        if not session.hooks("namespaceOrder"):
            return
        for job in session.jobs:
            if job.pending_count and notes.found_no_node(job):
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
            return f"Namespace {first} goes before {behind} in this queue."
        return share_ahead(first, *of_first, behind, *of_behind)
