"""The status of disruption budgets, without which no eviction could ever be allowed. The numbers come from the same
code that the simulator uses."""

from __future__ import annotations

from typing import Final, TypeVar

from stromboli.api import (
    KObject,
    Pod,
    PodDisruptionBudget,
    PodDisruptionBudgetStatus,
    ReplicaSet,
    decode_json,
    key,
)
from stromboli.api.timestamps import parse_timestamp
from stromboli.controllers.changes import Update
from stromboli.controllers.disruption_budget import DisruptionBudgetController
from stromboli.controllers.pod_index import PodIndex
from stromboli.embedded.server import ApiServer
from stromboli.embedded.store import Change, ObjectKey, Record, Store

from .writes import Writes

BUDGETS: Final = "poddisruptionbudgets.policy"
_DISRUPTION_SECONDS: Final = 120.0  # after that long a pod that was to be evicted counts as kept
_RESOURCES: Final = {Pod: "pods", ReplicaSet: "replicasets.apps", PodDisruptionBudget: BUDGETS}

T = TypeVar("T", bound=KObject)


class _Objects:
    """The objects of the store as the controllers want them."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def get(self, kind: type[T], key: str) -> T | None:
        namespace, _, name = key.rpartition("/")
        record = self._store.get(ObjectKey(_RESOURCES[kind], namespace, name))  # type: ignore[index]
        return None if record is None else decode_json(record.data, kind)

    def list(self, kind: type[T], namespace: str = "") -> list[T]:
        return [decode_json(record.data, kind) for record in self._store.list(_RESOURCES[kind], namespace)]  # type: ignore[index]


class BudgetController:
    def __init__(self, server: ApiServer, writes: Writes) -> None:
        self._store = server.store
        self._writes = writes
        self._objects = _Objects(server.store)
        self._due: set[str] = set()  # namespaces

    def on_change(self, change: Change) -> None:
        key = change.record.key
        if key.resource in (BUDGETS, "pods") and (key.resource == BUDGETS or self._store.count(BUDGETS)):
            self._due.add(key.namespace)

    def start(self) -> None:
        self._due |= {record.key.namespace for record in self._store.list(BUDGETS)}

    def run(self, now: float) -> bool:
        due, self._due = sorted(self._due), set()
        for namespace in due:
            if self._store.list(BUDGETS, namespace):
                self._reconcile(namespace, now)
        return bool(due)

    def _reconcile(self, namespace: str, now: float) -> None:
        index = PodIndex()
        controller = DisruptionBudgetController(index)
        pods = self._objects.list(Pod, namespace)
        for pod in pods:
            index.observe(None, pod)
        computed = {}
        for budget in self._objects.list(PodDisruptionBudget, namespace):
            controller.observe(None, budget)
            computed[key(budget)] = budget.status
        for change in controller.reconcile(self._objects, now):
            if isinstance(change, Update) and isinstance(change.object, PodDisruptionBudget):
                computed[key(change.object)] = change.object.status
        present = {pod.metadata.name for pod in pods if pod.metadata.deletion_timestamp is None}
        for record in self._store.list(BUDGETS, namespace):
            self._write(record, computed[f"{namespace}/{record.key.name}"], present, now)

    def _write(self, record: Record, computed: PodDisruptionBudgetStatus, present: set[str], now: float) -> None:
        value = record.value()
        status = dict(value.get("status") or {})
        disrupted = {
            name: since
            for name, since in (status.pop("disruptedPods", None) or {}).items()
            if name in present and now - parse_timestamp(since) < _DISRUPTION_SECONDS
        }
        status |= {
            "observedGeneration": value["metadata"].get("generation", 1),
            "expectedPods": computed.expected_pods,
            "currentHealthy": computed.current_healthy,
            "desiredHealthy": computed.desired_healthy,
            "disruptionsAllowed": max(0, computed.disruptions_allowed - len(disrupted)),
        }
        self._writes.set_status(record, status | ({"disruptedPods": disrupted} if disrupted else {}), now)
