"""The garbage collector: an object goes when all of its owners are gone.

Background   the owner goes at once, its dependents afterwards
Foreground   the owner waits, marked by a finalizer, until the dependents that block it are gone
Orphan       the owner waits until its dependents have forgotten it
"""

from __future__ import annotations

from stromboli.embedded.server import ApiServer
from stromboli.embedded.server.deleter import FOREGROUND, ORPHAN
from stromboli.embedded.store import Change, ObjectKey, Owner, Record

from .turn import WRITES, take
from .writes import Writes


class GarbageCollector:
    def __init__(self, server: ApiServer, writes: Writes) -> None:
        self._server = server
        self._store = server.store
        self._writes = writes
        self._suspects: dict[ObjectKey, None] = {}  # objects whose owners may be gone, or leaving in the foreground
        self._leaving: dict[ObjectKey, None] = {}  # owners with one of our finalizers

    def on_change(self, change: Change) -> None:
        record, before = change.record, change.before
        owners = record.metadata.owner_references
        former = before.metadata.owner_references if before is not None else ()
        if change.type == "DELETED":
            self._suspect_dependents(record)
            owners = ()
        else:
            if owners and owners != former:
                self._suspects[record.key] = None
            if record.metadata.deletion_timestamp is not None and record.metadata.finalizers:
                self._leaving[record.key] = None
                if _leaves_in_foreground(record) and not (before is not None and _leaves_in_foreground(before)):
                    self._suspect_dependents(record)
        for owner in former:
            waiting = None if owner in owners else self._store.by_uid(owner.uid)
            if waiting is not None and FOREGROUND in waiting.metadata.finalizers:
                self._leaving[waiting.key] = None

    def start(self) -> None:
        """Look at everything once: changes before this process are not known."""
        for resource in list(self._store.resources()):
            for record in self._store.list(resource):
                self.on_change(Change("ADDED", record, None))

    def run(self, now: float) -> bool:
        suspects = take(self._suspects)
        for key in suspects:
            self._collect(key, now)
        leaving = take(self._leaving)
        for key in leaving:
            self._finish(key, now)
        return bool(suspects or leaving)

    def _suspect_dependents(self, record: Record) -> None:
        self._suspects |= dict.fromkeys(self._store.dependents(record.metadata.uid))

    def _collect(self, key: ObjectKey, now: float) -> None:
        record = self._store.get(key)
        if record is None:
            return
        leaving = [owner for owner in record.metadata.owner_references if self._is_leaving(owner)]
        solid = [owner for owner in record.metadata.owner_references if self._is_there(owner) and owner not in leaving]
        if solid and leaving:
            self._disown(record, {owner.uid for owner in leaving}, now)  # somebody else still wants it
        elif record.metadata.owner_references and not solid and record.metadata.deletion_timestamp is None:
            propagation = "Foreground" if leaving else "Background"
            self._writes.delete(key, now, uid=record.metadata.uid, propagation=propagation)

    def _is_leaving(self, owner: Owner) -> bool:
        found = self._store.by_uid(owner.uid)
        return found is not None and _leaves_in_foreground(found)

    def _is_there(self, owner: Owner) -> bool:
        """An object of a kind that we do not know may exist elsewhere."""
        known = self._server.catalog.by_kind(owner.api_version, owner.kind) is not None
        return not known or self._store.by_uid(owner.uid) is not None

    def _finish(self, key: ObjectKey, now: float) -> None:
        record = self._store.get(key)
        if record is None or record.metadata.deletion_timestamp is None:
            return
        uid = record.metadata.uid
        if ORPHAN in record.metadata.finalizers:
            some = self._store.dependents(uid, WRITES)
            for dependent in some:
                if (found := self._store.get(dependent)) is not None:
                    self._disown(found, {uid}, now)
            left = self._store.dependents(uid, WRITES)
            if left and left != some:
                self._leaving[key] = None
            else:  # also if they cannot be written: nobody waits for ever
                self._server.deleter.finish(key, ORPHAN)
        elif FOREGROUND in record.metadata.finalizers and not self._is_blocked(uid):
            self._server.deleter.finish(key, FOREGROUND)

    def _is_blocked(self, uid: str) -> bool:
        """Whether an object must go first. When it has, its owner is looked at again."""
        for dependent in self._store.dependents(uid):
            found = self._store.get(dependent)
            owners = found.metadata.owner_references if found is not None else ()
            if any(one.uid == uid and one.block_owner_deletion for one in owners):
                return True
        return False

    def _disown(self, dependent: Record, uids: set[str], now: float) -> None:
        value = dependent.value()
        owners = [one for one in value["metadata"].get("ownerReferences") or [] if one.get("uid") not in uids]
        value["metadata"].pop("ownerReferences", None)
        if owners:
            value["metadata"]["ownerReferences"] = owners
        self._writes.update(dependent, value, now)


def _leaves_in_foreground(record: Record) -> bool:
    return record.metadata.deletion_timestamp is not None and FOREGROUND in record.metadata.finalizers
