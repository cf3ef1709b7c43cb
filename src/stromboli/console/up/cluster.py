"""The parts of the cluster, started and stopped in order.

    server ─▶ definitions ─▶ controllers, scheduler ─▶ nodes ─▶ (workload)

Everything but the server talks to it through its socket, like any client. So the same parts run on kube-apiserver
(`--apiserver real`) without a change.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, Protocol

from prometheus_client import CollectorRegistry

from stromboli.api.validation.limits import MAX_JOB_REPLICAS
from stromboli.console.whatif.page_answers import PageAnswers
from stromboli.controllers import DEFAULT_RETENTION, RELOCK_PERIOD
from stromboli.embedded.embedded_cluster import LOOPBACK, EmbeddedCluster
from stromboli.embedded.http import load_token
from stromboli.kube.client import Client, load_client_config
from stromboli.kube.client.auth.credentials import StaticCredentials, bearer
from stromboli.kube.commands.descheduler import descheduler_component
from stromboli.kube.commands.page import page_component
from stromboli.kube.commands.processes import controllers_component, scheduler_component
from stromboli.kube.hollow import HollowNodes
from stromboli.kube.page_server import PageOptions
from stromboli.kube.runner import ProcessLogs, ProcessRunner
from stromboli.kube.runtime import Component, LoopLag, ProcessContext, ProcessMetrics, ProcessOptions
from stromboli.kube.runtime.garbage_collection import disable_automatic_collection
from stromboli.kube.runtime.process import SWITCH_INTERVAL
from stromboli.kube.runtime.published_configuration import keep_published

from .definitions import install_default_class, install_definitions
from .descheduler_listener import DeschedulerListener
from .machines import Machines
from .real_server import RealServer

_STOP_SECONDS: Final = 20.0

Say = Callable[[str], None]


class Server(Protocol):
    kubeconfig: Path
    url: str

    @property
    def parts_token(self) -> str | None:
        """The token of the parts of the cluster, if it is not the one in the kubeconfig."""
        ...


@dataclass(frozen=True, slots=True)
class PagePlan:
    host: str = LOOPBACK
    port: int = 0
    may_write: bool = False
    names: tuple[str, ...] = ()
    on_ready: Callable[[str], None] = field(default=lambda url: None)
    """Gets the address with the token in it. What is behind # is never sent to a server."""


@dataclass(frozen=True, slots=True)
class DeschedulerPlan:
    policy: Path
    port: int = 0
    """Where `stromboli defrag` asks; 0: any free port."""
    on_ready: Callable[[str], None] = field(default=lambda url: None)


@dataclass(frozen=True, slots=True)
class Plan:
    """What the options ask for."""

    folder: Path
    persistent: bool
    machines: Sequence[Machines]
    host: str = LOOPBACK
    port: int = 0
    assets: Path | None = None
    """Where kube-apiserver and etcd are, if they are to be used."""
    runs_processes: bool = False
    host_paths_allowed: bool = False
    """Whether pods may mount folders of this machine."""
    config: Path | None = None
    descheduler: DeschedulerPlan | None = None
    record: Path | None = None
    topology_keys: tuple[str, ...] = ()
    """Labels of nodes of which HyperNodes are made."""
    cycle_budget: float = 10.0  # seconds; 0: no limit
    error_recordings: Path | None = None
    """Where inputs and decisions of the scheduler are written."""
    scheduler_name: str = "volcano"
    period: float = 1.0
    page: PagePlan | None = None
    """None: no page is served."""
    on_ready: Callable[[Server], None] = field(default=lambda server: None)


Work = Callable[[Client], Awaitable[None]]


async def run_cluster(plan: Plan, stop: asyncio.Event, work: Sequence[Work] = (), say: Say = lambda line: None) -> None:
    """Run until `stop` is set. `work` runs beside the cluster once it is ready, until it ends or the cluster does."""
    sys.setswitchinterval(SWITCH_INTERVAL)
    disable_automatic_collection()
    async with _server(plan) as server:
        config = load_client_config(server.kubeconfig, None)
        if server.parts_token is not None:
            config = replace(config, credentials=StaticCredentials(bearer(server.parts_token)))
        async with Client(config) as client:
            await install_definitions(client)
            await install_default_class(client)
            await _run_parts(plan, server, client, stop, work, say)


