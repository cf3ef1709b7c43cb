"""The objects that plans and moves read beside the cluster: pods, their owners, and what they are subject to."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol, TypeVar

from stromboli.api import KObject

T = TypeVar("T", bound=KObject)


class Objects(Protocol):
    def get(self, kind: type[T], key: str) -> T | None: ...

    def list(self, kind: type[T]) -> Iterable[T]: ...
