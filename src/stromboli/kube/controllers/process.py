"""The controllers as a process: a pass when something changed or a time has come, and its changes carried out.

    reflectors ──▶ news ──▶ cache ──▶ [thread: all controllers] ──▶ changer ──▶ writes, events
                     ▲                                                │
                     └───────── what the writes returned ◀────────────┘

News waits while a pass runs and while its changes are carried out, and is taken in between: so a pass sees one state,
and what was just written is part of the next. A pass follows news at once, but never so closely that passes take more
than a fifth of the time, however large the cluster.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, TypeVar

from msgspec.structs import replace

from stromboli.api import Command, Job, KObject, Pod, PodGroup, PriorityClass, Queue, ReplicaSet, default, key, names
from stromboli.api.timestamps import format_timestamp
from stromboli.cluster import Applied, Deleted
from stromboli.controllers import Change, ControllerManager, Objects, is_terminating
from stromboli.kube.client.client import Client
from stromboli.kube.client.rate_limit import TokenBucket
from stromboli.kube.client.reflector import Reflector
from stromboli.kube.client.resources import COMMANDS, POD_GROUPS, PODS, PRIORITY_CLASSES, QUEUES, REPLICA_SETS, Resource
from stromboli.kube.runtime import garbage_collection
from stromboli.kube.runtime.crd_check import NOT_INSTALLED, undefined
from stromboli.kube.runtime.event_recorder import Recorder
from stromboli.kube.runtime.leader_election import Alone, Leadership
from stromboli.kube.runtime.logs import Log
from stromboli.kube.runtime.metrics import ControllerMetrics

from .cache import Cache, kind_of
from .command_queue import Orders
from .pod_templates import LIVE_JOBS
from .writer import Changer

_log = Log("controllers")

T = TypeVar("T")

SHORTEST: Final = 0.1  # seconds between two passes
SHARE: Final = 4.0  # how much longer than a pass the time until the next is, at least
LOOK_AGAIN: Final = 10.0  # seconds between two words about what is not there yet
AGAIN: Final = 0.5  # seconds until what was left undone is looked at again
STANDBY: Final = 1.0  # seconds between two looks at the news while another replica leads
SETTLE: Final = 1.0  # seconds after taking over, for what the last leader wrote to arrive
TOO_MANY_CRASHES: Final = 5

KINDS: Final = (Command, Job, Pod, PodGroup, PriorityClass, Queue, ReplicaSet)


class ControllersProcess:
    name = "controllers"

    def __init__(
        self,
        client: Client,
        *,
        leadership: Leadership | Alone,
        scheduler_name: str,
        bucket: Callable[[], TokenBucket],
        metrics: ControllerMetrics,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`bucket` makes a limit for a kind of write."""
        self._client = client
        self._leadership = leadership
        self._scheduler_name = scheduler_name
        self._metrics = metrics
        self._clock = clock
        self._cache = Cache(KINDS)
        self._recorder = Recorder(client, f"{scheduler_name}-controllers", bucket=bucket(), clock=clock)
        self._orders = Orders(client, leadership, self._recorder)
        self._changer = Changer(
            client,
            fence=leadership,
            bucket=bucket(),
            teller=self._recorder,
            note=self._note,
            leaves=self._leaves,
            outcome=metrics.wrote,
        )
        resources: tuple[Resource[Any], ...] = (
            PRIORITY_CLASSES, QUEUES, REPLICA_SETS, LIVE_JOBS, POD_GROUPS, PODS, COMMANDS,
        )  # fmt: skip
        self._reflectors: dict[str, Reflector[Any]] = {
            resource.plural: Reflector(client, resource, self._hear, relisted=metrics.relisted)
            for resource in resources
        }
        self._news: list[Applied | Deleted] = []
        self._awake = asyncio.Event()
        self._foreign: set[str] = set()  # keys of Jobs that are another scheduler's
        self._told_to_go: dict[str, str] = {}  # uid and key of pods that we have deleted and that may not show it yet
        self._controllers: ControllerManager | None = None  # while we lead
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="controllers")
        self._crashes = 0

    # -- what others may ask ------------------------------------------------------------------------------------

    def unready(self) -> str | None:
        waiting = [plural for plural, reflector in self._reflectors.items() if not reflector.synced.is_set()]
        return f"it has not seen all {waiting[0]} yet" if waiting else None

    def unwell(self) -> str | None:
        if self._crashes >= TOO_MANY_CRASHES:
            return f"the last {self._crashes} passes failed; the log says why"
        return None

    # -- the process --------------------------------------------------------------------------------------------

    async def run(self, stop: asyncio.Event) -> None:
        """Keep objects true until `stop` is set; then finish what is under way."""
        background: list[Coroutine[Any, Any, None]] = [
            *(reflector.run() for reflector in self._reflectors.values()),
            self._recorder.run(),
            self._wake_up(stop),
        ]
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(work) for work in background]
                await self._sync(stop)
                await self._control(stop)
                await self._recorder.flush()
                for task in tasks:
                    task.cancel()
        finally:
            self._thread.shutdown(wait=True)

    async def _wake_up(self, stop: asyncio.Event) -> None:
        await stop.wait()
        self._awake.set()

    async def _sync(self, stop: asyncio.Event) -> None:
        said_at = time.monotonic() - LOOK_AGAIN + 1.0  # the first word after a second
        while (missing := self.unready()) is not None and not stop.is_set():
            await self._sleep(stop, 0.05)
            if time.monotonic() - said_at > LOOK_AGAIN:
                await self._say_what_is_missing(missing)
                said_at = time.monotonic()
        await self._absorb()
        garbage_collection.set_apart()

    async def _say_what_is_missing(self, missing: str) -> None:
        unknown = await undefined(self._client, (QUEUES, POD_GROUPS, LIVE_JOBS, COMMANDS))
        if unknown:
            _log.error(NOT_INSTALLED, missing=", ".join(unknown))
        else:
            _log.info("waiting for the API server's lists", missing=missing)

    async def _control(self, stop: asyncio.Event) -> None:
        while not stop.is_set():
            if not self._leadership.held:
                await self._stand_by()
                await self._leads_or_waits()
                continue
            if self._controllers is None:
                await self._take_over(stop)
                continue
            self._awake.clear()
            again, took = await self._pass(self._controllers)
            await self._sleep(stop, max(SHORTEST, SHARE * took))
            await self._doze(again)

    async def _stand_by(self) -> None:
        if self._controllers is not None:
            self._controllers = None
            self._metrics.leads(False)
        await self._absorb()

    async def _leads_or_waits(self) -> None:
        try:
            await asyncio.wait_for(self._leadership.wait(), STANDBY)
        except TimeoutError:
            return

    async def _take_over(self, stop: asyncio.Event) -> None:
        if isinstance(self._leadership, Leadership):
            await self._sleep(stop, SETTLE)
        await self._absorb()
        self._orders.forget()
        self._told_to_go.clear()
        self._controllers = ControllerManager(
            scheduler_name=self._scheduler_name,
            run_builtin_controllers=False,
            run_job_plugins=True,
            validate=True,
            required_queues=(names.DEFAULT_QUEUE, names.ROOT_QUEUE),
        )
        self._metrics.leads(True)

    # -- passes -------------------------------------------------------------------------------------------------

    async def _pass(self, controllers: ControllerManager) -> tuple[float | None, float]:
        """One pass, carried out. When to look again although nothing is heard, and for how long the pass ran."""
        await self._absorb()
        took_all = await self._orders.take(self._cache, self._foreign, self._clock())
        now = self._clock()
        objects = self._orders.among(self._cache)
        started = time.perf_counter()
        try:
            changes = await self._in_thread(lambda: _reconciled(controllers, objects, now))
        except Exception:
            self._crashes += 1
            _log.exception("a pass of the controllers failed; they start afresh from what the API server says")
            self._controllers = None
            return AGAIN, time.perf_counter() - started
        self._crashes = 0
        took = time.perf_counter() - started
        self._metrics.pass_done(self.name, took, changes)
        self._metrics.observe(self._cache.list(Queue))
        outcome = await self._changer.carry_out(changes, self._cache)
        for change in outcome.undone:
            controllers.change_failed(change)
        self._orders.obeyed(outcome.obeyed)
        return self._next_look(controllers, now, outcome.left or not took_all or bool(self._orders)), took

    def _next_look(self, controllers: ControllerManager, now: float, left: bool) -> float | None:
        looks = [AGAIN] if left else []
        due = controllers.next_due(self._cache, now)
        if due is not None:
            looks.append(due - self._clock())
        retry = self._changer.setbacks.next_due()
        if retry is not None:
            looks.append(retry - time.monotonic())
        return max(0.0, min(looks)) if looks else None

    async def _in_thread(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    async def _sleep(self, stop: asyncio.Event, seconds: float) -> None:
        try:
            await asyncio.wait_for(stop.wait(), seconds)
        except TimeoutError:
            return

    async def _doze(self, seconds: float | None) -> None:
        """Until there are news, or the time is over."""
        try:
            await asyncio.wait_for(self._awake.wait(), seconds)
        except TimeoutError:
            return

    # -- news ---------------------------------------------------------------------------------------------------

    def _hear(self, event: Applied | Deleted) -> None:
        if isinstance(event, Applied):
            default(event.object)
        self._news.append(event)
        self._awake.set()

    def _note(self, obj: KObject) -> None:
        self._reflectors[_PLURALS[kind_of(obj)]].note(obj)

    def _leaves(self, obj: KObject) -> None:
        if isinstance(obj, Pod):
            self._told_to_go[obj.metadata.uid] = key(obj)

    async def _absorb(self) -> None:
        """Between passes: what was heard becomes what is known."""
        news, self._news = self._news, []
        if news or self._told_to_go:
            await self._in_thread(lambda: self._take_in(news))

    def _take_in(self, news: list[Applied | Deleted]) -> None:
        now = self._clock()
        for event in news:
            if isinstance(event.object, Pod):
                self._watch_pod(event, now)
            elif isinstance(event.object, Job):
                event = self._without_foreign(event, event.object)
            self._cache.apply(event)
        for uid, pod_key in list(self._told_to_go.items()):
            pod = self._cache.get(Pod, pod_key)
            if pod is None or pod.metadata.uid != uid:
                del self._told_to_go[uid]
            elif not is_terminating(pod):
                # The server knows, and its word is on the way. Until then nobody may act upon the pod as if it stayed.
                leaving = replace(pod, metadata=replace(pod.metadata, deletion_timestamp=format_timestamp(now)))
                self._cache.apply(Applied(leaving))

    def _without_foreign(self, event: Applied | Deleted, job: Job) -> Applied | Deleted:
        """What another scheduler is to run is not there for us; nor are the commands for it."""
        if isinstance(event, Deleted) or job.spec.scheduler_name == self._scheduler_name:
            self._foreign.discard(key(job))
            return event
        self._foreign.add(key(job))
        return Deleted(job)

    def _watch_pod(self, event: Applied | Deleted, now: float) -> None:
        """A pod that is going is news once: when it begins to leave, or when it is gone without having been seen to.
        One that was leaving when we first saw it is somebody else's news."""
        before = self._cache.get(Pod, key(event.object))
        if self._controllers is None or before is None or is_terminating(before):
            return
        after = event.object
        assert isinstance(after, Pod)
        if isinstance(event, Deleted) or after.metadata.uid != before.metadata.uid:
            self._controllers.pod_deleted(before, now, evicted=False)
        elif is_terminating(after):
            self._controllers.pod_deleted(after, now, evicted=False)


def _reconciled(controllers: ControllerManager, objects: Objects, now: float) -> list[Change]:
    changes = controllers.reconcile(objects, now)
    garbage_collection.sweep()
    return changes


_PLURALS: Final[dict[type[KObject], str]] = {
    Job: LIVE_JOBS.plural,
    Pod: PODS.plural,
    PodGroup: POD_GROUPS.plural,
    Queue: QUEUES.plural,
}
