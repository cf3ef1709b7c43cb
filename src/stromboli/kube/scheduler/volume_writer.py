"""Writes what the scheduler decides about claims and volumes: selected nodes, and which claim a volume is for.

A volume is claimed only in the version that the decision is based on, so two schedulers cannot give it to two claims. A
write that fails is reported like a bind that failed: the pod, and those that were placed with it, give their places
back and are placed again. If only the response was lost, the watch shows what was written, and the next attempt
continues there.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any, Final

import msgspec

from stromboli.api import KObject, ObjectReference, PersistentVolume, PersistentVolumeClaim, names
from stromboli.cluster import BindFailed, EvictFailed
from stromboli.containment import ObjectRef
from stromboli.kube.client import (
    NO_RESPONSE,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    Client,
    Failure,
    Resource,
    TokenBucket,
)
from stromboli.kube.runtime import REQUEST_TIMEOUT, Fence, Log, in_time
from stromboli.scheduling.decisions import ClaimVolume, SelectNode, UnclaimVolume, UnselectNode, VolumeDecision

_log = Log("volumes")

CONCURRENCY: Final = 32  # requests in flight


class VolumeWriter:
    def __init__(
        self,
        client: Client,
        *,
        fence: Fence,
        bucket: TokenBucket,
        report: Callable[[BindFailed | EvictFailed, str], None],
        on_object: Callable[[KObject], None],
        contain: Callable[[Exception, ObjectRef], None],
        wall_clock: Callable[[], float] = time.time,
        timeout: float = REQUEST_TIMEOUT,
    ) -> None:
        """`report` gets failures, for the scheduler, with the uid of the pod; `on_object` an object as the server
        returns it after a write; `contain` is told of errors in our code."""
        self._client = client
        self._fence = fence
        self._bucket = bucket
        self._report = report
        self._on_object = on_object
        self._contain = contain
        self._wall_clock = wall_clock
        self._timeout = timeout
        self._slots = asyncio.Semaphore(CONCURRENCY)
        self._in_flight: set[asyncio.Task[None]] = set()

    def write(self, decision: VolumeDecision, target: KObject) -> None:
        """`target`: the claim or the volume that is changed."""
        task = asyncio.create_task(self._write_contained(decision, target))
        self._in_flight.add(task)
        task.add_done_callback(self._in_flight.discard)

    async def wait_idle(self) -> None:
        while self._in_flight:
            await asyncio.gather(*self._in_flight)

    async def cancel(self) -> None:
        tasks = list(self._in_flight)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _write_contained(self, decision: VolumeDecision, target: KObject) -> None:
        try:
            await self._write(decision, target)
        except Exception as error:
            self._contain(error, ObjectRef(target.kind, _key_of(decision)))
            self._failed(decision, "", refused=False)

    async def _write(self, decision: VolumeDecision, target: KObject) -> None:
        async with self._slots:
            await self._bucket.take()
            if not self._fence.is_leader:
                self._failed(decision, "another scheduler has the lease now", refused=False)
                return
            resource, key, patch = request_of(decision, target)
            try:
                written = await in_time(self._client.patch(resource, key, patch), self._timeout)
            except Failure as failure:
                _log.warning("cannot write", object=f"{resource.plural}/{key}", failure=failure.message)
                self._failed(decision, failure.message, refused=failure.status != NO_RESPONSE)
                return
            self._on_object(written)

    def _failed(self, decision: VolumeDecision, why: str, *, refused: bool) -> None:
        match decision:
            case SelectNode() | ClaimVolume():
                event = BindFailed(decision.task)
                if refused:
                    event = BindFailed(decision.task, decision.node, why, self._wall_clock(), by_volumes=True)
                self._report(event, decision.pod_uid)
            case _:
                pass  # the objects show it: a claim that is bound after all, or a selection that becomes too old


def _key_of(decision: VolumeDecision) -> str:
    return decision.claim if isinstance(decision, SelectNode | UnselectNode) else decision.volume


def request_of(decision: VolumeDecision, target: KObject) -> tuple[Resource[Any], str, dict[str, Any]]:
    """The resource, the key and the merge patch of a decision."""
    meta: dict[str, Any] = {"uid": target.metadata.uid}
    match decision:
        case SelectNode():
            assert isinstance(target, PersistentVolumeClaim)
            meta["annotations"] = {names.SELECTED_NODE: decision.node, names.SELECTED_AT: decision.at}
            return PERSISTENT_VOLUME_CLAIMS, decision.claim, {"metadata": meta}
        case UnselectNode():
            assert isinstance(target, PersistentVolumeClaim)
            meta["resourceVersion"] = target.metadata.resource_version
            meta["annotations"] = {names.SELECTED_NODE: None, names.SELECTED_AT: None}
            return PERSISTENT_VOLUME_CLAIMS, decision.claim, {"metadata": meta}
        case ClaimVolume():
            assert isinstance(target, PersistentVolume)
            meta["resourceVersion"] = target.metadata.resource_version
            meta["annotations"] = {names.BOUND_BY_CONTROLLER: "yes"}
            namespace, _, name = decision.claim.partition("/")
            ref = ObjectReference(
                api_version="v1", kind="PersistentVolumeClaim", namespace=namespace, name=name, uid=decision.claim_uid
            )
            return PERSISTENT_VOLUMES, decision.volume, {
                "metadata": meta, "spec": {"claimRef": msgspec.to_builtins(ref)}
            }  # fmt: skip
        case UnclaimVolume():
            assert isinstance(target, PersistentVolume)
            meta["resourceVersion"] = target.metadata.resource_version
            meta["annotations"] = {names.BOUND_BY_CONTROLLER: None}
            return PERSISTENT_VOLUMES, decision.volume, {"metadata": meta, "spec": {"claimRef": None}}
