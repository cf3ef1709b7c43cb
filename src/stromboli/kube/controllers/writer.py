"""Carrying out what controllers ask for.

What one pass asks for is sorted into errands: all that concerns one Job, one Queue, or one group of plain pods.
Errands do not wait for each other; within one the order counts.

    1. the object itself, its group, its owned objects   one after the other; the first failure ends the errand
    2. its pods                                       side by side; new ones 1, 2, 4, … at a time, until one fails
    3. what is to be told, and the command obeyed     once the rest is true

So pods are not deleted before the status that says why is written, nor made before what they mount; a thousand pods
that a quota forbids cost one refusal; and a command that could not be obeyed is obeyed by the next pass.

Whatever is not done is not lost. Changes follow from objects, and the next pass asks for what is still to be done. For
the same reason a pass has a time: what has not been begun by then is better decided anew.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, TypeVar

import msgspec

from stromboli.api import ApiObject, Command, Job, KObject, Pod, PodGroup, Queue, group_name_of, key
from stromboli.controllers import (
    Change,
    Create,
    Delete,
    EnsureOwned,
    Notify,
    Objects,
    Update,
    controlling_reference,
    owner_reference_to,
    refers_to_job,
)
from stromboli.kube.client.client import Client
from stromboli.kube.client.errors import NOT_REACHED, Failure, is_already_there, is_conflict, is_not_found
from stromboli.kube.client.parallel import side_by_side
from stromboli.kube.client.patches import differences
from stromboli.kube.client.rate_limit import TokenBucket
from stromboli.kube.client.resources import (
    CONFIG_MAPS,
    NETWORK_POLICIES,
    POD_GROUPS,
    PODS,
    QUEUES,
    SECRETS,
    SERVICES,
    Resource,
)
from stromboli.kube.runtime.leader_election import Alone, Leadership
from stromboli.kube.runtime.logs import Log
from stromboli.kube.scheduler.retry_backoff import Setbacks

from .cache import kind_of
from .pod_templates import LIVE_JOBS, whole_pod

_log = Log("controllers")

T = TypeVar("T")

AT_ONCE: Final = 32  # requests on their way at a time
PATIENCE: Final = 1.0  # seconds after which nothing of a pass is begun any more

PERSISTENT_VOLUME_CLAIMS = Resource(ApiObject, "v1", "persistentvolumeclaims", namespaced=True, has_status=True)

_WRITTEN: Final[dict[type[KObject], Resource[Any]]] = {
    Job: LIVE_JOBS,
    Pod: PODS,
    PodGroup: POD_GROUPS,
    Queue: QUEUES,
}

_BELONGINGS: Final = {
    "ConfigMap": CONFIG_MAPS,
    "NetworkPolicy": NETWORK_POLICIES,
    "PersistentVolumeClaim": PERSISTENT_VOLUME_CLAIMS,
    "Secret": SECRETS,
    "Service": SERVICES,
}


class Teller(Protocol):
    def tell(
        self, kind: type[KObject], key: str, uid: str, reason: str, message: str, *, warning: bool = False
    ) -> None: ...


@dataclass(slots=True)
class Outcome:
    """What came of a pass's changes."""

    undone: list[Change] = field(default_factory=list)  # changes of objects that were not made
    obeyed: list[Command] = field(default_factory=list)  # commands whose consequences are written
    left: bool = False  # something was not even begun: the next pass need not wait for news


class _Ended(Exception):
    """An errand cannot go on."""


@dataclass(slots=True)
class _Errand:
    subject: str
    changes: list[Change] = field(default_factory=list)


