"""News on its way to the scheduler: kept while a cycle runs, and weighed.

`Cluster.apply` may be called only between cycles, so what the reflectors see in the meantime waits here. Most of it is
no reason to run a cycle at once: a node's heart-beat, a message on a waiting pod, the echo of our own writes. What may
change a decision is: room that comes or goes, a pod that wants a place, a changed rule.

Objects of our own kinds are checked on their way in, because servers before 1.25 do not know their rules. One that
breaks them is not there as far as the scheduler is concerned, and its owner is told why.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec

from stromboli.api import ApiError, KObject, Node, Pod, PodGroup, Queue, Reservation, default, key, validate
from stromboli.cluster import Applied, BindFailed, ClusterEvent, Deleted, EvictFailed

Refused = Callable[[KObject, str], None]

_FINISHED = ("Succeeded", "Failed")


class Inbox:
    def __init__(self, *, refused: Refused = lambda obj, why: None) -> None:
        """`refused` is told of an object that breaks the rules, and why; once for each form of it."""
        self.urgent = asyncio.Event()  # something came that a decision may depend on
        self._events: list[ClusterEvent] = []
        self._seen: dict[type[KObject], dict[str, KObject]] = {}
        self._refused = refused

    def __len__(self) -> int:
        return len(self._events)

    def put(self, event: ClusterEvent) -> None:
        match event:
            case Applied(obj):
                self._applied(obj)
            case Deleted(obj):
                self._deleted(obj)
            case BindFailed() | EvictFailed():
                # Not urgent: whatever failed would fail again a moment later.
                self._events.append(event)

    def failed(self, event: BindFailed | EvictFailed, uid: str) -> None:
        """News of an order for the pod with this uid. Another one that has its name by now may be on its own way."""
        pod = self._seen.get(Pod, {}).get(event.task)
        if pod is not None and pod.metadata.uid == uid:
            self.put(event)

    def take(self) -> list[ClusterEvent]:
        """All news so far, in its order; nothing is urgent any more."""
        events, self._events = self._events, []
        self.urgent.clear()
        return events

    def everything(self) -> list[ClusterEvent]:
        """All that is there, as news for somebody who knows nothing yet."""
        return [Applied(obj) for objects in self._seen.values() for obj in objects.values()]

    def _of(self, obj: KObject) -> dict[str, KObject]:
        return self._seen.setdefault(type(obj), {})

    def _deleted(self, obj: KObject) -> None:
        seen = self._of(obj).get(key(obj))
        # One that we have just put in its place, and of which the watch knows nothing yet, is not the one that is gone.
        if seen is not None and obj.metadata.uid in ("", seen.metadata.uid):
            del self._of(obj)[key(obj)]
            self._events.append(Deleted(obj))
            self.urgent.set()

    def _applied(self, obj: KObject) -> None:
        seen = self._of(obj)
        object_key = key(obj)
        before = seen.get(object_key)
        why = _broken_rule(obj)
        if why is not None:
            self._refused(obj, why)
            if before is not None:
                self.put(Deleted(before))
            return
        seen[object_key] = obj
        if before is not None and before.metadata.uid == obj.metadata.uid:
            if _is_heart_beat(before, obj):
                return
            urgent = _matters(before, obj)
        else:
            urgent = not (isinstance(obj, Pod) and obj.spec.node_name)
        self._events.append(Applied(obj))
        if urgent:
            self.urgent.set()


def _broken_rule(obj: KObject) -> str | None:
    if not isinstance(obj, Queue | PodGroup | Reservation):
        return None  # Kubernetes has checked its own kinds
    try:
        default(obj)
        validate(obj)
    except ApiError as error:
        return str(error)
    return None


def _is_heart_beat(before: KObject, after: KObject) -> bool:
    """Whether a node says nothing but that it is alive. Thousands of them do so all the time."""
    return (
        isinstance(before, Node)
        and isinstance(after, Node)
        and before.spec == after.spec
        and before.status == after.status
        and _same_words(before, after)
    )


def _matters(before: KObject, after: KObject) -> bool:
    match before, after:
        case Pod(), Pod():
            if after.spec.node_name:  # room that is taken helps nobody; room that will be free may
                return (
                    before.metadata.deletion_timestamp != after.metadata.deletion_timestamp
                    or (before.status.phase != after.status.phase and after.status.phase in _FINISHED)
                )
            return before.spec != after.spec or not _same_words(before, after)
        case PodGroup(), PodGroup():
            return before.spec != after.spec or not _same_words(before, after)
        case Queue(), Queue():
            return before.spec != after.spec or before.status.state != after.status.state
        case Reservation(), Reservation():
            return before.spec != after.spec or before.status.phase != after.status.phase
        case _:
            return bool(_without_version(before) != _without_version(after))


def _same_words(before: KObject, after: KObject) -> bool:
    left, right = before.metadata, after.metadata
    return left.labels == right.labels and left.annotations == right.annotations


def _without_version(obj: KObject) -> Any:
    return msgspec.structs.replace(obj, metadata=msgspec.structs.replace(obj.metadata, resource_version=""))
