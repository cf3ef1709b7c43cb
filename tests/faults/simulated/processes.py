"""The processes of a world: two replicas each of scheduler, controllers and descheduler, and the hollow kubelets.

Each is built as the command line builds it, from the same classes, with a client of its own. Of its machine it gets
clocks that are wrong by some seconds and that jump, and jitter from the seed. A process that ends is started again.
"""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Callable
from contextvars import copy_context
from random import Random
from typing import Any, Final

from prometheus_client import CollectorRegistry

from stromboli.descheduling import Policy
from stromboli.descheduling import Registry as DeschedulingRegistry
from stromboli.kube.client import Client, ClientConfig
from stromboli.kube.client.auth.credentials import StaticCredentials
from stromboli.kube.controllers import ControllerMetrics, ControllersComponent
from stromboli.kube.descheduler import DeschedulerComponent, DeschedulerMetrics
from stromboli.kube.hollow.kubelet import HollowKubelet
from stromboli.kube.hollow.volume_provisioner import HollowProvisioner
from stromboli.kube.page_server import PageComponent, PageOptions
from stromboli.kube.runtime import (
    Component,
    ConfigurationFile,
    LoopLag,
    ProcessContext,
    ProcessMetrics,
    ProcessOptions,
)
from stromboli.kube.runtime.process import run_components
from stromboli.kube.scheduler import SchedulerComponent, SchedulerMetrics
from stromboli.scheduling.cycle import Scheduler
from stromboli.scheduling.queue_locks import lock_rules
from stromboli.scheduling.registry import Registry

from .history import History
from .loop import OWNER, Owner, VirtualLoop

RESTART: Final = 2.0  # seconds from the end of a process to its next start
LEASE: Final = 15.0
# Looking for installed plugins takes longer than anything else at a start.
_SCHEDULING: Final = Registry()
_DESCHEDULING: Final = DeschedulingRegistry()


class Machine:
    """Clocks: one that people set, which may be wrong and jump, and one that never jumps but is not exact."""

    def __init__(self, loop: VirtualLoop, epoch: float, offset: float, rate: float) -> None:
        self.offset = offset
        self._loop = loop
        self._epoch = epoch
        self._rate = rate

    def wall_clock(self) -> float:
        return self._epoch + self._loop.time() + self.offset

    def lease_clock(self) -> float:
        return 1000.0 + self._loop.time() * self._rate


class ProcessorTime:
    """Of a thread: what a cycle uses stands in the seed. It is read before and after each cycle."""

    def __init__(self, dice: Random) -> None:
        self._dice = dice
        self._used = 0.0
        self._most = dice.choice((0.002, 0.02, 0.1, 0.2))

    def __call__(self) -> float:
        self._used += self._most * self._dice.random()
        return self._used


class Process:
    def __init__(
        self, name: str, loop: VirtualLoop, machine: Machine, history: History, dice: Random,
        main: Callable[[Process, Client, asyncio.Event], Any], close: Callable[[Owner], None],
    ) -> None:  # fmt: skip
        self.name = name
        self.loop = loop
        self.machine = machine
        self.history = history
        self.dice = dice
        self.starts = 0
        self.crashes: list[str] = []
        self.owner = Owner(name)
        self.graveyard: list[Owner] = []
        self.stop: asyncio.Event | None = None
        self.component: Any = None
        self._main = main
        self._close = close

    @property
    def runs(self) -> bool:
        return self.starts > 0 and not self.owner.is_dead

    def start(self) -> None:
        if self.runs:
            return
        self.starts += 1
        self.graveyard.append(self.owner)
        self.owner = Owner(self.name)
        dice = Random(self.dice.getrandbits(64))
        self.owner.thinks = lambda: 0.0005 + (0.05 if dice.random() < 0.1 else 0.004) * dice.random()
        context = copy_context()
        context.run(OWNER.set, self.owner)
        self.history.say(self.loop.time(), self.name, f"starts, for the {self.starts}. time")
        context.run(self._begin)

    def _begin(self) -> None:
        task = self.loop.create_task(self._run(), context=copy_context())
        task.add_done_callback(lambda _: None)

    async def _run(self) -> None:
        self.stop = asyncio.Event()
        config = ClientConfig("http://server:80", None, StaticCredentials())
        try:
            seconds = self.dice.choice((20.0, 60.0, 290.0, 290.0))
            async with Client(config, random=Random(self.dice.getrandbits(64)), watch_seconds=seconds) as client:
                await self._main(self, client, self.stop)
        except BaseException as error:
            if not isinstance(error, asyncio.CancelledError):
                self.crashes.append("".join(traceback.format_exception(error)))
        self.history.say(self.loop.time(), self.name, "has ended")
        self.owner.is_dead = True
        self._close(self.owner)

    def kill(self) -> None:
        """It runs no further, not even to clean up, and its machine closes its connections."""
        if self.runs:
            self.history.say(self.loop.time(), self.name, "is killed")
            self.owner.is_dead = True
            self._close(self.owner)

    def freeze(self) -> None:
        if self.runs and not self.owner.is_frozen:
            self.history.say(self.loop.time(), self.name, "is frozen")
            self.owner.is_frozen = True

    def thaw(self) -> None:
        if self.owner.is_frozen:
            self.history.say(self.loop.time(), self.name, "goes on")
            self.loop.thaw(self.owner)

    def knows(self) -> dict[str, dict[str, str]]:
        """The versions of the objects that it has, by resource."""
        found = {}
        for reflector in self._reflectors():
            group, slash, _ = reflector.resource.group_version.partition("/")
            resource = f"{reflector.resource.plural}.{group}" if slash else reflector.resource.plural
            found[resource] = {key: obj.metadata.resource_version for key, obj in reflector.objects.items()}
        return found

    def _reflectors(self) -> list[Any]:
        if isinstance(self.component, PageComponent):
            return self.component._objects._required
        return list(getattr(self.component, "_reflectors", {}).values())

    def shows(self) -> dict[str, int]:
        """By node: how many pods the page says that it has."""
        document = getattr(self.component, "_document", None)
        return {} if document is None else {node.name: node.pods for node in document.nodes}

    def end(self) -> bool:
        """Cancel all that is left, also what killed processes never finished; False if nothing is."""
        unfinished = False
        for owner in (*self.graveyard, self.owner):
            owner.is_dead = False
            self.loop.thaw(owner)
            for task in owner.tasks:
                unfinished = task.cancel() or unfinished
        return unfinished


