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
import numpy.typing as npt

from stromboli.cluster import Job, JobKey, Queue, Task, Vector
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
        self._rows: dict[JobKey, npt.NDArray[np.bool_]] = {}  # nodes that a job could use if they were empty
        self._competing: dict[tuple[JobKey, str], bool] = {}

    def above_part(self, job: Job, *, to_drain: bool = False, more: Vector | None = None) -> bool:
        """Whether another namespace waits with less for nodes that the job could use. `to_drain`: once what the job
        requests beyond what is idle has been freed by the other. `more`: if the job's namespace had this as well."""
        shares = self._session.namespace_shares
        if shares is None:
            return False
        mine = _weighted(shares, job.queue, job.namespace, more=more)
        drained = -self._beyond_idle(job) if to_drain else None
        for namespace in sorted(self._waiting_in(job.queue)):
            behind = namespace != job.namespace and _weighted(shares, job.queue, namespace, more=drained) < mine
            if behind and self._competes(namespace, job):
                return True
        return False

    def same_nodes(self, job: Job, other: Job) -> bool:
        """Whether there are nodes that both could use."""
        return bool((self._usable(job) & self._usable(other)).any())

    def _competes(self, namespace: str, job: Job) -> bool:
        """Whether a namespace of the job's queue waits for nodes that the job could use."""
        known = self._competing.get((job.key, namespace))
        if known is None:
            kinds = self._waiting_in(job.queue)[namespace]
            known = bool((self._usable(job) & usable_rows(self._session, kinds.values())).any())
            self._competing[job.key, namespace] = known
        return known

    def _beyond_idle(self, job: Job) -> Vector:
        """What has to drain for a job at least: it gets the emptiest of its nodes, as few as can hold it."""
        session, request = self._session, wanted(job)
        nodes = session.nodes
        rows = np.flatnonzero(self._usable(job))
        columns = np.flatnonzero(request > 0)
        idle, offered = np.maximum(nodes.idle[rows], 0), nodes.allocatable[rows]
        emptiness = (idle[:, columns] / np.maximum(offered[:, columns], 1)).min(axis=1, initial=1.0)
        order = np.argsort(-emptiness, kind="stable")
        suffice = (offered[order].cumsum(axis=0)[:, columns] >= request[columns]).all(axis=1)
        few = order[: int(suffice.argmax()) + 1] if suffice.any() else order
        return np.asarray(np.maximum(request - idle[few].sum(axis=0), 0))

    def _usable(self, job: Job) -> npt.NDArray[np.bool_]:
        known = self._rows.get(job.key)
        if known is None:
            known = self._rows[job.key] = usable_rows(self._session, self._session.pending_tasks(job))
        return known

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


def _weighted(shares: NamespaceShares, queue: Queue, namespace: str, *, more: Vector | None = None) -> Fraction:
    held = queue.by_namespace.get(namespace)
    if more is not None:
        held = np.maximum(more if held is None else held + more, 0)
    return Fraction(0 if held is None else shares.share(held), shares.weight(namespace))
