"""Writes the changes that the controllers ask for.

The changes of a pass are grouped into batches (change_batches.py). Batches do not wait for each other; within a batch
the order counts:

    1. the object itself, its group, and other objects it needs   one after the other; a failure ends the batch
    2. its pods                                                   concurrently; new ones 1, 2, 4, … at a time
    3. events, and the Command is done                            once the rest is written

So pods are not deleted before the status that says why is written, nor created before what they mount; a thousand pods
that a quota forbids cost one refusal; and a Command that could not be executed is executed by the next pass.

A change that was not written is not lost. Changes follow from objects, and the next pass asks for what is still to be
done. For the same reason a pass has a deadline: what was not started by then is better decided again.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, TypeVar

import msgspec

from stromboli.api import (
    Command,
    CronJob,
    HyperNode,
    Job,
    JobFlow,
    JobTemplate,
    KObject,
    Pod,
    PodGroup,
    Queue,
    Reservation,
    key,
)
from stromboli.controllers import Change, Create, Delete, EnsureOwned, Notify, Objects, Update
from stromboli.controllers.pod_owners import controlling_reference, owner_reference_to
from stromboli.kube.client import (
    CONFIG_MAPS,
    HYPER_NODES,
    JOB_FLOWS,
    NETWORK_POLICIES,
    NO_RESPONSE,
    PERSISTENT_VOLUME_CLAIMS,
    POD_GROUPS,
    PODS,
    QUEUES,
    RESERVATIONS,
    SECRETS,
    SERVICES,
    Client,
    Failure,
    ItemBackoff,
    Resource,
    TokenBucket,
    for_each_concurrently,
    is_already_exists,
    is_conflict,
    is_not_found,
    object_and_status_patches,
)
from stromboli.kube.runtime import REQUEST_TIMEOUT, Fence, LimitedLog, Log, in_time

from .cache import kind_of
from .change_batches import BackoffKey, Batch, batches, reported_owner
from .pod_templates import LIVE_CRON_JOBS, LIVE_JOB_TEMPLATES, LIVE_JOBS, complete

_log = Log("controllers")

T = TypeVar("T")

CONCURRENCY: Final = 32  # requests in flight
REPORTED_PODS: Final = 10  # how many pods of a batch get an event about one failure
PASS_TIMEOUT: Final = 1.0  # seconds after which no more changes of a pass are started

_RESOURCES: Final[dict[type[KObject], Resource[Any]]] = {
    CronJob: LIVE_CRON_JOBS,
    JobFlow: JOB_FLOWS,
    JobTemplate: LIVE_JOB_TEMPLATES,
    HyperNode: HYPER_NODES,
    Job: LIVE_JOBS,
    Pod: PODS,
    PodGroup: POD_GROUPS,
    Queue: QUEUES,
    Reservation: RESERVATIONS,
}

_PROVIDED: Final[dict[str, Resource[Any]]] = {
    "ConfigMap": CONFIG_MAPS,
    "NetworkPolicy": NETWORK_POLICIES,
    "PersistentVolumeClaim": PERSISTENT_VOLUME_CLAIMS,
    "Secret": SECRETS,
    "Service": SERVICES,
}


class EventSink(Protocol):
    def record(
        self, kind: type[KObject], key: str, uid: str, reason: str, message: str, *, warning: bool = False
    ) -> None: ...


@dataclass(slots=True)
class Outcome:
    """The result of writing the changes of a pass."""

    undone: list[Change] = field(default_factory=list)  # changes of objects that were not written
    executed: list[Command] = field(default_factory=list)  # commands whose changes are written
    failed_writes: list[tuple[Job, str]] = field(default_factory=list)  # objects that Jobs own, and why they failed
    incomplete: bool = False  # some changes were not started: the next pass should not wait for an event


class _BatchAborted(Exception):
    """The rest of the batch cannot be written now. `error` is for the user, if there is something to do about it."""

    def __init__(self, error: str = "") -> None:
        self.error = error


class ChangeWriter:
    def __init__(
        self,
        client: Client,
        *,
        fence: Fence,
        bucket: TokenBucket,
        events: EventSink,
        on_object: Callable[[KObject], None],
        on_deleted: Callable[[KObject], None],
        on_result: Callable[[str, str], None] = lambda kind, result: None,
        clock: Callable[[], float] = time.monotonic,
        timeout: float = REQUEST_TIMEOUT,
    ) -> None:
        """`on_object` gets the object that a write returned, `on_deleted` an object that was deleted, `on_result` the
        kind and the result of each write."""
        self.backoff = ItemBackoff(clock, random=client.random)
        self._client = client
        self._fence = fence
        self._bucket = bucket
        self._events = events
        self._on_object = on_object
        self._on_deleted = on_deleted
        self._on_result = on_result
        self._clock = clock
        self._timeout = timeout
        self._slots = asyncio.Semaphore(CONCURRENCY)
        self._deadline = 0.0
        self._halted = False
        self._log = LimitedLog(_log, clock)

    async def write(self, changes: Sequence[Change], objects: Objects) -> Outcome:
        """`objects` is what the changes were decided on. Raises nothing: failures are logged and in the outcome."""
        outcome = Outcome()
        self._deadline = self._clock() + PASS_TIMEOUT
        self._halted = False

        async def run(batch: Batch) -> None:
            await self._run(batch, objects, outcome)

        # In a thread: after a restart on a large cluster there may be tens of thousands of changes.
        await for_each_concurrently(await asyncio.to_thread(batches, changes), run, limit=CONCURRENCY)
        return outcome

    async def _run(self, batch: Batch, objects: Objects, outcome: Outcome) -> None:
        first = batch.object_changes
        # A claimed Command is deleted on the server already, so it is executed even after the deadline.
        if self._halted or (not batch.has_command and self._clock() > self._deadline):
            outcome.incomplete = True
            outcome.undone += first
            await asyncio.sleep(0)  # there may be many such batches, and other tasks need the loop
            return
        for position, change in enumerate(first):
            try:
                await self._attempt(batch, change, objects)
            except _BatchAborted as aborted:
                if isinstance(change.object, PodGroup) and aborted.error:
                    self._report_missing_group(batch, aborted.error)
                if isinstance(change, EnsureOwned) and aborted.error:
                    outcome.failed_writes.append((change.object, aborted.error))
                outcome.incomplete = outcome.incomplete or not self.backoff.is_waiting(batch.backoff_key(change))
                outcome.undone += first[position:]
                return
        self.backoff.succeeded(batch.provide_key)
        if not await self._write_pods(batch, objects):
            outcome.incomplete = True
        for change in batch.changes:
            if isinstance(change, Notify):
                self._record(change.object, change.reason, change.message, warning=change.warning)
            elif isinstance(change.object, Command):
                outcome.executed.append(change.object)

    async def _write_pods(self, batch: Batch, objects: Objects) -> bool:
        """False if the pass ended before all pods were tried. After a failed creation the rest is not tried."""
        changes = batch.pod_changes

        async def succeeds(change: Change) -> bool:
            try:
                await self._attempt(batch, change, objects)
            except _BatchAborted:
                return False
            return True

        await asyncio.gather(*(succeeds(change) for change in changes if not isinstance(change, Create)))
        new = [change for change in changes if isinstance(change, Create)]
        wave_size = 1
        while new:
            if self._halted or self._clock() > self._deadline:
                return False
            wave, new = new[:wave_size], new[wave_size:]
            if not all(await asyncio.gather(*(succeeds(change) for change in wave))):
                return True  # the rest waits with the one that failed
            wave_size *= 2
        return True

    # -- one change ---------------------------------------------------------------------------------------------

    async def _attempt(self, batch: Batch, change: Change, objects: Objects) -> None:
        backoff_key = batch.backoff_key(change)
        if self.backoff.is_waiting(backoff_key):
            raise _BatchAborted
        try:
            await self._write_change(change, objects)
        except Failure as failure:
            self._on_result(_resource(change).plural, "failed")
            self._failed(change, backoff_key, failure, objects)
            raise _BatchAborted(_error(change, failure)) from None
        self._on_result(_resource(change).plural, "written")
        if not isinstance(change, EnsureOwned):  # the next one may still fail
            self.backoff.succeeded(backoff_key)

    async def _write_change(self, change: Change, objects: Objects) -> None:
        match change:
            case Create():
                await self._create(change, objects)
            case Update():
                await self._update(change.object, objects)
            case Delete():
                await self._delete(change.object)
            case EnsureOwned():
                await self._provide(change)

    async def _create(self, change: Create, objects: Objects) -> None:
        obj = change.object
        body = complete(obj, change.source)
        resource = _resource(change)
        try:
            self._on_object(await self._send(lambda: self._client.create(resource, body)))
        except Failure as failure:
            if not is_already_exists(failure):
                raise
            if _has_other_owner(obj, objects):
                message = f"there is a {obj.kind} of that name that belongs to another object"
                raise Failure(409, message, reason="Foreign") from None
            # Somebody else created it, or our own request succeeded and its response was lost.

    async def _update(self, obj: KObject, objects: Objects) -> None:
        resource = _RESOURCES[kind_of(obj)]
        before = objects.get(kind_of(obj), key(obj))
        assert before is not None, "an updated object existed when the update was decided"
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

    async def _delete(self, obj: KObject) -> None:
        resource = _RESOURCES[kind_of(obj)]
        propagation = "Background" if isinstance(obj, Job) else ""
        try:
            await self._send(
                lambda: self._client.delete(resource, key(obj), uid=obj.metadata.uid, propagation=propagation)
            )
        except Failure as failure:
            if not is_not_found(failure) and not (is_conflict(failure) and await self._is_replaced(obj)):
                raise
        self._on_deleted(obj)

    async def _is_replaced(self, obj: KObject) -> bool:
        """Whether the object is gone and another one may have its name; a conflict can have other causes."""
        try:
            present = await self._send(lambda: self._client.get(_RESOURCES[kind_of(obj)], key(obj)))
        except Failure as failure:
            if is_not_found(failure):
                return True
            raise
        return bool(present.metadata.uid != obj.metadata.uid)

    async def _provide(self, change: EnsureOwned) -> None:
        job, belonging = change.object, change.owned
        resource = _resource(change)
        content = belonging.content()
        namespace = job.metadata.namespace
        metadata = {
            "name": belonging.name,
            "namespace": namespace,
            "ownerReferences": [msgspec.to_builtins(owner_reference_to(job))],
        }
        document = {"apiVersion": belonging.api_version, "kind": belonging.kind, "metadata": metadata, **content}
        try:
            await self._send(lambda: self._client.create(resource, document))
            return
        except Failure as failure:
            if not is_already_exists(failure):
                raise
        if belonging.unread:
            return
        name = f"{namespace}/{belonging.name}"
        present = await self._send(lambda: self._client.get(resource, name))
        if all(owner.uid != job.metadata.uid for owner in present.metadata.owner_references):
            raise Failure(
                409, f"there is a {belonging.kind} {belonging.name} that does not belong to the job", reason="Foreign"
            )
        if not belonging.create_only:
            version = {"resourceVersion": present.metadata.resource_version}
            await self._send(lambda: self._client.patch(resource, name, {"metadata": version, **content}))

    async def _send(self, request: Callable[[], Awaitable[T]]) -> T:
        """Send a request within the limits, and only while we lead: the fence is checked last."""
        async with self._slots:
            await self._bucket.take()
            if self._halted:
                raise _BatchAborted
            if not self._fence.is_leader:
                self._halted = True
                raise _BatchAborted
            return await in_time(request(), self._timeout)

    # -- failures -----------------------------------------------------------------------------------------------

    def _failed(self, change: Change, backoff_key: BackoffKey, failure: Failure, objects: Objects) -> None:
        obj = change.object
        if failure.status == NO_RESPONSE:
            self._halted = True
        if isinstance(change, Update) and (is_conflict(failure) or is_not_found(failure)):
            return  # the watch will show what changed
        self.backoff.failed(backoff_key, failure)
        self._log.warning(
            "cannot write a change",
            obj.metadata.namespace,
            change=type(change).__name__,
            kind=obj.kind,
            object=key(obj),
            failure=failure.message,
        )
        if isinstance(change, Create | EnsureOwned):
            owner = reported_owner(obj, objects)
            if owner is not None:
                what = change.owned.kind if isinstance(change, EnsureOwned) else obj.kind
                name = change.owned.name if isinstance(change, EnsureOwned) else obj.metadata.name
                message = f"{what} {name} could not be created: {failure.message}"
                self._record(owner, "FailedCreate", message, warning=True)

    def _report_missing_group(self, batch: Batch, error: str) -> None:
        """A plain pod has no owner of ours that could say why it gets no group."""
        for change in batch.pod_changes[:REPORTED_PODS]:
            self._record(change.object, "FailedCreate", error, warning=True)

    def _record(self, obj: KObject, reason: str, message: str, *, warning: bool) -> None:
        self._events.record(kind_of(obj), key(obj), obj.metadata.uid, reason, message, warning=warning)


def _has_other_owner(obj: KObject, objects: Objects) -> bool:
    """Whether the name of a new object is taken, and not only until a predecessor is gone: the pods of task c in Job
    a-b have the names of those of task b-c in Job a."""
    present, wanted = objects.get(kind_of(obj), key(obj)), controlling_reference(obj.metadata)
    if present is None or wanted is None or present.metadata.deletion_timestamp is not None:
        return False
    return all(owner.uid != wanted.uid for owner in present.metadata.owner_references)


def _error(change: Change, failure: Failure) -> str:
    """What to say about an object that the server refuses to create; "" for failures that pass."""
    if not 400 <= failure.status < 500 or failure.status == 429:
        return ""
    if isinstance(change, Create):
        return f"{change.object.kind} {change.object.metadata.name} could not be created: {failure.message}"
    if not isinstance(change, EnsureOwned):
        return ""
    error = f"{change.owned.kind} {change.owned.name} could not be created: {failure.message}"
    # Quotas are a reason for 403 as well; only a missing permission is about what somebody "cannot" do.
    if failure.status == 403 and " cannot " in failure.message and change.owned.kind != "PersistentVolumeClaim":
        error += "; the plugins of Jobs need the permissions of deploy/components/job-plugins"
    return error


def _resource(change: Change) -> Resource[Any]:
    """The resource that a change is written to."""
    return _PROVIDED[change.owned.kind] if isinstance(change, EnsureOwned) else _RESOURCES[kind_of(change.object)]
