"""`stromboli bench cluster`: the throughput of the scheduler on a real API server, compared with that server's limit.

kube/bench/throughput.py explains what is measured and why.
"""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path
from typing import TYPE_CHECKING

import click

from stromboli.errors import UserError

if TYPE_CHECKING:
    from stromboli.kube.bench import BenchmarkPlan, BenchmarkResult


@click.command(
    help="""Measure the scheduler on an API server.

    Registers hollow nodes, measures how fast the server handles bare requests, then starts `stromboli scheduler` and
    creates gangs of pods for it. Takes some minutes. Everything created has the name of this run and is removed at
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
    help="Kubeconfig file; by default as for kubectl.",
)
@click.option("--context", metavar="NAME", help="Context of the kubeconfig; by default its current context.")
@click.option("--nodes", default=1000, show_default=True, type=click.IntRange(1), help="Number of hollow nodes.")
@click.option("--pods", default=5000, show_default=True, type=click.IntRange(2), help="Pods to bind.")
@click.option("--gang-size", default=10, show_default=True, type=click.IntRange(1), help="Pods per gang.")
@click.option(
    "--existing-pods", default=0, show_default=True, type=click.IntRange(0), help="Pods that are already bound."
)
@click.option("-o", "--output", default="table", show_default=True, type=click.Choice(["table", "json"]))
def cluster(
    kubeconfig: Path | None, context: str | None, nodes: int, pods: int, gang_size: int, existing_pods: int, output: str
) -> None:
    from stromboli.kube.bench import PODS_PER_NODE, BenchmarkPlan
    from stromboli.kube.runtime import configure_logging

    room = nodes * PODS_PER_NODE
    if pods + gang_size + existing_pods > room:
        raise UserError(f"{nodes} nodes have room for {room} pods; use more --nodes or fewer pods.")
    configure_logging("warning", "text")
    result = _measured(BenchmarkPlan(kubeconfig, context, nodes, pods, gang_size, existing_pods))
    if output == "json":
        import msgspec

        click.echo(msgspec.json.encode(_rounded(result)))
    else:
        _print_table(result)


def _measured(plan: BenchmarkPlan) -> BenchmarkResult:
    from stromboli.kube.bench import benchmark
    from stromboli.kube.client import Failure

    async def measure() -> BenchmarkResult:
        task = asyncio.current_task()
        assert task is not None
        # SIGTERM, like Ctrl-C, must remove what was created.
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
        return await benchmark(plan, lambda line: click.echo(line, err=True))

    try:
        return asyncio.run(measure())
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None
    except Failure as failure:
        raise UserError(f"The API server: {failure}") from None


def _rounded(result: BenchmarkResult) -> dict[str, object]:
    import msgspec

    return {
        name: round(value, 3) if isinstance(value, float) else value
        for name, value in msgspec.structs.asdict(result).items()
    }


def _print_table(result: BenchmarkResult) -> None:
    shown = [
        ("the server alone", ""),
        ("  binds", f"{result.limit_binds_per_second:.0f} a second"),
        ("  creates and binds", f"{result.limit_creates_and_binds_per_second:.0f} a second"),
        (f"a stream of {result.pods} pods", ""),
        ("  from first create to last bind", f"{result.stream_pods_per_second:.0f} pods a second"),
        ("    of creates and binds", f"{result.stream_part_of_creates_and_binds:.0%}"),
        ("    of binds", f"{result.stream_part_of_binds:.0%}"),
        ("  from last create to last bind", f"{result.stream_last_create_to_last_bind_seconds:.2f} s"),
        (f"a backlog of {result.pods} pods", ""),
        ("  from first to last bind", f"{result.backlog_binds_per_second:.0f} pods a second"),
        ("    of binds", f"{result.backlog_part_of_binds:.0%}"),
        ("the scheduler", ""),
        ("  from start to first bind", f"{result.start_to_first_bind_seconds:.1f} s"),
        ("  memory at its highest", f"{result.scheduler_peak_memory_mib:.0f} MiB"),
        ("  processor time of the stream", f"{result.scheduler_cpu_seconds:.1f} s"),
    ]
    click.echo(
        f"{result.nodes} nodes, {result.existing_pods} pods bound before, gangs of {result.gang_size}, "
        f"{result.connections} connections, Kubernetes {result.server_version}"
    )
    for name, value in shown:
        click.echo(f"{name:<34}{value:>20}".rstrip())
