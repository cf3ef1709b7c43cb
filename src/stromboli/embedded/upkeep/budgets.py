"""The status of disruption budgets, without which no eviction could ever be allowed. The numbers come from the same
code that the simulator uses."""

from __future__ import annotations

from typing import Final

from stromboli.api import (
    Pod,
    PodDisruptionBudget,
    PodDisruptionBudgetStatus,
    ReplicaSet,
    StatefulSet,
    decode_json,
    key,
)
from stromboli.api.timestamps import parse_timestamp
from stromboli.controllers.changes import Update
from stromboli.controllers.disruption_budget import DisruptionBudgetController
from stromboli.controllers.pod_index import PodIndex
from stromboli.embedded.server import ApiServer
from stromboli.embedded.store import Change, ObjectKey, Record

from .stored_objects import RESOURCES, StoredObjects
from .turn import take
from .writes import Writes

BUDGETS: Final = "poddisruptionbudgets.policy"
_COUNTED: Final[dict[str, type[Pod | ReplicaSet | StatefulSet]]] = {
    RESOURCES[kind]: kind for kind in (Pod, ReplicaSet, StatefulSet)
}
_DISRUPTION_SECONDS: Final = 120.0  # after that long a pod that was to be evicted counts as kept


class BudgetController:
    """Pods are counted as they change. Those of a namespace that gets its first budget are read some in each turn."""

    def __init__(self, server: ApiServer, writes: Writes) -> None:
        self._store = server.store
        self._writes = writes
        self._objects = StoredObjects(server.store)
        self._forget()

    def _forget(self) -> None:
        self._index = PodIndex()
        self._counting = DisruptionBudgetController(self._index)
        self._known: set[str] = set()  # namespaces whose pods are counted
        self._unread: dict[ObjectKey, None] = {}  # pods of such a namespace that are not counted yet
        self._due: dict[str, None] = {}  # namespaces

    def on_change(self, change: Change) -> None:
        key = change.record.key
        if key.resource == BUDGETS:
            self._learn(key.namespace)
            self._due[key.namespace] = None
            if change.type == "DELETED":
                self._counting.observe(decode_json(change.record.data, PodDisruptionBudget), None)
        elif key.namespace in self._known and key.resource in _COUNTED:
            self._due[key.namespace] = None
            self._observe(change)

    def _learn(self, namespace: str) -> None:
        if namespace not in self._known:
            self._known.add(namespace)
            self._unread |= dict.fromkeys(record.key for record in self._store.list("pods", namespace))

    def _observe(self, change: Change) -> None:
        kind = _COUNTED[change.record.key.resource]
        was_unread = change.record.key in self._unread
        self._unread.pop(change.record.key, None)
        known = None if was_unread else change.before
        before = None if known is None else decode_json(known.data, kind)
        after = None if change.type == "DELETED" else decode_json(change.record.data, kind)
        if before is not None or after is not None:
            self._index.observe(before, after)
            self._counting.observe(before, after)

    def start(self) -> None:
        self._forget()
        for record in self._store.list(BUDGETS):
            self.on_change(Change("ADDED", record, None))

    def run(self, now: float) -> bool:
        unread = take(self._unread)
        for pod in unread:
            record = self._store.get(pod)
            if record is not None:
                self._observe(Change("ADDED", record, None))
        if self._unread:
            return True
        due, self._due = sorted(self._due), {}
        for namespace in due:
            self._reconcile(namespace, now)
        return bool(due or unread)

    def _reconcile(self, namespace: str, now: float) -> None:
        computed = {}
        for budget in self._objects.list(PodDisruptionBudget, namespace):
            self._counting.observe(None, budget)
            computed[key(budget)] = budget.status
        for change in self._counting.reconcile(self._objects, now):
            if isinstance(change, Update) and isinstance(change.object, PodDisruptionBudget):
                computed[key(change.object)] = change.object.status
        for record in self._store.list(BUDGETS, namespace):
            self._write(record, computed[f"{namespace}/{record.key.name}"], now)

    def _is_present(self, namespace: str, name: str) -> bool:
        found = self._store.get(ObjectKey("pods", namespace, name))
        return found is not None and found.metadata.deletion_timestamp is None

    def _write(self, record: Record, computed: PodDisruptionBudgetStatus, now: float) -> None:
        value = record.value()
        status = dict(value.get("status") or {})
        disrupted = {
            name: since
            for name, since in (status.pop("disruptedPods", None) or {}).items()
            if self._is_present(record.key.namespace, name) and now - parse_timestamp(since) < _DISRUPTION_SECONDS
        }
        status |= {
            "observedGeneration": value["metadata"].get("generation", 1),
            "expectedPods": computed.expected_pods,
            "currentHealthy": computed.current_healthy,
            "desiredHealthy": computed.desired_healthy,
            "disruptionsAllowed": max(0, computed.disruptions_allowed - len(disrupted)),
        }
        self._writes.set_status(record, status | ({"disruptedPods": disrupted} if disrupted else {}), now)
