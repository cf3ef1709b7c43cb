"""The store: objects by key, and one counter that every commit moves on.

A commit changes one object. Its number is the resourceVersion of the object and of every list from then on, for all
kinds together, as with etcd. A backend may keep the objects on a disk; it is called before a commit takes effect, so
what a client was told is what a restart finds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, Final, Protocol

import msgspec

from .history import History
from .record import Change, ObjectKey, Record

WINDOW: Final = 5000  # changes of each resource that are surely remembered; up to twice as many are


class Backend(Protocol):
    """Where objects are kept across restarts."""

    def load(self) -> tuple[int, Iterable[tuple[ObjectKey, int, bytes]]]:
        """The last version, and all objects."""
        ...

    def write(self, key: ObjectKey, version: int, data: bytes | None) -> None:
        """Keep (or, without data, remove) an object, for good. Raises StorageError, and then nothing has changed."""
        ...


class Store:
    def __init__(self, backend: Backend | None = None, *, window: int = WINDOW) -> None:
        self._backend = backend
        self._window = window
        self._records: dict[str, dict[tuple[str, str], Record]] = {}
        self._histories: dict[str, History] = {}
        self._dependents: dict[str, dict[ObjectKey, None]] = {}  # by the uid of an owner
        self._in_namespace: Counter[str] = Counter()
        self._uids: dict[str, ObjectKey] = {}
        self._listeners: list[Callable[[Change], None]] = []
        self.version = 1
        if backend is not None:
            version, objects = backend.load()
            self.version = max(version, 1)
            for key, stored_version, data in objects:
                self._put(Record(key, stored_version, data))
        self._start = self.version

    def listen(self, listener: Callable[[Change], None]) -> None:
        """Call a function after each commit."""
        self._listeners.append(listener)

    # -- reading ------------------------------------------------------------------------------------------------------

    def get(self, key: ObjectKey) -> Record | None:
        records = self._records.get(key.resource)
        return records.get((key.namespace, key.name)) if records else None

    def list(self, resource: str, namespace: str = "") -> Sequence[Record]:
        """The objects of a resource, in the order of namespace and name."""
        records = self._records.get(resource, {})
        return [records[at] for at in sorted(records) if not namespace or at[0] == namespace]

    def list_at(self, resource: str, version: int, namespace: str = "") -> Sequence[Record] | None:
        """The objects as they were at a version; None if that is forgotten."""
        changes = self.history(resource).since(version)
        if changes is None:
            return None
        records = dict(self._records.get(resource, {}))
        for change in reversed(changes):
            at = (change.record.key.namespace, change.record.key.name)
            if change.before is None:
                records.pop(at, None)
            else:
                records[at] = change.before
        return [records[at] for at in sorted(records) if not namespace or at[0] == namespace]

    def count(self, resource: str) -> int:
        return len(self._records.get(resource, ()))

    def resources(self) -> Iterator[str]:
        """The resources that have objects."""
        return (resource for resource, records in self._records.items() if records)

    def by_uid(self, uid: str) -> Record | None:
        key = self._uids.get(uid)
        return self.get(key) if key is not None else None

    def dependents(self, uid: str, most: int | None = None) -> Sequence[ObjectKey]:
        """The objects that name an owner, those that were written first before the others."""
        return list(islice(self._dependents.get(uid, ()), most))

    def count_in(self, namespace: str) -> int:
        """How many objects of all resources a namespace has."""
        return self._in_namespace[namespace]

    def history(self, resource: str) -> History:
        history = self._histories.get(resource)
        if history is None:
            history = self._histories[resource] = History(self._window, self._start)
        return history

    # -- writing ------------------------------------------------------------------------------------------------------

    def put(self, key: ObjectKey, value: dict[str, Any]) -> Record:
        """Create or replace an object. Sets its resourceVersion."""
        version = self.version + 1
        value["metadata"]["resourceVersion"] = str(version)
        record = Record(key, version, msgspec.json.encode(value))
        if self._backend is not None:
            self._backend.write(key, version, record.data)
        before = self._put(record)
        self._commit(Change("ADDED" if before is None else "MODIFIED", record, before))
        return record

    def delete(self, key: ObjectKey, value: dict[str, Any] | None = None) -> Record:
        """Remove an object. `value` is its last state, if that differs from what is stored."""
        before = self._records[key.resource][key.namespace, key.name]
        version = self.version + 1
        value = before.value() if value is None else value
        value["metadata"]["resourceVersion"] = str(version)
        record = Record(key, version, msgspec.json.encode(value))
        if self._backend is not None:
            self._backend.write(key, version, None)
        self._remove(before)
        self._commit(Change("DELETED", record, before))
        return record

    def _commit(self, change: Change) -> None:
        self.version = change.version
        self.history(change.record.key.resource).append(change)
        for listener in self._listeners:
            listener(change)

    def _put(self, record: Record) -> Record | None:
        key = record.key
        records = self._records.setdefault(key.resource, {})
        before = records.get((key.namespace, key.name))
        if before is not None:
            self._unindex(before)
        else:
            self._in_namespace[key.namespace] += 1
        records[key.namespace, key.name] = record
        self._uids[record.metadata.uid] = key
        for owner in record.metadata.owner_references:
            self._dependents.setdefault(owner.uid, {})[key] = None
        return before

    def _remove(self, record: Record) -> None:
        del self._records[record.key.resource][record.key.namespace, record.key.name]
        self._in_namespace[record.key.namespace] -= 1
        if not self._in_namespace[record.key.namespace]:
            del self._in_namespace[record.key.namespace]
        self._unindex(record)

    def _unindex(self, record: Record) -> None:
        self._uids.pop(record.metadata.uid, None)
        for owner in record.metadata.owner_references:
            keys = self._dependents.get(owner.uid)
            if keys is not None:
                keys.pop(record.key, None)
                if not keys:
                    del self._dependents[owner.uid]
