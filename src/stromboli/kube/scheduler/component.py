"""The scheduler's loop: a cycle every second, and at once when something changed that a decision may depend on.

    reflectors ──▶ inbox ──▶ cycle runner ──▶ dispatcher ──▶ binds, evictions, statuses, events
                     ▲       [in a thread]        │
                     └─ BindFailed, EvictFailed ◀─┘

The event loop only moves data: it renews the lease, reads watches and sends binds while a cycle runs in its thread.

A standby does the same without deciding, so it knows the whole cluster when it takes over.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Iterable
from typing import TYPE_CHECKING, Any, Final

from stromboli.api import KObject, Node, ObjectMeta, Pod, Queue, Reservation, default, names
from stromboli.kube.client import (
    LEGACY_BUDGETS,
    NAMESPACES,
    NO_RESPONSE,
    NODES,
    POD_DISRUPTION_BUDGETS,
    POD_GROUPS,
    PODS,
    PRIORITY_CLASSES,
    QUEUES,
    RESERVATIONS,
    RESOURCE_QUOTAS,
    Client,
    Failure,
    Reflector,
    Resource,
    TokenBucket,
    is_already_exists,
)
from stromboli.kube.runtime import (
    NOT_INSTALLED,
    REQUEST_TIMEOUT,
    ConfigurationFile,
    EventRecorder,
    InvolvedObject,
    LeaderElector,
    Leadership,
    Log,
    first_of,
    garbage_collection,
    missing_definitions,
    volume_kinds,
    watch_more,
)
from stromboli.kube.runtime.served import measure_nodes, served_optional_kinds, watch_optional_kinds
from stromboli.scheduling.cycle import Scheduler
from stromboli.scheduling.placement.kernel_choice import need_compiled

from .binder import Binder
from .containment import LiveContainment
from .cycle_runner import CycleRunner, RecordError
from .dispatcher import Dispatcher
from .gate_writer import GateWriter
from .inbox import Inbox
from .metrics import SchedulerMetrics
from .outcome_reporter import OutcomeReporter
from .reservation_writer import ReservationWriter
from .status_patch_queue import StatusPatchQueue
from .status_writer import StatusWriter
from .volume_writer import VolumeWriter

if TYPE_CHECKING:
    from .recorder import Recorder

_log = Log("scheduler")

PAUSE_FACTOR: Final = 5.0  # the time between cycles is at least this many times the processor time that they use
PAUSE_CREDIT: Final = 1.0  # seconds of these pauses that may be outstanding
GATHER: Final = 0.05  # seconds between an urgent event and the cycle: related events arrive together
SETTLE: Final = 1.0  # seconds after taking over, until our watches show what the last leader wrote
TOO_MANY_CRASHES: Final = 5
LIST_CHECK_EVERY: Final = 0.02  # seconds between two looks at how much is listed
KERNELS_WAIT: Final = 10.0  # seconds for the first binds, until kernels are loaded beside them
SYNC_LOG_EVERY: Final = 10.0  # seconds between two log lines about what the start waits for


class SchedulerComponent:
    name = "scheduler"

    def __init__(
        self,
        client: Client,
        *,
        configuration: ConfigurationFile[Scheduler],
        leadership: Leadership,
        scheduler_name: str,
        process_ref: InvolvedObject,
        period: float,
        request_timeout: float = REQUEST_TIMEOUT,
        bucket: Callable[[], TokenBucket],
        metrics: SchedulerMetrics,
        recorder: Recorder | None = None,
        record_error: RecordError | None = None,
        cycle_budget: float | None = None,
        warm_up: Callable[[], None] = lambda: None,
        load_kernels: Callable[[], None] = lambda: None,
        clock: Callable[[], float] = time.time,
        processor_time: Callable[[], float] = time.thread_time,
    ) -> None:
        """Events about the scheduler itself are attached to `process_ref`. `request_timeout` limits a write;
        it must not be longer than a lease outlives its fence. `bucket` creates a rate limit for one kind of
        write. `cycle_budget`: seconds after which a cycle is cut. `record_error` records a cycle with an error, unless
        `recorder` has all of them. `warm_up` is called in the thread of the cycles, while the API server is listing its
        objects, and so is `load_kernels` if there is much to place; otherwise it is called in another thread when that
        is done. `processor_time`: of the thread that calls it."""
        self._client = client
        self._configuration = configuration
        self._leadership = leadership
        self._warm_up = warm_up
        self._load_kernels = load_kernels
        self._has_kernels = False
        self._has_begun = asyncio.Event()  # it has run a cycle, or stands by
        self._period = period
        self._metrics = metrics
        self._errors = metrics.contained_errors(self.name)
        self._reflectors: dict[type[KObject], Reflector[Any]] = {}
        self._recorder = EventRecorder(
            client, scheduler_name, bucket=bucket(), busy=lambda: self._binder.busy, clock=clock
        )
        self._reporter = OutcomeReporter(self._recorder, metrics, process_ref)
        self._inbox = Inbox(refused=self._reporter.refused)
        self._status_patches = StatusPatchQueue(
            client,
            fence=leadership,
            bucket=bucket(),
            on_object=self._observe_write,
            on_result=metrics.wrote,
            contain=self._errors.contain,
            busy=lambda: self._binder.busy,
            timeout=request_timeout,
        )
        self._binder = Binder(
            client,
            fence=leadership,
            binds=bucket(),
            evictions=bucket(),
            report=self._inbox.failed,
            listener=self._reporter,
            cached_pod=lambda task: self._reflectors[Pod].objects.get(task),
            contain=self._errors.contain,
            wall_clock=clock,
            timeout=request_timeout,
        )
        reservations = ReservationWriter(
            client,
            fence=leadership,
            bucket=bucket(),
            report=self._inbox.put,
            on_object=self._observe_write,
            cached=lambda name: self._reflectors[Reservation].objects.get(name),
            contain=self._errors.contain,
            timeout=request_timeout,
        )
        volumes = VolumeWriter(
            client,
            fence=leadership,
            bucket=bucket(),
            report=self._inbox.failed,
            on_object=self._observe_write,
            contain=self._errors.contain,
            wall_clock=clock,
            timeout=request_timeout,
        )
        self._dispatcher = Dispatcher(
            binder=self._binder,
            status_writer=StatusWriter(self._status_patches, self._recorder, clock),
            reservations=reservations,
            volumes=volumes,
            gates=GateWriter(
                client,
                fence=leadership,
                bucket=bucket(),
                report=self._inbox.failed,
                on_object=self._observe_write,
                recorder=self._recorder,
                contain=self._errors.contain,
                timeout=request_timeout,
            ),
            recorder=self._recorder,
            report=self._inbox.put,
        )
        self._cycles = CycleRunner(
            scheduler_name=scheduler_name,
            configuration=configuration,
            inbox=self._inbox,
            binder=self._binder,
            dispatcher=self._dispatcher,
            metrics=metrics,
            recorder=recorder,
            clock=clock,
            processor_time=processor_time,
            containment=LiveContainment(
                self._errors,
                budget=cycle_budget,
                stopwatch=asyncio.get_running_loop().time,
            ),
            record_error=record_error,
        )
        self._is_active = False  # whether we were the leader in the last cycle
        self._lacks_default_queue = False
        self._missing_definitions: list[str] = []  # our kinds that the API server does not serve
        self._is_reconfigured = asyncio.Event()
        self._rested_at = 0.0  # when no pause will be outstanding, by the clock of the event loop
        metrics.in_flight(lambda: self._binder.outstanding)

    # -- health -------------------------------------------------------------------------------------------------

    def not_ready_reason(self) -> str | None:
        waiting = [kind.__name__ for kind, reflector in self._reflectors.items() if not reflector.synced.is_set()]
        if not self._reflectors:
            return "it has not reached the API server yet"
        if waiting and self._missing_definitions:
            return f"{NOT_INSTALLED} (missing: {', '.join(self._missing_definitions)})"
        return f"it has not listed every {waiting[0]} yet" if waiting else None

    def unhealthy_reason(self) -> str | None:
        if self._cycles.crashes >= TOO_MANY_CRASHES:
            return f"the last {self._cycles.crashes} cycles failed; the log says why"
        return None

    # -- run ----------------------------------------------------------------------------------------------------

    async def run(self, stop: asyncio.Event) -> None:
        """Schedule until `stop` is set; then finish what is in flight."""
        if not await self._make_reflectors(stop):
            return
        background: list[Coroutine[Any, Any, None]] = [
            *(reflector.run() for reflector in self._reflectors.values()),
            self._binder.run(),
            self._status_patches.run(),
            self._recorder.run(),
            self._load_kernels_later(),
            watch_more(
                self._client,
                self._is_reconfigured,
                lambda: self._configuration.current.configuration,
                self._add_reflectors,
            ),
            watch_optional_kinds(
                self._client, [reflector.resource for reflector in self._reflectors.values()], self._add_reflectors
            ),
            self._configuration.run(self._reconfigured, self._reporter.configuration_refused),
            measure_nodes(self._client, lambda: self._configuration.current.configuration, self._inbox.put),
        ]
        tasks = [asyncio.create_task(work) for work in background]
        try:
            await self._until_stopped(stop, tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await self._dispatcher.cancel()
            self._cycles.close()

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
            if not self._leadership.is_leader:
                self._stand_by()
                await self._cycles.apply_pending()
                self._has_begun.set()
                await first_of(stop.wait(), self._leadership.wait_until_leader(), timeout=self._period)
                continue
            if not self._is_active:
                await self._take_over()
            started = clock()
            if self._lacks_default_queue:
                await first_of(stop.wait(), self._ensure_default_queue())
            used = await self._cycles.run_cycle(stop)
            self._has_begun.set()
            await self._pause(stop, clock() - started, used)
            while self._may_rest(stop) and await self._cycles.may_rest():
                await self._pause(stop, 0.0, 0.0)
        await self._dispatcher.drain()

    async def _make_reflectors(self, stop: asyncio.Event) -> bool:
        """False if the stop came first."""
        modern = await self._has_budgets_v1(stop)
        if modern is None:
            return False
        budgets = POD_DISRUPTION_BUDGETS if modern else LEGACY_BUDGETS
        kinds: list[Resource[Any]] = [
            PRIORITY_CLASSES, NAMESPACES, RESOURCE_QUOTAS, budgets, QUEUES, NODES, RESERVATIONS, POD_GROUPS, PODS,
        ]  # fmt: skip
        kinds += await volume_kinds(self._client, self._configuration.current.configuration)
        self._add_reflectors([*kinds, *await served_optional_kinds(self._client)])
        return True

    def _add_reflectors(self, kinds: Iterable[Resource[Any]]) -> list[Reflector[Any]]:
        new = {
            resource.type: Reflector(
                self._client,
                resource,
                self._inbox.put,
                on_relist=self._metrics.relisted,
                contain=self._errors.contain,
            )
            for resource in kinds
            if resource.type not in self._reflectors
        }
        self._reflectors |= new
        return list(new.values())

    async def _has_budgets_v1(self, stop: asyncio.Event) -> bool | None:
        """None if the stop came first."""
        while not stop.is_set():
            serves = asyncio.create_task(self._client.serves(POD_DISRUPTION_BUDGETS.group_version))
            await first_of(stop.wait(), serves)
            if serves.cancelled():
                break
            try:
                return serves.result()
            except Failure as failure:
                _log.warning("the API server does not answer yet", failure=failure.message)
            await first_of(stop.wait(), timeout=self._period)
        return None

    async def _sync(self, stop: asyncio.Event) -> None:
        clock = asyncio.get_running_loop().time
        started = clock()
        synced = asyncio.gather(
            self._prepare(),
            *(reflector.synced.wait() for reflector in self._reflectors.values()),
        )
        try:
            while not synced.done() and not stop.is_set():
                await first_of(stop.wait(), asyncio.shield(synced), self._find_missing_definitions())
                await first_of(stop.wait(), asyncio.shield(synced), timeout=SYNC_LOG_EVERY)
                missing = self.not_ready_reason()
                if missing is not None and not stop.is_set() and not self._missing_definitions:
                    _log.info("waiting for the lists of the API server", missing=missing)
            if synced.done():
                synced.result()  # the warm-up may have failed: say why
        finally:
            synced.cancel()
            await asyncio.gather(synced, return_exceptions=True)
        if self.not_ready_reason() is None:
            await self._cycles.apply_pending()
            garbage_collection.freeze_current_objects()
            counts = {kind: len(reflector.objects) for kind, reflector in self._reflectors.items()}
            _log.info(
                "synced with the cluster",
                nodes=counts[Node],
                pods=counts[Pod],
                queues=counts[Queue],
                seconds=clock() - started,
            )

    async def _prepare(self) -> None:
        """Load what the first cycle needs. Kernels take half a second: without a lot to do it is over sooner."""
        await self._cycles.prepare(self._warm_up)
        nodes, pods = self._reflectors[Node], self._reflectors[Pod]
        while not need_compiled(len(nodes.objects), len(pods.objects) + pods.remaining):
            if nodes.synced.is_set() and pods.synced.is_set():
                return
            await asyncio.sleep(LIST_CHECK_EVERY)
        await self._cycles.prepare(self._load_kernels)
        self._has_kernels = True

    async def _load_kernels_later(self) -> None:
        """If the first cycle did without them. Like all background work it never ends by itself."""
        await self._has_begun.wait()
        if not self._has_kernels:
            await first_of(self._binder.wait_idle(), timeout=KERNELS_WAIT)
            await asyncio.to_thread(self._load_kernels)
        await asyncio.Event().wait()

    async def _find_missing_definitions(self) -> None:
        self._missing_definitions = await missing_definitions(self._client, (QUEUES, POD_GROUPS, RESERVATIONS))
        if self._missing_definitions:
            _log.error(NOT_INSTALLED, missing=", ".join(self._missing_definitions))

    async def _take_over(self) -> None:
        if isinstance(self._leadership, LeaderElector):
            await asyncio.sleep(SETTLE)
        await self._cycles.apply_pending()
        self._lacks_default_queue = names.DEFAULT_QUEUE not in self._reflectors[Queue].objects
        self._is_active = True
        self._metrics.set_leader(True)

    def _stand_by(self) -> None:
        if self._is_active:
            self._is_active = False
            self._metrics.set_leader(False)
            self._binder.cancel_queued("another scheduler has the lease now")
            self._status_patches.cancel_all()

    async def _ensure_default_queue(self) -> None:
        queue = Queue(metadata=ObjectMeta(name=names.DEFAULT_QUEUE))
        default(queue)
        try:
            self._reflectors[Queue].observe_write(await self._client.create(QUEUES, queue))
        except Failure as failure:
            if not is_already_exists(failure):
                _log.warning("cannot create the queue `default`", failure=failure.message)
            if failure.status == NO_RESPONSE:
                return  # retried before the next cycle
        self._lacks_default_queue = False

    # -- pauses -------------------------------------------------------------------------------------------------

    async def _pause(self, stop: asyncio.Event, took: float, used: float) -> None:
        """Wait until the next cycle is due or an urgent event arrives, and then a moment for related events.

        A stream of events is gathered for longer: while most binds of the last cycle are in flight, new ones would only
        queue behind them, and the more processor time cycles take, the fewer there should be. A single event after a
        quiet time need not wait for that.
        """
        clock = asyncio.get_running_loop().time
        rested_at = max(self._rested_at, clock() - took) + (1 + PAUSE_FACTOR) * used
        self._rested_at = min(rested_at, clock() + self._period + PAUSE_CREDIT)
        remaining = max(0.0, self._period - took)
        await first_of(stop.wait(), self._inbox.urgent.wait(), timeout=remaining)
        if not stop.is_set() and self._inbox.urgent.is_set():
            await first_of(stop.wait(), timeout=max(GATHER, self._rested_at - PAUSE_CREDIT - clock()))
            await first_of(stop.wait(), self._binder.wait_for_free_worker(), timeout=remaining)

    def _may_rest(self, stop: asyncio.Event) -> bool:
        return self._leadership.is_leader and not (stop.is_set() or self._inbox.urgent.is_set())

    # -- callbacks ----------------------------------------------------------------------------------------------

    def _observe_write(self, obj: KObject) -> None:
        self._reflectors[type(obj)].observe_write(obj)

    def _reconfigured(self, scheduler: Scheduler) -> None:
        self._reporter.reconfigured(scheduler)
        self._is_reconfigured.set()
        self._inbox.urgent.set()
