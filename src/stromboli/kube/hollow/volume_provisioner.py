"""Makes and binds volumes on an API server that has no volume controller and no provisioner of its own.

The decisions are those of `stromboli.controllers.volume_provisioner`; here are the watches and the writes. A write that
fails is decided again with what the server has then.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable
from typing import Any, Final, TypeVar, cast

import msgspec

from stromboli.api import (
    CSINode,
    KObject,
    Node,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    StorageClass,
    key,
)
from stromboli.cluster.events import Applied, Deleted
from stromboli.controllers import Change, Create, Delete, Update, VolumeProvisioner
from stromboli.kube.client import (
    CSI_NODES,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    PODS,
    STORAGE_CLASSES,
    Client,
    Failure,
    Reflector,
    Resource,
    is_already_exists,
    is_conflict,
    is_not_found,
    object_and_status_patches,
)
from stromboli.kube.runtime import Log

T = TypeVar("T", bound=KObject)

_KINDS: Final[dict[type[KObject], Resource[Any]]] = {
    PersistentVolumeClaim: PERSISTENT_VOLUME_CLAIMS,
    PersistentVolume: PERSISTENT_VOLUMES,
    StorageClass: STORAGE_CLASSES,
    CSINode: CSI_NODES,
    Node: NODES,
    Pod: PODS,
}
_LONGEST_WAIT: Final = 5.0  # seconds

_log = Log("volumes")


class HollowProvisioner:
    def __init__(self, client: Client, *, clock: Callable[[], float] = time.time) -> None:
        self._client = client
        self._clock = clock
        self._provisioner = VolumeProvisioner()
        self._seen: dict[tuple[type[KObject], str], KObject] = {}
        self._changed = asyncio.Event()
        self._reflectors: dict[type[Any], Reflector[Any]] = {
            kind: Reflector(client, resource, self._on_event) for kind, resource in _KINDS.items()
        }

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            for reflector in self._reflectors.values():
                group.create_task(reflector.run())
            group.create_task(self._work())

    # -- objects, as controllers read them ------------------------------------------------------------------------

    def get(self, kind: type[T], key: str) -> T | None:
        return cast("T | None", self._reflectors[kind].objects.get(key))

    def list(self, kind: type[T]) -> Iterable[T]:
        objects = self._reflectors[kind].objects
        return [cast(T, objects[key]) for key in sorted(objects)]

    def _on_event(self, event: Applied | Deleted) -> None:
        obj = event.object
        place = (type(obj), key(obj))
        before = self._seen.pop(place, None)
        after = None
        if isinstance(event, Applied):
            after = self._seen[place] = obj
        if type(obj) in VolumeProvisioner.observes and (before is not None or after is not None):
            self._provisioner.observe(before, after)
            self._changed.set()

    # -- writes -------------------------------------------------------------------------------------------------

    async def _work(self) -> None:
        for reflector in self._reflectors.values():
            await reflector.synced.wait()
        while True:
            self._changed.clear()
            changes = self._provisioner.reconcile(self, self._clock())
            for change in changes:
                await self._apply(change)
            if changes:
                continue
            due = self._provisioner.next_due(self._clock())
            wait = _LONGEST_WAIT if due is None else min(_LONGEST_WAIT, max(0.05, due - self._clock()))
            try:
                async with asyncio.timeout(wait):
                    await self._changed.wait()
            except TimeoutError:
                pass

    async def _apply(self, change: Change) -> None:
        resource = _KINDS.get(type(change.object))
        if resource is None:
            return
        try:
            match change:
                case Create(obj):
                    self._observe(await self._client.create(resource, cast(Any, obj)))
                case Update(obj):
                    await self._update(resource, obj)
                case Delete(obj):
                    await self._client.delete(resource, key(obj), uid=obj.metadata.uid)
                case _:
                    pass  # events are for people, and the claim shows the same
        except Failure as failure:
            if not (is_conflict(failure) or is_not_found(failure) or is_already_exists(failure)):
                _log.warning("cannot write", kind=resource.plural, object=key(change.object), failure=failure.message)
            await asyncio.sleep(0.05)  # the watch shows what is there

    async def _update(self, resource: Resource[Any], obj: KObject) -> None:
        before = self._reflectors[type(obj)].objects.get(key(obj))
        if before is None:
            return
        main, status = object_and_status_patches(before, obj)
        version = before.metadata.resource_version
        if main:
            main.setdefault("metadata", {})["resourceVersion"] = version
            written = await self._client.patch(resource, key(obj), main)
            version = written.metadata.resource_version
            if not status:
                self._observe(written)
        if status:
            status["metadata"] = {"resourceVersion": version}
            self._observe(await self._client.patch(resource, key(obj), status, subresource="status"))

    def _observe(self, written: KObject) -> None:
        self._reflectors[type(written)].observe_write(msgspec.structs.replace(written))
