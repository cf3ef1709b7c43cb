"""`stromboli bench cluster`: how fast pods are bound on a real API server, next to what that server can do at all.

What is measured, and why so, is told in kube/benchmark.py.
"""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path
from typing import TYPE_CHECKING

import click

from stromboli.errors import UserError

if TYPE_CHECKING:
    from stromboli.kube.bench.throughput import Figures, Plan


@click.command(
    help="""Measure the scheduler on an API server.

    Registers hollow nodes, measures how fast the server takes bare requests, then starts `stromboli scheduler` and
    creates gangs of pods for it. Takes some minutes. All that is created has the name of this run and is removed in
    the end, also after Ctrl-C.

    \b
    Examples:
      stromboli bench cluster --kubeconfig test.kubeconfig --nodes 1000 --pods 5000
      stromboli bench cluster --nodes 5000 --pods 5000 --existing-pods 50000 --output json
    """
)
@click.option(
    "--kubeconfig",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Which cluster; the usual places if not given.",
)
@click.option("--context", metavar="NAME", help="Which context of the kubeconfig; its current one if not given.")
@click.option("--nodes", default=1000, show_default=True, type=click.IntRange(1), help="Hollow nodes.")
@click.option("--pods", default=5000, show_default=True, type=click.IntRange(2), help="Pods that are to be bound.")
@click.option("--gang-size", default=10, show_default=True, type=click.IntRange(1), help="Pods that start together.")
@click.option(
    "--existing-pods", default=0, show_default=True, type=click.IntRange(0), help="Pods that are bound already."
)
@click.option("--output", default="table", show_default=True, type=click.Choice(["table", "json"]))
def cluster(
    kubeconfig: Path | None, context: str | None, nodes: int, pods: int, gang_size: int, existing_pods: int, output: str
) -> None:
    from stromboli.kube.bench.throughput import Plan
    from stromboli.kube.bench.workload import PODS_PER_NODE
    from stromboli.kube.runtime.logs import set_up

    room = nodes * PODS_PER_NODE
    if pods + gang_size + existing_pods > room:
        raise UserError(f"{nodes} nodes have room for {room} pods; ask for more --nodes, or for fewer pods.")
    set_up("warning", "text")
    figures = _measured(Plan(kubeconfig, context, nodes, pods, gang_size, existing_pods))
    if output == "json":
        import msgspec

        click.echo(msgspec.json.encode(_rounded(figures)))
    else:
        _print_table(figures)


def _measured(plan: Plan) -> Figures:
    from stromboli.kube.bench.throughput import benchmark
    from stromboli.kube.client.errors import Failure

    async def measure() -> Figures:
        task = asyncio.current_task()
        assert task is not None
        # What was created must be removed, whichever way we are asked to end.
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
        return await benchmark(plan, lambda line: click.echo(line, err=True))

    try:
        return asyncio.run(measure())
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None
    except Failure as failure:
        raise UserError(f"The API server: {failure}") from None


def _rounded(figures: Figures) -> dict[str, object]:
    import msgspec

    return {
        name: round(value, 3) if isinstance(value, float) else value
        for name, value in msgspec.structs.asdict(figures).items()
    }


def _print_table(figures: Figures) -> None:
    shown = [
        ("the server alone", ""),
        ("  binds", f"{figures.limit_binds_per_second:.0f} a second"),
        ("  creates and binds", f"{figures.limit_creates_and_binds_per_second:.0f} a second"),
        (f"a stream of {figures.pods} pods", ""),
        ("  from first create to last bind", f"{figures.stream_pods_per_second:.0f} pods a second"),
        ("    of creates and binds", f"{figures.stream_part_of_creates_and_binds:.0%}"),
        ("    of binds", f"{figures.stream_part_of_binds:.0%}"),
        ("  from last create to last bind", f"{figures.stream_last_create_to_last_bind_seconds:.2f} s"),
        (f"a backlog of {figures.pods} pods", ""),
        ("  from first to last bind", f"{figures.backlog_binds_per_second:.0f} pods a second"),
        ("    of binds", f"{figures.backlog_part_of_binds:.0%}"),
        ("the scheduler", ""),
        ("  from start to first bind", f"{figures.start_to_first_bind_seconds:.1f} s"),
        ("  memory at its highest", f"{figures.scheduler_peak_memory_mib:.0f} MiB"),
        ("  processor time of the stream", f"{figures.scheduler_cpu_seconds:.1f} s"),
    ]
    click.echo(
        f"{figures.nodes} nodes, {figures.existing_pods} pods bound before, gangs of {figures.gang_size}, "
        f"{figures.connections} connections, Kubernetes {figures.server_version}"
    )
    for name, value in shown:
        click.echo(f"{name:<34}{value:>20}".rstrip())
