"""The objects of the reflectors, as of one moment: a run in a thread must see one state from beginning to end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from stromboli.api import CompositePodGroup, KObject, PodGroup, WorkloadPodGroup, key
from stromboli.api.upstream import as_pod_group

T = TypeVar("T", bound=KObject)


class LiveObjects:
    def __init__(self, objects: Mapping[type[KObject], Mapping[str, Any]]) -> None:
        self._objects: dict[type, dict[str, Any]] = {kind: dict(of_kind) for kind, of_kind in objects.items()}
        for kind in (WorkloadPodGroup, CompositePodGroup):  # they are among the other groups
            groups = [as_pod_group(group) for group in self._objects.pop(kind, {}).values()]
            self._objects.setdefault(PodGroup, {}).update((key(group), group) for group in groups)

    def get(self, kind: type[T], key: str) -> T | None:
        found: T | None = self._objects.get(kind, {}).get(key)
        return found

    def everything(self) -> Sequence[KObject]:
        return [obj for of_kind in self._objects.values() for obj in of_kind.values()]

    def list(self, kind: type[T]) -> Sequence[T]:
        of_kind = self._objects.get(kind, {})
        return [of_kind[key] for key in sorted(of_kind)]
