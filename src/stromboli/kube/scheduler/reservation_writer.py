"""Creates and deletes Reservations, and writes which node they have.

The scheduler's ledger counts a reservation from the moment it is decided. So its creation and deletion are reported to
the scheduler at once, and corrected if the server refuses. The node of a Reservation is written only for the version
that it was decided on: the controllers may have ended it meanwhile.

A pod is listed among the users of a Reservation before it is bound, and removed from the list of one that it does not
use. The controllers write other parts of the same status, so the list is changed in the newest version, as often as
that takes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from stromboli.api import KObject, ObjectReference, Reservation
from stromboli.api.reservations import AVAILABLE, is_user, with_users, without_users
from stromboli.cluster import Applied, ClusterEvent, Deleted, ReservationWriteFailed
from stromboli.containment import ObjectRef
from stromboli.kube.client import (
    PODS,
    RESERVATIONS,
    Client,
    Failure,
    TokenBucket,
    is_already_exists,
    is_conflict,
    is_not_found,
    object_and_status_patches,
)
from stromboli.kube.runtime import REQUEST_TIMEOUT, Fence, Log, in_time
from stromboli.scheduling.decisions import DropUsers, PatchReservation

from .responses.lost_response import reread

_log = Log("reservations")

ATTEMPTS: Final = 5  # to change a list of users that others write beside


class ReservationWriter:
    def __init__(
        self,
        client: Client,
        *,
        fence: Fence,
        bucket: TokenBucket,
        report: Callable[[ClusterEvent], None],
        on_object: Callable[[KObject], None],
        cached: Callable[[str], Reservation | None],
        contain: Callable[[Exception, ObjectRef], None],
        timeout: float = REQUEST_TIMEOUT,
    ) -> None:
        """`report` gets events for the scheduler, `on_object` an object as the server returns it after a write;
        `cached` returns a Reservation as the watch has shown it; `contain` is told of errors in our code."""
        self._client = client
        self._fence = fence
        self._bucket = bucket
        self._report = report
        self._on_object = on_object
        self._cached = cached
        self._contain = contain
        self._timeout = timeout
        self._in_flight: set[asyncio.Task[bool]] = set()
        self._last: dict[str, asyncio.Task[bool]] = {}  # of those in flight, by the name of the reservation

    def create(self, reservation: Reservation) -> None:
        # A cluster-scoped object cannot have an owner in a namespace: the garbage collector of Kubernetes would not
        # find the owner and delete the object. So the reservation names its pod, and the scheduler deletes it when the
        # pod is gone.
        ownerless = replace(reservation, metadata=replace(reservation.metadata, owner_references=[]))
        self._report(Applied(ownerless))
        self._start(ownerless, self._create)

    def delete(self, reservation: Reservation) -> None:
        self._report(Deleted(reservation))
        self._start(reservation, self._delete)

    def write(
        self, patch: PatchReservation, reservation: Reservation, *, after: Iterable[asyncio.Task[bool]] = ()
    ) -> asyncio.Task[bool]:
        """Write the phase and the node of a Reservation, if what comes before that was written. Whether it was, or need
        not be: it holds nothing there any more."""
        first = list(after)

        async def write() -> bool:
            return await self._write_status(patch, reservation, first)

        return self._in_turn(reservation.metadata.name, write)

    def list_users(self, name: str, uid: str, node: str, users: Sequence[ObjectReference]) -> asyncio.Task[bool]:
        """List pods that are about to be bound to a node. Whether they may be bound now."""

        async def listed(present: Reservation) -> Reservation:
            return with_users(present, node, users)

        return self._change_users(name, uid, listed)

    def drop_users(self, drop: DropUsers) -> asyncio.Task[bool]:
        """Remove pods from a list. Whether they may be bound elsewhere now."""

        async def dropped(present: Reservation) -> Reservation:
            gone = {user.uid for user in drop.pods}
            for user in drop.unseen:
                if not is_user(await reread(self._client, PODS, f"{user.namespace}/{user.name}"), user):
                    gone.add(user.uid)
            return without_users(present, gone)

        return self._change_users(drop.reservation, drop.uid, dropped)

    def _change_users(
        self, name: str, uid: str, change: Callable[[Reservation], Awaitable[Reservation]]
    ) -> asyncio.Task[bool]:
        async def write() -> bool:
            return await self._write_users(name, uid, change)

        return self._in_turn(name, write)

    async def wait_idle(self) -> None:
        while self._in_flight:
            await asyncio.gather(*self._in_flight)

    async def cancel(self) -> None:
        tasks = list(self._in_flight)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _start(self, reservation: Reservation, work: Callable[[Reservation], Coroutine[Any, Any, None]]) -> None:
        async def write() -> bool:
            await work(reservation)
            return True

        self._in_turn(reservation.metadata.name, write)

    def _in_turn(self, name: str, work: Callable[[], Coroutine[Any, Any, bool]]) -> asyncio.Task[bool]:
        """Writes for one reservation run in the order decided: it must not be created after its deletion."""
        earlier = self._last.get(name)

        async def in_turn() -> bool:
            if earlier is not None:
                await asyncio.wait([earlier])
            try:
                return await work()
            except Exception as error:
                self._contain(error, ObjectRef("Reservation", name))
                self._report(ReservationWriteFailed(name))
                return False

        def finished(task: asyncio.Task[bool]) -> None:
            self._in_flight.discard(task)
            if self._last.get(name) is task:
                del self._last[name]

        task = self._last[name] = asyncio.create_task(in_turn())
        self._in_flight.add(task)
        task.add_done_callback(finished)
        return task

    async def _create(self, reservation: Reservation) -> None:
        name = reservation.metadata.name
        await self._bucket.take()
        if self._fence.is_leader:
            try:
                try:
                    await in_time(self._client.create(RESERVATIONS, reservation), self._timeout)
                except Failure as failure:
                    if not is_already_exists(failure):
                        raise
                status = {"status": msgspec.to_builtins(reservation.status)}
                written = await self._patch(name, status)
                self._on_object(written)
                return
            except Failure as failure:
                _log.warning("cannot create a reservation", reservation=name, failure=failure.message)
        await self._report_actual(reservation)

    async def _delete(self, reservation: Reservation) -> None:
        name = reservation.metadata.name
        await self._bucket.take()
        if self._fence.is_leader:
            try:
                await in_time(self._client.delete(RESERVATIONS, name, uid=reservation.metadata.uid), self._timeout)
                return
            except Failure as failure:
                if is_not_found(failure):
                    return
                _log.warning("cannot delete a reservation", reservation=name, failure=failure.message)
        await self._report_actual(reservation)

    async def _write_status(
        self, patch: PatchReservation, reservation: Reservation, first: Sequence[asyncio.Task[bool]]
    ) -> bool:
        name, meta = patch.reservation, reservation.metadata
        changed = object_and_status_patches(reservation, patch.applied_to(reservation))[1]
        body = {**changed, "metadata": {"uid": meta.uid, "resourceVersion": meta.resource_version}}
        may_write = all(await asyncio.gather(*first))
        await self._bucket.take()
        if may_write and self._fence.is_leader:
            try:
                written = await self._patch(name, body)
                self._on_object(written)
                return True
            except Failure as failure:
                _log.warning("cannot write the status of a reservation", reservation=name, failure=failure.message)
        found = await reread(self._client, RESERVATIONS, name)
        self._report(Deleted(reservation) if found is None else Applied(found))
        self._report(ReservationWriteFailed(name))
        place = (meta.uid, AVAILABLE, reservation.status.node_name)
        return found is None or (found.metadata.uid, found.status.phase, found.status.node_name) != place

    async def _write_users(self, name: str, uid: str, change: Callable[[Reservation], Awaitable[Reservation]]) -> bool:
        present = self._cached(name)
        for _ in range(ATTEMPTS):
            if present is None or present.metadata.uid != uid:
                return True  # it is gone, and holds nothing
            changed = await change(present)
            if changed is present:
                return True
            users = msgspec.to_builtins(changed.status.current_owners)
            body = {
                "metadata": {"uid": uid, "resourceVersion": present.metadata.resource_version},
                "status": {"currentOwners": users},
            }
            await self._bucket.take()
            if not self._fence.is_leader:
                return False
            try:
                written = await self._patch(name, body)
                self._on_object(written)
                return True
            except Failure as failure:
                if not is_conflict(failure) and not is_not_found(failure):
                    _log.warning("cannot write the users of a reservation", reservation=name, failure=failure.message)
                    return False
            present = await reread(self._client, RESERVATIONS, name)
        return False

    async def _patch(self, name: str, body: Mapping[str, Any]) -> Reservation:
        return await in_time(self._client.patch(RESERVATIONS, name, body, subresource="status"), self._timeout)

    async def _report_actual(self, reported: Reservation) -> None:
        """Correct what was reported to the scheduler by what the server has."""
        found = await reread(self._client, RESERVATIONS, reported.metadata.name)
        self._report(Deleted(reported) if found is None else Applied(found))
