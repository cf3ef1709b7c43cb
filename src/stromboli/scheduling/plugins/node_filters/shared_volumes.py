"""Where a gang can reach a volume that its pods share and that is still to be made.

The volume is made for the node of the first pod, and the others must reach it from theirs. If the driver says by which
labels its volumes are placed, nodes with equal labels are a domain. A domain with room for too few of the pods is no
place for the first one: the gang could never be completed there, though it might be elsewhere.

Only sums decide, so what is left may still be too little. If all domains are too small, none is ruled out: then it is
up to the placement to say what is missing.
"""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np

from stromboli.cluster import Matrix, Status, Task
from stromboli.scheduling.callbacks import Horizon, Rows
from stromboli.scheduling.session import Session
from stromboli.scheduling.volumes.provisioning import class_of, same_topology

from .node_facts import Mask


class SharedVolumes:
    def __init__(self, session: Session) -> None:
        self._session = session
        self._index = session.snapshot.volumes
        self._domains: dict[str, list[Hashable]] = {}  # by driver and row; None if the driver does not say

    def too_narrow(self, task: Task, claim: str) -> Mask | None:
        """Nodes in domains that have room for too few pods of the task's gang that share the claim; None if there are
        no such nodes."""
        session, job = self._session, task.job
        if job is None or session.horizon is not Horizon.NOW:
            return None  # with evictions there may be more room
        waiting = [other for other in job.tasks.values() if other.status is Status.PENDING]
        missing = job.min_available - job.ready_count - job.waiting_count
        if missing < 2:
            return None
        domains = self._of_claim(claim)
        if domains is None or None in domains:
            return None
        names = sorted(set(domains), key=repr)
        numbers = np.array([names.index(domain) for domain in domains], dtype=np.int64)
        room = np.maximum(session.placement.room_now(job), 0)
        narrow = self._too_few(task, waiting, missing, room, numbers)
        if missing >= len(waiting):
            sharing = [other.request for other in waiting if claim in other.volumes.claims]
            total = np.zeros((len(names), room.shape[1]), dtype=np.int64)
            np.add.at(total, numbers, room)
            narrow = narrow | (total < np.sum(sharing, axis=0)).any(axis=1)
        mask: Mask = narrow[numbers]
        return mask if mask.any() and not mask.all() else None

    def _too_few(self, task: Task, waiting: list[Task], missing: int, room: Matrix, numbers: Rows) -> Mask:
        """By domain, whether fewer tasks like this one fit than the job needs of them."""
        key = self._session.placement.key
        needed = missing - sum(key(other) != key(task) for other in waiting)
        columns = np.flatnonzero(task.request)
        each = (room[:, columns] // task.request[columns]).min(axis=1)
        fewer: Mask = np.bincount(numbers, weights=np.minimum(each, missing)) < needed
        return fewer

    def _of_claim(self, claim: str) -> list[Hashable] | None:
        storage_class = class_of(self._index, self._index.claims[claim])
        if storage_class is None:
            return None
        driver = storage_class.provisioner
        known = self._domains.get(driver)
        if known is None:
            nodes = self._session.nodes
            known = self._domains[driver] = [
                None if (labels := same_topology(self._index, driver, node.name, nodes.by_name)) is None
                else tuple(sorted(labels.items()))
                for node in nodes.nodes
            ]  # fmt: skip
        return known
