"""The command `stromboli hollow-nodes`."""

from __future__ import annotations

import asyncio
import re
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Final

import click

from stromboli.errors import UserError

_EXAMPLES: Final = """\b
Examples:
  stromboli hollow-nodes --nodes 100 --node-cpu 32 --node-memory 128Gi --node-gpus 8
  stromboli hollow-nodes --kubeconfig test.kubeconfig --nodes 5000 --label topology.kubernetes.io/zone=a
  stromboli hollow-nodes --nodes 4 --name-prefix gpu- --node-gpus 8 --label pool=gpu --keep-nodes

\b
Annotations of a pod say how it runs there:
  sim.stromboli.io/run         how long (for ever unless set), such as 30s or 1h30m
  sim.stromboli.io/exit-code   how it ends; other than 0 means it failed
  sim.stromboli.io/grace       how long it takes to go when it is deleted, if less than the pod's own grace
"""
_PREFIX: Final = re.compile(r"[a-z0-9]([a-z0-9.-]*[a-z0-9-])?")


@click.command("hollow-nodes", epilog=_EXAMPLES)
@click.option(
    "--kubeconfig",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Which cluster; that of $KUBECONFIG or ~/.kube/config if not given.",
)
@click.option("--context", metavar="NAME", help="Which context of the kubeconfig; its current one if not given.")
@click.option("--nodes", default=10, show_default=True, type=click.IntRange(1), help="How many.")
@click.option("--node-cpu", default="32", show_default=True, metavar="QUANTITY", help="CPUs of each node.")
@click.option("--node-memory", default="128Gi", show_default=True, metavar="QUANTITY", help="Memory of each node.")
@click.option(
    "--node-gpus", default=0, show_default=True, type=click.IntRange(0), help="GPUs of each node (nvidia.com/gpu)."
)
@click.option("--node-pods", default=110, show_default=True, type=click.IntRange(1), help="Pods that each node takes.")
@click.option("--name-prefix", default="hollow-", show_default=True, help="Names are this and a number, from 0.")
@click.option("--label", "labels", multiple=True, metavar="KEY=VALUE", help="A label of every node; may be repeated.")
@click.option("--keep-nodes", is_flag=True, help="Leave the nodes there in the end, for the next run to take over.")
def hollow_nodes(
    kubeconfig: Path | None, context: str | None, nodes: int, node_cpu: str, node_memory: str, node_gpus: int,
    node_pods: int, name_prefix: str, labels: tuple[str, ...], keep_nodes: bool,
) -> None:  # fmt: skip
    """Register nodes that exist in the API server only, and pretend to run their pods, until Ctrl-C.

    For trying policies with the scheduler and the controllers on any API server, without machines. Nodes that somebody
    else made are never touched.
    """
    if not _PREFIX.fullmatch(name_prefix):
        raise UserError(
            f'--name-prefix "{name_prefix}" cannot begin a node\'s name; use lower case letters, digits, "-" and ".".'
        )
    capacity = node_capacity(node_cpu, node_memory, node_gpus, node_pods)
    named = _labels(labels)

    from stromboli.kube.client.auth.kubeconfig import find_access
    from stromboli.kube.client.client import Client
    from stromboli.kube.client.errors import Failure
    from stromboli.kube.runtime.logs import set_up

    from .kubelets import HollowNodes
    from .nodes import Fleet

    set_up("warning", "text")
    access = find_access(kubeconfig, context)

    async def live() -> None:
        stop = asyncio.Event()
        _on_signals(stop.set)
        async with Client(access) as client:
            names = [f"{name_prefix}{number}" for number in range(nodes)]
            progress = milestones(nodes, lambda done: _say(f"{done} of {nodes} nodes registered"))
            fleet = Fleet(client, names, capacity=capacity, labels=named, progress=progress)
            await HollowNodes(client, fleet, keep=keep_nodes, say=_say).run(stop)

    try:
        asyncio.run(live())
    except Failure as failure:
        raise UserError(f"The API server at {access.server}: {failure}") from None


def node_capacity(cpu: str, memory: str, gpus: int, pods: int) -> dict[str, str | int | float]:
    """What a node of this size offers, checked."""
    from stromboli.api.quantity import QuantityError, amount

    for option, resource, quantity in (("--node-cpu", "cpu", cpu), ("--node-memory", "memory", memory)):
        try:
            size = amount(resource, quantity)
        except QuantityError as error:
            raise UserError(f"{option}: {error}.") from None
        if size <= 0:
            raise UserError(f"{option}: must be more than 0, not {quantity}.")
    capacity: dict[str, str | int | float] = {"cpu": cpu, "memory": memory, "pods": str(pods)}
    if gpus:
        capacity["nvidia.com/gpu"] = str(gpus)
    return capacity


def milestones(total: int, say: Callable[[int], None]) -> Callable[[int], None]:
    """Hears of every one, and says so at every tenth part of many; a few are done before anybody could read it."""
    step = max(total // 10, 100)

    def heard(done: int) -> None:
        if done % step == 0 and done < total:
            say(done)

    return heard


def _labels(written: tuple[str, ...]) -> dict[str, str]:
    labels = {}
    for label in written:
        name, equals, value = label.partition("=")
        if not name or not equals:
            raise UserError(f'--label "{label}": write it like pool=gpu.')
        labels[name] = value
    return labels


def _on_signals(stop: Callable[[], None]) -> None:
    """The first signal asks for an orderly end; another one gets what it gets everywhere."""
    loop = asyncio.get_running_loop()
    signals = (signal.SIGINT, signal.SIGTERM)

    def heard() -> None:
        for number in signals:
            loop.remove_signal_handler(number)
        stop()

    for number in signals:
        loop.add_signal_handler(number, heard)


def _say(line: str) -> None:
    click.echo(line, err=True)
