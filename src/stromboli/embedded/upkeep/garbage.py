"""The garbage collector: an object goes when all of its owners are gone.

Background   the owner goes at once, its dependents afterwards
Foreground   the owner waits, marked by a finalizer, until the dependents that block it are gone
Orphan       the owner waits until its dependents have forgotten it
"""

from __future__ import annotations

from stromboli.embedded.server import ApiServer
from stromboli.embedded.server.deleter import FOREGROUND, ORPHAN
from stromboli.embedded.store import Change, ObjectKey, Record

from .writes import Writes


class GarbageCollector:
    def __init__(self, server: ApiServer, writes: Writes) -> None:
        self._server = server
        self._store = server.store
        self._writes = writes
        self._suspects: dict[ObjectKey, None] = {}  # objects whose owners may be gone
        self._leaving: dict[ObjectKey, None] = {}  # owners with one of our finalizers

    def on_change(self, change: Change) -> None:
        record = change.record
        if change.type == "DELETED":
            for dependent in self._store.dependents(record.metadata.uid):
                self._suspects[dependent.key] = None
            for owner in record.metadata.owner_references:
                waiting = self._store.by_uid(owner.uid)
                if waiting is not None and FOREGROUND in waiting.metadata.finalizers:
                    self._leaving[waiting.key] = None
            return
        if record.metadata.owner_references and (
            change.before is None or change.before.metadata.owner_references != record.metadata.owner_references
        ):
            self._suspects[record.key] = None
        if record.metadata.deletion_timestamp is not None and record.metadata.finalizers:
            self._leaving[record.key] = None

    def start(self) -> None:
        """Look at everything once: changes before this process are not known."""
        for resource in list(self._store.resources()):
            for record in self._store.list(resource):
                self.on_change(Change("ADDED", record, None))

    def run(self, now: float) -> bool:
        worked = bool(self._suspects or self._leaving)
        suspects, self._suspects = self._suspects, {}
        for key in suspects:
            self._collect(key, now)
        leaving, self._leaving = self._leaving, {}
        for key in leaving:
            self._finish(key, now)
        return worked

    def _collect(self, key: ObjectKey, now: float) -> None:
        record = self._store.get(key)
        if record is None or record.metadata.deletion_timestamp is not None:
            return
        owners = record.metadata.owner_references
        if not owners:
            return
        gone = 0
        for owner in owners:
            if self._store.by_uid(owner.uid) is not None:
                continue
            if self._server.catalog.by_kind(owner.api_version, owner.kind) is None:
                return  # a kind that we do not know: its objects may exist elsewhere
            gone += 1
        if gone == len(owners):
            self._writes.delete(key, now, uid=record.metadata.uid)

    def _finish(self, key: ObjectKey, now: float) -> None:
        record = self._store.get(key)
        if record is None or record.metadata.deletion_timestamp is None:
            return
        if ORPHAN in record.metadata.finalizers:
            for dependent in self._store.dependents(record.metadata.uid):
                self._disown(dependent, record.metadata.uid, now)
            self._server.deleter.finish(key, ORPHAN)
        elif FOREGROUND in record.metadata.finalizers:
            self._finish_foreground(record, now)

    def _finish_foreground(self, record: Record, now: float) -> None:
        uid = record.metadata.uid
        blocking = False
        for dependent in self._store.dependents(uid):
            if any(o.uid != uid and self._store.by_uid(o.uid) for o in dependent.metadata.owner_references):
                self._disown(dependent, uid, now)  # somebody else still wants it
                continue
            if dependent.metadata.deletion_timestamp is None:
                self._writes.delete(dependent.key, now, uid=dependent.metadata.uid, propagation="Foreground")
            if self._store.get(dependent.key) is not None:
                owners = dependent.metadata.owner_references
                blocking = blocking or any(one.uid == uid and one.block_owner_deletion for one in owners)
        if not blocking:
            self._server.deleter.finish(record.key, FOREGROUND)

    def _disown(self, dependent: Record, uid: str, now: float) -> None:
        value = dependent.value()
        owners = [one for one in value["metadata"].get("ownerReferences") or [] if one.get("uid") != uid]
        value["metadata"].pop("ownerReferences", None)
        if owners:
            value["metadata"]["ownerReferences"] = owners
        self._writes.update(dependent, value, now)
