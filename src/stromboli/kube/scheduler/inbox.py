"""Buffers events for the scheduler while a cycle runs, and tells urgent ones from the rest.

`Cluster.apply` may be called only between cycles, so the events of the reflectors wait here. Most are no reason to run
a cycle at once: a node's heartbeat, a message on a waiting pod, the echo of our own writes. Urgent is what may change a
decision: room that comes or goes, a pod that wants a node, a changed rule.

Objects of our own kinds are validated here, because servers before 1.25 do not evaluate the rules of their schemas. An
invalid object is hidden from the scheduler, and its owner gets the reason. So is a queue that the controllers have
rejected because it does not fit the other queues; they have said why.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec

from stromboli.api import (
    ApiError,
    KObject,
    Node,
    Pod,
    PodGroup,
    Queue,
    Reservation,
    default,
    group_name_of,
    key,
    validate,
)
from stromboli.api.upstream import UpstreamGroup, translated
from stromboli.api.validation.acceptance import rejection_of
from stromboli.cluster import (
    Applied,
    BindFailed,
    ClusterEvent,
    Deleted,
    EvictFailed,
    NodesMeasured,
    ReservationWriteFailed,
    UngateFailed,
)
from stromboli.containment import ObjectRef

Refused = Callable[[KObject, str], None]

_FINISHED = ("Succeeded", "Failed")


class Inbox:
    def __init__(self, *, refused: Refused = lambda obj, why: None) -> None:
        """`refused` is called with an invalid object and the reason, once for each version of the object."""
        self.urgent = asyncio.Event()  # an event arrived that a decision may depend on
        self._events: list[ClusterEvent] = []
        self._seen: dict[type[KObject], dict[str, KObject]] = {}
        self.hidden: dict[tuple[type[KObject], str], str] = {}  # invalid objects by kind and key, and what is wrong
        self._refused = refused
        self._measured: NodesMeasured | None = None

    def __len__(self) -> int:
        return len(self._events)

    def put(self, event: ClusterEvent) -> None:
        match event:
            case Applied(obj):
                self._applied(translated(obj))
            case Deleted(obj):
                self._deleted(translated(obj))
            case BindFailed() | EvictFailed() | ReservationWriteFailed() | UngateFailed():
                # Not urgent: it would fail again a moment later.
                self._events.append(event)
            case NodesMeasured():
                self._measured = event
                self._events.append(event)

    def failed(self, event: BindFailed | EvictFailed | UngateFailed, uid: str) -> None:
        """A request for the pod with this uid failed. Ignored if another pod has the name now."""
        pod = self._seen.get(Pod, {}).get(event.task)
        if pod is not None and pod.metadata.uid == uid:
            self.put(event)

    def drain(self) -> list[ClusterEvent]:
        """All events so far, in order. Resets `urgent`."""
        events, self._events = self._events, []
        self.urgent.clear()
        return events

    def all_objects(self) -> list[ClusterEvent]:
        """Everything that exists, as events for an empty cluster state."""
        objects: list[ClusterEvent] = [Applied(obj) for objects in self._seen.values() for obj in objects.values()]
        return objects if self._measured is None else [*objects, self._measured]

    def find(self, ref: ObjectRef) -> KObject | None:
        """The object, as it was last seen."""
        for objects in self._seen.values():
            found = objects.get(ref.key)
            if found is not None and found.kind == ref.kind:
                return found
        return None

    def _of(self, obj: KObject) -> dict[str, KObject]:
        return self._seen.setdefault(type(obj), {})

    def _deleted(self, obj: KObject) -> None:
        self.hidden.pop((type(obj), key(obj)), None)
        seen = self._of(obj).get(key(obj))
        # A successor that we have created and that the watch has not shown yet is not deleted.
        if seen is not None and obj.metadata.uid in ("", seen.metadata.uid):
            del self._of(obj)[key(obj)]
            self._events.append(Deleted(obj))
            self.urgent.set()

    def _applied(self, obj: KObject) -> None:
        seen = self._of(obj)
        object_key = key(obj)
        before = seen.get(object_key)
        why = _validation_error(obj)
        if why is not None:
            self._refused(obj, why)
        elif isinstance(obj, Queue):
            why = rejection_of(obj) or None
        if why is not None:
            if before is not None:
                self.put(Deleted(before))
            self.hidden[type(obj), object_key] = why
            return
        if self.hidden:
            self.hidden.pop((type(obj), object_key), None)
        seen[object_key] = obj
        if before is not None and before.metadata.uid == obj.metadata.uid:
            if _is_heartbeat(before, obj):
                return
            urgent = _is_urgent(before, obj)
        else:
            # A pod without a group cannot be placed; when it has one, that is urgent.
            urgent = not isinstance(obj, Pod) or (not obj.spec.node_name and bool(group_name_of(obj)))
        self._events.append(Applied(obj))
        if urgent:
            self.urgent.set()


def _validation_error(obj: KObject) -> str | None:
    if not isinstance(obj, Queue | PodGroup | Reservation) or isinstance(obj, UpstreamGroup):
        return None  # Kubernetes validates its own kinds
    try:
        default(obj)
        validate(obj)
    except ApiError as error:
        return str(error)
    return None


def _is_heartbeat(before: KObject, after: KObject) -> bool:
    """Whether nothing but the heartbeat of a node changed. Thousands of nodes send one all the time."""
    return (
        isinstance(before, Node)
        and isinstance(after, Node)
        and before.spec == after.spec
        and before.status == after.status
        and _same_labels_and_annotations(before, after)
    )


def _is_urgent(before: KObject, after: KObject) -> bool:
    match before, after:
        case Pod(), Pod():
            if after.spec.node_name:  # a taken place changes nothing; a place that becomes free may
                return before.metadata.deletion_timestamp != after.metadata.deletion_timestamp or (
                    before.status.phase != after.status.phase and after.status.phase in _FINISHED
                )
            return before.spec != after.spec or not _same_labels_and_annotations(before, after)
        case PodGroup(), PodGroup():
            return before.spec != after.spec or not _same_labels_and_annotations(before, after)
        case Queue(), Queue():
            return before.spec != after.spec or before.status.state != after.status.state
        case Reservation(), Reservation():
            was, now = before.status, after.status
            return before.spec != after.spec or (was.phase, was.allocatable) != (now.phase, now.allocatable)
        case _:
            return bool(_without_version(before) != _without_version(after))


def _same_labels_and_annotations(before: KObject, after: KObject) -> bool:
    left, right = before.metadata, after.metadata
    return left.labels == right.labels and left.annotations == right.annotations


def _without_version(obj: KObject) -> Any:
    return msgspec.structs.replace(obj, metadata=msgspec.structs.replace(obj.metadata, resource_version=""))
