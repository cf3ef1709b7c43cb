"""Runs the components of a process (scheduler, controllers), from the first log line to an orderly stop.

The components share one client and one server for probes. Each has its own lease, whose name follows from the component
and the scheduler's name alone. So one scheduler acts for a scheduler name, and one set of controllers, whatever
processes they run in and however those were started. The first SIGTERM or SIGINT asks the components to finish what is
in flight; then the leases are released, so that the next leader does not have to wait until they expire. A second
signal ends the process at once. A component that fails ends the process: it is restarted by whatever runs it, and all
state is in objects.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
import sys
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Protocol, runtime_checkable

from prometheus_client import CollectorRegistry

from stromboli.api import names
from stromboli.kube.client import Client, TokenBucket, load_client_config
from stromboli.listeners import read_token

from .event_recorder import InvolvedObject
from .garbage_collection import disable_automatic_collection
from .health import HealthServer
from .leader_election import LeaderElector, Leadership, SoleReplica, suspend_aware_clock
from .logs import Log, configure_logging
from .loop_lag import LoopLag
from .metrics import ProcessMetrics

_log = Log("process")

LEASE_NAMESPACE: Final = "stromboli-system"
"""The same for every process by default, wherever it runs: leases in two namespaces would make two leaders."""

SWITCH_INTERVAL: Final = 0.001  # seconds that a cycle's thread may keep the interpreter from the event loop


@dataclass(frozen=True, slots=True)
class ProcessOptions:
    """The command-line options that every process has."""

    kubeconfig: Path | None = None
    context: str | None = None
    scheduler_name: str = "volcano"
    leader_elect: bool = True
    lease_namespace: str = LEASE_NAMESPACE
    lease_duration: float = 15.0
    probe_host: str = "127.0.0.1"
    probe_port: int = 8080
    token_file: Path | None = None
    metrics_without_token: bool = False
    qps: float = 2000.0
    burst: int = 2000
    log_level: str = "info"
    log_format: str = "text"


class Component(Protocol):
    name: str

    def not_ready_reason(self) -> str | None:
        """Why it cannot do its work yet; None if it is ready."""
        ...

    def unhealthy_reason(self) -> str | None:
        """Why it should be restarted; None if it is healthy."""
        ...

    async def run(self, stop: asyncio.Event) -> None: ...


@runtime_checkable
class ServesHttp(Protocol):
    """A component that answers requests of its own, beside probes and metrics."""

    def register_routes(self, server: HealthServer) -> None: ...


def lease_name(component: str, scheduler_name: str) -> str:
    """The lease of a component ("scheduler" or "controllers") that works for a scheduler name."""
    name = f"stromboli-{component}"
    return name if scheduler_name == names.DEFAULT_SCHEDULER else f"{name}-{scheduler_name}"


@dataclass(frozen=True, slots=True)
class ProcessContext:
    """What components are built with."""

    client: Client
    metrics: ProcessMetrics
    options: ProcessOptions
    identity: str
    wall_clock: Callable[[], float] = time.time
    lease_clock: Callable[[], float] = suspend_aware_clock
    processor_time: Callable[[], float] = time.thread_time  # of the thread that calls it
    elections: list[Leadership] = field(default_factory=list)  # of the components built so far

    def leadership(self, component: str) -> Leadership:
        """Whether the component may act. It competes for its lease while the process runs."""
        options = self.options
        if not options.leader_elect:
            return SoleReplica()
        duration = options.lease_duration
        elector = LeaderElector(
            self.client,
            name=lease_name(component, options.scheduler_name),
            namespace=options.lease_namespace,
            identity=self.identity,
            duration=duration,
            renew_within=duration * 2 / 3,
            every=duration * 2 / 15,
            clock=self.lease_clock,
            wall_clock=self.wall_clock,
            random=self.client.random.random,
        )
        self.elections.append(elector)
        return elector

    @property
    def request_timeout(self) -> float:
        """Seconds between the end of the fence and the end of the lease: what a leader sends must have arrived."""
        return self.options.lease_duration / 3

    def lease_ref(self, component: str) -> InvolvedObject:
        """Events about the component itself are attached to its lease."""
        name = lease_name(component, self.options.scheduler_name)
        return InvolvedObject("coordination.k8s.io/v1", "Lease", self.options.lease_namespace, name)

    def bucket(self) -> TokenBucket:
        """A separate rate limit for one kind of write, so that no kind delays another."""
        return TokenBucket(self.options.qps, self.options.burst, clock=asyncio.get_running_loop().time)


def run_process(name: str, options: ProcessOptions, build: Callable[[ProcessContext], list[Component]]) -> None:
    """Run a process until it stops. `name` is for the log."""
    configure_logging(options.log_level, options.log_format)
    sys.setswitchinterval(SWITCH_INTERVAL)
    disable_automatic_collection()
    asyncio.run(_run(name, options, build))


async def _run(name: str, options: ProcessOptions, build: Callable[[ProcessContext], list[Component]]) -> None:
    config = load_client_config(options.kubeconfig, options.context)
    stop = asyncio.Event()
    _handle_signals(stop)
    async with Client(config) as client:
        registry = CollectorRegistry()
        lag = LoopLag()
        metrics = ProcessMetrics(registry, lag)
        context = ProcessContext(client, metrics, options, f"{socket.gethostname()}_{uuid.uuid4()}")
        components = build(context)
        health = HealthServer(
            options.probe_host, options.probe_port, registry,
            token=None if options.token_file is None else read_token(options.token_file),
            metrics_without_token=options.metrics_without_token,
        )  # fmt: skip
        health.add_readiness_check("credentials", lambda: client.login_problem)
        for component in components:
            health.add_liveness_check(component.name, component.unhealthy_reason)
            health.add_readiness_check(component.name, component.not_ready_reason)
            if isinstance(component, ServesHttp):
                component.register_routes(health)
        service = [asyncio.create_task(work) for work in (health.run(), lag.run())]
        try:
            await _listening(health, service[0])
            _log.info("started", process=name, server=config.server, probes=f"{options.probe_host}:{health.port}")
            await run_components(context, components, stop, service)
            _log.info("stopped", process=name)
        finally:
            for task in service:
                task.cancel()
            await asyncio.gather(*service, return_exceptions=True)


async def run_components(
    context: ProcessContext,
    components: list[Component],
    stop: asyncio.Event,
    service: Sequence[asyncio.Task[None]] = (),
) -> None:
    """Compete for the leases of the components, and run these until `stop`; then give up the leases. Raises what a
    component or a task of the `service` fails with."""
    elections = [asyncio.create_task(leadership.run()) for leadership in context.elections]
    try:
        await _until_stopped(components, stop, [*service, *elections])
        await asyncio.gather(*(leadership.release() for leadership in context.elections))
    finally:
        for task in elections:
            task.cancel()
        await asyncio.gather(*elections, return_exceptions=True)


async def _listening(health: HealthServer, running: asyncio.Task[None]) -> None:
    """Wait until probes are served; raises if they cannot be."""
    listening = asyncio.create_task(health.listening.wait())
    await asyncio.wait([listening, running], return_when=asyncio.FIRST_COMPLETED)
    listening.cancel()
    if running.done():
        running.result()


async def _until_stopped(components: list[Component], stop: asyncio.Event, service: list[asyncio.Task[None]]) -> None:
    tasks = [asyncio.create_task(component.run(stop), name=component.name) for component in components]
    waiting: set[asyncio.Task[Any]] = {*tasks, *service}
    try:
        while any(not task.done() for task in tasks):
            done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()  # raises what went wrong; otherwise only a stop ends a component
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _handle_signals(stop: asyncio.Event) -> None:
    loop = asyncio.get_running_loop()

    def stop_on(which: signal.Signals) -> None:
        _log.info("stopping: finishing what is in flight", signal=which.name)
        stop.set()
        for each in (signal.SIGTERM, signal.SIGINT):
            with contextlib.suppress(ValueError):
                loop.remove_signal_handler(each)

    for which in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(which, stop_on, which)
