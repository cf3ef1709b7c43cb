"""The ReplicaSet controller: as many pods as the set wants, neither finished nor going."""

from __future__ import annotations

from heapq import nsmallest
from typing import Final

from stromboli.api.validation.limits import MAX_JOB_REPLICAS
from stromboli.controllers.work_queue import WorkQueue
from stromboli.embedded.kinds import dig
from stromboli.embedded.server import ApiServer
from stromboli.embedded.store import Change, ObjectKey, Record

from .owned_pods import OwnedPods, deletion_rank
from .pod_template import pod_from_template
from .turn import VISITS, share_of
from .writes import Writes

REPLICA_SETS: Final = "replicasets.apps"


class ReplicaSetController:
    def __init__(self, server: ApiServer, writes: Writes, pods: OwnedPods) -> None:
        self._store = server.store
        self._writes = writes
        self._pods = pods
        self._due = WorkQueue()

    def on_change(self, change: Change) -> None:
        key = change.record.key
        if key.resource == REPLICA_SETS and change.type != "DELETED":
            self._due.add(f"{key.namespace}/{key.name}")
        elif key.resource == "pods":
            for owner in change.record.metadata.owner_references:
                if owner.controller and owner.kind == "ReplicaSet":
                    self._due.add(f"{key.namespace}/{owner.name}")

    def start(self) -> None:
        self._due.add_all(f"{record.key.namespace}/{record.key.name}" for record in self._store.list(REPLICA_SETS))

    def run(self, now: float) -> bool:
        due = self._due.take(now, VISITS)
        for key in due:
            namespace, _, name = key.partition("/")
            record = self._store.get(ObjectKey(REPLICA_SETS, namespace, name))
            if record is not None and record.metadata.deletion_timestamp is None:
                self._reconcile(record, share_of(due), now)
        return bool(due)

    def _reconcile(self, record: Record, most: int, now: float) -> None:
        """Create or delete at most so many pods. Each of them makes the set due again."""
        value = record.value()
        pods = self._pods.of(record.key.namespace, record.metadata.uid)
        # The server refuses larger sets now. One that was stored before must not fill the memory all the same.
        wanted = min(dig(value, "spec", "replicas", default=1), MAX_JOB_REPLICAS)
        count = len(pods.active)
        for _ in range(min(wanted - count, most)):
            if self._writes.create_pod(record, pod_from_template(value), now) is None:
                break
            count += 1
        for surplus in nsmallest(min(count - wanted, most), pods.active.values(), key=deletion_rank):
            self._writes.delete(surplus.key, now, uid=surplus.uid)
        status = {
            "replicas": count,
            "fullyLabeledReplicas": count,
            "readyReplicas": pods.ready,
            "availableReplicas": pods.ready,
            "observedGeneration": value["metadata"].get("generation", 0),
        }
        kept = dig(value, "status", "conditions")
        written = {name: count for name, count in status.items() if count or name == "replicas"}
        self._writes.set_status(record, written | ({"conditions": kept} if kept else {}), now)
