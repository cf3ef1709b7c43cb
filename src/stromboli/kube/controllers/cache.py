"""What the controllers see: the objects of some kinds, by key and in order.

A pass runs in a thread and must see one state from beginning to end, so the cache changes only when it is told to,
between passes. An object is never modified in here, and one that did not change stays the very same: controllers know
by that where there is nothing to do.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeVar, cast

from stromboli.api import Job, KObject, key
from stromboli.cluster import Applied, Deleted

T = TypeVar("T", bound=KObject)


class _Shelf:
    """The objects of one kind. `keys` are those of `objects`, in order, unless `sorted` is false."""

    def __init__(self) -> None:
        self.objects: dict[str, KObject] = {}
        self.keys: list[str] = []
        self.sorted = True


class Cache:
    def __init__(self, kinds: Iterable[type[KObject]]) -> None:
        self._shelves: dict[type, _Shelf] = {kind: _Shelf() for kind in kinds}

    def get(self, kind: type[T], key: str) -> T | None:
        shelf = self._shelves.get(kind)
        return None if shelf is None else cast("T | None", shelf.objects.get(key))

    def list(self, kind: type[T]) -> Sequence[T]:
        shelf = self._shelves.get(kind)
        if shelf is None:
            return ()
        if not shelf.sorted:
            # Nearly in order already, because most of them were so the last time: this looks at each once.
            shelf.keys = sorted(shelf.objects)
            shelf.sorted = True
        return cast(Sequence[T], [shelf.objects[name] for name in shelf.keys])

    def apply(self, event: Applied | Deleted) -> None:
        obj = event.object
        shelf = self._shelves[kind_of(obj)]
        name = key(obj)
        if isinstance(event, Applied):
            shelf.sorted = shelf.sorted and name in shelf.objects
            shelf.objects[name] = obj
        elif shelf.objects.pop(name, None) is not None:
            shelf.sorted = False


def kind_of(obj: KObject) -> type[KObject]:
    """The kind that people know; a Job that carries more than others is still a Job."""
    return Job if isinstance(obj, Job) else type(obj)
