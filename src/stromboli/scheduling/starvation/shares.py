"""Starvation does not override shares: a job whose queue or namespace has more than its part is passed over.

A queue has too much if it has strictly more than it deserves, in something the job requests. A namespace has too much
if another one of its queue waits for the same nodes with a smaller weighted share. Nodes that are set aside drain at
the cost of others, so before they are set aside the others are counted without what would have to drain: otherwise a
namespace at its part would be given nodes and lose them again as soon as they drain.
"""

from __future__ import annotations

from collections.abc import Hashable
from fractions import Fraction

import numpy as np

from stromboli.cluster import Job, Queue, Task, Vector
from stromboli.scheduling.callbacks import NamespaceShares
from stromboli.scheduling.session import Session

from .holders import WAITS, usable_rows, wanted


def above_deserved(session: Session, job: Job) -> bool:
    """Strictly more than the queue deserves, in something the job requests."""
    deserved = session.deserved.get(job.queue.name)
    if deserved is None:
        return False
    requested = wanted(job) > 0
    return bool(((job.queue.allocated > deserved) & requested & (session.total > 0)).any())


class NamespaceParts:
    """Which namespaces of a queue have more than their part."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._waiting: dict[str, dict[str, dict[Hashable, Task]]] | None = None  # by queue, namespace, kind of task

    def above_part(self, job: Job, *, to_drain: bool = False) -> bool:
        """Whether another namespace waits with less for nodes that the job could use. `to_drain`: once what the job
        requests beyond what is idle has been freed by the other."""
        shares = self._session.namespace_shares
        if shares is None:
            return False
        mine = _weighted(shares, job.queue, job.namespace)
        drained = self._beyond_idle(job) if to_drain else np.zeros_like(job.allocated)
        rows: np.ndarray | None = None
        for namespace, kinds in sorted(self._waiting_in(job.queue).items()):
            if namespace == job.namespace or _weighted(shares, job.queue, namespace, less=drained) >= mine:
                continue
            if rows is None:
                rows = usable_rows(self._session, self._session.pending_tasks(job))
            if bool((rows & usable_rows(self._session, kinds.values())).any()):
                return True
        return False

    def _beyond_idle(self, job: Job) -> Vector:
        nodes = self._session.nodes
        idle = np.maximum(nodes.idle[nodes.ready], 0).sum(axis=0)
        return np.asarray(np.maximum(wanted(job) - idle, 0))

    def _waiting_in(self, queue: Queue) -> dict[str, dict[Hashable, Task]]:
        if self._waiting is None:
            self._waiting = {}
            enqueues = self._session.has_action("enqueue")
            for job in self._session.jobs:
                if job.pending_count and job.queue.open and not (enqueues and job.phase == "Pending"):
                    namespaces = self._waiting.setdefault(job.queue.name, {})
                    kinds = namespaces.setdefault(job.namespace, {})
                    for task in job.tasks.values():
                        if task.status in WAITS and not task.gated and not task.best_effort:
                            kinds.setdefault(task.shape.id, task)
        return self._waiting.get(queue.name, {})


def _weighted(shares: NamespaceShares, queue: Queue, namespace: str, *, less: Vector | None = None) -> Fraction:
    held = queue.by_namespace.get(namespace)
    if held is not None and less is not None:
        held = np.maximum(held - less, 0)
    return Fraction(0 if held is None else shares.share(held), shares.weight(namespace))
