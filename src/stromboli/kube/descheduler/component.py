"""The descheduler's loop: runs when they are due, and a pass over the moves under way after every change.

    reflectors ──▶ events ──▶ [thread: plan, or look at moves] ──▶ write executor ──▶ writes, events
                     ▲                                                 │
                     └──────────── objects that writes returned ◀──────┘

Writes of a pass are complete before the next pass begins, so a pass never decides on objects that are about to change
by its own doing. A standby knows the cluster as well, so it can take over at once.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Final, TypeVar

from stromboli.api import Job, KObject, Node, Reservation, StatefulSet, default
from stromboli.api.migration_reservations import migration_of
from stromboli.cluster import Applied, Deleted
from stromboli.descheduling import Descheduler, Options, Plan, Policy, Registry
from stromboli.descheduling.migration import start_plan
from stromboli.kube.client import (
    JOBS,
    LEGACY_BUDGETS,
    NAMESPACES,
    NODES,
    POD_DISRUPTION_BUDGETS,
    POD_GROUPS,
    PODS,
    PRIORITY_CLASSES,
    QUEUES,
    REPLICA_SETS,
    RESERVATIONS,
    RESOURCE_QUOTAS,
    STATEFUL_SETS,
    Client,
    Failure,
    Reflector,
    Resource,
    TokenBucket,
)
from stromboli.kube.runtime import (
    REQUEST_TIMEOUT,
    ConfigurationFile,
    EventRecorder,
    HealthServer,
    LeaderElector,
    Leadership,
    Log,
    garbage_collection,
    volume_kinds,
    watch_more,
)
from stromboli.kube.runtime.object_containment import MOST_ERRORS, ObjectContainment
from stromboli.kube.runtime.served import served_optional_kinds, watch_optional_kinds
from stromboli.scheduling.cycle import Scheduler

from .live_objects import LiveObjects
from .metrics import DeschedulerMetrics
from .pod_metrics import PodMetrics
from .write_executor import WriteExecutor

_log = Log("descheduler")

T = TypeVar("T")
PAUSE: Final = 0.2  # seconds between two passes
LONGEST_WAIT: Final = 5.0  # seconds without a pass
SETTLE: Final = 1.0  # seconds after taking over, until our watches show what the last leader wrote
TOO_MANY_CRASHES: Final = 5
LOAD_AWARE: Final = "LoadAware"


class NotLeader(Exception):
    """Another replica leads, or a run is under way."""


class DeschedulerComponent:
    name = "descheduler"

    def __init__(
        self,
        client: Client,
        *,
        policy: ConfigurationFile[Policy],
        scheduler: ConfigurationFile[Scheduler],
        leadership: Leadership,
        scheduler_name: str,
        bucket: Callable[[], TokenBucket],
        metrics: DeschedulerMetrics,
        dry_run: bool = False,
        keep_nodes: bool = False,
        request_timeout: float = REQUEST_TIMEOUT,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`scheduler` is the scheduler's own configuration, whose predicates decide where pods could go. `dry_run`:
        plans are logged, and nothing is written. `keep_nodes`: keep cluster-autoscaler from removing nodes that
        somebody counts on. `request_timeout` limits a write; it must not be longer than a lease outlives its fence."""
        self._client = client
        self._policy = policy
        self._scheduler = scheduler
        self._leadership = leadership
        self._scheduler_name = scheduler_name
        self._metrics = metrics
        self._dry_run = dry_run
        self._keep_nodes = keep_nodes
        self._clock = clock
        self._loop_time = asyncio.get_running_loop().time
        self._use = PodMetrics(client, self._loop_time)
        self._recorder = EventRecorder(client, f"{scheduler_name}-descheduler", bucket=bucket(), clock=clock)
        self._reflectors: dict[type[KObject], Reflector[Any]] = {}
        self._writer = WriteExecutor(
            client,
            fence=leadership,
            bucket=bucket(),
            recorder=self._recorder,
            metrics=metrics,
            on_object=self._observe_write,
            on_deleted=self._deleted,
            clock=self._loop_time,
            timeout=request_timeout,
        )
        self._events: list[Applied | Deleted] = []
        self._gone: set[str] = set()  # uids of Reservations that we deleted; the watch may not show it yet
        self._wake = asyncio.Event()
        self._is_reconfigured = asyncio.Event()
        self._busy = asyncio.Lock()  # one pass or run at a time
        self._errors = metrics.contained_errors(self.name)
        self._containment = ObjectContainment(self._errors, clock)
        self._descheduler = self._new_descheduler()
        self._is_active = False
        self._last_round = 0.0
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="descheduler")
        self._crashes = 0
        self.register_routes: Callable[[HealthServer], None] = lambda server: None

    def _new_descheduler(self) -> Descheduler:
        return Descheduler(
            lambda: self._policy.current,
            Registry(),
            lambda: self._scheduler.current,
            scheduler_name=self._scheduler_name,
            real_use=self._use.use,
            everything=lambda: self._objects().everything(),
            keep_nodes=self._keep_nodes,
        )

    # -- health -------------------------------------------------------------------------------------------------

    def not_ready_reason(self) -> str | None:
        if not self._reflectors:
            return "it has not reached the API server yet"
        waiting = [kind.__name__ for kind, reflector in self._reflectors.items() if not reflector.synced.is_set()]
        return f"it has not listed every {waiting[0]} yet" if waiting else None

    def unhealthy_reason(self) -> str | None:
        if self._crashes >= TOO_MANY_CRASHES:
            return f"the last {self._crashes} passes failed; the log says why"
        return None

    # -- run ----------------------------------------------------------------------------------------------------

    async def run(self, stop: asyncio.Event) -> None:
        """Work until `stop` is set; then finish what is being written."""
        if not await self._make_reflectors(stop):
            return
        background: list[Coroutine[Any, Any, None]] = [
            *(reflector.run() for reflector in self._reflectors.values()),
            self._recorder.run(),
            self._policy.run(lambda policy: self._wake.set(), lambda reason: None),
            self._scheduler.run(lambda scheduler: self._reconfigured(), lambda reason: None),
            watch_more(
                self._client,
                self._is_reconfigured,
                lambda: self._scheduler.current.configuration,
                self._add_reflectors,
            ),
            watch_optional_kinds(
                self._client, [reflector.resource for reflector in self._reflectors.values()], self._add_reflectors
            ),
        ]
        tasks = [asyncio.create_task(work) for work in background]
        try:
            await self._loop(stop)
            await self._recorder.flush()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            self._thread.shutdown(wait=True)

    def _reconfigured(self) -> None:
        self._is_reconfigured.set()
        self._wake.set()

    async def _make_reflectors(self, stop: asyncio.Event) -> bool:
        """False if the stop came first."""
        while not stop.is_set():
            try:
                modern = await self._client.serves(POD_DISRUPTION_BUDGETS.group_version)
                has_sets = await self._client.serves_kind(STATEFUL_SETS)
                volumes = await volume_kinds(self._client, self._scheduler.current.configuration)
                optional = await served_optional_kinds(self._client)
            except Failure as failure:
                _log.warning("the API server does not answer yet", failure=failure.message)
                await _wait(stop, 1.0)
                continue
            budgets = POD_DISRUPTION_BUDGETS if modern else LEGACY_BUDGETS
            kinds: tuple[Resource[Any], ...] = (
                PRIORITY_CLASSES, NAMESPACES, RESOURCE_QUOTAS, budgets, QUEUES, REPLICA_SETS, STATEFUL_SETS, JOBS,
                NODES, RESERVATIONS, POD_GROUPS, PODS, *volumes, *optional,
            )  # fmt: skip
            # The embedded server has no StatefulSets. Without them, their pods stay where they are.
            self._add_reflectors(kind for kind in kinds if kind is not STATEFUL_SETS or has_sets)
            return True
        return False

    def _add_reflectors(self, kinds: Iterable[Resource[Any]]) -> list[Reflector[Any]]:
        new = {
            kind.type: Reflector(
                self._client,
                kind,
                self._receive,
                on_relist=self._metrics.relisted,
                contain=self._errors.contain,
            )
            for kind in kinds
            if kind.type not in self._reflectors
        }
        self._reflectors |= new
        return list(new.values())

    async def _loop(self, stop: asyncio.Event) -> None:
        while self.not_ready_reason() is not None and not stop.is_set():
            await _wait(stop, 0.05)
        garbage_collection.freeze_current_objects()
        self._last_round = self._clock()
        while not stop.is_set():
            if not self._dry_run and not self._leadership.is_leader:
                self._stand_by()
                await _wait(stop, 1.0)
                continue
            if not self._is_active:
                await self._take_over(stop)
            self._wake.clear()
            await self._pass()
            await _wait(stop, PAUSE)
            await self._wait_for_event(stop)

    def _stand_by(self) -> None:
        if self._is_active:
            self._is_active = False
            self._metrics.set_leader(False)
        self._apply_pending()

    async def _take_over(self, stop: asyncio.Event) -> None:
        if isinstance(self._leadership, LeaderElector):
            await _wait(stop, SETTLE)
        self._is_active = True
        self._last_round = self._clock()
        self._metrics.set_leader(True)

    async def _wait_for_event(self, stop: asyncio.Event) -> None:
        delays = [LONGEST_WAIT]
        due = self._policy.current.schedule.next_after(self._last_round, origin=0.0)
        if due is not None:
            delays.append(due - self._clock())
        stopping = asyncio.create_task(stop.wait())
        waking = asyncio.create_task(self._wake.wait())
        try:
            await asyncio.wait([stopping, waking], timeout=max(0.0, min(delays)), return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (stopping, waking):
                task.cancel()
            await asyncio.gather(stopping, waking, return_exceptions=True)

    # -- passes -------------------------------------------------------------------------------------------------

    async def _pass(self) -> None:
        async with self._busy:
            try:
                if self._containment.refresh():
                    self._descheduler = self._new_descheduler()
                if not self._dry_run:
                    await self._advance()
                await self._run_if_due()
                self._crashes = 0
            except Exception:
                self._crashes += 1
                _log.exception("a pass of the descheduler failed; starting again from the state of the API server")
                self._descheduler = self._new_descheduler()

    async def _advance(self) -> None:
        self._apply_pending()
        now = self._clock()
        writes, objects = await self._contained(lambda seen: self._descheduler.advance(seen, now))
        if writes:
            await self._writer.write(writes, objects)
            self._wake.set()
        moves = [each for each in objects.list(Reservation) if migration_of(each) is not None]
        self._metrics.under_way(len(moves))

    async def _run_if_due(self) -> None:
        due = self._policy.current.schedule.next_after(self._last_round, origin=0.0)
        if due is None or self._clock() < due:
            return
        self._last_round = self._clock()
        plans, objects = await self._plan(None, None)
        for plan in plans:
            moves = ", ".join(f"{move.pod} from {move.source} to {move.target}" for move in plan.moves)
            removals = ", ".join(each.pod for each in plan.removals)
            what = {"removals": removals} if removals else {"moves": moves}
            _log.info("planned", plugin=plan.plugin, goal=plan.goal, dry_run=self._dry_run, **what)
        if not self._dry_run:
            await self._begin(plans, objects)

    async def _plan(self, profile: str | None, options: Options | None) -> tuple[list[Plan], LiveObjects]:
        policy = self._policy.current
        if any(LOAD_AWARE in each.balance for each in policy.profiles):
            await self._use.refresh()
        self._apply_pending()
        now = self._clock()
        found = policy.profile(profile) if profile else None
        profiles = None if found is None else [found]
        started = self._loop_time()
        plans, objects = await self._contained(
            lambda seen: self._descheduler.plan(seen, now, profiles=profiles, options=options)
        )
        self._metrics.run_done(self._loop_time() - started, plans)
        return plans, objects

    async def _contained(self, work: Callable[[LiveObjects], T]) -> tuple[T, LiveObjects]:
        """The result of work in the thread, and the objects that it saw: without those that an error happened on."""
        for attempt in range(MOST_ERRORS):
            objects = self._objects()
            try:
                return await self._in_thread(partial(work, objects)), objects
            except Exception as error:
                if self._containment.charge(error) is None or attempt + 1 == MOST_ERRORS:
                    raise
            self._descheduler = self._new_descheduler()
        raise AssertionError("the last attempt returns or raises")

    async def _begin(self, plans: Sequence[Plan], objects: LiveObjects) -> None:
        now = self._clock()
        for plan in plans:
            await self._writer.write(start_plan(plan, objects, now), objects)
        if plans:
            self._wake.set()

    # -- on request ---------------------------------------------------------------------------------------------

    async def plan(self, profile: str | None, options: Options) -> list[Plan]:
        """What a run would do now; nothing is written."""
        async with self._busy:
            plans, _ = await self._plan(profile, options)
            return plans

    async def apply(self, profile: str | None, options: Options) -> list[Plan]:
        """Run now. Raises NotLeader if this replica may not act, or a run is being made already."""
        if self._dry_run:
            raise NotLeader("this descheduler only shows plans (--dry-run)")
        if not self._leadership.is_leader:
            raise NotLeader("another replica of the descheduler leads; ask that one")
        if self._busy.locked():
            raise NotLeader("a run is being made already")
        async with self._busy:
            plans, objects = await self._plan(profile, options)
            await self._begin(plans, objects)
            return plans

    @property
    def profiles(self) -> list[str]:
        return [profile.name for profile in self._policy.current.profiles]

    def nodes(self) -> LiveObjects:
        """The objects as of now, for pictures."""
        return self._objects()

    # -- events -------------------------------------------------------------------------------------------------

    def _receive(self, event: Applied | Deleted) -> None:
        if isinstance(event, Applied):
            default(event.object)
        self._events.append(event)
        if isinstance(event.object, Reservation) or not isinstance(event.object, Node):
            self._wake.set()
        if isinstance(event, Deleted):
            self._gone.discard(event.object.metadata.uid)

    def _observe_write(self, obj: KObject) -> None:
        self._reflectors[type(obj)].observe_write(obj)

    def _deleted(self, obj: KObject) -> None:
        self._gone.add(obj.metadata.uid)

    def _apply_pending(self) -> None:
        events, self._events = self._events, []
        for event in events:
            if isinstance(event.object, Job | StatefulSet) or self._containment.hides(event.object):
                continue
            try:
                self._descheduler.observe(event)
            except Exception as error:
                if self._containment.charge(error) is None:
                    raise
                self._descheduler = self._new_descheduler()

    def _objects(self) -> LiveObjects:
        """What the reflectors have, without what we have deleted."""
        objects: dict[type[KObject], dict[str, Any]] = {
            kind: dict(reflector.objects) for kind, reflector in self._reflectors.items()
        }
        if self._gone and Reservation in objects:
            known = objects[Reservation]
            self._gone &= {each.metadata.uid for each in known.values()}
            objects[Reservation] = {key: r for key, r in known.items() if r.metadata.uid not in self._gone}
        if self._containment.hides_any:
            for kind, of_kind in objects.items():
                objects[kind] = {key: one for key, one in of_kind.items() if not self._containment.hides(one)}
        return LiveObjects(objects)

    async def _in_thread(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)


async def _wait(stop: asyncio.Event, seconds: float) -> None:
    try:
        await asyncio.wait_for(stop.wait(), seconds)
    except TimeoutError:
        return
