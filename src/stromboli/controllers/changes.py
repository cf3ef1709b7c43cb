"""What controllers read and what they answer with.

A controller is a function from objects and the time to changes. It reads through `Objects`, which any world
can offer (the simulator's store, a reflector's cache), and answers with `Change` values that the world
carries out. Objects handed out are the world's own: a controller copies (`msgspec.structs.replace`) before
it changes anything.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol, TypeVar

from stromboli.api import KObject

T = TypeVar("T", bound=KObject)


class Objects(Protocol):
    def get(self, kind: type[T], key: str) -> T | None: ...

    def list(self, kind: type[T]) -> Iterable[T]:
        """All objects of a kind in the order of their keys."""
        ...


@dataclass(frozen=True, slots=True)
class Create:
    object: KObject


@dataclass(frozen=True, slots=True)
class Update:
    """The object as it should be from now on; its uid and resourceVersion say which one is meant."""

    object: KObject


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete it as a user would: a running pod gets its grace period."""

    object: KObject
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Notify:
    """An event about an object, for people."""

    object: KObject
    reason: str
    message: str
    warning: bool = False


Change = Create | Update | Delete | Notify
