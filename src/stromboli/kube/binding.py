"""Binds and evictions on their way to the server.

A gang's binds stand next to each other in the line and a few dozen workers take from its head, so a gang goes out
together, over connections that stay open. Before every one of them the fence is asked: a scheduler that has lost its
lease, or slept through it, must not send what it decided while it had it.

What comes of an order is an event like any other. A bind that did not happen is `BindFailed`, an eviction that was
refused `EvictFailed`. One that the server took needs no event, because the watch will show the pod. And where nobody
knows (the connection broke between question and answer), the pod itself is asked until it answers: to send it again
could bind a second pod of that name, to give up could lend the room twice.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

from stromboli.api import Pod, names
from stromboli.cluster import BindFailed, EvictFailed, TaskKey

from .client import Client
from .failures import NOT_REACHED, Failure, is_not_found
from .limits import Backoff, TokenBucket
from .logs import Log
from .resources import PODS

_log = Log("binding")

WORKERS: Final = 32


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
        report: Callable[[BindFailed | EvictFailed], None],
        outcomes: Outcomes,
        workers: int = WORKERS,
    ) -> None:
        self._client = client
        self._fence = fence
        self._buckets = {BindOrder: binds, EvictOrder: evictions}
        self._report = report
        self._outcomes = outcomes
        self._workers = workers
        self._line: deque[Order] = deque()
        self._under_way = 0
        self._work = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()

    @property
    def outstanding(self) -> int:
        return len(self._line) + self._under_way

    def send(self, orders: list[Order]) -> None:
        if orders:
            self._line.extend(orders)
            self._idle.clear()
            self._work.set()

    async def idle(self) -> None:
        """Until nothing is outstanding."""
        await self._idle.wait()

    def recall(self) -> None:
        """Give back what has not been sent: before a stop, and when the lease is lost."""
        while self._line:
            self._not_sent(self._line.popleft(), "the scheduler stops")
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
                self._settle()

    def _settle(self) -> None:
        if not self._line and not self._under_way:
            self._idle.set()

    def _not_sent(self, order: Order, why: str) -> None:
        if isinstance(order, BindOrder):
            self._bind_failed(order, why)
        else:
            self._evict_failed(order, why)

    def _bind_failed(self, order: BindOrder, why: str) -> None:
        self._report(BindFailed(order.task))
        self._outcomes.bind_failed(order, why)

    def _evict_failed(self, order: EvictOrder, why: str) -> None:
        self._report(EvictFailed(order.task))
        self._outcomes.evict_failed(order, why)

    async def _bind(self, order: BindOrder) -> None:
        started = time.perf_counter()
        annotations = {names.BACKFILL: "true"} if order.backfill else None
        try:
            await self._client.bind(order.task, order.uid, order.node, annotations=annotations)
        except Failure as failure:
            if _is_answer(failure):
                pod = None
            else:
                _log.warning("asking what became of a bind", pod=order.task, node=order.node, failure=failure.message)
                pod = await self._ask(order.task, order.uid)
            if pod is None or pod.spec.node_name != order.node:
                self._bind_failed(order, failure.message)
                return
        self._outcomes.bound(order, time.perf_counter() - started)

    async def _evict(self, order: EvictOrder) -> None:
        try:
            await self._client.evict(order.task, order.uid)
        except Failure as failure:
            if is_not_found(failure):
                return  # it has gone by itself
            if not _is_answer(failure):
                pod = await self._ask(order.task, order.uid)
                if pod is None or pod.metadata.deletion_timestamp is not None:
                    return
            self._evict_failed(order, failure.message)
            return
        self._outcomes.evicted(order)

    async def _ask(self, task: TaskKey, uid: str) -> Pod | None:
        """The pod as it is, as soon as somebody answers; None if it is not there any more."""
        backoff = Backoff()
        while True:
            try:
                pod = await self._client.get(PODS, task)
            except Failure as failure:
                if is_not_found(failure):
                    return None
                await asyncio.sleep(backoff.next())
            else:
                return pod if pod.metadata.uid == uid else None


def _is_answer(failure: Failure) -> bool:
    """Whether the server said no; otherwise it may have acted, and only its answer was lost."""
    return failure.status != NOT_REACHED and failure.status < 500
