"""`stromboli bench`: how long a cycle takes, on a cluster in memory. (bench_cluster.py is about real clusters.)

bench_case.py builds the cluster and runs the cycles.
"""

from __future__ import annotations

import json
import resource
import statistics
import sys

import click

from stromboli.errors import UserError

from .bench_cluster import cluster

_FIGURES = (
    "snapshot_ms", "open_ms", "allocate_ms", "close_ms", "total_ms", "idle_total_ms", "cpu_ms", "steady_cpu_ms",
)  # fmt: skip


@click.group(help="Measure Stromboli on this machine.", no_args_is_help=False)
def bench() -> None:
    pass


bench.add_command(cluster)


@bench.command(
    help="""Time one full scheduling cycle.

    Nodes have 32 CPUs, 128Gi, 8 GPUs and room for 110 pods; pods ask for 1 CPU and 4Gi. After one warm-up cycle that
    compiles the kernels, every repeat builds a fresh cluster, runs one cycle, and then two more with nothing new. The
    figures are medians.

    With --running the cluster is in use already: these pods have 8 CPUs and 32Gi, a low priority and the first queue.
    Gangs of pods of the same size that need their room are added with --preemptor, --reclaim and --hopeless.

    With --used-reservations some of the pending pods find resources held for them. With --topology every gang has to
    be close together: nodes are in domains of 8, 32, 128 and 512 nodes, and `hard` allows the first two tiers.

    \b
    Examples:
      stromboli bench cycle --nodes 1000 --pods 10000 --jobs 100
      stromboli bench cycle --nodes 5000 --pods 50000 --jobs 500 --queues 1,2,3,4 --output json
      stromboli bench cycle --nodes 1000 --pods 10000 --claims new
      stromboli bench cycle --nodes 1000 --pods 10000 --topology hard
      stromboli bench cycle --nodes 1000 --pods 0 --running 4000 --preemptor 500
      stromboli bench cycle --nodes 1000 --pods 0 --running 4000 --reclaim 500
      stromboli bench cycle --nodes 200 --pods 0 --running 800 --hopeless 900
      stromboli bench cycle --nodes 1000 --pods 10000 --reservations 1000
      stromboli bench cycle --nodes 1000 --pods 10000 --used-reservations 1000
    """
)
@click.option("--nodes", default=1000, show_default=True, type=click.IntRange(1), help="Nodes of the cluster.")
@click.option("--pods", default=10000, show_default=True, type=click.IntRange(0), help="Pending pods.")
@click.option("--jobs", default=100, show_default=True, type=click.IntRange(1), help="Gangs they are divided into.")
@click.option("--queues", default="1", show_default=True, help="Weights of the queues, separated by commas.")
@click.option("--namespaces", default=1, show_default=True, type=click.IntRange(1), help="Namespaces of the jobs.")
@click.option("--scorer", default="nodeorder", show_default=True, type=click.Choice(["nodeorder", "binpack"]))
@click.option(
    "--fill",
    default=None,
    type=click.FloatRange(min=0.0, min_open=True),
    help="Make nodes so small that the cluster holds only this part of the pods (0.5: half of them).",
)
@click.option("--running", default=0, show_default=True, type=click.IntRange(0), help="Pods that run already.")
@click.option(
    "--running-jobs", default=40, show_default=True, type=click.IntRange(1), help="Jobs they belong to, without gangs."
)
@click.option(
    "--preemptor", default=0, show_default=True, type=click.IntRange(0), help="Pods of a gang with a high priority."
)
@click.option(
    "--reclaim", default=0, show_default=True, type=click.IntRange(0), help="Pods of a gang in a queue of its own."
)
@click.option(
    "--hopeless",
    default=0,
    show_default=True,
    type=click.IntRange(0),
    help="Pods of a gang with a high priority that is too large for the cluster.",
)
@click.option(
    "--reservations",
    default=0,
    show_default=True,
    type=click.IntRange(0),
    help="Reservations that hold resources, one pod's each, for pods that are still to come.",
)
@click.option(
    "--used-reservations",
    default=0,
    show_default=True,
    type=click.IntRange(0),
    help="Reservations for pending pods, divided among the jobs.",
)
@click.option(
    "--claims",
    default="none",
    show_default=True,
    type=click.Choice(["none", "new", "bound"]),
    help="A claim for each pod, whose volume has to be made or exists, in three zones; nodes take 64 volumes.",
)
@click.option(
    "--topology",
    default="none",
    show_default=True,
    type=click.Choice(["none", "soft", "hard"]),
    help="How close together the pods of each gang must be.",
)
@click.option("--repeat", default=3, show_default=True, type=click.IntRange(1), help="Measured repeats.")
@click.option("-o", "--output", default="text", show_default=True, type=click.Choice(["text", "json"]))
def cycle(
    nodes: int, pods: int, jobs: int, queues: str, namespaces: int, scorer: str, fill: float | None, running: int,
    running_jobs: int, preemptor: int, reclaim: int, hopeless: int, reservations: int, used_reservations: int,
    claims: str, topology: str, repeat: int, output: str,
) -> None:  # fmt: skip
    from .bench_case import LARGE_PODS_PER_NODE, Case, Evictions

    if pods and jobs > pods:
        raise UserError(f"--jobs {jobs} is more than --pods {pods}; every job needs a pod.")
    try:
        weights = [int(weight) for weight in queues.split(",")]
    except ValueError:
        raise UserError(f"--queues {queues!r} is no list of weights; write it like 1,2,3.") from None
    if any(weight < 1 for weight in weights):
        raise UserError(f"--queues {queues!r}: weights are 1 or more.")
    room = nodes * LARGE_PODS_PER_NODE
    if running > room:
        raise UserError(f"--running {running}: {nodes} nodes hold {room} of these pods.")
    if 0 < hopeless <= room:
        raise UserError(f"--hopeless {hopeless} is not too large for the cluster; use more than {room}.")
    evictions = Evictions(running, running_jobs, preemptor, reclaim, hopeless)
    case = Case(
        nodes,
        pods,
        jobs,
        weights,
        namespaces,
        scorer,
        fill,
        evictions,
        reservations,
        used_reservations,
        claims,
        topology,
    )
    _say("warming up: one small cycle that compiles the kernels …")
    Case(max(nodes, 256), 512, 8, weights, 1, scorer, None, claims=claims, topology=topology).run()
    runs = []
    for number in range(repeat):
        _say(f"repeat {number + 1} of {repeat} …")
        runs.append(case.run())
    figures: dict[str, object] = {key: round(statistics.median(run[key] for run in runs), 3) for key in _FIGURES}
    figures["bound"] = int(runs[-1]["bound"])
    figures["evicted"] = int(runs[-1]["evicted"])
    figures["rss_mb"] = round(_peak_mb(), 1)
    figures["kernel"] = case.kernel
    if output == "json":
        click.echo(json.dumps(figures))
    else:
        for key, value in figures.items():
            click.echo(f"{key:>14}  {value}")


def _say(progress: str) -> None:
    if sys.stderr.isatty():
        click.echo(progress, err=True)


def _peak_mb() -> float:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1 << 20) if sys.platform == "darwin" else peak / (1 << 10)
