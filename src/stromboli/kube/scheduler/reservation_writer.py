"""Creates and deletes Reservations, and writes which node they have.

The scheduler's ledger counts a reservation from the moment it is decided. So its creation and deletion are reported to
the scheduler at once, and corrected if the server refuses. The node of a Reservation is written only for the version
that it was decided on: the controllers may have ended it meanwhile.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import msgspec
from msgspec.structs import replace

from stromboli.api import KObject, Reservation
from stromboli.cluster import Applied, ClusterEvent, Deleted, ReservationWriteFailed
from stromboli.kube.client import (
    RESERVATIONS,
    Client,
    Failure,
    TokenBucket,
    is_already_exists,
    is_not_found,
    object_and_status_patches,
)
from stromboli.kube.runtime import Fence, Log
from stromboli.scheduling.decisions import PatchReservation

from .lost_response import reread

_log = Log("reservations")


class ReservationWriter:
    def __init__(
        self,
        client: Client,
        *,
        fence: Fence,
        bucket: TokenBucket,
        report: Callable[[ClusterEvent], None],
        on_object: Callable[[KObject], None],
    ) -> None:
        """`report` gets events for the scheduler, `on_object` an object as the server returns it after a write."""
        self._client = client
        self._fence = fence
        self._bucket = bucket
        self._report = report
        self._on_object = on_object
        self._in_flight: set[asyncio.Task[None]] = set()
        self._last: dict[str, asyncio.Task[None]] = {}  # of those in flight, by the name of the reservation

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

    def write(self, patch: PatchReservation, reservation: Reservation) -> None:
        """Write the phase and the node of a Reservation."""

        async def write(reservation: Reservation) -> None:
            await self._write_status(patch, reservation)

        self._start(reservation, write)

    async def wait_idle(self) -> None:
        while self._in_flight:
            await asyncio.gather(*self._in_flight)

    async def cancel(self) -> None:
        tasks = list(self._in_flight)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _start(self, reservation: Reservation, work: Callable[[Reservation], Coroutine[Any, Any, None]]) -> None:
        """Writes for one reservation run in the order decided: it must not be created after its deletion."""
        name = reservation.metadata.name
        earlier = self._last.get(name)

        async def in_turn() -> None:
            if earlier is not None:
                await asyncio.wait([earlier])
            await work(reservation)

        def finished(task: asyncio.Task[None]) -> None:
            self._in_flight.discard(task)
            if self._last.get(name) is task:
                del self._last[name]

        task = self._last[name] = asyncio.create_task(in_turn())
        self._in_flight.add(task)
        task.add_done_callback(finished)

    async def _create(self, reservation: Reservation) -> None:
        name = reservation.metadata.name
        await self._bucket.take()
        if self._fence.is_leader:
            try:
                try:
                    await self._client.create(RESERVATIONS, reservation)
                except Failure as failure:
                    if not is_already_exists(failure):
                        raise
                status = {"status": msgspec.to_builtins(reservation.status)}
                written = await self._client.patch(RESERVATIONS, name, status, subresource="status")
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
                await self._client.delete(RESERVATIONS, name, uid=reservation.metadata.uid)
                return
            except Failure as failure:
                if is_not_found(failure):
                    return
                _log.warning("cannot delete a reservation", reservation=name, failure=failure.message)
        await self._report_actual(reservation)

    async def _write_status(self, patch: PatchReservation, reservation: Reservation) -> None:
        name, meta = patch.reservation, reservation.metadata
        changed = object_and_status_patches(reservation, patch.applied_to(reservation))[1]
        body = {**changed, "metadata": {"uid": meta.uid, "resourceVersion": meta.resource_version}}
        await self._bucket.take()
        if self._fence.is_leader:
            try:
                written = await self._client.patch(RESERVATIONS, name, body, subresource="status")
                self._on_object(written)
                return
            except Failure as failure:
                _log.warning("cannot write the status of a reservation", reservation=name, failure=failure.message)
        found = await reread(self._client, RESERVATIONS, name)
        self._report(Deleted(reservation) if found is None else Applied(found))
        self._report(ReservationWriteFailed(name))

    async def _report_actual(self, reported: Reservation) -> None:
        """Correct what was reported to the scheduler by what the server has."""
        found = await reread(self._client, RESERVATIONS, reported.metadata.name)
        self._report(Deleted(reported) if found is None else Applied(found))
