"""How many pods per second a scheduler binds on a real API server, compared with the limit of that server.

A number of pods per second says more about the server and the machine than about a scheduler. So the limit of the
server is measured in the same run, by the same client over as many connections, without a scheduler:

    binds              existing pods are bound by bare requests
    creates and binds  each pod is created and bound, one request after the other

Then `stromboli scheduler` runs as a separate process, on hollow nodes that are registered and nothing more:

    stream             it runs while gangs of pods are created; from the first create to the last bind
    backlog            it is started when all pods exist; from the first bind to the last

The first sends the same requests as creates and binds, the second the same as binds. A bind counts when a watch shows
it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from stromboli.api import key
from stromboli.cluster.events import Applied, Deleted
from stromboli.errors import UserError
from stromboli.kube.client import POD_GROUPS, PODS, Client, Reflector, load_client_config

from .child_process import ChildProcess
from .workload import PART, Workload

_BIND_TIMEOUT: Final = 120.0  # seconds in which at least one more bind must be seen
_SETTLE: Final = 2.0  # seconds for the scheduler to become idle


@dataclass(frozen=True, slots=True)
class BenchmarkPlan:
    kubeconfig: Path | None
    context: str | None
    nodes: int
    pods: int
    gang_size: int
    existing_pods: int
    connections: int = 16


class BenchmarkResult(msgspec.Struct):
    """What was measured. Units are in the names; a `part` is a fraction of 1."""

    nodes: int
    pods: int
    gang_size: int
    existing_pods: int
    connections: int
    server_version: str = ""
    limit_binds_per_second: float = 0.0
    limit_creates_and_binds_per_second: float = 0.0
    stream_pods_per_second: float = 0.0
    stream_part_of_binds: float = 0.0
    stream_part_of_creates_and_binds: float = 0.0
    stream_first_to_last_create_seconds: float = 0.0
    stream_last_create_to_last_bind_seconds: float = 0.0
    stream_first_to_last_bind_seconds: float = 0.0
    backlog_binds_per_second: float = 0.0
    backlog_part_of_binds: float = 0.0
    backlog_start_to_first_bind_seconds: float = 0.0
    start_to_first_bind_seconds: float = 0.0
    scheduler_peak_memory_mib: float = 0.0
    scheduler_cpu_seconds: float = 0.0


async def benchmark(plan: BenchmarkPlan, say: Callable[[str], None]) -> BenchmarkResult:
    """Measure, and remove everything created. Raises UserError if the server or the scheduler cannot be measured."""
    config = load_client_config(plan.kubeconfig, plan.context)
    # Two clients: the watch must not take a connection from the writes.
    async with Client(config, connections=plan.connections) as writing, Client(config) as watching:
        major, minor = await writing.server_version()
        if not await writing.serves(POD_GROUPS.group_version):
            raise UserError(
                f"The API server at {config.server} does not serve PodGroups; "
                "install them with: kubectl apply -k deploy/crds"
            )
        workload = Workload(writing, nodes=plan.nodes, gang_size=plan.gang_size, connections=plan.connections)
        run = _Run(plan, workload, watching, lambda line: say(f"{workload.name}: {line}"))
        run.result.server_version = f"{major}.{minor}"
        try:
            await run.measure()
        finally:
            say(f"{workload.name}: cleaning up …")
            await workload.tear_down(say)
    return run.result


class _Run:
    def __init__(self, plan: BenchmarkPlan, workload: Workload, watching: Client, say: Callable[[str], None]) -> None:
        self.result = BenchmarkResult(plan.nodes, plan.pods, plan.gang_size, plan.existing_pods, plan.connections)
        self._plan = plan
        self._workload = workload
        self._watching = watching
        self._say = say

    async def measure(self) -> None:
        self._say(f"registering {self._plan.nodes} nodes …")
        await self._workload.set_up()
        if self._plan.existing_pods:
            self._say(f"creating {self._plan.existing_pods} pods that are bound already …")
            await self._workload.create_groups("existing", self._plan.existing_pods)
            await self._workload.for_each_pod("existing", self._plan.existing_pods, self._workload.create_bound)
        self._say(f"the server alone: binding {self._plan.pods} pods …")
        await self._measure_binds()
        self._say(f"the server alone: creating and binding {self._plan.pods} pods …")
        await self._measure_creates_and_binds()
        self._say(f"the scheduler: a stream of {self._plan.pods} pods …")
        await self._measure_stream()
        self._say(f"the scheduler: a backlog of {self._plan.pods} pods …")
        await self._measure_backlog()

    # -- the server alone -------------------------------------------------------------------------------------------

    async def _measure_binds(self) -> None:
        workload, count = self._workload, self._plan.pods
        await workload.for_each_pod("binds", count, workload.create_unscheduled)
        started = time.monotonic()
        await workload.for_each_pod("binds", count, workload.bind)
        self.result.limit_binds_per_second = count / (time.monotonic() - started)
        await workload.clear("binds")

    async def _measure_creates_and_binds(self) -> None:
        workload, count = self._workload, self._plan.pods

        async def create_and_bind(part: str, number: int) -> None:
            await workload.create_unscheduled(part, number)
            await workload.bind(part, number)

        started = time.monotonic()
        await workload.for_each_pod("both", count, create_and_bind)
        self.result.limit_creates_and_binds_per_second = count / (time.monotonic() - started)
        await workload.clear("both")

    # -- the scheduler ----------------------------------------------------------------------------------------------

    async def _measure_stream(self) -> None:
        workload, result, count = self._workload, self.result, self._plan.pods
        await workload.create_groups("first", self._plan.gang_size)
        await workload.for_each_pod("first", self._plan.gang_size, workload.create)
        await workload.create_groups("stream", count)
        async with self._scheduler() as child:
            async with self._binds("first", child) as binds:
                await binds.reach(self._plan.gang_size)
                result.start_to_first_bind_seconds = binds.first - child.started_at
            await asyncio.sleep(_SETTLE)
            async with self._binds("stream", child) as binds:
                started = time.monotonic()
                await workload.for_each_pod("stream", count, workload.create)
                created = time.monotonic()
                await binds.reach(count)
        speed = result.stream_pods_per_second = count / (binds.last - started)
        result.stream_part_of_binds = speed / result.limit_binds_per_second
        result.stream_part_of_creates_and_binds = speed / result.limit_creates_and_binds_per_second
        result.stream_first_to_last_create_seconds = created - started
        result.stream_last_create_to_last_bind_seconds = binds.last - created
        result.stream_first_to_last_bind_seconds = binds.last - binds.first
        result.scheduler_peak_memory_mib = child.peak_mib
        result.scheduler_cpu_seconds = child.cpu_seconds
        await workload.clear("first")
        await workload.clear("stream")

    async def _measure_backlog(self) -> None:
        workload, result, count = self._workload, self.result, self._plan.pods
        await workload.create_groups("backlog", count)
        await workload.for_each_pod("backlog", count, workload.create)
        async with self._scheduler() as child, self._binds("backlog", child) as binds:
            await binds.reach(count)
        result.backlog_start_to_first_bind_seconds = binds.first - child.started_at
        # The time starts with the first bind, so that one does not count.
        speed = result.backlog_binds_per_second = (count - 1) / (binds.last - binds.first)
        result.backlog_part_of_binds = speed / result.limit_binds_per_second
        result.scheduler_peak_memory_mib = max(result.scheduler_peak_memory_mib, child.peak_mib)

    @asynccontextmanager
    async def _scheduler(self) -> AsyncIterator[ChildProcess]:
        arguments = ["scheduler", "--scheduler-name", self._workload.name, "--no-leader-elect", "--probe-port", "0"]
        arguments += ["--log-level", "warning"]
        if self._plan.kubeconfig is not None:
            arguments += ["--kubeconfig", str(self._plan.kubeconfig)]
        if self._plan.context is not None:
            arguments += ["--context", self._plan.context]
        child = ChildProcess(arguments)
        await child.start()
        try:
            yield child
        finally:
            await child.stop()

    @asynccontextmanager
    async def _binds(self, part: str, child: ChildProcess) -> AsyncIterator[_BindWatcher]:
        binds = _BindWatcher(self._watching, self._workload.name, part, child)
        watching = asyncio.create_task(binds.reflector.run())
        try:
            await binds.reflector.synced.wait()
            yield binds
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)


class _BindWatcher:
    """When the watch showed the binds of a part, by time.monotonic."""

    def __init__(self, client: Client, namespace: str, part: str, child: ChildProcess) -> None:
        self.first = self.last = 0.0
        self._bound: set[str] = set()
        self._child = child
        self._wanted = 0
        self._reached = asyncio.Event()
        self.reflector = Reflector(
            client,
            PODS,
            self._on_event,
            namespace=namespace,
            field_selector="spec.nodeName!=",
            label_selector=f"{PART}={part}",
        )

    async def reach(self, count: int) -> None:
        """Wait until so many pods are bound. Raises UserError if the scheduler ends or no more binds are seen."""
        self._wanted = count
        started = time.monotonic()
        while len(self._bound) < count:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._reached.wait(), 1.0)
            if self._child.ended:
                raise UserError(f"The scheduler ended unexpectedly: {self._child.last_log_line()}")
            if time.monotonic() - max(started, self.last) > _BIND_TIMEOUT:
                raise UserError(
                    f"{len(self._bound)} of {count} pods are bound, and no more for {_BIND_TIMEOUT:.0f} s. "
                    f"The last line of the scheduler's log: {self._child.last_log_line()}"
                )

    def _on_event(self, event: Applied | Deleted) -> None:
        name = key(event.object)
        if isinstance(event, Deleted) or name in self._bound:
            return
        self._bound.add(name)
        self.last = time.monotonic()
        self.first = self.first or self.last
        if len(self._bound) == self._wanted:
            self._reached.set()
