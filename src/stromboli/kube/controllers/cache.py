"""The objects that the controllers see, by kind and key, in order.

A pass runs in a thread and must see one state from beginning to end, so the cache changes only between passes. Cached
objects are never modified, and an object that did not change stays identical: controllers use that to skip it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, TypeVar, cast

from stromboli.api import (
    Command,
    CronJob,
    HyperNode,
    Job,
    JobFlow,
    JobTemplate,
    KObject,
    Namespace,
    Node,
    Pod,
    PodGroup,
    PriorityClass,
    Queue,
    ReplicaSet,
    Reservation,
    StatefulSet,
    key,
)
from stromboli.cluster import Applied, Deleted

T = TypeVar("T", bound=KObject)

KINDS: Final = (
    Command, CronJob, HyperNode, Job, JobFlow, JobTemplate, Namespace, Node, Pod, PodGroup, PriorityClass, Queue,
    ReplicaSet, Reservation, StatefulSet,
)  # fmt: skip


class _Store:
    """The objects of one kind. `keys` are the sorted keys of `objects`, unless `sorted` is false."""

    def __init__(self) -> None:
        self.objects: dict[str, KObject] = {}
        self.keys: list[str] = []
        self.sorted = True


class Cache:
    def __init__(self, kinds: Iterable[type[KObject]]) -> None:
        self._stores: dict[type, _Store] = {kind: _Store() for kind in kinds}

    def get(self, kind: type[T], key: str) -> T | None:
        store = self._stores.get(kind)
        return None if store is None else cast("T | None", store.objects.get(key))

    def list(self, kind: type[T]) -> Sequence[T]:
        store = self._stores.get(kind)
        if store is None:
            return ()
        if not store.sorted:
            # Most keys are in order already, so this is linear.
            store.keys = sorted(store.objects)
            store.sorted = True
        return cast(Sequence[T], [store.objects[name] for name in store.keys])

    def apply(self, event: Applied | Deleted) -> None:
        obj = event.object
        store = self._stores[kind_of(obj)]
        name = key(obj)
        if isinstance(event, Applied):
            store.sorted = store.sorted and name in store.objects
            store.objects[name] = obj
        elif store.objects.pop(name, None) is not None:
            store.sorted = False


def kind_of(obj: KObject) -> type[KObject]:
    """The kind of the object. A LiveJob is a Job, and groups of scheduling.k8s.io are among the other groups."""
    return next((kind for kind in (Job, CronJob, JobTemplate, PodGroup) if isinstance(obj, kind)), type(obj))
