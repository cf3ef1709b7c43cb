"""Things that contain others, and go when they are empty: namespaces, and definitions of custom kinds."""

from __future__ import annotations

from stromboli.embedded.kinds import CLEANUP_FINALIZER, NAMESPACE_FINALIZER, dig
from stromboli.embedded.server import ApiServer
from stromboli.embedded.server.catalog import DEFINITIONS
from stromboli.embedded.store import Change, ObjectKey

from .writes import Writes


class NamespaceCleaner:
    def __init__(self, server: ApiServer, writes: Writes) -> None:
        self._server = server
        self._store = server.store
        self._writes = writes
        self._terminating: set[str] = set()
        self._due: set[str] = set()

    def on_change(self, change: Change) -> None:
        key = change.record.key
        if key.resource == "namespaces":
            if change.type == "DELETED":
                self._terminating.discard(key.name)
            elif change.record.metadata.deletion_timestamp is not None:
                self._terminating.add(key.name)
                self._due.add(key.name)
        elif key.namespace in self._terminating and change.type == "DELETED":
            self._due.add(key.namespace)

    def start(self) -> None:
        for record in self._store.list("namespaces"):
            self.on_change(Change("ADDED", record, None))

    def run(self, now: float) -> bool:
        due, self._due = sorted(self._due), set()
        for namespace in due:
            self._clean(namespace, now)
        return bool(due)

    def _clean(self, namespace: str, now: float) -> None:
        left = 0
        for resource in list(self._store.resources()):
            for record in self._store.list(resource, namespace):
                if record.metadata.deletion_timestamp is None:
                    self._writes.delete(record.key, now, uid=record.metadata.uid)
                left += self._store.get(record.key) is not None
        key = ObjectKey("namespaces", "", namespace)
        found = self._store.get(key)
        if left or found is None or found.metadata.deletion_timestamp is None:
            return
        value = found.value()
        rest = [one for one in dig(value, "spec", "finalizers", default=[]) if one != NAMESPACE_FINALIZER]
        value["spec"] = {"finalizers": rest} if rest else {}
        if rest or value["metadata"].get("finalizers"):
            if value != found.value():
                self._store.put(key, value)
        else:
            self._store.delete(key, value)


class DefinitionCleaner:
    def __init__(self, server: ApiServer, writes: Writes) -> None:
        self._server = server
        self._store = server.store
        self._writes = writes
        self._terminating: set[str] = set()  # names of definitions, which are the resources that they define
        self._due: set[str] = set()

    def on_change(self, change: Change) -> None:
        key = change.record.key
        if key.resource == DEFINITIONS:
            if change.type == "DELETED":
                self._terminating.discard(key.name)
            elif change.record.metadata.deletion_timestamp is not None:
                self._terminating.add(key.name)
                self._due.add(key.name)
        elif key.resource in self._terminating:
            self._due.add(key.resource)

    def start(self) -> None:
        for record in self._store.list(DEFINITIONS):
            self.on_change(Change("ADDED", record, None))

    def run(self, now: float) -> bool:
        due, self._due = sorted(self._due), set()
        for resource in due:
            for record in self._store.list(resource):
                if record.metadata.deletion_timestamp is None:
                    self._writes.delete(record.key, now, uid=record.metadata.uid)
            if not self._store.count(resource):
                self._server.deleter.finish(ObjectKey(DEFINITIONS, "", resource), CLEANUP_FINALIZER)
        return bool(due)
