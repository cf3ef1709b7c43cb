"""Carries out the writes of the descheduler, one after the other, each behind the fence.

A write that fails is not repeated here: the next pass reads the objects and decides again. An eviction is the one write
that cannot be taken back, so right before it the Reservation is read from the server: it must be Available and marked,
and the fence must still hold after that answer. A leader that was stopped in between does nothing.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, TypeVar

import msgspec
from msgspec.structs import replace

from stromboli.api import KObject, Node, Pod, PodGroup, Reservation, key
from stromboli.api.migration_reservations import Migration, migration_of
from stromboli.api.reservations import AVAILABLE
from stromboli.descheduling import Write
from stromboli.descheduling.migration import (
    AnnotateNode,
    CreateReservation,
    DeleteReservation,
    EvictPod,
    RemovePod,
    Report,
    UpdateGroup,
    UpdateReservation,
)
from stromboli.kube.client import (
    NODES,
    POD_GROUPS,
    PODS,
    RESERVATIONS,
    Client,
    Failure,
    ItemBackoff,
    TokenBucket,
    is_conflict,
    is_not_found,
    object_and_status_patches,
)
from stromboli.kube.runtime import REQUEST_TIMEOUT, EventRecorder, Fence, Log, in_time

from .live_objects import LiveObjects
from .metrics import DeschedulerMetrics

_log = Log("descheduler")

T = TypeVar("T")
TOO_MANY_REQUESTS: Final = 429


class Fenced(Exception):
    """Another replica may lead by now: nothing more is written."""


class WriteExecutor:
    def __init__(
        self,
        client: Client,
        *,
        fence: Fence,
        bucket: TokenBucket,
        recorder: EventRecorder,
        metrics: DeschedulerMetrics,
        on_object: Callable[[KObject], None],
        on_deleted: Callable[[KObject], None],
        clock: Callable[[], float] = time.monotonic,
        timeout: float = REQUEST_TIMEOUT,
    ) -> None:
        """`on_object` gets an object as a write returned it, `on_deleted` one that was deleted."""
        self._client = client
        self._timeout = timeout
        self._fence = fence
        self._bucket = bucket
        self._recorder = recorder
        self._metrics = metrics
        self._on_object = on_object
        self._on_deleted = on_deleted
        self.backoff = ItemBackoff(clock, random=client.random)

    async def write(self, writes: Sequence[Write], objects: LiveObjects) -> bool:
        """Whether all were written. Raises nothing."""
        complete = True
        unwritten: set[str] = set()  # groups whose state could not be written
        for write in writes:
            if isinstance(write, DeleteReservation) and _group_of(write.reservation) in unwritten:
                complete = False  # without its Reservation, the next pass could not tell how the move ended
                continue
            try:
                await self._carry_out(write, objects)
            except Fenced:
                return False
            except Failure as failure:
                complete = False
                self._metrics.wrote(type(write).__name__, "failed")
                if not (is_conflict(failure) or is_not_found(failure)):
                    _log.warning("cannot write", write=type(write).__name__, failure=failure.message)
                if isinstance(write, CreateReservation):
                    return False  # the rest of its plan would be in vain; the next pass gives up what there is
                if isinstance(write, UpdateGroup) and not is_not_found(failure):
                    unwritten.add(key(write.group))
            else:
                self._metrics.wrote(type(write).__name__, "written")
        return complete

    async def _carry_out(self, write: Write, objects: LiveObjects) -> None:
        match write:
            case CreateReservation(reservation):
                await self._create(reservation)
            case UpdateReservation(reservation):
                await self._update(RESERVATIONS, reservation, objects.get(Reservation, key(reservation)))
            case DeleteReservation(reservation, spared=spared):
                if spared is None or await self._runs(spared):
                    await self._delete(reservation)
            case UpdateGroup(group):
                await self._update_group(group, objects.get(PodGroup, key(group)))
            case AnnotateNode(name, annotations):
                node = objects.get(Node, name)
                if node is not None and _differs(node, annotations):
                    change = {"metadata": {"annotations": annotations}}
                    self._on_object(await self._send(lambda: self._client.patch(NODES, name, change)))
            case EvictPod():
                await self._evict(write)
            case RemovePod():
                if not self.backoff.is_waiting(write.uid):
                    await self._send_eviction(write.pod, write.uid, write.plugin, write.message)
            case Report():
                self._metrics.moved(write.what)
                uid = write.uid
                if not uid and (pod := objects.get(Pod, write.pod)) is not None:
                    uid = pod.metadata.uid
                self._recorder.record(Pod, write.pod, uid, write.what, write.message, warning=write.warning)

    async def _create(self, reservation: Reservation) -> None:
        # The owner of a waiting Reservation is in a namespace, and the garbage collector does not follow that.
        ownerless = replace(reservation, metadata=replace(reservation.metadata, owner_references=[]))
        created = await self._send(lambda: self._client.create(RESERVATIONS, ownerless))
        if reservation.status.phase:
            status = {"status": msgspec.to_builtins(reservation.status)}
            name = reservation.metadata.name
            created = await self._send(lambda: self._client.patch(RESERVATIONS, name, status, subresource="status"))
        self._on_object(created)

    async def _update(self, resource: Any, obj: KObject, before: KObject | None) -> None:
        if before is None:
            return
        version = before.metadata.resource_version
        for patch, subresource in zip(object_and_status_patches(before, obj), ("", "status"), strict=True):
            if patch:
                patch["metadata"] = {**patch.get("metadata", {}), "resourceVersion": version}
                written = await self._send(
                    lambda patch=patch, subresource=subresource: self._client.patch(  # type: ignore[misc]
                        resource, key(obj), patch, subresource=subresource
                    )
                )
                self._on_object(written)
                version = written.metadata.resource_version

    async def _update_group(self, group: PodGroup, before: PodGroup | None) -> None:
        """Nobody else writes these fields, and the scheduler writes others of the same group all the time. So its
        version does not matter, as long as it is the same group."""
        if before is None:
            return
        for patch, subresource in zip(object_and_status_patches(before, group), ("", "status"), strict=True):
            if patch:
                patch["metadata"] = {**patch.get("metadata", {}), "uid": before.metadata.uid}
                written = await self._send(
                    lambda patch=patch, subresource=subresource: self._client.patch(  # type: ignore[misc]
                        POD_GROUPS, key(group), patch, subresource=subresource
                    )
                )
                self._on_object(written)

    async def _runs(self, move: Migration) -> bool:
        """Whether a pod was really not evicted. Our watch may not show yet that an eviction was accepted."""
        try:
            pod = await self._send(lambda: self._client.get(PODS, move.pod))
        except Failure as failure:
            if is_not_found(failure):
                return False
            raise
        self._on_object(pod)
        return pod.metadata.uid == move.uid and pod.metadata.deletion_timestamp is None

    async def _delete(self, reservation: Reservation) -> None:
        try:
            await self._send(
                lambda: self._client.delete(RESERVATIONS, reservation.metadata.name, uid=reservation.metadata.uid)
            )
        except Failure as failure:
            if not is_not_found(failure):
                raise
        self._on_deleted(reservation)

    async def _evict(self, write: EvictPod) -> None:
        if self.backoff.is_waiting(write.uid):
            return
        name = write.reservation.metadata.name
        fresh = await self._send(lambda: self._client.get(RESERVATIONS, name))
        move = migration_of(fresh)
        if (
            fresh.metadata.uid != write.reservation.metadata.uid
            or fresh.status.phase != AVAILABLE
            or move is None
            or move.evicting_since is None
            or move.uid != write.uid
        ):
            self._on_object(fresh)
            return
        await self._send_eviction(write.pod, write.uid, "Migrated", write.message)

    async def _send_eviction(self, pod: str, uid: str, reason: str, message: str) -> None:
        """The server looks at disruption budgets, and deletes a pod that has finished without them."""
        try:
            await self._send(lambda: self._client.evict(pod, uid))
        except Failure as failure:
            if is_not_found(failure) or is_conflict(failure):
                return  # it is gone, or another pod has its name
            self.backoff.failed(uid, failure)
            if failure.status == TOO_MANY_REQUESTS:
                _log.info("an eviction is refused for now", pod=pod, reason=failure.message)
                return
            raise
        self.backoff.succeeded(uid)
        self._recorder.record(Pod, pod, uid, reason, message)

    async def _send(self, request: Callable[[], Awaitable[T]]) -> T:
        """Send a request within the limit, and only while we lead: the fence is checked last."""
        await self._bucket.take()
        if not self._fence.is_leader:
            raise Fenced
        return await in_time(request(), self._timeout)


def _group_of(reservation: Reservation) -> str:
    move = migration_of(reservation)
    return "" if move is None else move.group


def _differs(node: Node, annotations: dict[str, str | None]) -> bool:
    return any(node.metadata.annotations.get(name) != value for name, value in annotations.items())
