"""The command `stromboli hollow-nodes`."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from pathlib import Path
from typing import Final

import click

from stromboli.errors import UserError

from .stop_signals import on_stop_signals

_EXAMPLES: Final = """\b
Examples:
  stromboli hollow-nodes --nodes 100 --node-cpu 32 --node-memory 128Gi --node-gpus 8
  stromboli hollow-nodes --kubeconfig test.kubeconfig --nodes 5000 --label topology.kubernetes.io/zone=a
  stromboli hollow-nodes --nodes 4 --name-prefix gpu- --node-gpus 8 --label pool=gpu --keep-nodes

\b
Annotations of a pod control how it runs:
  sim.stromboli.io/run         how long it runs, such as 30s or 1h30m; without it, until it is deleted
  sim.stromboli.io/exit-code   its exit code; other than 0 means that it failed
  sim.stromboli.io/grace       how long it takes to stop after its deletion, at most its own grace period

\b
Annotations of a storage class, with --provision-volumes:
  sim.stromboli.io/provision         how long it takes to make a volume; without it, no time
  sim.stromboli.io/provision-fails   "always", a number of attempts for each claim, or names of nodes
"""
_PREFIX: Final = re.compile(r"[a-z0-9]([a-z0-9.-]*[a-z0-9-])?")


@click.command("hollow-nodes", epilog=_EXAMPLES)
@click.option(
    "--kubeconfig",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Kubeconfig file; by default $KUBECONFIG or ~/.kube/config.",
)
@click.option("--context", metavar="NAME", help="Context of the kubeconfig; by default its current context.")
@click.option("--nodes", default=10, show_default=True, type=click.IntRange(1), help="Number of nodes.")
@click.option("--node-cpu", default="32", show_default=True, metavar="QUANTITY", help="CPUs of each node.")
@click.option("--node-memory", default="128Gi", show_default=True, metavar="QUANTITY", help="Memory of each node.")
@click.option(
    "--node-gpus", default=0, show_default=True, type=click.IntRange(0), help="GPUs of each node (nvidia.com/gpu)."
)
@click.option("--node-pods", default=110, show_default=True, type=click.IntRange(1), help="Pods per node.")
@click.option(
    "--name-prefix", default="hollow-", show_default=True, help="Node names: this prefix and a number from 0."
)
@click.option("--label", "labels", multiple=True, metavar="KEY=VALUE", help="A label of every node; can be repeated.")
@click.option(
    "--provision-volumes",
    is_flag=True,
    help="Make and bind volumes, on a server without a volume controller and provisioners.",
)
@click.option("--keep-nodes", is_flag=True, help="Keep the nodes at the end; the next run takes them over.")
def hollow_nodes(
    kubeconfig: Path | None, context: str | None, nodes: int, node_cpu: str, node_memory: str, node_gpus: int,
    node_pods: int, name_prefix: str, labels: tuple[str, ...], provision_volumes: bool, keep_nodes: bool,
) -> None:  # fmt: skip
    """Register nodes without machines, and pretend to run their pods, until Ctrl-C.

    Use it to try policies with the scheduler and the controllers on any API server. Other nodes are never changed.
    """
    if not _PREFIX.fullmatch(name_prefix):
        raise UserError(
            f'--name-prefix "{name_prefix}" cannot start a node name; use lower case letters, digits, "-" and ".".'
        )
    capacity = node_capacity(node_cpu, node_memory, node_gpus, node_pods)
    parsed_labels = _parse_labels(labels)

    from stromboli.kube.client import Client, Failure, load_client_config
    from stromboli.kube.hollow import HollowNodePool, HollowNodes
    from stromboli.kube.runtime import configure_logging

    configure_logging("warning", "text")
    config = load_client_config(kubeconfig, context)

    async def run() -> None:
        stop = asyncio.Event()
        on_stop_signals(stop.set)
        async with Client(config) as client:
            names = [f"{name_prefix}{number}" for number in range(nodes)]
            progress = milestones(nodes, lambda done: _say(f"{done} of {nodes} nodes registered"))
            pool = HollowNodePool(client, names, capacity=capacity, labels=parsed_labels, progress=progress)
            nodes_run = HollowNodes(client, pool, keep=keep_nodes, say=_say, provision_volumes=provision_volumes)
            await nodes_run.run(stop)

    try:
        asyncio.run(run())
    except Failure as failure:
        raise UserError(f"The API server at {config.server}: {failure}") from None


def node_capacity(cpu: str, memory: str, gpus: int, pods: int) -> dict[str, str | int | float]:
    """The validated capacity of a node of this size."""
    from stromboli.api.quantity import QuantityError, amount
    from stromboli.api.warnings import fractional_bytes_in

    for option, resource, quantity in (("--node-cpu", "cpu", cpu), ("--node-memory", "memory", memory)):
        try:
            size = amount(resource, quantity)
        except QuantityError as error:
            raise UserError(f"{option}: {error}.") from None
        if size <= 0:
            raise UserError(f"{option}: must be more than 0, not {quantity}.")
    if warning := fractional_bytes_in([("", {"memory": memory})]):
        click.echo(f"stromboli: warning: --node-memory: {warning}", err=True)
    capacity: dict[str, str | int | float] = {"cpu": cpu, "memory": memory, "pods": str(pods)}
    if gpus:
        capacity["nvidia.com/gpu"] = str(gpus)
    return capacity


def milestones(total: int, say: Callable[[int], None]) -> Callable[[int], None]:
    """A progress callback that reports every tenth of a large total. A small total is finished too soon to report."""
    step = max(total // 10, 100)

    def on_progress(done: int) -> None:
        if done % step == 0 and done < total:
            say(done)

    return on_progress


def _parse_labels(written: tuple[str, ...]) -> dict[str, str]:
    labels = {}
    for label in written:
        name, equals, value = label.partition("=")
        if not name or not equals:
            raise UserError(f'--label "{label}": write it as KEY=VALUE, for example pool=gpu.')
        labels[name] = value
    return labels


def _say(line: str) -> None:
    click.echo(line, err=True)
