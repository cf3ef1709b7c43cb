"""Processes on a real cluster: what they have in common, from the first line in the log to an orderly end.

A process is one or more parts (scheduler, controllers) around one client, one lease and one door for probes. The first
SIGTERM or SIGINT asks the parts to finish what they are doing; then the lease is given back, so that the next one need
not wait for its end. A second signal ends the process at once. A part that fails takes the process with it: whoever
runs it starts it again, and everything it needs to know is in objects.
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

from stromboli.kube.client.auth.kubeconfig import find_access
from stromboli.kube.client.client import Client
from stromboli.kube.client.rate_limit import TokenBucket

from .event_recorder import Subject
from .garbage_collection import take_charge
from .health import Probes
from .leader_election import Alone, Leadership
from .logs import Log, set_up
from .loop_lag import LoopLag
from .metrics import ProcessMetrics

_log = Log("process")

SWITCH: Final = 0.001  # seconds that a cycle's thread may keep the interpreter while the loop wants it


@dataclass(frozen=True, slots=True)
class Options:
    """What every process is told on its command line."""

    kubeconfig: Path | None = None
    context: str | None = None
    scheduler_name: str = "volcano"
    leader_elect: bool = True
    lease_namespace: str = ""  # where we run, unless told
    lease_duration: float = 15.0
    probe_host: str = "127.0.0.1"
    probe_port: int = 8080
    qps: float = 2000.0
    burst: int = 2000
    log_level: str = "info"
    log_format: str = "text"


class Part(Protocol):
    name: str

    def unready(self) -> str | None:
        """Why it cannot do its work yet; None if it can."""
        ...

    def unwell(self) -> str | None:
        """Why it had better be started again; None if it is fine."""
        ...

    async def run(self, stop: asyncio.Event) -> None: ...


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What parts are made with."""

    client: Client
    leadership: Leadership | Alone
    metrics: ProcessMetrics
    options: Options
    itself: Subject  # what events about the process are attached to

    def bucket(self) -> TokenBucket:
        """A limit of its own for one kind of write, so that no kind can delay another."""
        return TokenBucket(self.options.qps, self.options.burst)


def run_process(name: str, options: Options, make_parts: Callable[[Surroundings], list[Part]]) -> None:
    """Run a process to its end. `name` is also the name of its lease."""
    set_up(options.log_level, options.log_format)
    sys.setswitchinterval(SWITCH)
    take_charge()
    asyncio.run(_run(name, options, make_parts))


async def _run(name: str, options: Options, make_parts: Callable[[Surroundings], list[Part]]) -> None:
    access = find_access(options.kubeconfig, options.context)
    stop = asyncio.Event()
    _answer_signals(stop)
    async with Client(access) as client:
        leadership = _leadership(name, options, client)
        registry = CollectorRegistry()
        lag = LoopLag()
        metrics = ProcessMetrics(registry, lag)
        namespace = options.lease_namespace or access.namespace
        itself = Subject("coordination.k8s.io/v1", "Lease", namespace, name)
        around = Surroundings(client, leadership, metrics, options, itself)
        parts = make_parts(around)
        probes = Probes(options.probe_host, options.probe_port, registry)
        for part in parts:
            probes.alive(part.name, part.unwell)
            probes.ready(part.name, part.unready)
        service = [asyncio.create_task(work) for work in (probes.run(), leadership.run(), lag.run())]
        try:
            await _listening(probes, service[0])
            _log.info("started", process=name, server=access.server, probes=f"{options.probe_host}:{probes.port}")
            await _run_parts(parts, stop, service)
            await leadership.release()
            _log.info("stopped", process=name)
        finally:
            for task in service:
                task.cancel()
            await asyncio.gather(*service, return_exceptions=True)


async def _listening(probes: Probes, running: asyncio.Task[None]) -> None:
    """Until the probes answer; if they cannot, that is the process's failure."""
    listening = asyncio.create_task(probes.listening.wait())
    await asyncio.wait([listening, running], return_when=asyncio.FIRST_COMPLETED)
    listening.cancel()
    if running.done():
        running.result()


async def _run_parts(parts: list[Part], stop: asyncio.Event, service: list[asyncio.Task[None]]) -> None:
    tasks = [asyncio.create_task(part.run(stop), name=part.name) for part in parts]
    waiting: set[asyncio.Task[Any]] = {*tasks, *service}
    try:
        while any(not task.done() for task in tasks):
            done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()  # raises what went wrong; nothing but a stop ends a part otherwise
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _leadership(name: str, options: Options, client: Client) -> Leadership | Alone:
    if not options.leader_elect:
        return Alone()
    duration = options.lease_duration
    return Leadership(
        client,
        name=name,
        namespace=options.lease_namespace or client.access.namespace,
        identity=f"{socket.gethostname()}_{uuid.uuid4()}",
        duration=duration,
        renew_within=duration * 2 / 3,
        every=duration * 2 / 15,
    )


def _answer_signals(stop: asyncio.Event) -> None:
    loop = asyncio.get_running_loop()

    def asked(which: signal.Signals) -> None:
        _log.info("stopping: finishing what is under way", signal=which.name)
        stop.set()
        for each in (signal.SIGTERM, signal.SIGINT):
            with contextlib.suppress(ValueError):
                loop.remove_signal_handler(each)

    for which in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(which, asked, which)
