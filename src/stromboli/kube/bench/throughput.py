"""How many pods per second a scheduler binds on a real API server, next to what that server can do at all.

A figure in pods per second says more about the server and the machine than about a scheduler. So the server's own
limit is measured in the same run, by the same client over as many connections, with no scheduler at all:

    binds              pods that exist already are bound by bare requests
    creates and binds  each pod is created and bound, one request after the other

Then `stromboli scheduler` runs as a process of its own, on hollow nodes that are registered and nothing more:

    stream             it runs already while gangs of pods are created; from the first create to the last bind
    backlog            it is started when all pods exist; from the first bind to the last

The first asks the same of the server as creates and binds, the second the same as binds. A bind counts when a watch
shows it, so what a scheduler only believes to have bound does not count.
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
from stromboli.kube.client.auth.kubeconfig import find_access
from stromboli.kube.client.client import Client
from stromboli.kube.client.reflector import Reflector
from stromboli.kube.client.resources import POD_GROUPS, PODS

from .child_process import Child
from .workload import PART, Stage

_PATIENCE: Final = 120.0  # seconds in which at least one more bind must be seen
_SETTLE: Final = 2.0  # seconds for a scheduler to take in what came before


@dataclass(frozen=True, slots=True)
class Plan:
    kubeconfig: Path | None
    context: str | None
    nodes: int
    pods: int
    gang_size: int
    existing_pods: int
    connections: int = 16


class Figures(msgspec.Struct):
    """What was measured. Units are in the names; a `part` is a part of 1."""

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


async def benchmark(plan: Plan, say: Callable[[str], None]) -> Figures:
    """Measure, and leave nothing behind. UserError if the server or the scheduler cannot be measured."""
    access = find_access(plan.kubeconfig, plan.context)
    # Two clients: what is watched must not take a connection away from what is written.
    async with Client(access, connections=plan.connections) as writing, Client(access) as watching:
        major, minor = await writing.server_version()
        if not await writing.serves(POD_GROUPS.group_version):
            raise UserError(
                f"The API server at {access.server} does not know PodGroups; "
                "install them with: kubectl apply -k deploy/crds"
            )
        stage = Stage(writing, nodes=plan.nodes, gang_size=plan.gang_size, connections=plan.connections)
        run = _Run(plan, stage, watching, lambda line: say(f"{stage.name}: {line}"))
        run.figures.server_version = f"{major}.{minor}"
        try:
            await run.measure()
        finally:
            say(f"{stage.name}: cleaning up …")
            await stage.take_down(say)
    return run.figures


class _Run:
    def __init__(self, plan: Plan, stage: Stage, watching: Client, say: Callable[[str], None]) -> None:
        self.figures = Figures(plan.nodes, plan.pods, plan.gang_size, plan.existing_pods, plan.connections)
        self._plan = plan
        self._stage = stage
        self._watching = watching
        self._say = say

    async def measure(self) -> None:
        self._say(f"registering {self._plan.nodes} nodes …")
        await self._stage.put_up()
        if self._plan.existing_pods:
            self._say(f"creating {self._plan.existing_pods} pods that are bound already …")
            await self._stage.create_groups("existing", self._plan.existing_pods)
            await self._stage.each("existing", self._plan.existing_pods, self._stage.create_bound)
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
        stage, count = self._stage, self._plan.pods
        await stage.each("binds", count, stage.create_alone)
        begun = time.monotonic()
        await stage.each("binds", count, stage.bind)
        self.figures.limit_binds_per_second = count / (time.monotonic() - begun)
        await stage.clear("binds")

    async def _measure_creates_and_binds(self) -> None:
        stage, count = self._stage, self._plan.pods

        async def create_and_bind(part: str, number: int) -> None:
            await stage.create_alone(part, number)
            await stage.bind(part, number)

        begun = time.monotonic()
        await stage.each("both", count, create_and_bind)
        self.figures.limit_creates_and_binds_per_second = count / (time.monotonic() - begun)
        await stage.clear("both")

    # -- the scheduler ----------------------------------------------------------------------------------------------

    async def _measure_stream(self) -> None:
        stage, figures, count = self._stage, self.figures, self._plan.pods
        await stage.create_groups("first", self._plan.gang_size)
        await stage.each("first", self._plan.gang_size, stage.create)
        await stage.create_groups("stream", count)
        async with self._scheduler() as child:
            async with self._binds("first", child) as binds:
                await binds.reach(self._plan.gang_size)
                figures.start_to_first_bind_seconds = binds.first - child.started_at
            await asyncio.sleep(_SETTLE)
            async with self._binds("stream", child) as binds:
                begun = time.monotonic()
                await stage.each("stream", count, stage.create)
                created = time.monotonic()
                await binds.reach(count)
        speed = figures.stream_pods_per_second = count / (binds.last - begun)
        figures.stream_part_of_binds = speed / figures.limit_binds_per_second
        figures.stream_part_of_creates_and_binds = speed / figures.limit_creates_and_binds_per_second
        figures.stream_first_to_last_create_seconds = created - begun
        figures.stream_last_create_to_last_bind_seconds = binds.last - created
        figures.stream_first_to_last_bind_seconds = binds.last - binds.first
        figures.scheduler_peak_memory_mib = child.peak_mib
        figures.scheduler_cpu_seconds = child.cpu_seconds
        await stage.clear("first")
        await stage.clear("stream")

    async def _measure_backlog(self) -> None:
        stage, figures, count = self._stage, self.figures, self._plan.pods
        await stage.create_groups("backlog", count)
        await stage.each("backlog", count, stage.create)
        async with self._scheduler() as child, self._binds("backlog", child) as binds:
            await binds.reach(count)
        figures.backlog_start_to_first_bind_seconds = binds.first - child.started_at
        # The clock starts with the first of them, so that one does not count.
        speed = figures.backlog_binds_per_second = (count - 1) / (binds.last - binds.first)
        figures.backlog_part_of_binds = speed / figures.limit_binds_per_second
        figures.scheduler_peak_memory_mib = max(figures.scheduler_peak_memory_mib, child.peak_mib)

    @asynccontextmanager
    async def _scheduler(self) -> AsyncIterator[Child]:
        arguments = ["scheduler", "--scheduler-name", self._stage.name, "--no-leader-elect", "--probe-port", "0"]
        arguments += ["--log-level", "warning"]
        if self._plan.kubeconfig is not None:
            arguments += ["--kubeconfig", str(self._plan.kubeconfig)]
        if self._plan.context is not None:
            arguments += ["--context", self._plan.context]
        child = Child(arguments)
        await child.start()
        try:
            yield child
        finally:
            await child.stop()

    @asynccontextmanager
    async def _binds(self, part: str, child: Child) -> AsyncIterator[_Binds]:
        binds = _Binds(self._watching, self._stage.name, part, child)
        watching = asyncio.create_task(binds.reflector.run())
        try:
            await binds.reflector.synced.wait()
            yield binds
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)


class _Binds:
    """When the pods of a part were seen to be bound, by time.monotonic."""

    def __init__(self, client: Client, namespace: str, part: str, child: Child) -> None:
        self.first = self.last = 0.0
        self._bound: set[str] = set()
        self._child = child
        self._wanted = 0
        self._reached = asyncio.Event()
        self.reflector = Reflector(
            client,
            PODS,
            self._noticed,
            namespace=namespace,
            field_selector="spec.nodeName!=",
            label_selector=f"{PART}={part}",
        )

    async def reach(self, count: int) -> None:
        """Until so many are bound; UserError if the scheduler is gone, or nothing happens any more."""
        self._wanted = count
        begun = time.monotonic()
        while len(self._bound) < count:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._reached.wait(), 1.0)
            if self._child.ended:
                raise UserError(f"The scheduler ended by itself: {self._child.last_words()}")
            if time.monotonic() - max(begun, self.last) > _PATIENCE:
                raise UserError(
                    f"{len(self._bound)} of {count} pods are bound, and no other for {_PATIENCE:.0f} s. "
                    f"The scheduler's last words: {self._child.last_words()}"
                )

    def _noticed(self, event: Applied | Deleted) -> None:
        name = key(event.object)
        if isinstance(event, Deleted) or name in self._bound:
            return
        self._bound.add(name)
        self.last = time.monotonic()
        self.first = self.first or self.last
        if len(self._bound) == self._wanted:
            self._reached.set()
