"""Things that contain others, and go when they are empty: namespaces, and definitions of custom kinds."""

from __future__ import annotations

from stromboli.embedded.kinds import CLEANUP_FINALIZER, NAMESPACE_FINALIZER, dig
from stromboli.embedded.server import ApiServer
from stromboli.embedded.server.catalog import DEFINITIONS
from stromboli.embedded.store import Change, ObjectKey

from .turn import take
from .writes import Writes


class _Cleaner:
    """Deletes what is in a container that is going, some of it in each turn, and then the container."""

    resource: str

    def __init__(self, server: ApiServer, writes: Writes) -> None:
        self._server = server
        self._store = server.store
        self._writes = writes
        self._terminating: set[str] = set()
        self._doomed: dict[ObjectKey, None] = {}
        self._due: dict[str, None] = {}

    def _container_of(self, key: ObjectKey) -> str:
        raise NotImplementedError

    def _content(self, name: str) -> list[ObjectKey]:
        raise NotImplementedError

    def _finish(self, name: str) -> None:
        """Let the container go, if it is empty."""
        raise NotImplementedError

    def on_change(self, change: Change) -> None:
        key = change.record.key
        if key.resource == self.resource:
            if change.type == "DELETED":
                self._terminating.discard(key.name)
            elif change.record.metadata.deletion_timestamp is not None:
                if key.name not in self._terminating:
                    self._terminating.add(key.name)
                    self._doomed |= dict.fromkeys(self._content(key.name))
                self._due[key.name] = None
            return
        container = self._container_of(key)
        if container in self._terminating:
            if change.type == "ADDED":
                self._doomed[key] = None
            elif change.type == "DELETED":
                self._due[container] = None

    def start(self) -> None:
        self._terminating.clear()
        for record in self._store.list(self.resource):
            self.on_change(Change("ADDED", record, None))

    def run(self, now: float) -> bool:
        doomed = take(self._doomed)
        for key in doomed:
            record = self._store.get(key)
            if record is not None and record.metadata.deletion_timestamp is None:
                self._writes.delete(key, now, uid=record.metadata.uid)
        due = take(self._due)
        for name in due:
            self._finish(name)
        return bool(doomed or due)


class NamespaceCleaner(_Cleaner):
    resource = "namespaces"

    def _container_of(self, key: ObjectKey) -> str:
        return key.namespace

    def _content(self, name: str) -> list[ObjectKey]:
        resources = list(self._store.resources())
        return [record.key for resource in resources for record in self._store.list(resource, name)]

    def _finish(self, name: str) -> None:
        key = ObjectKey("namespaces", "", name)
        found = self._store.get(key)
        if self._store.count_in(name) or found is None or found.metadata.deletion_timestamp is None:
            return
        value = found.value()
        rest = [one for one in dig(value, "spec", "finalizers", default=[]) if one != NAMESPACE_FINALIZER]
        value["spec"] = {"finalizers": rest} if rest else {}
        if rest or value["metadata"].get("finalizers"):
            if value != found.value():
                self._store.put(key, value)
        else:
            self._store.delete(key, value)


class DefinitionCleaner(_Cleaner):
    """The name of a definition is the resource that it defines."""

    resource = DEFINITIONS

    def _container_of(self, key: ObjectKey) -> str:
        return key.resource

    def _content(self, name: str) -> list[ObjectKey]:
        return [record.key for record in self._store.list(name)]

    def _finish(self, name: str) -> None:
        if not self._store.count(name):
            self._server.deleter.finish(ObjectKey(DEFINITIONS, "", name), CLEANUP_FINALIZER)