class Changer:
    def __init__(
        self,
        client: Client,
        *,
        fence: Leadership | Alone,
        bucket: TokenBucket,
        teller: Teller,
        note: Callable[[KObject], None],
        leaves: Callable[[KObject], None],
        outcome: Callable[[str, str], None] = lambda kind, result: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`note` is told what a write returned, `leaves` what has been told to go, `outcome` how each write ended."""
        self.setbacks = Setbacks(clock)
        self._client = client
        self._fence = fence
        self._bucket = bucket
        self._teller = teller
        self._note = note
        self._leaves = leaves
        self._outcome = outcome
        self._clock = clock
        self._places = asyncio.Semaphore(AT_ONCE)
        self._stops_at = 0.0
        self._halted = False

    async def carry_out(self, changes: Sequence[Change], objects: Objects) -> Outcome:
        """`objects` is what the changes were decided on. Raises nothing: what failed is in the outcome, and logged."""
        outcome = Outcome()
        self._stops_at = self._clock() + PATIENCE
        self._halted = False

        async def run(errand: _Errand) -> None:
            await self._run(errand, objects, outcome)

        # In a thread: after a restart on a large cluster there may be changes by the ten thousand.
        await side_by_side(await asyncio.to_thread(_errands, changes), run, width=AT_ONCE)
        return outcome

    async def _run(self, errand: _Errand, objects: Objects, outcome: Outcome) -> None:
        first = [change for change in errand.changes if _comes_first(change)]
        pods = [change for change in errand.changes if _is_of_pod(change)]
        # A command has waited for its turn and is gone from the server: time is no reason to keep it waiting.
        ordered = any(isinstance(change.object, Command) for change in errand.changes)
        if self._halted or (not ordered and self._clock() > self._stops_at):
            outcome.left = True
            outcome.undone += first
            await asyncio.sleep(0)  # there may be many like this one, and others want the loop
            return
        for position, change in enumerate(first):
            try:
                await self._try(errand, change, objects)
            except _Ended:
                outcome.left = outcome.left or not self.setbacks.waits(_slot(errand, change))
                outcome.undone += first[position:]
                return
        self.setbacks.succeeded(_provision(errand))
        if not await self._do_pods(errand, pods, objects):
            outcome.left = True
        for change in errand.changes:
            if isinstance(change, Notify):
                self._tell(change.object, change.reason, change.message, warning=change.warning)
            elif isinstance(change.object, Command):
                outcome.obeyed.append(change.object)

    async def _do_pods(self, errand: _Errand, changes: list[Change], objects: Objects) -> bool:
        """Whether all were at least tried, as far as that made sense."""

        async def quietly(change: Change) -> bool:
            try:
                await self._try(errand, change, objects)
            except _Ended:
                return False
            return True

        await asyncio.gather(*(quietly(change) for change in changes if not isinstance(change, Create)))
        new = [change for change in changes if isinstance(change, Create)]
        width = 1
        while new:
            if self._halted or self._clock() > self._stops_at:
                return False
            wave, new = new[:width], new[width:]
            if not all(await asyncio.gather(*(quietly(change) for change in wave))):
                return True  # the rest waits for what failed
            width *= 2
        return True

    # -- one change ---------------------------------------------------------------------------------------------

    async def _try(self, errand: _Errand, change: Change, objects: Objects) -> None:
        slot = _slot(errand, change)
        if self.setbacks.waits(slot):
            raise _Ended
        try:
            await self._do(change, objects)
        except Failure as failure:
            self._outcome(_resource(change).plural, "failed")
            self._failed(change, slot, failure, objects)
            raise _Ended from None
        self._outcome(_resource(change).plural, "written")
        if not isinstance(change, EnsureOwned):  # one that can be had does not mean that all can
            self.setbacks.succeeded(slot)

    async def _do(self, change: Change, objects: Objects) -> None:
        match change:
            case Create():
                await self._create(change)
            case Update():
                await self._update(change.object, objects)
            case Delete():
                await self._delete(change.object)
            case EnsureOwned():
                await self._provide(change)

    async def _create(self, change: Create) -> None:
        obj = change.object
        body = whole_pod(obj, change.task) if isinstance(obj, Pod) else obj
        resource = _resource(change)
        try:
            self._note(await self._send(lambda: self._client.create(resource, body)))
        except Failure as failure:
            if not is_already_there(failure):
                raise
            # Somebody was first, or our own request got through before the connection broke.

    async def _update(self, obj: KObject, objects: Objects) -> None:
        resource = _WRITTEN[kind_of(obj)]
        before = objects.get(kind_of(obj), key(obj))
        assert before is not None, "what is changed was there when it was decided"
        version = before.metadata.resource_version
        for patch, subresource in zip(differences(before, obj), ("", "status"), strict=True):
            if patch:
                patch["metadata"] = {**patch.get("metadata", {}), "resourceVersion": version}
                written = await self._send(
                    lambda patch=patch, subresource=subresource: self._client.patch(  # type: ignore[misc]
                        resource, key(obj), patch, subresource=subresource
                    )
                )
                self._note(written)
                version = written.metadata.resource_version

    async def _delete(self, obj: KObject) -> None:
        resource = _WRITTEN[kind_of(obj)]
        propagation = "Background" if isinstance(obj, Job) else ""
        try:
            await self._send(
                lambda: self._client.delete(resource, key(obj), uid=obj.metadata.uid, propagation=propagation)
            )
        except Failure as failure:
            if not is_not_found(failure) and not is_conflict(failure):  # a conflict: another one has the name by now
                raise
        self._leaves(obj)

    async def _provide(self, change: EnsureOwned) -> None:
        job, owned = change.object, change.owned
        resource = _resource(change)
        content = owned.content()
        namespace = job.metadata.namespace
        metadata = {
            "name": owned.name,
            "namespace": namespace,
            "ownerReferences": [msgspec.to_builtins(owner_reference_to(job))],
        }
        document = {"apiVersion": owned.api_version, "kind": owned.kind, "metadata": metadata, **content}
        try:
            await self._send(lambda: self._client.create(resource, document))
            return
        except Failure as failure:
            if not is_already_there(failure):
                raise
        name = f"{namespace}/{owned.name}"
        present = await self._send(lambda: self._client.get(resource, name))
        if all(owner.uid != job.metadata.uid for owner in present.metadata.owner_references):
            raise Failure(
                409, f"there is a {owned.kind} {owned.name} that does not belong to the job", reason="Foreign"
            )
        if not owned.create_only:
            version = {"resourceVersion": present.metadata.resource_version}
            await self._send(lambda: self._client.patch(resource, name, {"metadata": version, **content}))

    async def _send(self, request: Callable[[], Awaitable[T]]) -> T:
        """In its turn, and only while we lead: the fence is asked last."""
        async with self._places:
            await self._bucket.take()
            if self._halted:
                raise _Ended
            if not self._fence.held:
                self._halted = True
                raise _Ended
            return await request()

    # -- failures -----------------------------------------------------------------------------------------------

    def _failed(self, change: Change, slot: tuple[str, str], failure: Failure, objects: Objects) -> None:
        obj = change.object
        if failure.status == NOT_REACHED:
            self._halted = True
        if isinstance(change, Update) and (is_conflict(failure) or is_not_found(failure)):
            return  # the news is on its way
        self.setbacks.failed(slot, failure)
        _log.warning(
            "a change could not be made",
            change=type(change).__name__,
            kind=obj.kind,
            object=key(obj),
            failure=failure.message,
        )
        if isinstance(change, Create | EnsureOwned):
            job = _job_of(obj, objects)
            if job is not None:
                what = change.owned.kind if isinstance(change, EnsureOwned) else obj.kind
                name = change.owned.name if isinstance(change, EnsureOwned) else obj.metadata.name
                said = f"{what} {name} could not be created: {failure.message}"
                self._tell(job, "FailedCreate", said, warning=True)

    def _tell(self, obj: KObject, reason: str, message: str, *, warning: bool) -> None:
        self._teller.tell(kind_of(obj), key(obj), obj.metadata.uid, reason, message, warning=warning)


def _resource(change: Change) -> Resource[Any]:
    """Where a change is written."""
    return _BELONGINGS[change.owned.kind] if isinstance(change, EnsureOwned) else _WRITTEN[kind_of(change.object)]


def _errands(changes: Sequence[Change]) -> list[_Errand]:
    """Sorted by what they are about; orders of commands first."""
    errands: dict[str, _Errand] = {}
    urgent: set[str] = set()
    for change in changes:
        subject = _subject(change)
        errands.setdefault(subject, _Errand(subject)).changes.append(change)
        if isinstance(change.object, Command):
            urgent.add(subject)
    return sorted(errands.values(), key=lambda errand: errand.subject not in urgent)


def _subject(change: Change) -> str:
    obj = change.object
    namespace = obj.metadata.namespace
    if isinstance(obj, Command):
        target = obj.target
        assert target is not None, "nobody obeys a command without a target"
        return f"Queue {target.name}" if target.kind == "Queue" else f"Job {namespace}/{target.name}"
    if isinstance(obj, Pod | PodGroup):
        reference = controlling_reference(obj.metadata)
        if reference is not None and refers_to_job(reference):
            return f"Job {namespace}/{reference.name}"
        group = group_name_of(obj) if isinstance(obj, Pod) else obj.metadata.name
        return f"PodGroup {namespace}/{group}"
    return f"{obj.kind} {key(obj)}"


def _slot(errand: _Errand, change: Change) -> tuple[str, str]:
    """What must wait when a change fails. Of new objects one stands for all: they fail for the same reason."""
    if isinstance(change, Create):
        return errand.subject, f"Create {change.object.kind}"
    if isinstance(change, EnsureOwned):
        return _provision(errand)
    return errand.subject, f"{type(change).__name__} {change.object.kind} {key(change.object)}"


def _provision(errand: _Errand) -> tuple[str, str]:
    return errand.subject, "EnsureOwned"


def _comes_first(change: Change) -> bool:
    return not isinstance(change, Notify) and not isinstance(change.object, Pod | Command)


def _is_of_pod(change: Change) -> bool:
    return not isinstance(change, Notify) and isinstance(change.object, Pod)


def _job_of(obj: KObject, objects: Objects) -> Job | None:
    if isinstance(obj, Job):
        return obj
    reference = controlling_reference(obj.metadata)
    if reference is None or not refers_to_job(reference):
        return None
    return objects.get(Job, f"{obj.metadata.namespace}/{reference.name}")