@asynccontextmanager
async def _server(plan: Plan) -> AsyncIterator[Server]:
    if plan.assets is not None:
        async with RealServer(plan.assets, plan.folder, host=plan.host, port=plan.port) as real:
            yield real
        return
    logs = ProcessLogs(plan.folder / "logs") if plan.runs_processes else None
    embedded = EmbeddedCluster(
        plan.folder, persistent=plan.persistent, host=plan.host, port=plan.port, logs=logs,
        scheduler_name=plan.scheduler_name,
    )  # fmt: skip
    async with embedded:
        yield embedded


async def _run_parts(
    plan: Plan, server: Server, client: Client, stop: asyncio.Event, work: Sequence[Work], say: Say
) -> None:
    kubelet = None
    if plan.runs_processes:
        names = frozenset(name for machines in plan.machines for name in machines.names)
        kubelet = ProcessRunner(client, names, plan.folder, host_paths_allowed=plan.host_paths_allowed)
    pools = [machines.pool(client) for machines in plan.machines]
    nodes = HollowNodes(client, *pools, keep=plan.persistent, say=say, kubelet=kubelet, provision_volumes=True)
    parts_stop, nodes_stop = asyncio.Event(), asyncio.Event()
    components = _components(plan, server, client)
    parts = [asyncio.create_task(one.run(parts_stop), name=one.name) for one in components]
    node_task = asyncio.create_task(nodes.run(nodes_stop), name="nodes")
    stopping = asyncio.create_task(stop.wait())
    working: list[asyncio.Task[Any]] = []
    try:
        await _until_ready(nodes, components, [*parts, node_task, stopping])
        if not stop.is_set():
            plan.on_ready(server)
            working = [asyncio.create_task(_run_work(one, client)) for one in work]
            working.append(asyncio.create_task(keep_published(client, plan.config)))
            await _first_failure_or(stopping, [*parts, node_task], working)
    finally:
        await _cancel([*working, stopping])
        parts_stop.set()
        await _finish(parts)
        nodes_stop.set()
        await _finish([node_task])


async def _run_work(work: Work, client: Client) -> None:
    await work(client)


def _components(plan: Plan, server: Server, client: Client) -> list[Component]:
    options = ProcessOptions(
        kubeconfig=server.kubeconfig, scheduler_name=plan.scheduler_name, leader_elect=False, log_level="warning"
    )
    registry = CollectorRegistry()
    context = ProcessContext(client, ProcessMetrics(registry, LoopLag()), options, "stromboli-up")
    components = [
        controllers_component(
            context, plan.config, MAX_JOB_REPLICAS, RELOCK_PERIOD, DEFAULT_RETENTION, plan.topology_keys
        ),
        scheduler_component(context, plan.config, plan.period, plan.record, plan.cycle_budget, plan.error_recordings),
    ]
    if plan.descheduler is not None:
        descheduler = descheduler_component(context, plan.config, plan.descheduler.policy)
        listener = DeschedulerListener(
            descheduler, plan.descheduler.port, registry, plan.folder, plan.descheduler.on_ready
        )
        components += [descheduler, listener]
    if plan.page is not None:
        components.append(_page(plan, plan.page, client, context.metrics))
    return components


def _page(plan: Plan, page: PagePlan, client: Client, metrics: ProcessMetrics) -> Component:
    """With the token of the API server."""
    token = load_token(plan.folder)

    def announce(url: str) -> None:
        page.on_ready(f"{url}#token={token}")

    options = PageOptions(token, page.host, page.port, page.may_write, page.names)
    return page_component(client, options, plan.config, plan.scheduler_name, announce, PageAnswers(), metrics)


async def _until_ready(nodes: HollowNodes, components: Sequence[Component], tasks: list[asyncio.Task[Any]]) -> None:
    """Until everything is ready, or one of the tasks ends."""
    while not nodes.ready.is_set() or any(one.not_ready_reason() is not None for one in components):
        done, _ = await asyncio.wait(tasks, timeout=0.05, return_when=asyncio.FIRST_COMPLETED)
        if done:
            for task in done:
                task.result()
            return


async def _first_failure_or(
    stopping: asyncio.Task[Any], parts: list[asyncio.Task[None]], working: list[asyncio.Task[Any]]
) -> None:
    """Until the stop. A part that ends before has failed; work may end."""
    waiting: set[asyncio.Task[Any]] = {stopping, *parts, *working}
    while not stopping.done():
        done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()


async def _finish(tasks: list[asyncio.Task[None]]) -> None:
    if tasks:
        _, late = await asyncio.wait(tasks, timeout=_STOP_SECONDS)
        await _cancel(list(late))


async def _cancel(tasks: list[asyncio.Task[Any]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
