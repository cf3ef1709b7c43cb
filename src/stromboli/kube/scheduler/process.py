"""The scheduler as a process: a cycle every second, and at once when something happened that a decision depends on.

    reflectors ──▶ inbox ──▶ [thread: apply, decide] ──▶ carrier ──▶ binds, evictions, statuses, events
                     ▲                                       │
                     └────── BindFailed, EvictFailed ◀───────┘

The event loop only moves things; everything that takes long happens in one thread of its own, which is the only one
to touch the cluster. So a cycle needs no lock, and the loop goes on renewing the lease and reading watches meanwhile.

A standby does the same, without deciding: when it takes over, it knows everything already.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from stromboli.api import ApiError, KObject, Node, ObjectMeta, Pod, Queue, default, key, names
from stromboli.cluster import Applied, Cluster, ClusterEvent
from stromboli.kube.client.client import Client
from stromboli.kube.client.errors import NOT_REACHED, Failure, is_already_there
from stromboli.kube.client.rate_limit import TokenBucket
from stromboli.kube.client.reflector import Reflector
from stromboli.kube.client.resources import (
    LEGACY_BUDGETS,
    NAMESPACES,
    NODES,
    POD_DISRUPTION_BUDGETS,
    POD_GROUPS,
    PODS,
    PRIORITY_CLASSES,
    QUEUES,
    RESERVATIONS,
    RESOURCE_QUOTAS,
    Resource,
)
from stromboli.kube.runtime import garbage_collection
from stromboli.kube.runtime.config_reload import ConfigurationFile
from stromboli.kube.runtime.crd_check import NOT_INSTALLED, undefined
from stromboli.kube.runtime.event_recorder import Recorder, Subject
from stromboli.kube.runtime.leader_election import Alone, Leadership
from stromboli.kube.runtime.logs import Log
from stromboli.kube.runtime.metrics import SchedulerMetrics
from stromboli.scheduling.cycle import Scheduler
from stromboli.scheduling.decisions import Cycle
from stromboli.scheduling.explanation import orphans

from .binder import PATIENCE, Binding
from .dispatcher import Addressed, Carrier, address
from .inbox import Inbox
from .outcome_reporter import Telling
from .status_writer import Posting

_log = Log("scheduler")

CHUNK: Final = 1000  # decisions that are set in motion before others may use the loop
SHARE: Final = 5.0  # how much longer than a cycle the time until the next is, at least
GATHER: Final = 0.05  # seconds between urgent news and the cycle: what belongs together comes together
STRAYS_EVERY: Final = 5.0  # seconds between two looks for pods and groups that no cycle sees
SETTLE: Final = 1.0  # seconds after taking over, for what the last leader wrote to arrive
TOO_MANY_CRASHES: Final = 5
LOOK_AGAIN: Final = 10.0  # seconds between two lines about what the start still waits for


class SchedulerProcess:
    name = "scheduler"

    def __init__(
        self,
        client: Client,
        *,
        configuration: ConfigurationFile[Scheduler],
        leadership: Leadership | Alone,
        scheduler_name: str,
        itself: Subject,
        period: float,
        patience: float = PATIENCE,
        bucket: Callable[[], TokenBucket],
        metrics: SchedulerMetrics,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`itself` is what events about the scheduler are attached to; `patience` is how long a bind may take (no
        longer than a lease outlives its fence); `bucket` makes a limit for a kind of write."""
        self._client = client
        self._configuration = configuration
        self._leadership = leadership
        self._scheduler_name = scheduler_name
        self._period = period
        self._metrics = metrics
        self._clock = clock
        self._cluster = Cluster(scheduler_name=scheduler_name)
        self._reflectors: dict[type[KObject], Reflector[Any]] = {}
        self._recorder = Recorder(
            client, scheduler_name, bucket=bucket(), busy=lambda: self._binding.busy, clock=clock
        )
        self._telling = Telling(self._recorder, metrics, itself)
        self._inbox = Inbox(refused=self._telling.refused)
        self._posting = Posting(
            client,
            bucket=bucket(),
            note=self._note,
            outcome=metrics.wrote,
            busy=lambda: self._binding.busy,
        )
        self._binding = Binding(
            client,
            fence=leadership,
            binds=bucket(),
            evictions=bucket(),
            report=self._inbox.failed,
            outcomes=self._telling,
            known=lambda task: self._reflectors[Pod].known.get(task),
            patience=patience,
        )
        self._carrier = Carrier(
            client,
            fence=leadership,
            binding=self._binding,
            posting=self._posting,
            recorder=self._recorder,
            reservations=bucket(),
            report=self._inbox.put,
            note=self._note,
            clock=clock,
        )
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="cycle")
        self._led = False
        self._lacks_default_queue = False
        self._undefined: list[str] = []  # kinds of ours that the API server does not know
        self._crashes = 0
        self._looked_for_strays = 0.0
        metrics.in_flight(lambda: self._binding.outstanding)

    # -- what others may ask ------------------------------------------------------------------------------------

    def unready(self) -> str | None:
        waiting = [kind.__name__ for kind, reflector in self._reflectors.items() if not reflector.synced.is_set()]
        if not self._reflectors:
            return "it has not asked the API server yet"
        if waiting and self._undefined:
            return f"{NOT_INSTALLED} (missing: {', '.join(self._undefined)})"
        return f"it has not seen every {waiting[0]} yet" if waiting else None

    def unwell(self) -> str | None:
        if self._crashes >= TOO_MANY_CRASHES:
            return f"the last {self._crashes} cycles failed; the log says why"
        return None

    # -- the process --------------------------------------------------------------------------------------------

    async def run(self, stop: asyncio.Event) -> None:
        """Schedule until `stop` is set; then finish what is under way."""
        if not await self._make_reflectors(stop):
            return
        background: list[Coroutine[Any, Any, None]] = [
            *(reflector.run() for reflector in self._reflectors.values()),
            self._binding.run(),
            self._posting.run(),
            self._recorder.run(),
            self._configuration.run(self._reconfigured, self._telling.configuration_refused),
        ]
        tasks = [asyncio.create_task(work) for work in background]
        try:
            await self._until_stopped(stop, tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await self._carrier.abandon()
            self._thread.shutdown(wait=True)

    async def _until_stopped(self, stop: asyncio.Event, tasks: list[asyncio.Task[None]]) -> None:
        scheduling = asyncio.create_task(self._schedule(stop))
        try:
            done, _ = await asyncio.wait([scheduling, *tasks], return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()  # background work never ends by itself, so that is a failure: say why
        finally:
            scheduling.cancel()
            await asyncio.gather(scheduling, return_exceptions=True)

    async def _schedule(self, stop: asyncio.Event) -> None:
        clock = asyncio.get_running_loop().time
        await self._sync(stop)
        while not stop.is_set():
            if not self._leadership.held:
                self._stand_by()
                await self._absorb()
                await _first(stop.wait(), self._leadership.wait(), timeout=self._period)
                continue
            if not self._led:
                await self._take_over()
            started = clock()
            if self._lacks_default_queue:
                await _first(stop.wait(), self._ensure_default_queue())
            await self._run_cycle(stop)
            await self._pause(stop, clock() - started)
        await self._carrier.finish()

    async def _make_reflectors(self, stop: asyncio.Event) -> bool:
        """Whether they could be made before the stop."""
        modern = await self._has_budgets_v1(stop)
        if modern is None:
            return False
        budgets = POD_DISRUPTION_BUDGETS if modern else LEGACY_BUDGETS
        kinds: list[Resource[Any]] = [
            PRIORITY_CLASSES, NAMESPACES, RESOURCE_QUOTAS, budgets, QUEUES, NODES, RESERVATIONS, POD_GROUPS, PODS,
        ]  # fmt: skip
        for resource in kinds:
            self._reflectors[resource.type] = Reflector(
                self._client, resource, self._inbox.put, relisted=self._metrics.relisted
            )
        return True

    async def _has_budgets_v1(self, stop: asyncio.Event) -> bool | None:
        """None if it is not known before the stop."""
        while not stop.is_set():
            asked = asyncio.create_task(self._client.serves(POD_DISRUPTION_BUDGETS.group_version))
            await _first(stop.wait(), asked)
            if asked.cancelled():
                break
            try:
                return asked.result()
            except Failure as failure:
                _log.warning("the API server does not answer yet", failure=failure.message)
            await _first(stop.wait(), timeout=self._period)
        return None

    async def _sync(self, stop: asyncio.Event) -> None:
        started = time.monotonic()
        every = asyncio.gather(*(reflector.synced.wait() for reflector in self._reflectors.values()))
        try:
            while not every.done() and not stop.is_set():
                await _first(stop.wait(), asyncio.shield(every), self._find_undefined())
                await _first(stop.wait(), asyncio.shield(every), timeout=LOOK_AGAIN)
                if not every.done() and not stop.is_set() and not self._undefined:
                    _log.info("waiting for the API server's lists", missing=self.unready())
        finally:
            every.cancel()
            await asyncio.gather(every, return_exceptions=True)
        if self.unready() is None:
            await self._absorb()
            garbage_collection.set_apart()
            counts = {kind: len(reflector.known) for kind, reflector in self._reflectors.items()}
            _log.info(
                "knows the cluster",
                nodes=counts[Node],
                pods=counts[Pod],
                queues=counts[Queue],
                seconds=time.monotonic() - started,
            )

    async def _find_undefined(self) -> None:
        self._undefined = await undefined(self._client, (QUEUES, POD_GROUPS, RESERVATIONS))
        if self._undefined:
            _log.error(NOT_INSTALLED, missing=", ".join(self._undefined))

    async def _take_over(self) -> None:
        if isinstance(self._leadership, Leadership):
            await asyncio.sleep(SETTLE)
        await self._absorb()
        self._lacks_default_queue = names.DEFAULT_QUEUE not in self._reflectors[Queue].known
        self._led = True
        self._metrics.leads(True)

    def _stand_by(self) -> None:
        if self._led:
            self._led = False
            self._metrics.leads(False)
            self._binding.recall("another scheduler has the lease now")
            self._posting.forget()

    async def _ensure_default_queue(self) -> None:
        queue = Queue(metadata=ObjectMeta(name=names.DEFAULT_QUEUE))
        default(queue)
        try:
            self._reflectors[Queue].note(await self._client.create(QUEUES, queue))
        except Failure as failure:
            if not is_already_there(failure):
                _log.warning("the queue `default` could not be created", failure=failure.message)
            if failure.status == NOT_REACHED:
                return  # it is tried again
        self._lacks_default_queue = False

    # -- cycles -------------------------------------------------------------------------------------------------

    async def _run_cycle(self, stop: asyncio.Event) -> None:
        started = time.perf_counter()
        events = self._inbox.take()
        try:
            cycle, decisions = await self._in_thread(lambda: self._decide(events))
        except Exception:
            self._crashes += 1
            _log.exception("a cycle failed; the scheduler starts afresh from what the API server says")
            self._metrics.cycle_failed()
            await self._start_afresh(stop)
            return
        self._crashes = 0
        for start in range(0, len(decisions), CHUNK):
            self._carrier.carry_out(decisions[start : start + CHUNK])
            await asyncio.sleep(0)
        self._metrics.cycle_done(time.perf_counter() - started, cycle)
        self._metrics.buffered(len(self._inbox))

    def _decide(self, events: list[ClusterEvent]) -> tuple[Cycle, list[Addressed]]:
        """In the thread: take in the news, and run a cycle."""
        self._take_in(events)
        now = self._clock()
        cycle = self._metrics.timed_cycle(self._configuration.current, self._cluster, now)
        if now - self._looked_for_strays >= STRAYS_EVERY:
            self._looked_for_strays = now
            cycle.decisions += orphans(self._cluster, now)
        decisions = address(cycle, self._cluster)
        garbage_collection.sweep()
        return cycle, decisions

    def _take_in(self, events: list[ClusterEvent]) -> None:
        for event in events:
            try:
                self._cluster.apply(event)
            except (ApiError, ValueError) as error:
                if not isinstance(event, Applied):
                    raise
                obj = event.object
                _log.warning("an object cannot be understood", kind=obj.kind, object=key(obj), reason=str(error))

    async def _absorb(self) -> None:
        """Take in the news without deciding anything."""
        events = self._inbox.take()
        if events:
            await self._in_thread(lambda: self._catch_up(events))

    def _catch_up(self, events: list[ClusterEvent]) -> None:
        """In the thread. The snapshot is for nobody: new nodes get their place in the columns by it, and what runs on
        them its place on the nodes, before there is more news about either."""
        self._take_in(events)
        self._cluster.snapshot()

    async def _start_afresh(self, stop: asyncio.Event) -> None:
        await _first(stop.wait(), self._binding.settled())  # what is on its way would be forgotten otherwise
        if stop.is_set():
            return
        self._inbox.take()
        self._cluster = Cluster(scheduler_name=self._scheduler_name)
        everything = self._inbox.everything()
        await self._in_thread(lambda: self._catch_up(everything))

    async def _in_thread(self, work: Callable[[], Any]) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    async def _pause(self, stop: asyncio.Event, took: float) -> None:
        """Until the next cycle is due, or something urgent came; a moment later, for what comes with it.

        What comes in a stream is gathered for longer: while most binds of the last cycle are still on their way the
        next could only queue behind them, and the more a cycle takes, the fewer there should be.
        """
        left = max(0.0, self._period - took)
        await _first(stop.wait(), self._inbox.urgent.wait(), timeout=left)
        if not stop.is_set() and self._inbox.urgent.is_set():
            await _first(stop.wait(), timeout=min(self._period, max(GATHER, SHARE * took)))
            await _first(stop.wait(), self._binding.nearly_idle(), timeout=left)

    # -- news of our own ----------------------------------------------------------------------------------------

    def _note(self, obj: KObject) -> None:
        self._reflectors[type(obj)].note(obj)

    def _reconfigured(self, scheduler: Scheduler) -> None:
        self._telling.reconfigured(scheduler)
        self._inbox.urgent.set()


async def _first(*waits: Coroutine[Any, Any, Any] | asyncio.Future[Any], timeout: float | None = None) -> None:
    """Until one of them is over, or the time is."""
    tasks = [asyncio.ensure_future(wait) for wait in waits]
    try:
        await asyncio.wait(tasks, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
