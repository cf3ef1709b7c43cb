"""The objects of the API server that the page shows, and what happened to them since somebody last looked."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable
from contextlib import aclosing
from typing import Any, Final

from stromboli.api import Job, KObject
from stromboli.cluster.events import Applied, Deleted
from stromboli.kube.client import (
    EVENTS,
    JOBS,
    NAMESPACES,
    NODES,
    POD_GROUPS,
    PODS,
    PRIORITY_CLASSES,
    QUEUES,
    RESERVATIONS,
    RESOURCE_QUOTAS,
    Client,
    Contain,
    Event,
    Failure,
    Reflector,
    Resource,
)
from stromboli.kube.runtime.served import served_optional_kinds, watch_optional_kinds

from .pod_history import EVICTION_REASONS

_KINDS: Final[tuple[Resource[Any], ...]] = (
    PRIORITY_CLASSES, NAMESPACES, RESOURCE_QUOTAS, QUEUES, NODES, POD_GROUPS, PODS, RESERVATIONS, JOBS,
)  # fmt: skip

_PODS_ONLY: Final = "involvedObject.kind=Pod"
_PAUSE: Final = 15.0  # seconds after a failure to read events

Change = Applied | Deleted


class WatchedObjects:
    """Run `watches` beside it. `changed` is set whenever something happened."""

    def __init__(self, client: Client, contain: Contain) -> None:
        """`contain` is told of errors while one object is read."""
        self.changed = asyncio.Event()
        self._client = client
        self._contain = contain
        self._changes: list[Change] = []
        self._events: list[Event] = []
        self._jobs = self._reflector(JOBS)
        self._required = [self._jobs if kind is JOBS else self._reflector(kind) for kind in _KINDS]
        self._optional: list[Reflector[Any]] = []

    def _reflector(self, kind: Resource[Any]) -> Reflector[Any]:
        return Reflector(self._client, kind, self._note, contain=self._contain)

    def _note(self, change: Change) -> None:
        self._changes.append(change)
        self.changed.set()

    def drain(self) -> tuple[list[Change], list[Event]]:
        """What happened since the last call."""
        changes, self._changes = self._changes, []
        events, self._events = self._events, []
        self.changed.clear()
        return changes, events

    def jobs(self) -> list[Job]:
        return list(self._jobs.objects.values())

    def job(self, name: str) -> Job | None:
        return self._jobs.objects.get(name)

    def everything(self) -> list[KObject]:
        return [obj for reflector in (*self._required, *self._optional) for obj in reflector.objects.values()]

    def not_synced(self) -> str | None:
        """A kind that was not listed yet."""
        return next((one.resource.plural for one in self._required if not one.synced.is_set()), None)

    def watches(self) -> list[Coroutine[Any, Any, None]]:
        return [*(one.run() for one in self._required), self._watch_optional(), self._follow_events()]

    async def _watch_optional(self) -> None:
        """Kinds that not every server has."""
        served = await served_optional_kinds(self._client)
        async with asyncio.TaskGroup() as group:
            for reflector in self._watch_more(served):
                group.create_task(reflector.run())
            group.create_task(watch_optional_kinds(self._client, served, self._watch_more))

    def _watch_more(self, kinds: Iterable[Resource[Any]]) -> list[Reflector[Any]]:
        new = [self._reflector(kind) for kind in kinds]
        self._optional += new
        return new

    async def _follow_events(self) -> None:
        """Events are not kept: each is handled once. Those who may not read them see everything but evictions."""
        while True:
            try:
                listed = await self._client.list(EVENTS, field_selector=_PODS_ONLY)
                self._note_events(*listed.items)
                watch = self._client.watch(EVENTS, listed.resource_version, field_selector=_PODS_ONLY)
                async with aclosing(watch) as seen:
                    async for event in seen:
                        if event.type in ("ADDED", "MODIFIED"):
                            self._note_events(event.object)
            except Failure:
                await asyncio.sleep(_PAUSE)

    def _note_events(self, *events: Event) -> None:
        evictions = [event for event in events if event.reason in EVICTION_REASONS]
        if evictions:
            self._events += evictions
            self.changed.set()
