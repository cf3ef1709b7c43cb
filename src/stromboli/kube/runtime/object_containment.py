"""Errors of a part that reads objects of the API server: controllers, descheduler, page.

These parts remember nothing that cannot be read again. So there is one way to go on after an error: the object that it
is charged to is hidden for a growing time, with all that belongs to it, the part is made anew, and its pass is repeated
with the rest. Hidden objects stay as they are; what is under way for them goes on when they are seen again.

Whom an error is charged to follows from the variables of the frames that it came through (see
`scheduling.containment.attribution`). A pod is charged to the Job that it belongs to, since nobody else writes it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import is_dataclass
from types import TracebackType
from typing import Any, Final, Protocol, TypeVar

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
    PersistentVolumeClaim,
    Pod,
    PodDisruptionBudget,
    PodGroup,
    PriorityClass,
    Queue,
    ReplicaSet,
    Reservation,
    ResourceQuota,
    StatefulSet,
    group_name_of,
    key,
)
from stromboli.containment import ObjectRef, PutAside, contained_error
from stromboli.scheduling.containment.attribution import ref_of

from .contained_errors import ErrorReporter

MOST_ERRORS: Final = 10  # in one pass; after that it has failed

_KINDS = (
    Job, PodGroup, Queue, Reservation, ReplicaSet, StatefulSet, PersistentVolumeClaim, PodDisruptionBudget, Pod, Node,
    HyperNode, Command, CronJob, JobFlow, JobTemplate, Namespace, PriorityClass, ResourceQuota,
)  # fmt: skip
# Many objects depend on these, so they are charged only if there is nobody else.
_LAST = ("Queue", "Node", "HyperNode", "Namespace", "PriorityClass")

T = TypeVar("T", bound=KObject)


class Objects(Protocol):
    def get(self, kind: type[T], key: str) -> T | None: ...

    def list(self, kind: type[T]) -> Iterable[T]: ...


class ObjectContainment:
    def __init__(self, reporter: ErrorReporter, clock: Callable[[], float]) -> None:
        self._reporter = reporter
        self._clock = clock
        self._put_aside = PutAside()
        self._hidden: frozenset[ObjectRef] = frozenset()

    def charge(self, error: Exception) -> ObjectRef | None:
        """Hide the object that an error happened on; None if it cannot be found."""
        suspect = next((ref for ref in suspects(error.__traceback__) if ref not in self._hidden), None)
        if suspect is None:
            return None
        found = contained_error(error, suspect)
        seconds = self._put_aside.charge(suspect, found.error, self._clock())
        self._reporter.report(found, seconds=seconds)
        self._hidden |= {suspect}
        return suspect

    def refresh(self) -> bool:
        """Whether other objects are hidden than before: a part that remembers what it saw has to be made anew."""
        before = self._hidden
        self._hidden = frozenset(ref for ref, _, _ in self._put_aside.at(self._clock()))
        self._reporter.put_aside(len(self._hidden))
        return self._hidden != before

    @property
    def hides_any(self) -> bool:
        return bool(self._hidden)

    def hides(self, obj: KObject) -> bool:
        return bool(self._hidden) and any(ref in self._hidden for ref in _belongs_to(obj))

    def visible(self, objects: Objects) -> Objects:
        """Without what is hidden."""
        return _Visible(objects, self.hides) if self._hidden else objects


class _Visible:
    def __init__(self, objects: Objects, hides: Callable[[KObject], bool]) -> None:
        self._objects = objects
        self._hides = hides

    def get(self, kind: type[T], key: str) -> T | None:
        found = self._objects.get(kind, key)
        return None if found is None or self._hides(found) else found

    def list(self, kind: type[T]) -> Sequence[T]:
        return [obj for obj in self._objects.list(kind) if not self._hides(obj)]


def _belongs_to(obj: KObject) -> list[ObjectRef]:
    """The object itself, and those without which it makes no sense to handle it."""
    kind = "Job" if isinstance(obj, Job) else obj.kind
    found = [ObjectRef(kind, key(obj))]
    namespace = obj.metadata.namespace
    if isinstance(obj, Pod | PodGroup):
        owners = (owner for owner in obj.metadata.owner_references if owner.controller)
        found += [ObjectRef(owner.kind, f"{namespace}/{owner.name}") for owner in owners]
    if isinstance(obj, Pod) and (group := group_name_of(obj)):
        found.append(ObjectRef("PodGroup", f"{namespace}/{group}"))
    if isinstance(obj, Job | PodGroup):
        found.append(ObjectRef("Queue", obj.spec.queue or "default"))
    return found


def suspects(traceback: TracebackType | None) -> list[ObjectRef]:
    """Who was looked at, the innermost first; queues and nodes last."""
    frames = []
    while traceback is not None:
        frames.append(traceback.tb_frame)
        traceback = traceback.tb_next
    found: list[ObjectRef] = []
    for frame in reversed(frames):
        for value in list(frame.f_locals.values()):
            ref = _ref_of(value)
            if ref is not None:
                found.append(ref)
    unique = list(dict.fromkeys(found))
    return sorted(unique, key=lambda ref: ref.kind in _LAST)


def _ref_of(value: Any) -> ObjectRef | None:
    if is_dataclass(value) and isinstance(inner := getattr(value, "object", None), _KINDS):
        value = inner  # an event, or a change that is to be written
    if not isinstance(value, _KINDS):
        return ref_of(value)
    if isinstance(value, Pod | PodGroup):
        for owner in value.metadata.owner_references:
            if owner.controller and owner.kind == "Job":
                return ObjectRef("Job", f"{value.metadata.namespace}/{owner.name}")
    return ObjectRef("Job" if isinstance(value, Job) else value.kind, key(value))
