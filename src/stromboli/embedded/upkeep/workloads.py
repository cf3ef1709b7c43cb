"""The controllers of workloads on this server: they are those of the simulation, with other surroundings.

What changes in the store is reported to them. What they want is written as any client would write it.
"""

from __future__ import annotations

from typing import Final

from stromboli.api import (
    BatchCronJob,
    BatchJob,
    ControllerRevision,
    DaemonSet,
    Deployment,
    KObject,
    Node,
    Pod,
    ReplicaSet,
    StatefulSet,
    is_namespaced,
)
from stromboli.controllers import Create, Delete, Notify, Update
from stromboli.controllers.cron import KUBERNETES, CronJobController
from stromboli.controllers.pod_owners import controlling_reference
from stromboli.controllers.workloads import TRACKING, Surroundings, WorkloadControllers
from stromboli.embedded.server import ApiServer
from stromboli.embedded.store import Change as Commit
from stromboli.embedded.store import ObjectKey, Record

from .stored_objects import RESOURCES, StoredObjects, changed, typed, whole
from .turn import VISITS, WRITES
from .writes import Writes

_KINDS: Final[dict[str, type[KObject]]] = {
    RESOURCES[kind]: kind
    for kind in (Pod, Node, ReplicaSet, Deployment, StatefulSet, DaemonSet, ControllerRevision, BatchJob, BatchCronJob)
}


class WorkloadUpkeep:
    def __init__(self, server: ApiServer, writes: Writes) -> None:
        self._store = server.store
        self._deleter = server.deleter
        self._writes = writes
        self._objects = StoredObjects(server.store)
        self._forget()

    def _forget(self) -> None:
        self._controllers = WorkloadControllers(Surroundings(is_virtual=False, visits=VISITS, writes=WRITES))
        self._cron_jobs = CronJobController(KUBERNETES, validates=True)

    def on_change(self, commit: Commit) -> None:
        kind = _KINDS.get(commit.record.key.resource)
        if kind is None or (kind is Pod and not _is_owned(commit.record) and not _is_owned(commit.before)):
            return
        exists = commit.type != "DELETED"
        obj = typed(commit.record, kind)
        if kind in self._cron_jobs.observes:
            before = None if commit.before is None else typed(commit.before, kind)
            self._cron_jobs.observe(before, obj if exists else None)
        if kind is not BatchCronJob:
            self._controllers.changed(obj, exists=exists)

    def start(self) -> None:
        self._forget()
        for resource in _KINDS:
            for record in self._store.list(resource):
                self.on_change(Commit("ADDED", record, None))

    def next_due(self, now: float) -> float | None:
        dues = (self._controllers.next_due(now), self._cron_jobs.next_due(now))
        return min((due for due in dues if due is not None), default=None)

    def run(self, now: float) -> bool:
        changes = [*self._controllers.reconcile(self._objects, now), *self._cron_jobs.reconcile(self._objects, now)]
        refused: set[str] = set()  # uids of owners for whom something could not be created
        for change in changes:
            match change:
                case Create():
                    self._create(change, refused, now)
                case Update():
                    self._update(change.object, now)
                case Delete():
                    self._writes.delete(_key(change.object), now, uid=change.object.metadata.uid)
                case Notify():
                    record = self._store.get(_key(change.object))
                    if record is not None:
                        self._writes.report(record, change.reason, change.message, now, warning=change.warning)
                case _:
                    pass
        return bool(changes) or self._controllers.unfinished

    def _create(self, create: Create, refused: set[str], now: float) -> None:
        """What is refused once is not tried again for the same owner in this turn."""
        obj = create.object
        owner = create.owner.metadata if create.owner is not None else controlling_reference(obj.metadata)
        record = None if owner is None else self._store.by_uid(owner.uid)
        if owner is None or owner.uid in refused or record is None:
            return
        body = whole(obj, create.source)  # type: ignore[arg-type]
        if self._writes.create_for(record, RESOURCES[type(obj)], body, now) is None:
            refused.add(owner.uid)
            if record.key.resource != RESOURCES[BatchCronJob]:  # its controller knows what it has asked for
                self._controllers.create_failed(typed(record, _KINDS[record.key.resource]), now)

    def _update(self, obj: KObject, now: float) -> None:
        record = self._store.get(_key(obj))
        if record is None or str(record.version) != obj.metadata.resource_version:
            return  # the next visit sees the object as it is
        if isinstance(obj, Pod):
            for finalizer in record.metadata.finalizers:
                if finalizer not in obj.metadata.finalizers:
                    self._deleter.finish(record.key, finalizer)
            return
        body, status = changed(record, obj)
        value = record.value()
        present = value.pop("status", {})
        if body != value:
            self._writes.update(record, {**body, "status": present}, now)
        current = self._store.get(record.key)
        if current is not None and status != present:
            self._writes.set_status(current, status, now)


def _key(obj: KObject) -> ObjectKey:
    namespace = obj.metadata.namespace if is_namespaced(type(obj)) else ""
    return ObjectKey(RESOURCES[type(obj)], namespace, obj.metadata.name)


def _is_owned(record: Record | None) -> bool:
    """Or may wait for somebody who counts it."""
    if record is None:
        return False
    metadata = record.metadata
    return any(owner.controller for owner in metadata.owner_references) or TRACKING in metadata.finalizers
