"""The ReplicaSet controller: as many pods as the set wants, neither finished nor going."""

from __future__ import annotations

from typing import Final

from stromboli.embedded.kinds import dig
from stromboli.embedded.server import ApiServer
from stromboli.embedded.store import Change, ObjectKey, Record

from .pods import FINISHED, deletion_order, is_ready, is_terminating, phase, pod_from_template, pods_of
from .writes import Writes

REPLICA_SETS: Final = "replicasets.apps"
_MOST_AT_ONCE: Final = 500  # pods that one pass creates for a set


class ReplicaSetController:
    def __init__(self, server: ApiServer, writes: Writes) -> None:
        self._store = server.store
        self._writes = writes
        self._due: dict[ObjectKey, None] = {}

    def on_change(self, change: Change) -> None:
        key = change.record.key
        if key.resource == REPLICA_SETS and change.type != "DELETED":
            self._due[key] = None
        elif key.resource == "pods":
            for owner in change.record.metadata.owner_references:
                if owner.controller and owner.kind == "ReplicaSet":
                    self._due[ObjectKey(REPLICA_SETS, key.namespace, owner.name)] = None

    def start(self) -> None:
        self._due |= dict.fromkeys(record.key for record in self._store.list(REPLICA_SETS))

    def run(self, now: float) -> bool:
        due, self._due = self._due, {}
        for key in due:
            record = self._store.get(key)
            if record is not None and record.metadata.deletion_timestamp is None:
                self._reconcile(record, now)
        return bool(due)

    def _reconcile(self, record: Record, now: float) -> None:
        value = record.value()
        pods = pods_of(self._store, record.metadata.uid)
        active = [one for one in pods if phase(one[1]) not in FINISHED and not is_terminating(one[1])]
        wanted = dig(value, "spec", "replicas", default=1)
        created = 0
        for _ in range(min(wanted - len(active), _MOST_AT_ONCE)):
            if self._writes.create_pod(record, pod_from_template(value), now) is None:
                break
            created += 1
        for surplus, _ in deletion_order(active)[: max(0, len(active) - wanted)]:
            self._writes.delete(surplus.key, now, uid=surplus.metadata.uid)
        ready = sum(is_ready(pod) for _, pod in active)
        status = {
            "replicas": len(active) + created,
            "fullyLabeledReplicas": len(active) + created,
            "readyReplicas": ready,
            "availableReplicas": ready,
            "observedGeneration": value["metadata"].get("generation", 0),
        }
        kept = dig(value, "status", "conditions")
        written = {name: count for name, count in status.items() if count or name == "replicas"}
        self._writes.set_status(record, written | ({"conditions": kept} if kept else {}), now)
