"""The options of `stromboli up`."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from stromboli.api.quantity import QuantityError, parse_duration
from stromboli.errors import UserError
from stromboli.files import private_folder, write_output, write_secret
from stromboli.kube.commands.hollow_nodes import node_capacity
from stromboli.kube.commands.option_types import topology_keys_option
from stromboli.kube.commands.page import page_options
from stromboli.kube.commands.processes import containment_options
from stromboli.kube.commands.stop_signals import on_stop_signals

if TYPE_CHECKING:
    from stromboli.kube.client import Client

    from .cluster import Server
    from .machines import Machines

_DESCHEDULER_PORT: Final = 8082
_EXAMPLES: Final = """\b
Examples:
  stromboli up --demo
  stromboli up --nodes 100 --node-cpu 32 --node-memory 128Gi --node-gpus 8
  stromboli up --data ~/cluster --kubeconfig-out kubeconfig
  stromboli up --runner process --nodes 1 --node-cpu 8
  kubectl --kubeconfig kubeconfig get nodes
"""


@click.command("up", epilog=_EXAMPLES)
@click.option("--demo", is_flag=True, help="Start 20 nodes and a mixed workload, and sum up after a minute.")
@click.option(
    "--data",
    type=click.Path(file_okay=False, path_type=Path),
    help="Keep all objects, the certificate and the token in this folder; without it nothing is kept.",
)
@click.option("--nodes", type=click.IntRange(1), help="Number of nodes; 10 unless --demo or --nodes-file is given.")
@click.option("--node-cpu", default="32", show_default=True, metavar="QUANTITY", help="CPUs of each node.")
@click.option("--node-memory", default="128Gi", show_default=True, metavar="QUANTITY", help="Memory of each node.")
@click.option("--node-gpus", default=0, show_default=True, type=click.IntRange(0), help="GPUs of each node.")
@click.option(
    "--nodes-file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Nodes of different sizes: a YAML file with Node manifests.",
)
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", default=0, type=click.IntRange(0, 65535), help="Port to listen on; by default any free port.")
@click.option(
    "--kubeconfig-out",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Where to write the kubeconfig; by default into the data folder.",
)
@click.option(
    "--apiserver",
    type=click.Choice(["embedded", "real"]),
    default="embedded",
    show_default=True,
    help="real: kube-apiserver and etcd from KUBEBUILDER_ASSETS.",
)
@click.option(
    "--runner",
    type=click.Choice(["hollow", "process"]),
    default="hollow",
    show_default=True,
    help="hollow: pods pretend to run. process: the command of each container runs on this machine.",
)
@click.option(
    "--allow-host-path", is_flag=True, help="With --runner process: pods may mount folders of this machine (hostPath)."
)
@click.option(
    "--config",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Scheduler configuration file; by default a built-in configuration.",
)
@click.option(
    "--descheduler-config",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="The descheduler's policy; without it no descheduler runs.",
)
@click.option(
    "--descheduler-port",
    type=click.IntRange(0, 65535),
    show_default=str(_DESCHEDULER_PORT),
    help="Where `stromboli defrag` asks the descheduler, on this machine; 0 means any free port.",
)
@click.option(
    "--record",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Append the scheduler's inputs and decisions to this file, for `stromboli replay`.",
)
@topology_keys_option
@containment_options
@click.option("--web/--no-web", default=True, show_default=True, help="Serve a page that shows the cluster, live.")
@page_options
@click.option("--for", "lasting", metavar="DURATION", help="End so long after the start, such as 60s.")
def up(
    demo: bool, data: Path | None, nodes: int | None, node_cpu: str, node_memory: str, node_gpus: int,
    nodes_file: Path | None, host: str, port: int, kubeconfig_out: Path | None, apiserver: str, runner: str,
    allow_host_path: bool, config: Path | None, descheduler_config: Path | None, descheduler_port: int | None,
    record: Path | None,
    topology_keys: tuple[str, ...], cycle_budget: float, error_recordings: Path | None,
    web: bool, web_host: str, web_port: int, web_names: tuple[str, ...], web_write: bool, lasting: str | None,
) -> None:  # fmt: skip
    """Run a whole cluster in one process, until Ctrl-C.

    It has an API server for kubectl and other clients, nodes, the scheduler, the controllers and a page for a browser.
    Unless --data is given, everything is gone at the end. The server is for one machine: see docs/embedded.md.
    """
    _refuse_useless(demo, nodes_file, descheduler_port, descheduler_config, allow_host_path, runner)
    if kubeconfig_out is not None and not kubeconfig_out.parent.is_dir():
        raise UserError(f"--kubeconfig-out: there is no folder {kubeconfig_out.parent}; create it, or use another one.")
    seconds = _seconds(lasting) if lasting else None

    from stromboli.kube.client import Failure
    from stromboli.kube.runtime import configure_logging

    from . import demo as demonstration
    from .cluster import DeschedulerPlan, PagePlan, Plan
    from .real_server import find_assets

    if demo and nodes is None:
        machines: Sequence[Machines] = [demonstration.machines()]
    else:
        machines = _machines(nodes_file, nodes, node_cpu, node_memory, node_gpus)
    configure_logging("warning", "text")
    folder = data if data is not None else Path(tempfile.mkdtemp(prefix="stromboli-up-"))
    private_folder(folder)
    if demo and config is None:
        config = folder / "demo-scheduler.yaml"
        write_output(config, demonstration.CONFIGURATION.encode())
    pages: list[str] = []  # the address, once it is known
    deschedulers: list[str] = []
    descheduler = None
    if descheduler_config is not None:
        descheduler = DeschedulerPlan(
            descheduler_config, _DESCHEDULER_PORT if descheduler_port is None else descheduler_port, deschedulers.append
        )
    plan = Plan(
        folder=folder,
        persistent=data is not None,
        machines=machines,
        host=host,
        port=port,
        assets=find_assets() if apiserver == "real" else None,
        runs_processes=runner == "process",
        host_paths_allowed=allow_host_path,
        config=config,
        descheduler=descheduler,
        record=record,
        topology_keys=topology_keys,
        cycle_budget=cycle_budget,
        error_recordings=error_recordings,
        page=PagePlan(web_host, web_port, web_write, web_names, pages.append) if web else None,
        on_ready=lambda server: _announce(server, kubeconfig_out, pages, deschedulers),
    )
    try:
        asyncio.run(_run(plan, demo=demo, seconds=seconds))
    except Failure as failure:
        raise UserError(f"The API server: {failure}") from None
    except ExceptionGroup as group:
        raise group.exceptions[0] from None
    finally:
        if data is None:
            shutil.rmtree(folder, ignore_errors=True)


def _refuse_useless(
    demo: bool,
    nodes_file: Path | None,
    descheduler_port: int | None,
    policy: Path | None,
    host_paths: bool,
    runner: str,
) -> None:
    """Raises UserError for options that do nothing together with the others."""
    if demo and nodes_file is not None:
        raise UserError("--demo has its own nodes; leave out --nodes-file.")
    if descheduler_port is not None and policy is None:
        raise UserError("--descheduler-port is of no use without a descheduler; add --descheduler-config POLICY.")
    if host_paths and runner != "process":
        raise UserError("--allow-host-path is of no use without --runner process.")


def _machines(
    nodes_file: Path | None, nodes: int | None, node_cpu: str, node_memory: str, node_gpus: int
) -> Sequence[Machines]:
    from .machines import Machines, read_machines

    if nodes_file is not None:
        return read_machines(nodes_file)
    names = [f"node-{number}" for number in range(nodes or 10)]
    return [Machines(names, node_capacity(node_cpu, node_memory, node_gpus, 110))]


async def _run(plan: object, *, demo: bool, seconds: float | None) -> None:
    from . import demo as demonstration
    from . import screen
    from .cluster import Plan, run_cluster
    from .observer import Observer

    assert isinstance(plan, Plan)
    stop = asyncio.Event()
    on_stop_signals(stop.set)

    async def end(client: Client) -> None:
        assert seconds is not None
        await asyncio.sleep(seconds)
        stop.set()

    async def show(client: Client) -> None:
        observer = Observer(client)
        watching = asyncio.create_task(observer.run())
        showing = asyncio.create_task(screen.show(observer, [f"kubectl --kubeconfig {plan.folder / 'kubeconfig'}"]))
        try:
            await asyncio.sleep(min(demonstration.SECONDS, seconds or demonstration.SECONDS))
            showing.cancel()
            await asyncio.gather(showing, return_exceptions=True)
            for line in await screen.summary(observer):
                click.echo(line)
            if seconds is not None and seconds <= demonstration.SECONDS:
                stop.set()
        finally:
            for task in (watching, showing):
                task.cancel()
            await asyncio.gather(watching, showing, return_exceptions=True)

    work = [demonstration.submit, show] if demo else []
    if seconds is not None and (not demo or seconds > demonstration.SECONDS):
        work.append(end)
    await run_cluster(plan, stop, work)


def _announce(server: Server, copy: Path | None, pages: Sequence[str], deschedulers: Sequence[str]) -> None:
    kubeconfig = server.kubeconfig
    if copy is not None:
        write_secret(copy, kubeconfig.read_text(encoding="utf-8"))
        kubeconfig = copy
    click.echo(f"The cluster is ready: {server.url}")
    click.echo(f"  export KUBECONFIG={kubeconfig.resolve()}")
    click.echo("  kubectl get nodes")
    for page in pages:
        click.echo(f"The page: {page}")
    for options in deschedulers:
        click.echo(f"The descheduler: stromboli defrag plan {options}")


def _seconds(text: str) -> float:
    try:
        seconds = float(parse_duration(text))
    except QuantityError as error:
        raise UserError(f"--for: {error}.") from None
    if seconds <= 0:
        raise UserError("--for must be longer than 0s.")
    return seconds
