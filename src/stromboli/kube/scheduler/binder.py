"""Binds and evictions on their way to the server.

A gang's binds stand next to each other in the line and a few dozen workers take from its head, so a gang goes out
together, over connections that stay open. Before every one of them the fence is asked: a scheduler that has lost its
lease, or slept through it, must not send what it decided while it had it.

What comes of an order is an event like any other. A bind that did not happen is `BindFailed`, an eviction that was
refused `EvictFailed`. One that the server took needs no event, because the watch will show the pod. And where nobody
knows (the connection broke between question and answer), the pod itself is asked until it answers: to send it again
could bind a second pod of that name, to give up could lend the room twice. For the same reason it is asked twice
before it counts as not bound: the server may still be at work on a request whose answer nobody waits for.

An eviction that was refused would be refused again in the next cycle, which decides on the same victims. So it is not
sent again at once, but longer after each refusal, and the scheduler hears what it would have heard from the server.

The client tries again by itself what the server puts off. The fence is not asked again then, so no order may take
longer in all than a standby has to wait after the fence fell.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, Protocol

from stromboli.api import Pod, names
from stromboli.cluster import BindFailed, EvictFailed, TaskKey
from stromboli.kube.client.client import Client
from stromboli.kube.client.errors import NOT_REACHED, Failure, is_conflict, is_not_found
from stromboli.kube.client.lost_response import ask
from stromboli.kube.client.rate_limit import TokenBucket
from stromboli.kube.client.resources import PODS
from stromboli.kube.runtime.logs import Log

from .retry_backoff import Setbacks

_log = Log("binding")

WORKERS: Final = 32
PATIENCE: Final = 5.0  # seconds for an order; by default a lease lasts so much longer than the fence
LULL: Final = 0.5  # seconds without an order, and nothing is going on
LONGEST_REFUSAL: Final = 15.0  # seconds until a refused eviction is tried again: budgets change
LATE: Final = 1.0  # seconds in which a server may still act on a request that was given up


class Fence(Protocol):
    @property
    def held(self) -> bool:
        """Whether we may still act on what we decided."""
        ...


@dataclass(frozen=True, slots=True)
class BindOrder:
    task: TaskKey
    uid: str
    node: str
    backfill: bool = False


@dataclass(frozen=True, slots=True)
class EvictOrder:
    task: TaskKey
    uid: str
    node: str
    reason: str
    message: str


Order = BindOrder | EvictOrder
Report = Callable[[BindFailed | EvictFailed, str], None]


class Outcomes(Protocol):
    """Who wants to know what came of orders."""

    def bound(self, order: BindOrder, seconds: float) -> None: ...

    def bind_failed(self, order: BindOrder, why: str) -> None: ...

    def evicted(self, order: EvictOrder) -> None: ...

    def evict_failed(self, order: EvictOrder, why: str) -> None: ...


class Binding:
    def __init__(
        self,
        client: Client,
        *,
        fence: Fence,
        binds: TokenBucket,
        evictions: TokenBucket,
        report: Report,
        outcomes: Outcomes,
        known: Callable[[TaskKey], Pod | None],
        patience: float = PATIENCE,
        workers: int = WORKERS,
    ) -> None:
        """`report` takes news for the scheduler, with the uid of the pod that it is about; `known` is the pod of that
        name as the watch has shown it."""
        self._client = client
        self._fence = fence
        self._buckets = {BindOrder: binds, EvictOrder: evictions}
        self._report = report
        self._outcomes = outcomes
        self._known = known
        self._patience = patience
        self._workers = workers
        self._line: deque[Order] = deque()
        self._under_way = 0
        self._clock = asyncio.get_running_loop().time
        self._refusals = Setbacks(self._clock, longest=LONGEST_REFUSAL)  # of evictions, by the uid of the pod
        self._last = self._clock() - LULL  # when an order was last done with
        self._taken: dict[TaskKey, Order] = {}  # by the server, and perhaps not shown by the watch yet
        self._work = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()

    @property
    def outstanding(self) -> int:
        return len(self._line) + self._under_way

    @property
    def busy(self) -> bool:
        """Whether orders are on their way, or were a moment ago: others had better wait with what can wait."""
        return self.outstanding > 0 or self._clock() - self._last < LULL

    def send(self, orders: list[Order]) -> None:
        self._forget_shown()
        self._refusals.forget_old()
        if orders:
            self._line.extend(orders)
            self._idle.clear()
            self._work.set()

    async def idle(self) -> None:
        """Until nothing is outstanding."""
        await self._idle.wait()

    async def nearly_idle(self) -> None:
        """Until there is a worker without an order."""
        while self.outstanding >= self._workers:
            await asyncio.sleep(0.01)

    async def settled(self) -> None:
        """Until nothing is outstanding, and the watch has shown what came of it."""
        await self.idle()
        while self._forget_shown():
            await asyncio.sleep(0.02)

    def recall(self, why: str) -> None:
        """Give back what has not been sent: before a stop, and when the lease is lost."""
        while self._line:
            self._not_sent(self._line.popleft(), why)
        self._settle()

    async def run(self) -> None:
        """Send what is in the line, for ever."""
        async with asyncio.TaskGroup() as group:
            for _ in range(self._workers):
                group.create_task(self._worker())

    async def _worker(self) -> None:
        while True:
            while not self._line:
                self._work.clear()
                await self._work.wait()
            order = self._line.popleft()
            self._under_way += 1
            try:
                await self._buckets[type(order)].take()
                if not self._fence.held:
                    self._not_sent(order, "another scheduler has the lease now")
                elif isinstance(order, BindOrder):
                    await self._bind(order)
                else:
                    await self._evict(order)
            finally:
                self._under_way -= 1
                self._last = self._clock()
                self._settle()

    def _settle(self) -> None:
        if not self._line and not self._under_way:
            self._idle.set()

    def _forget_shown(self) -> bool:
        """Whether anything is left that the server took and the watch has not shown."""
        self._taken = {task: order for task, order in self._taken.items() if not _shows(self._known(task), order)}
        return bool(self._taken)

    def _not_sent(self, order: Order, why: str) -> None:
        if isinstance(order, BindOrder):
            self._bind_failed(order, why)
        else:
            self._evict_failed(order, why)

    def _bind_failed(self, order: BindOrder, why: str) -> None:
        self._report(BindFailed(order.task), order.uid)
        self._outcomes.bind_failed(order, why)

    def _evict_failed(self, order: EvictOrder, why: str) -> None:
        self._report(EvictFailed(order.task), order.uid)
        self._outcomes.evict_failed(order, why)

    async def _bind(self, order: BindOrder) -> None:
        started = time.perf_counter()
        annotations = {names.BACKFILL: "true"} if order.backfill else None
        try:
            await self._in_time(self._client.bind(order.task, order.uid, order.node, annotations=annotations))
        except Failure as failure:
            pod = await self._bound_pod(order, failure)
            if pod is None or pod.spec.node_name != order.node:
                self._bind_failed(order, failure.message)
                return
        self._taken[order.task] = order
        self._outcomes.bound(order, time.perf_counter() - started)

    async def _bound_pod(self, order: BindOrder, failure: Failure) -> Pod | None:
        """The pod, if it has a node although its bind failed."""
        unclear = not _is_answer(failure)
        if not unclear and not is_conflict(failure):
            return None
        _log.warning("asking what became of a bind", pod=order.task, node=order.node, failure=failure.message)
        pod = await self._ask(order)
        if unclear and pod is not None and not pod.spec.node_name:
            await asyncio.sleep(LATE)
            pod = await self._ask(order)
        return pod

    async def _evict(self, order: EvictOrder) -> None:
        if self._refusals.waits(order.uid):
            self._report(EvictFailed(order.task), order.uid)  # nothing else: it has been said
            return
        try:
            await self._in_time(self._client.evict(order.task, order.uid))
        except Failure as failure:
            if is_not_found(failure):
                return  # it has gone by itself
            if not _is_answer(failure):
                pod = await self._ask(order)
                if pod is None:
                    return
                if pod.metadata.deletion_timestamp is not None:
                    self._evicted(order)
                    return
            else:
                self._refusals.failed(order.uid, failure)
            self._evict_failed(order, failure.message)
            return
        self._evicted(order)

    def _evicted(self, order: EvictOrder) -> None:
        self._taken[order.task] = order
        self._outcomes.evicted(order)

    async def _in_time(self, request: Awaitable[None]) -> None:
        try:
            async with asyncio.timeout(self._patience):
                await request
        except TimeoutError:
            raise Failure(NOT_REACHED, "the server did not answer in time") from None

    async def _ask(self, order: Order) -> Pod | None:
        """The pod as it is; None if it is not there any more."""
        pod = await ask(self._client, PODS, order.task)
        return pod if pod is not None and pod.metadata.uid == order.uid else None


def _is_answer(failure: Failure) -> bool:
    """Whether the server said no; otherwise it may have acted, and only its answer was lost."""
    return failure.status != NOT_REACHED and failure.status < 500


def _shows(pod: Pod | None, order: Order) -> bool:
    """Whether the pod, as it was last seen, tells what became of the order."""
    if pod is None or pod.metadata.uid != order.uid:
        return True
    if isinstance(order, BindOrder):
        return bool(pod.spec.node_name)
    return pod.metadata.deletion_timestamp is not None or pod.status.phase in ("Succeeded", "Failed")
