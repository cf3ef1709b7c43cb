"""Runs the components of a process (scheduler, controllers), from the first log line to an orderly stop.

The components share one client, one lease and one server for probes. The first SIGTERM or SIGINT asks the components to
finish what is in flight; then the lease is released, so that the next leader does not have to wait until it expires. A
second signal ends the process at once. A component that fails ends the process: it is restarted by whatever runs it,
and all state is in objects.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
import sys
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol

from prometheus_client import CollectorRegistry

from stromboli.kube.client import Client, TokenBucket, load_client_config

from .event_recorder import InvolvedObject
from .garbage_collection import disable_automatic_collection
from .health import HealthServer
from .leader_election import LeaderElector, Leadership, SoleReplica
from .logs import Log, configure_logging
from .loop_lag import LoopLag
from .metrics import ProcessMetrics

_log = Log("process")

SWITCH_INTERVAL: Final = 0.001  # seconds that a cycle's thread may keep the interpreter from the event loop


@dataclass(frozen=True, slots=True)
class ProcessOptions:
    """The command-line options that every process has."""

    kubeconfig: Path | None = None
    context: str | None = None
    scheduler_name: str = "volcano"
    leader_elect: bool = True
    lease_namespace: str = ""  # our own namespace if empty
    lease_duration: float = 15.0
    probe_host: str = "127.0.0.1"
    probe_port: int = 8080
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


@dataclass(frozen=True, slots=True)
class ProcessContext:
    """What components are built with."""

    client: Client
    leadership: Leadership
    metrics: ProcessMetrics
    options: ProcessOptions
    process_ref: InvolvedObject  # events about the process are attached to it

    def bucket(self) -> TokenBucket:
        """A separate rate limit for one kind of write, so that no kind delays another."""
        return TokenBucket(self.options.qps, self.options.burst)


def run_process(name: str, options: ProcessOptions, build: Callable[[ProcessContext], list[Component]]) -> None:
    """Run a process until it stops. `name` is also the name of its lease."""
    configure_logging(options.log_level, options.log_format)
    sys.setswitchinterval(SWITCH_INTERVAL)
    disable_automatic_collection()
    asyncio.run(_run(name, options, build))


async def _run(name: str, options: ProcessOptions, build: Callable[[ProcessContext], list[Component]]) -> None:
    config = load_client_config(options.kubeconfig, options.context)
    stop = asyncio.Event()
    _handle_signals(stop)
    async with Client(config) as client:
        leadership = _leadership(name, options, client)
        registry = CollectorRegistry()
        lag = LoopLag()
        metrics = ProcessMetrics(registry, lag)
        namespace = options.lease_namespace or config.namespace
        process_ref = InvolvedObject("coordination.k8s.io/v1", "Lease", namespace, name)
        context = ProcessContext(client, leadership, metrics, options, process_ref)
        components = build(context)
        health = HealthServer(options.probe_host, options.probe_port, registry)
        for component in components:
            health.add_liveness_check(component.name, component.unhealthy_reason)
            health.add_readiness_check(component.name, component.not_ready_reason)
        service = [asyncio.create_task(work) for work in (health.run(), leadership.run(), lag.run())]
        try:
            await _listening(health, service[0])
            _log.info("started", process=name, server=config.server, probes=f"{options.probe_host}:{health.port}")
            await _run_components(components, stop, service)
            await leadership.release()
            _log.info("stopped", process=name)
        finally:
            for task in service:
                task.cancel()
            await asyncio.gather(*service, return_exceptions=True)


async def _listening(health: HealthServer, running: asyncio.Task[None]) -> None:
    """Wait until probes are served; raises if they cannot be."""
    listening = asyncio.create_task(health.listening.wait())
    await asyncio.wait([listening, running], return_when=asyncio.FIRST_COMPLETED)
    listening.cancel()
    if running.done():
        running.result()


async def _run_components(components: list[Component], stop: asyncio.Event, service: list[asyncio.Task[None]]) -> None:
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


def _leadership(name: str, options: ProcessOptions, client: Client) -> Leadership:
    if not options.leader_elect:
        return SoleReplica()
    duration = options.lease_duration
    return LeaderElector(
        client,
        name=name,
        namespace=options.lease_namespace or client.config.namespace,
        identity=f"{socket.gethostname()}_{uuid.uuid4()}",
        duration=duration,
        renew_within=duration * 2 / 3,
        every=duration * 2 / 15,
    )


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
