"""Objects other than pods that belong to workloads: the ReplicaSets of a Deployment, the revisions of a set."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Generic, TypeVar

from stromboli.api import KObject, key
from stromboli.controllers.changes import Objects
from stromboli.controllers.pod_owners import controlling_reference

from .pod_template import Workload, is_controlled_by

T = TypeVar("T", bound=KObject)


class Dependents(Generic[T]):
    """The objects of one kind by the owners of another."""

    def __init__(self, kind: type[T], owner: type[Workload]) -> None:
        self._kind = kind
        self._owner = owner().kind
        self._group = owner().api_version.partition("/")[0] + "/"
        self._of: dict[str, set[str]] = {}
        self._owners: dict[str, str] = {}  # the other way round

    def update(self, obj: T, *, exists: bool) -> set[str]:
        """An object was created, changed or deleted. The owners that it had and has."""
        obj_key = key(obj)
        before = self._owners.pop(obj_key, None)
        if before is not None:
            self._of[before].discard(obj_key)
            if not self._of[before]:
                del self._of[before]
        found = {before} if before is not None else set()
        reference = controlling_reference(obj.metadata) if exists else None
        if reference is not None and reference.kind == self._owner and reference.api_version.startswith(self._group):
            owner = f"{obj.metadata.namespace}/{reference.name}"
            self._owners[obj_key] = owner
            self._of.setdefault(owner, set()).add(obj_key)
            found.add(owner)
        return found

    def owner_of(self, obj_key: str) -> str | None:
        return self._owners.get(obj_key)

    def of(self, owner: Workload, objects: Objects) -> Iterator[T]:
        """In the order of names; not those of an earlier owner of the name."""
        for obj_key in sorted(self._of.get(key(owner), ())):
            found = objects.get(self._kind, obj_key)
            if found is not None and is_controlled_by(found.metadata, owner):
                yield found
