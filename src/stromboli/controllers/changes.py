"""What controllers read and what they answer with.

A controller is a function from objects and the time to changes. It reads through `Objects`, which any world
can offer (the simulator's store, a reflector's cache), and answers with `Change` values that the world
carries out. Objects handed out are the world's own: a controller copies (`msgspec.structs.replace`) before
it changes anything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from stromboli.api import Job, KObject, TaskSpec

T = TypeVar("T", bound=KObject)


class Objects(Protocol):
    def get(self, kind: type[T], key: str) -> T | None: ...

    def list(self, kind: type[T]) -> Iterable[T]:
        """All objects of a kind in the order of their keys."""
        ...


@dataclass(frozen=True, slots=True)
class Create:
    """Make it, if it is not there. A pod made from a task's template says which: the user may have written more in
    it than we read, and a world that knows the rest adds it."""

    object: KObject
    task: TaskSpec | None = None


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


@dataclass(frozen=True, slots=True)
class Belonging:
    """What a job needs besides its group and its pods: a Service, say. We write it and never look into it, so it is
    kept the way it is written: `content` makes everything but the metadata."""

    api_version: str
    kind: str
    name: str
    content: Callable[[], Mapping[str, Any]]
    once: bool = False  # written when it is not there, and never again: a key pair, say


@dataclass(frozen=True, slots=True)
class Provide:
    """Write something that belongs to a job. Only when it is there may what follows for this job be done."""

    object: Job
    belonging: Belonging


Change = Create | Update | Delete | Notify | Provide
