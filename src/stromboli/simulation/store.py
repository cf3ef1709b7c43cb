"""All objects of a run, as an API server stores them.

The store gives every object its uid, creation time and version, lists objects in the order of their keys, and passes
every change to its listener (the cluster that the scheduler sees). An object in the store is never modified; a change
replaces it by a new one.

A uid is derived from the kind, the name, and the number of earlier objects of that name. So it depends only on the
events of the run, and it is known in advance: a pod may name an owner that is created after it.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Sequence
from hashlib import sha256
from typing import TypeVar, cast

from msgspec.structs import replace

from stromboli.api import CLUSTER_SCOPED, KINDS, KObject, OwnerReference, PodGroup, is_namespaced, key
from stromboli.cluster import Applied, Deleted

from .virtual_time import Microseconds, timestamp

T = TypeVar("T", bound=KObject)

Listener = Callable[[Applied | Deleted], None]
KindAndKey = tuple[str, str]  # name of a collection, and key


class Conflict(Exception):
    """The object exists already, was deleted, or has changed since the caller read it."""


def _name(kind: type) -> str:
    """Of the collection of a kind. Groups of scheduling.k8s.io are among the other groups, and Jobs of batch/v1 are not
    among Volcano's."""
    return PodGroup.__name__ if issubclass(kind, PodGroup) else kind.__name__


class _Collection:
    """The objects of one kind. `keys` is sorted and lists exactly what is in `objects`."""

    def __init__(self) -> None:
        self.objects: dict[str, KObject] = {}
        self.keys: list[str] = []


