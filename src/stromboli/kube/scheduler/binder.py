"""Sends binds and evictions to the API server.

The binds of a gang are next to each other in the queue and a few dozen workers take from its head, so a gang is bound
together, over connections that stay open. Before every request the worker checks the fence: a scheduler that lost its
lease, or was suspended past its end, must not send what it decided while it was the leader.

Results are cluster events. A bind that did not happen is `BindFailed`: the task is pending again, and a later cycle
retries it (`scheduling.bind_backoff` says when and where, if the server refused). A refused eviction is `EvictFailed`.
A request that the server accepted needs no event, because the watch shows the pod. If the response was lost, nobody
knows whether the server acted, so the pod is read until the server answers: sending the request again could bind
another pod of that name, and giving up could place two pods in the same room. For the same reason the pod is read twice
before the bind counts as failed: the server may still be working on a request whose response nobody waits for.

A pod whose bind was refused is most likely refused again. Its next attempts come when all other binds are answered, few
at a time: hundreds of such pods would otherwise keep the server from everybody else's binds.

The next cycle would choose the same victims, and the server would refuse their evictions again. So a refused eviction
is retried with backoff, and until then the scheduler gets the `EvictFailed` that the server would have caused.

The client retries requests that the server puts off, without checking the fence again. So a request has a timeout
that is shorter than the time between the end of the fence and the end of the lease.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Final, Protocol

from stromboli.api import Pod, names
from stromboli.cluster import BindFailed, EvictFailed, TaskKey
from stromboli.containment import ObjectRef
from stromboli.kube.client import (
    NO_RESPONSE,
    PODS,
    Client,
    Failure,
    FairQueue,
    ItemBackoff,
    TokenBucket,
    is_conflict,
    is_not_found,
    namespace_of,
)
from stromboli.kube.runtime import REQUEST_TIMEOUT, Fence, Log, in_time

from .responses.lost_response import reread
from .responses.server_errors import ServerErrors

_log = Log("binder")

WORKERS: Final = 32
RETRYING_WORKERS: Final = 2  # that may send binds of pods that were refused before, if no other request is outstanding
CROWD: Final = 8  # outstanding requests, after which more are likely to come
QUIET: Final = 0.5  # seconds after a crowd, until the binder is no longer busy
MAX_EVICTION_DELAY: Final = 15.0  # seconds until a refused eviction is retried: budgets change
# Webhooks are called before anything is written, so this is a refusal, although the status is 500. While a webhook is
# down, every bind in its namespaces ends so, and to read each pod twice would keep the workers from all other binds.
WEBHOOK_FAILED: Final = "Internal error occurred: failed calling webhook"
LATE_WRITE: Final = 1.0  # seconds in which a server may still act on a request that timed out


@dataclass(frozen=True, slots=True)
class BindRequest:
    task: TaskKey
    uid: str
    node: str
    backfill: bool = False
    mark_lent: bool = False  # the status of the pod says something else about that, and has to be written first
    annotations: Mapping[str, str] = field(default_factory=dict)  # written to the pod together with the bind


@dataclass(frozen=True, slots=True)
class EvictRequest:
    task: TaskKey
    uid: str
    node: str
    reason: str
    message: str


Request = BindRequest | EvictRequest
ReportFailure = Callable[[BindFailed | EvictFailed, str], None]


class OutcomeListener(Protocol):
    """Gets the outcome of every request."""

    def bound(self, request: BindRequest, seconds: float) -> None: ...

    def bind_failed(self, request: BindRequest, why: str) -> None: ...

    def evicted(self, request: EvictRequest) -> None: ...

    def evict_failed(self, request: EvictRequest, why: str) -> None: ...


class Binder:
    def __init__(
        self,
        client: Client,
        *,
        fence: Fence,
        binds: TokenBucket,
        evictions: TokenBucket,
        report: ReportFailure,
        listener: OutcomeListener,
        cached_pod: Callable[[TaskKey], Pod | None],
        contain: Callable[[Exception, ObjectRef], None],
        wall_clock: Callable[[], float] = time.time,
        timeout: float = REQUEST_TIMEOUT,
        workers: int = WORKERS,
    ) -> None:
        """`report` gets failures, for the scheduler, with the uid of the pod; `cached_pod` returns the pod of that name
        as the watch has shown it; `contain` is told of errors in our code; `wall_clock` is the time that cycles go
        by."""
        self._client = client
        self._fence = fence
        self._buckets = {BindRequest: binds, EvictRequest: evictions}
        self._report = report
        self._listener = listener
        self._cached_pod = cached_pod
        self._contain = contain
        self._wall_clock = wall_clock
        self._timeout = timeout
        self._workers = workers
        self._queue: FairQueue[Request] = FairQueue()
        self._retries: FairQueue[Request] = FairQueue()  # binds of pods that were refused before
        self._in_flight = 0  # of both
        self._retrying = 0
        # What was written into the status of pods before binds that may have failed; the watch may not show it yet.
        self._marked: dict[TaskKey, tuple[str, bool]] = {}
        self._expected = 0  # requests that something else is written before
        self._refused: dict[TaskKey, str] = {}  # pods whose last bind was refused, with their uids
        self._clock = asyncio.get_running_loop().time
        # By the uid of the pod.
        self._eviction_backoff = ItemBackoff(self._clock, max_delay=MAX_EVICTION_DELAY, random=client.random)
        self._last_crowd = self._clock() - QUIET
        self._server_errors = ServerErrors()
        self._accepted: dict[TaskKey, Request] = {}  # by the server; the watch may not have shown the result yet
        self._work = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()

    @property
    def outstanding(self) -> int:
        return self._expected + len(self._queue) + len(self._retries) + self._in_flight

    @property
    def _first_attempts(self) -> int:
        """Those outstanding requests that others wait for."""
        return len(self._queue) + self._in_flight - self._retrying

    @property
    def busy(self) -> bool:
        """Whether requests are outstanding, or many were a moment ago: less important writes should wait. A few binds
        now and then do not hold them up in between, or with a steady trickle they would never be sent."""
        return self._first_attempts > 0 or self._clock() - self._last_crowd < QUIET

    def submit(self, requests: list[Request]) -> None:
        self._drop_observed()
        self._eviction_backoff.prune()
        if requests:
            for request in requests:
                retried = self._refused.get(request.task) == request.uid
                (self._retries if retried else self._queue).push(namespace_of(request.task), request)
            self._idle.clear()
            self._work.set()
            self._note_crowd()

    async def submit_after(self, writes: Sequence[Awaitable[bool]], requests: list[Request], why: str) -> None:
        """Send these when something else is written; if it could not be written, they failed because of `why`."""
        self._expected += len(requests)
        self._idle.clear()
        written = all(await asyncio.gather(*writes))
        self._expected -= len(requests)
        if written:
            self.submit(requests)
        else:
            for request in requests:
                self._not_sent(request, why)
            self._update_idle()

    async def wait_idle(self) -> None:
        """Wait until nothing is outstanding."""
        await self._idle.wait()

    async def wait_for_free_worker(self) -> None:
        while self._first_attempts >= self._workers:
            await asyncio.sleep(0.01)

    async def wait_observed(self) -> None:
        """Wait until nothing is outstanding and the watch has shown all results."""
        await self.wait_idle()
        while self._drop_observed():
            await asyncio.sleep(0.02)

    def cancel_queued(self, why: str) -> None:
        """Report what was not sent as failed: before a stop, and when the lease is lost."""
        for queue in (self._queue, self._retries):
            while queue:
                self._not_sent(queue.pop(), why)
        self._update_idle()

    async def run(self) -> None:
        """Send what is in the queue, until cancelled."""
        async with asyncio.TaskGroup() as group:
            for _ in range(self._workers):
                group.create_task(self._worker())

    async def _worker(self) -> None:
        while True:
            while not (queue := self._next_queue()):
                self._work.clear()
                await self._work.wait()
            request, retrying = queue.pop(), queue is self._retries
            self._in_flight += 1
            self._retrying += retrying
            try:
                await self._server_errors.turn()
                await self._buckets[type(request)].take()
                if not self._fence.is_leader:
                    self._not_sent(request, "another scheduler has the lease now")
                elif isinstance(request, BindRequest):
                    await self._bind(request)
                else:
                    await self._evict(request)
            except Exception as error:
                self._contain(error, ObjectRef("Pod", request.task))
                if request.task not in self._accepted:
                    self._report(_failed(request), request.uid)
            finally:
                self._in_flight -= 1
                self._retrying -= retrying
                self._note_crowd()
                self._update_idle()
                if self._retries and not self._first_attempts:
                    self._work.set()

    def _next_queue(self) -> FairQueue[Request]:
        """Empty if there is nothing to send now."""
        if self._first_attempts or self._retrying >= RETRYING_WORKERS:
            return self._queue
        return self._retries

    def _note_crowd(self) -> None:
        if self._first_attempts >= CROWD:
            self._last_crowd = self._clock()

    def _update_idle(self) -> None:
        if not self.outstanding:
            self._idle.set()

    def _drop_observed(self) -> bool:
        """Forget what the watch has shown. Whether anything is left that the server accepted and it has not shown."""
        self._accepted = {task: request for task, request in self._accepted.items() if not self._is_observed(request)}
        for task, uid in list(self._refused.items()):
            pod = self._cached_pod(task)
            if pod is None or pod.metadata.uid != uid:
                del self._refused[task]
        for task, (uid, _) in list(self._marked.items()):
            pod = self._cached_pod(task)
            if pod is None or pod.metadata.uid != uid or pod.spec.node_name:
                del self._marked[task]
        return bool(self._accepted)

    def _is_observed(self, request: Request) -> bool:
        try:
            return _is_observed(self._cached_pod(request.task), request)
        except Exception as error:
            self._contain(error, ObjectRef("Pod", request.task))
            return True

    def _not_sent(self, request: Request, why: str) -> None:
        if isinstance(request, BindRequest):
            self._bind_failed(request, why)
        else:
            self._evict_failed(request, why)

    def _bind_failed(self, request: BindRequest, why: str, *, refused: bool = False) -> None:
        event = BindFailed(request.task)
        if refused:
            event = BindFailed(request.task, request.node, why, self._wall_clock())
            self._refused[request.task] = request.uid
        self._report(event, request.uid)
        self._listener.bind_failed(request, why)

    def _evict_failed(self, request: EvictRequest, why: str) -> None:
        self._report(EvictFailed(request.task), request.uid)
        self._listener.evict_failed(request, why)

    async def _bind(self, request: BindRequest) -> None:
        started = self._clock()
        annotations = {**request.annotations, **({names.BACKFILL: "true"} if request.backfill else {})}
        try:
            marked = self._marked.get(request.task, ("", False))
            if request.mark_lent or marked == (request.uid, not request.backfill):
                await self._in_time(self._mark_lent(request))
            await self._in_time(self._client.bind(request.task, request.uid, request.node, annotations=annotations))
        except Failure as failure:
            pod = await self._bound_pod(request, failure)
            if pod is None or pod.spec.node_name != request.node:
                # An error of the server, or no answer, does not mean that a second attempt would fail.
                self._bind_failed(request, failure.message, refused=_is_refusal(failure))
                return
        self._refused.pop(request.task, None)
        self._accepted[request.task] = request
        self._listener.bound(request, self._clock() - started)

    async def _mark_lent(self, request: BindRequest) -> None:
        """Whether the pod runs on lent resources stands in its status, where its owner cannot remove it. If the bind
        does not happen, the mark means nothing."""
        mark = {"type": names.LENT_CONDITION, "status": "True" if request.backfill else "False", "reason": "Lent"}
        body = {"metadata": {"uid": request.uid}, "status": {"conditions": [mark]}}
        self._marked[request.task] = (request.uid, request.backfill)
        await self._client.patch(PODS, request.task, body, subresource="status", strategic=True)

    async def _bound_pod(self, request: BindRequest, failure: Failure) -> Pod | None:
        """The pod, if it has a node although its bind failed."""
        unclear = not _is_refusal(failure)
        if not unclear and not is_conflict(failure):
            return None
        _log.warning(
            "result of a bind is unknown; reading the pod",
            pod=request.task,
            node=request.node,
            failure=failure.message,
        )
        pod = await self._reread(request)
        if unclear and pod is not None and not pod.spec.node_name:
            await asyncio.sleep(LATE_WRITE)
            pod = await self._reread(request)
        return pod

    async def _evict(self, request: EvictRequest) -> None:
        if self._eviction_backoff.is_waiting(request.uid):
            self._report(EvictFailed(request.task), request.uid)  # no event: the refusal was reported before
            return
        try:
            await self._in_time(self._client.evict(request.task, request.uid))
        except Failure as failure:
            if is_not_found(failure):
                return  # the pod is deleted already
            if not _is_refusal(failure):
                pod = await self._reread(request)
                if pod is None:
                    return
                if pod.metadata.deletion_timestamp is not None:
                    self._evicted(request)
                    return
            else:
                self._eviction_backoff.failed(request.uid, failure)
            self._evict_failed(request, failure.message)
            return
        self._evicted(request)

    def _evicted(self, request: EvictRequest) -> None:
        self._accepted[request.task] = request
        self._listener.evicted(request)

    async def _in_time(self, call: Awaitable[None]) -> None:
        try:
            await in_time(call, self._timeout)
        except Failure as failure:
            if failure.status >= HTTPStatus.INTERNAL_SERVER_ERROR and not _is_refusal(failure):
                self._server_errors.failed()
            else:
                self._server_errors.answered()
            raise
        self._server_errors.answered()

    async def _reread(self, request: Request) -> Pod | None:
        """The pod as the server has it; None if it is deleted."""
        pod = await reread(self._client, PODS, request.task)
        return pod if pod is not None and pod.metadata.uid == request.uid else None


def _failed(request: Request) -> BindFailed | EvictFailed:
    return BindFailed(request.task) if isinstance(request, BindRequest) else EvictFailed(request.task)


def _is_refusal(failure: Failure) -> bool:
    """Whether the server refused; otherwise it may have acted, and only the response was lost."""
    if failure.status == HTTPStatus.INTERNAL_SERVER_ERROR and failure.message.startswith(WEBHOOK_FAILED):
        return True
    return failure.status != NO_RESPONSE and failure.status < 500


def _is_observed(pod: Pod | None, request: Request) -> bool:
    """Whether the pod, as the watch last showed it, has the result of the request."""
    if pod is None or pod.metadata.uid != request.uid:
        return True
    if isinstance(request, BindRequest):
        return bool(pod.spec.node_name)
    return pod.metadata.deletion_timestamp is not None or pod.status.phase in ("Succeeded", "Failed")
