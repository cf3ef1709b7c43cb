"""All objects of a run, as an API server would keep them.

The store gives every object its uid, its creation time and its version, hands objects out in the order of
their keys, and tells its listener (the cluster the scheduler sees) of every change. An object in the store is
never modified; a change is a new object in its place.

A uid is derived from the kind, the name, and how many objects of that name there were before. So it depends
on nothing but the story told, and it can be foretold: a pod may name an owner that is created after it.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Sequence
from hashlib import sha256
from typing import TypeVar, cast

from msgspec.structs import replace

from stromboli.api import CLUSTER_SCOPED, KINDS, KObject, OwnerReference, is_namespaced, key
from stromboli.cluster import Applied, ClusterEvent, Deleted

from .virtual_time import Moment, stamp

T = TypeVar("T", bound=KObject)

Listener = Callable[[ClusterEvent], None]
Place = tuple[str, str]  # kind and key


class Conflict(Exception):
    """The object is not what the caller took it for: it is there already, gone, or has changed."""


class _Shelf:
    """The objects of one kind. `keys` is sorted and lists exactly what is in `objects`."""

    def __init__(self) -> None:
        self.objects: dict[str, KObject] = {}
        self.keys: list[str] = []


class Store:
    def __init__(self) -> None:
        self.version = 0  # counts changes; equal versions mean that nothing changed in between
        self.listener: Listener | None = None
        self._shelves: dict[str, _Shelf] = {}
        self._births: dict[Place, int] = {}  # how many objects of that kind and key there have been
        self._dependents: dict[str, set[Place]] = {}  # by the uid of an owner

    # -- reading --------------------------------------------------------------------------------------------

    def get(self, kind: type[T], key: str) -> T | None:
        return cast("T | None", self._shelf(kind.__name__).objects.get(key))

    def list(self, kind: type[T]) -> Sequence[T]:
        """All objects of a kind in the order of their keys."""
        shelf = self._shelf(kind.__name__)
        return [cast(T, shelf.objects[key]) for key in shelf.keys]

    def everything(self) -> Sequence[KObject]:
        """All objects, kind by kind, in the order of names."""
        return [self._shelves[kind].objects[key] for kind in sorted(self._shelves) for key in self._shelves[kind].keys]

    def current(self, obj: T) -> T | None:
        """The object as it is now, if it is still the same one."""
        found = self.get(type(obj), key(obj))
        return found if found is not None and found.metadata.uid == obj.metadata.uid else None

    def dependents(self, uid: str) -> Sequence[KObject]:
        """What names this uid among its owners, in the order of kind and key."""
        return [self._shelf(kind).objects[key] for kind, key in sorted(self._dependents.get(uid, ()))]

    def uid_of(self, kind: str, object_key: str) -> str:
        """The uid of the object of that name, or of the next one if there is none now."""
        found = self._shelf(kind).objects.get(object_key)
        if found is not None:
            return found.metadata.uid
        return self._uid(kind, object_key, self._births.get((kind, object_key), 0) + 1)

    # -- writing --------------------------------------------------------------------------------------------

    def create(self, obj: T, at: Moment) -> T:
        kind, object_key = obj.kind, key(obj)
        shelf = self._shelf(kind)
        if object_key in shelf.objects:
            raise Conflict(f"{kind} {object_key} is there already")
        birth = self._births.get((kind, object_key), 0) + 1
        self._births[kind, object_key] = birth
        owners = obj.metadata.owner_references
        meta = replace(
            obj.metadata,
            uid=self._uid(kind, object_key, birth),
            creation_timestamp=stamp(at),
            owner_references=[self._known_by_name(owner, obj) for owner in owners] if owners else owners,
            generation=1,
        )
        created = replace(obj, metadata=meta)
        insort(shelf.keys, object_key)
        self._put(shelf, created)
        self._index(created, add=True)
        return self._shelved(created)

    def update(self, obj: T) -> T:
        """Put a changed object in place of the one it was made from; Conflict if that is no longer there."""
        shelf = self._shelf(obj.kind)
        before = shelf.objects.get(key(obj))
        if before is None or before.metadata.uid != obj.metadata.uid:
            raise Conflict(f"{obj.kind} {key(obj)} is gone")
        if before.metadata.resource_version != obj.metadata.resource_version:
            raise Conflict(f"{obj.kind} {key(obj)} has changed meanwhile")
        if before == obj:
            return obj
        if before.metadata.owner_references != obj.metadata.owner_references:
            self._index(before, add=False)
            self._index(obj, add=True)
        self._put(shelf, obj)
        return self._shelved(obj)

    def delete(self, obj: KObject) -> None:
        found = self.current(obj)
        if found is None:
            raise Conflict(f"{obj.kind} {key(obj)} is gone")
        shelf = self._shelf(obj.kind)
        del shelf.objects[key(obj)]
        del shelf.keys[bisect_left(shelf.keys, key(obj))]
        self._index(found, add=False)
        self.version += 1
        if self.listener is not None:
            self.listener(Deleted(found))

    # -- inside ---------------------------------------------------------------------------------------------

    def _shelf(self, kind: str) -> _Shelf:
        shelf = self._shelves.get(kind)
        if shelf is None:
            shelf = self._shelves[kind] = _Shelf()
        return shelf

    def _shelved(self, obj: T) -> T:
        return cast(T, self._shelf(obj.kind).objects[key(obj)])

    def _put(self, shelf: _Shelf, obj: KObject) -> None:
        self.version += 1
        meta = replace(obj.metadata, resource_version=str(self.version))
        stored = replace(obj, metadata=meta)
        shelf.objects[key(obj)] = stored
        if self.listener is not None:
            self.listener(Applied(stored))

    def _index(self, obj: KObject, *, add: bool) -> None:
        place = (obj.kind, key(obj))
        for owner in obj.metadata.owner_references:
            if add:
                self._dependents.setdefault(owner.uid, set()).add(place)
            elif (places := self._dependents.get(owner.uid)) is not None:
                places.discard(place)

    def _known_by_name(self, owner: OwnerReference, obj: KObject) -> OwnerReference:
        """A scenario's author cannot know the uids of a run, so an owner is who has its kind and name. Of
        owners that the store does not keep (a StatefulSet, say) a uid is believed, and made up if absent."""
        kind = KINDS.get((owner.api_version, owner.kind))
        if kind is None and owner.uid:
            return owner
        namespaced = is_namespaced(type(obj)) and kind not in CLUSTER_SCOPED
        owner_key = f"{obj.metadata.namespace}/{owner.name}" if namespaced else owner.name
        if kind is None:
            return replace(owner, uid=self._uid(f"{owner.api_version}/{owner.kind}", owner_key, 1))
        return replace(owner, uid=self.uid_of(owner.kind, owner_key))

    @staticmethod
    def _uid(kind: str, object_key: str, birth: int) -> str:
        name = object_key.rpartition("/")[2]
        return f"{name}-{birth}-{sha256(f'{kind}/{object_key}'.encode()).hexdigest()[:12]}"