class Store:
    def __init__(self) -> None:
        self.version = 0  # counts changes; equal versions mean that nothing changed in between
        self.listener: Listener | None = None
        self._collections: dict[str, _Collection] = {}
        self._creations: dict[KindAndKey, int] = {}  # how many objects of that kind and key there have been
        self._dependents: dict[str, set[KindAndKey]] = {}  # by the uid of an owner

    # -- reading --------------------------------------------------------------------------------------------

    def get(self, kind: type[T], key: str) -> T | None:
        return cast("T | None", self._collection(_name(kind)).objects.get(key))

    def list(self, kind: type[T]) -> Sequence[T]:
        """All objects of a kind in the order of their keys."""
        collection = self._collection(_name(kind))
        return [cast(T, collection.objects[key]) for key in collection.keys]

    def everything(self) -> Sequence[KObject]:
        """All objects, kind by kind, in the order of names."""
        collections = (self._collections[kind] for kind in sorted(self._collections))
        return [collection.objects[key] for collection in collections for key in collection.keys]

    def current(self, obj: T) -> T | None:
        """The present version of an object; None if it was deleted, even if a new one has its name."""
        found = self.get(type(obj), key(obj))
        return found if found is not None and found.metadata.uid == obj.metadata.uid else None

    def dependents(self, uid: str) -> Sequence[KObject]:
        """The objects with an owner reference to this uid, in the order of kind and key."""
        return [self._collection(kind).objects[key] for kind, key in sorted(self._dependents.get(uid, ()))]

    def uid_of(self, kind: str, object_key: str) -> str:
        """The uid of the object of that name; if there is none, the uid that the next one will get."""
        found = self._collection(kind).objects.get(object_key)
        if found is not None:
            return found.metadata.uid
        return self._uid(kind, object_key, self._creations.get((kind, object_key), 0) + 1)

    # -- writing --------------------------------------------------------------------------------------------

    def create(self, obj: T, at: Microseconds) -> T:
        kind, object_key = _name(type(obj)), key(obj)
        collection = self._collection(kind)
        if object_key in collection.objects:
            raise Conflict(f"{kind} {object_key} exists already")
        number = self._creations.get((kind, object_key), 0) + 1
        self._creations[kind, object_key] = number
        owners = obj.metadata.owner_references
        meta = replace(
            obj.metadata,
            uid=self._uid(kind, object_key, number),
            creation_timestamp=timestamp(at),
            owner_references=[self._with_uid(owner, obj) for owner in owners] if owners else owners,
            generation=1,
        )
        created = replace(obj, metadata=meta)
        insort(collection.keys, object_key)
        self._put(collection, created)
        self._index(created, add=True)
        return self._stored(created)

    def adopt(self, obj: KObject) -> None:
        """Add an object that exists elsewhere, with the uid and the creation time that it has there."""
        collection = self._collection(_name(type(obj)))
        if key(obj) in collection.objects:
            raise Conflict(f"{obj.kind} {key(obj)} exists already")
        insort(collection.keys, key(obj))
        self._put(collection, obj)
        self._index(obj, add=True)

    def update(self, obj: T) -> T:
        """Replace an object by a changed version; Conflict unless the stored version is the one it was made from."""
        collection = self._collection(_name(type(obj)))
        before = collection.objects.get(key(obj))
        if before is None or before.metadata.uid != obj.metadata.uid:
            raise Conflict(f"{obj.kind} {key(obj)} was deleted")
        if before.metadata.resource_version != obj.metadata.resource_version:
            raise Conflict(f"{obj.kind} {key(obj)} has changed")
        if before == obj:
            return obj
        if before.metadata.owner_references != obj.metadata.owner_references:
            self._index(before, add=False)
            self._index(obj, add=True)
        self._put(collection, obj)
        return self._stored(obj)

    def delete(self, obj: KObject) -> None:
        found = self.current(obj)
        if found is None:
            raise Conflict(f"{obj.kind} {key(obj)} was deleted")
        collection = self._collection(_name(type(obj)))
        del collection.objects[key(obj)]
        del collection.keys[bisect_left(collection.keys, key(obj))]
        self._index(found, add=False)
        self.version += 1
        if self.listener is not None:
            self.listener(Deleted(found))

    # -- inside ---------------------------------------------------------------------------------------------

    def _collection(self, kind: str) -> _Collection:
        collection = self._collections.get(kind)
        if collection is None:
            collection = self._collections[kind] = _Collection()
        return collection

    def _stored(self, obj: T) -> T:
        return cast(T, self._collection(_name(type(obj))).objects[key(obj)])

    def _put(self, collection: _Collection, obj: KObject) -> None:
        self.version += 1
        meta = replace(obj.metadata, resource_version=str(self.version))
        stored = replace(obj, metadata=meta)
        collection.objects[key(obj)] = stored
        if self.listener is not None:
            self.listener(Applied(stored))

    def _index(self, obj: KObject, *, add: bool) -> None:
        place = (_name(type(obj)), key(obj))
        for owner in obj.metadata.owner_references:
            if add:
                self._dependents.setdefault(owner.uid, set()).add(place)
            elif (places := self._dependents.get(owner.uid)) is not None:
                places.discard(place)

    def _with_uid(self, owner: OwnerReference, obj: KObject) -> OwnerReference:
        """The reference with the owner's uid. The author of a scenario cannot know the uids of a run, so an owner is
        identified by kind and name. For kinds that the store does not hold (a custom kind, for example) the given uid
        counts, and is generated if there is none."""
        kind = KINDS.get((owner.api_version, owner.kind))
        if kind is None and owner.uid:
            return owner
        namespaced = is_namespaced(type(obj)) and kind not in CLUSTER_SCOPED
        owner_key = f"{obj.metadata.namespace}/{owner.name}" if namespaced else owner.name
        if kind is None:
            return replace(owner, uid=self._uid(f"{owner.api_version}/{owner.kind}", owner_key, 1))
        return replace(owner, uid=self.uid_of(_name(kind), owner_key))

    @staticmethod
    def _uid(kind: str, object_key: str, number: int) -> str:
        name = object_key.rpartition("/")[2]
        return f"{name}-{number}-{sha256(f'{kind}/{object_key}'.encode()).hexdigest()[:12]}"