def _context(process: Process, client: Client) -> ProcessContext:
    dice = Random(process.dice.getrandbits(64))
    identity = f"{process.name}_{dice.getrandbits(64):x}"
    metrics = ProcessMetrics(CollectorRegistry(), LoopLag(clock=process.loop.time))
    return ProcessContext(
        client, metrics, ProcessOptions(lease_duration=LEASE), identity,
        wall_clock=process.machine.wall_clock, lease_clock=process.machine.lease_clock,
        processor_time=ProcessorTime(dice),
    )  # fmt: skip


async def _run(process: Process, context: ProcessContext, component: Component, stop: asyncio.Event) -> None:
    process.component = component
    await run_components(context, [component], stop)


def scheduler(configuration: str, period: float) -> Callable[[Process, Client, asyncio.Event], Any]:
    registry = _SCHEDULING

    def decide() -> Scheduler:
        return Scheduler(registry.load(configuration, where="configuration"), registry)

    async def main(process: Process, client: Client, stop: asyncio.Event) -> None:
        context = _context(process, client)
        component = SchedulerComponent(
            client, configuration=ConfigurationFile(None, lambda text, where: decide(), built_in=decide),
            leadership=context.leadership("scheduler"), scheduler_name="volcano",
            process_ref=context.lease_ref("scheduler"), period=period, request_timeout=context.request_timeout,
            bucket=context.bucket,
            metrics=SchedulerMetrics(context.metrics, clock=context.wall_clock, stopwatch=process.loop.time),
            cycle_budget=10.0, clock=context.wall_clock, processor_time=context.processor_time,
        )  # fmt: skip
        await _run(process, context, component, stop)

    return main


def controllers(configuration: str) -> Callable[[Process, Client, asyncio.Event], Any]:
    rules = lock_rules(_SCHEDULING.load(configuration, where="configuration"))

    async def main(process: Process, client: Client, stop: asyncio.Event) -> None:
        context = _context(process, client)
        component = ControllersComponent(
            client, leadership=context.leadership("controllers"), scheduler_name="volcano", bucket=context.bucket,
            metrics=ControllerMetrics(context.metrics),
            lock_rules=ConfigurationFile(None, lambda text, where: rules, built_in=lambda: rules),
            clock=context.wall_clock, processor_time=context.processor_time,
        )  # fmt: skip
        await _run(process, context, component, stop)

    return main


def descheduler(configuration: str, policy: str) -> Callable[[Process, Client, asyncio.Event], Any]:
    scheduling, plugins = _SCHEDULING, _DESCHEDULING

    def decide() -> Scheduler:
        return Scheduler(scheduling.load(configuration, where="configuration"), scheduling)

    def rules() -> Policy:
        return plugins.load(policy, where="policy")

    async def main(process: Process, client: Client, stop: asyncio.Event) -> None:
        context = _context(process, client)
        component = DeschedulerComponent(
            client, policy=ConfigurationFile(None, lambda text, where: rules(), built_in=rules),
            scheduler=ConfigurationFile(None, lambda text, where: decide(), built_in=decide),
            leadership=context.leadership("descheduler"), scheduler_name="volcano", bucket=context.bucket,
            metrics=DeschedulerMetrics(context.metrics), clock=context.wall_clock,
        )  # fmt: skip
        await _run(process, context, component, stop)

    return main


class _Browser:
    """In the place of the page's HTTP server: somebody who looks all the time."""

    url = "http://page"
    browsers = 1

    async def start(self) -> None:
        return

    async def stop(self) -> None:
        return

    def publish(self, content: bytes) -> None:
        assert content.endswith(b"\n\n")


def page(configuration: str) -> Callable[[Process, Client, asyncio.Event], Any]:
    registry = _SCHEDULING

    def decide() -> Scheduler:
        return Scheduler(registry.load(configuration, where="configuration"), registry)

    async def main(process: Process, client: Client, stop: asyncio.Event) -> None:
        component = PageComponent(
            client, PageOptions(token="t"), title="faults", scheduler_name="volcano", clock=process.machine.wall_clock,
            configuration=ConfigurationFile(None, lambda text, where: decide(), built_in=decide),
        )  # fmt: skip
        component._server = _Browser()  # type: ignore[assignment]
        process.component = component
        await component.run(stop)

    return main


def kubelets(
    nodes: list[str], lost: set[str], *, with_volumes: bool
) -> Callable[[Process, Client, asyncio.Event], Any]:
    async def main(process: Process, client: Client, stop: asyncio.Event) -> None:
        process.component = HollowKubelet(client, nodes, lost=lost, clock=process.machine.wall_clock)
        kubelets = process.component.run()
        if with_volumes:
            await asyncio.gather(kubelets, HollowProvisioner(client, clock=process.machine.wall_clock).run())
        else:
            await kubelets

    return main
