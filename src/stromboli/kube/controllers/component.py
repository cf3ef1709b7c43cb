"""The controllers' loop: a pass when something changed or is due, and then its changes are written.

    reflectors ──▶ events ──▶ cache ──▶ [thread: all controllers] ──▶ change writer ──▶ writes, events
                     ▲                                                   │
                     └───────────── objects that writes returned ◀───────┘

Events wait while a pass runs and while its changes are written, and are applied in between. So a pass sees one state,
and the next pass sees what was just written. A pass starts soon after an event, but passes never take more than a fifth
of the time, however large the cluster is.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Any, Final, TypeVar

from stromboli.api import (
    KObject,
    Queue,
    names,
)
from stromboli.api.validation.limits import MAX_JOB_REPLICAS
from stromboli.containment import ObjectRef
from stromboli.controllers import (
    DEFAULT_RETENTION,
    RELOCK_PERIOD,
    Change,
    ControllerManager,
    LockRules,
    Objects,
    PodLimits,
    Probe,
    QueueLocks,
)
from stromboli.kube.client import (
    COMMANDS,
    JOB_FLOWS,
    NAMESPACES,
    NODES,
    POD_GROUPS,
    PODS,
    PRIORITY_CLASSES,
    QUEUES,
    REPLICA_SETS,
    RESERVATIONS,
    STATEFUL_SETS,
    Client,
    Reflector,
    Resource,
    TokenBucket,
)
from stromboli.kube.runtime import (
    NOT_INSTALLED,
    REQUEST_TIMEOUT,
    ConfigurationFile,
    EventRecorder,
    LeaderElector,
    Leadership,
    Log,
    garbage_collection,
    missing_definitions,
)
from stromboli.kube.runtime.object_containment import MOST_ERRORS, ObjectContainment
from stromboli.kube.runtime.served import OF_PODS, served_optional_kinds, watch_optional_kinds
from stromboli.scheduling.explanation import Code
from stromboli.scheduling.explanation.error_reasons import internal_error

from .cache import KINDS
from .change_writer import ChangeWriter
from .command_queue import CommandQueue
from .metrics import ControllerMetrics
from .observed_objects import ObservedObjects
from .pod_templates import LIVE_CRON_JOBS, LIVE_JOB_TEMPLATES, LIVE_JOBS
from .prober import Prober
from .served_stateful_sets import serves_stateful_sets

_log = Log("controllers")

T = TypeVar("T")

MIN_PAUSE: Final = 0.1  # seconds between two passes
PAUSE_FACTOR: Final = 4.0  # the pause after a pass is at least this many times the processor time that it used
SYNC_LOG_EVERY: Final = 10.0  # seconds between two log lines about what the start waits for
RETRY: Final = 0.5  # seconds until the next pass after an incomplete one
STANDBY_PERIOD: Final = 1.0  # seconds between two batches of events while another replica leads
SETTLE: Final = 1.0  # seconds after taking over, until our watches show what the last leader wrote
TOO_MANY_CRASHES: Final = 5

OPTIONAL_KINDS: Final = (*OF_PODS, LIVE_CRON_JOBS, JOB_FLOWS, LIVE_JOB_TEMPLATES)
POD_LIMITS: Final = PodLimits(per_pass=3000, per_job=1000, visits=3000)  # about what a pass has time to write


class ControllersComponent:
    name = "controllers"

    def __init__(
        self,
        client: Client,
        *,
        leadership: Leadership,
        scheduler_name: str,
        bucket: Callable[[], TokenBucket],
        metrics: ControllerMetrics,
        max_job_replicas: int = MAX_JOB_REPLICAS,
        lock_rules: ConfigurationFile[LockRules | None] | None = None,
        relock_period: float = RELOCK_PERIOD,
        reservation_retention: float = DEFAULT_RETENTION,
        topology_keys: Sequence[str] = (),
        request_timeout: float = REQUEST_TIMEOUT,
        clock: Callable[[], float] = time.time,
        processor_time: Callable[[], float] = time.thread_time,
    ) -> None:
        """`bucket` creates a rate limit for one kind of write. `lock_rules`: what the scheduler's configuration says
        about nodes that are locked for queues; without it there are none. `reservation_retention`: after how many
        seconds Reservations that have ended are deleted; 0 means never. `topology_keys`: labels of nodes of which
        HyperNodes are made. `request_timeout` limits a write; it must not
        be longer than a lease outlives its fence. `processor_time`: of the thread that calls it."""
        self._lock_rules = lock_rules
        self._relock_period = relock_period
        self._reservation_retention = reservation_retention
        self._topology_keys = topology_keys
        self._max_job_replicas = max_job_replicas
        self._client = client
        self._leadership = leadership
        self._scheduler_name = scheduler_name
        self._metrics = metrics
        self._clock = clock
        self._loop_time = asyncio.get_running_loop().time
        self._processor_time = processor_time
        self._used = 0.0  # processor time of the last pass; one that was suspended took longer, and may go on at once
        self._errors = metrics.contained_errors(self.name)
        self._containment = ObjectContainment(self._errors, clock)
        self._wake = asyncio.Event()
        self._observed = ObservedObjects(
            scheduler_name=scheduler_name,
            containment=self._containment,
            contain=self._errors.contain,
            changed=self._wake.set,
        )
        self._cache = self._observed.cache
        self._prober = Prober(answered=self._wake.set)
        self._recorder = EventRecorder(client, f"{scheduler_name}-controllers", bucket=bucket(), clock=clock)
        self._command_queue = CommandQueue(client, leadership, self._recorder, timeout=request_timeout)
        self._writer = ChangeWriter(
            client,
            fence=leadership,
            bucket=bucket(),
            events=self._recorder,
            on_object=self._observe_write,
            on_deleted=self._observed.deleted,
            on_result=metrics.wrote,
            clock=self._loop_time,
            timeout=request_timeout,
        )
        resources: tuple[Resource[Any], ...] = (
            NAMESPACES, PRIORITY_CLASSES, NODES, QUEUES, REPLICA_SETS, LIVE_JOBS, POD_GROUPS, PODS, RESERVATIONS,
            COMMANDS,
        )  # fmt: skip
        self._reflectors: dict[type, Reflector[Any]] = {}
        self._watch(resources)
        self._controllers: ControllerManager | None = None  # while we lead
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="controllers")
        self._crashes = 0

    def _watch(self, resources: Iterable[Resource[Any]]) -> list[Reflector[Any]]:
        new = {
            resource.type: Reflector(
                self._client,
                resource,
                self._observed.receive,
                on_relist=self._metrics.relisted,
                contain=self._errors.contain,
            )
            for resource in resources
        }
        self._reflectors |= new
        return [*new.values()]

    # -- health -------------------------------------------------------------------------------------------------

    def not_ready_reason(self) -> str | None:
        waiting = [one.resource.plural for one in self._reflectors.values() if not one.synced.is_set()]
        return f"it has not listed all {waiting[0]} yet" if waiting else None

    def unhealthy_reason(self) -> str | None:
        if self._crashes >= TOO_MANY_CRASHES:
            return f"the last {self._crashes} passes failed; the log says why"
        return None

    # -- run ----------------------------------------------------------------------------------------------------

    async def run(self, stop: asyncio.Event) -> None:
        """Reconcile until `stop` is set; then finish what is in flight."""
        optional = await served_optional_kinds(self._client, OPTIONAL_KINDS)
        self._watch([*optional, *([STATEFUL_SETS] if await serves_stateful_sets(self._client, stop) else [])])
        background: list[Coroutine[Any, Any, None]] = [
            *(reflector.run() for reflector in self._reflectors.values()),
            self._recorder.run(),
            self._wake_up(stop),
            watch_optional_kinds(self._client, optional, self._watch, OPTIONAL_KINDS),
        ]
        if self._lock_rules is not None:
            background.append(self._lock_rules.run(lambda rules: self._wake.set(), lambda reason: None))
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(work) for work in background]
                await self._sync(stop)
                await self._control(stop)
                await self._recorder.flush()
                await self._prober.cancel()
                for task in tasks:
                    task.cancel()
        finally:
            self._thread.shutdown(wait=True)

    async def _wake_up(self, stop: asyncio.Event) -> None:
        await stop.wait()
        self._wake.set()

    async def _sync(self, stop: asyncio.Event) -> None:
        logged_at = self._loop_time() - SYNC_LOG_EVERY + 1.0  # the first line after a second
        while (missing := self.not_ready_reason()) is not None and not stop.is_set():
            await _wait(stop, 0.05)
            if self._loop_time() - logged_at > SYNC_LOG_EVERY:
                await self._log_what_is_missing(missing)
                logged_at = self._loop_time()
        await self._apply_pending()
        garbage_collection.freeze_current_objects()

    async def _log_what_is_missing(self, missing: str) -> None:
        unknown = await missing_definitions(self._client, (QUEUES, POD_GROUPS, LIVE_JOBS, RESERVATIONS, COMMANDS))
        if unknown:
            _log.error(NOT_INSTALLED, missing=", ".join(unknown))
        else:
            _log.info("waiting for the lists of the API server", missing=missing)

    async def _control(self, stop: asyncio.Event) -> None:
        while not stop.is_set():
            if not self._leadership.is_leader:
                await self._stand_by()
                await self._wait_for_lease()
                continue
            if self._controllers is None:
                await self._take_over(stop)
                continue
            self._wake.clear()
            again = await self._pass(self._controllers)
            await _wait(stop, max(MIN_PAUSE, PAUSE_FACTOR * self._used))
            await _wait(self._wake, again)

    async def _stand_by(self) -> None:
        if self._controllers is not None:
            self._controllers = None
            await self._prober.cancel()
            self._metrics.set_leader(False)
        await self._apply_pending()

    async def _wait_for_lease(self) -> None:
        try:
            await asyncio.wait_for(self._leadership.wait_until_leader(), STANDBY_PERIOD)
        except TimeoutError:
            return

    async def _take_over(self, stop: asyncio.Event) -> None:
        if isinstance(self._leadership, LeaderElector):
            await _wait(stop, SETTLE)
        await self._apply_pending()
        self._command_queue.clear()
        self._observed.forget_deletions()
        self._controllers = self._new_controllers()
        self._metrics.set_leader(True)

    def _new_controllers(self) -> ControllerManager:
        return ControllerManager(
            scheduler_name=self._scheduler_name,
            run_builtin_controllers=False,
            run_job_plugins=True,
            validate=True,
            required_queues=(names.DEFAULT_QUEUE, names.ROOT_QUEUE),
            pod_limits=POD_LIMITS,
            max_job_replicas=self._max_job_replicas,
            queue_locks=QueueLocks(self._rules_in_force, period=self._relock_period),
            reservation_retention=self._reservation_retention,
            topology_keys=self._topology_keys,
        )

    def _rules_in_force(self) -> LockRules | None:
        return None if self._lock_rules is None else self._lock_rules.current

    # -- passes -------------------------------------------------------------------------------------------------

    async def _pass(self, controllers: ControllerManager) -> float | None:
        """Run a pass and write its changes. Returns when the next one is due without an event."""
        await self._apply_pending()
        try:
            return await self._pass_contained(controllers)
        except Exception as error:
            self._crashes += 1
            _log.exception("a pass of the controllers failed; starting again from the state of the API server")
            self._charge(error)
            self._controllers = None
            return RETRY

    async def _pass_contained(self, controllers: ControllerManager) -> float | None:
        visible = self._containment.visible(self._cache)
        claimed_all = await self._command_queue.claim(visible, self._observed.foreign, self._clock())
        now = self._clock()
        objects = self._command_queue.with_claimed(self._cache)
        for probe, answered in self._prober.take():
            controllers.probe_answered(probe, now, answered=answered)
        started = self._loop_time()
        controllers, changes = await self._contained(controllers, objects, now)
        self._metrics.pass_done(self.name, self._loop_time() - started, changes)
        self._metrics.observe(self._cache.list(Queue))
        self._prober.start(change for change in changes if isinstance(change, Probe))
        outcome = await self._writer.write([one for one in changes if not isinstance(one, Probe)], self._cache)
        self._crashes = 0
        for change in outcome.undone:
            controllers.change_failed(change)
        for job, error in outcome.failed_writes:
            controllers.owned_write_failed(job, error)
        self._command_queue.mark_executed(outcome.executed)
        left_to_do = (outcome.incomplete, outcome.failed_writes, self._command_queue, controllers.unfinished)
        incomplete = any(left_to_do) or not claimed_all
        return self._next_pass(controllers, now, incomplete)

    async def _contained(
        self, controllers: ControllerManager, objects: Objects, now: float
    ) -> tuple[ControllerManager, list[Change]]:
        """A pass without the objects that an error happened on, and the controllers that made it."""
        if self._containment.refresh() or self._observed.is_outdated:
            self._observed.is_outdated = False
            controllers = self._controllers = self._new_controllers()
        for attempt in range(MOST_ERRORS):
            visible = self._containment.visible(objects)
            try:
                return controllers, await self._in_thread(partial(self._reconcile, controllers, visible, now))
            except Exception as error:
                if not self._charge(error) or attempt + 1 == MOST_ERRORS:
                    raise
            controllers = self._controllers = self._new_controllers()
        raise AssertionError("the last attempt returns or raises")

    def _reconcile(self, controllers: ControllerManager, objects: Objects, now: float) -> list[Change]:
        started = self._processor_time()
        changes = controllers.reconcile(objects, now)
        garbage_collection.collect_if_due()
        self._used = self._processor_time() - started
        return changes

    def _charge(self, error: BaseException) -> bool:
        """Hide the object that an error happened on, and say so. False if it cannot be found. Of errors of several
        tasks each has an object."""
        if isinstance(error, BaseExceptionGroup):
            charged_all = [self._charge(one) for one in error.exceptions]
            return any(charged_all)
        charged = self._containment.charge(error) if isinstance(error, Exception) else None
        if charged is not None:
            self._say_hidden(charged)
        return charged is not None

    def _say_hidden(self, ref: ObjectRef) -> None:
        kind = next((kind for kind in KINDS if kind.__name__ == ref.kind), None)
        found = None if kind is None else self._cache.get(kind, ref.key)
        if kind is not None and found is not None:
            message = internal_error(ref.kind, ref.key, "in the controllers")
            self._recorder.record(kind, ref.key, found.metadata.uid, Code.INTERNAL_ERROR, message, warning=True)

    def _next_pass(self, controllers: ControllerManager, now: float, incomplete: bool) -> float | None:
        delays = [RETRY] if incomplete or self._containment.hides_any else []
        due = controllers.next_due(now)
        if due is not None:
            delays.append(due - self._clock())
        retry = self._writer.backoff.next_retry()
        if retry is not None:
            delays.append(retry - self._loop_time())
        return max(0.0, min(delays)) if delays else None

    async def _in_thread(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    # -- events -------------------------------------------------------------------------------------------------

    def _observe_write(self, obj: KObject) -> None:
        self._reflectors[type(obj)].observe_write(obj)

    async def _apply_pending(self) -> None:
        """Between passes: apply the events received so far."""
        events = self._observed.drain()
        if events is not None:
            await self._in_thread(lambda: self._observed.apply(events, self._controllers, self._clock()))


async def _wait(event: asyncio.Event, seconds: float | None) -> None:
    """Until it is set, but no longer."""
    with suppress(TimeoutError):
        await asyncio.wait_for(event.wait(), seconds)
