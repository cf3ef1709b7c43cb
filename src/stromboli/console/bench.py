"""`stromboli bench`: how long a cycle takes, on a cluster in memory. (bench_cluster.py is about real clusters.)

The cluster is built from ordinary objects in the ordinary way, so this measures what a live scheduler does between
"something changed" and "these are the decisions", without a network.
"""

from __future__ import annotations

import gc
import json
import resource
import statistics
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from stromboli.errors import UserError

from .bench_cluster import cluster

if TYPE_CHECKING:
    from stromboli.cluster import Cluster
    from stromboli.scheduling.decisions import Cycle

GI = 1 << 30


@click.group(help="Measure Stromboli on this machine.", no_args_is_help=False)
def bench() -> None:
    pass


bench.add_command(cluster)


@bench.command(
    help="""Time one full scheduling cycle.

    Nodes have 32 CPUs, 128Gi, 8 GPUs and room for 110 pods; pods ask for 1 CPU and 4Gi. After one warm-up cycle that
    compiles the kernels, every repeat builds a fresh cluster, runs one cycle and then a second one with nothing new.
    The figures are medians.

    \b
    Examples:
      stromboli bench cycle --nodes 1000 --pods 10000 --jobs 100
      stromboli bench cycle --nodes 5000 --pods 50000 --jobs 500 --queues 1,2,3,4 --output json
    """
)
@click.option("--nodes", default=1000, show_default=True, type=click.IntRange(1), help="Nodes of the cluster.")
@click.option("--pods", default=10000, show_default=True, type=click.IntRange(1), help="Pending pods.")
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
@click.option("--repeat", default=3, show_default=True, type=click.IntRange(1), help="Measured repeats.")
@click.option("-o", "--output", default="text", show_default=True, type=click.Choice(["text", "json"]))
def cycle(
    nodes: int, pods: int, jobs: int, queues: str, namespaces: int, scorer: str, fill: float | None, repeat: int,
    output: str,
) -> None:  # fmt: skip
    if jobs > pods:
        raise UserError(f"--jobs {jobs} is more than --pods {pods}; every job needs a pod.")
    try:
        weights = [int(weight) for weight in queues.split(",")]
    except ValueError:
        raise UserError(f"--queues {queues!r} is no list of weights; write it like 1,2,3.") from None
    if any(weight < 1 for weight in weights):
        raise UserError(f"--queues {queues!r}: weights are 1 or more.")
    case = _Case(nodes, pods, jobs, weights, namespaces, scorer, fill)
    _say("warming up: one small cycle that compiles the kernels …")
    _Case(max(nodes, 256), 512, 8, weights, 1, scorer, None).run()
    runs = []
    for number in range(repeat):
        _say(f"repeat {number + 1} of {repeat} …")
        runs.append(case.run())
    figures: dict[str, object] = {
        key: round(statistics.median(run[key] for run in runs), 3)
        for key in ("snapshot_ms", "open_ms", "allocate_ms", "close_ms", "total_ms", "idle_total_ms")
    }
    figures["bound"] = int(runs[-1]["bound"])
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


@dataclass
class _Case:
    nodes: int
    pods: int
    jobs: int
    weights: list[int]
    namespaces: int
    scorer: str
    fill: float | None
    kernel: str = ""

    def run(self) -> dict[str, float]:
        from stromboli.scheduling.cycle import Scheduler, close_session
        from stromboli.scheduling.registry import Registry

        registry = Registry()
        configuration = registry.load(_BINPACK) if self.scorer == "binpack" else registry.default()
        cluster = self._cluster()
        scheduler = Scheduler(configuration, registry)
        gc.collect()
        gc.freeze()
        gc.disable()
        try:
            clock = time.perf_counter
            start = clock()
            snapshot = cluster.snapshot()
            taken = clock()
            session = scheduler.open(snapshot, 0.0)
            opened = clock()
            scheduler.act(session)
            acted = clock()
            decided = close_session(session)
            closed = clock()
            _apply_decisions(cluster, decided)
            quiet = clock()
            scheduler.run(cluster, 1.0)
            idle = clock()
        finally:
            gc.enable()
            gc.unfreeze()
        self.kernel = session.placement.kernels.NAME
        from stromboli.scheduling.decisions import Bind

        return {
            "snapshot_ms": (taken - start) * 1e3,
            "open_ms": (opened - taken) * 1e3,
            "allocate_ms": (acted - opened) * 1e3,
            "close_ms": (closed - acted) * 1e3,
            "total_ms": (closed - start) * 1e3,
            "idle_total_ms": (idle - quiet) * 1e3,
            "bound": sum(isinstance(decision, Bind) for decision in decided.decisions),
        }

    def _cluster(self) -> Cluster:
        from stromboli.api import (  # fmt: skip
            Container,
            Node,
            NodeStatus,
            ObjectMeta,
            Pod,
            PodGroup,
            PodGroupSpec,
            PodSpec,
            Queue,
            QueueSpec,
            ResourceRequirements,
            names,
        )
        from stromboli.cluster import Applied, Cluster

        cluster = Cluster()
        offer: dict[str, str | int | float] = {"cpu": "32", "memory": "128Gi", "nvidia.com/gpu": "8", "pods": "110"}
        if self.fill is not None:
            per_node = self.pods * self.fill / self.nodes
            offer |= {"cpu": f"{round(per_node * 1000)}m", "memory": str(round(per_node * 4 * GI))}
        for number in range(self.nodes):
            meta = ObjectMeta(name=f"node-{number:05d}", uid=f"n{number}")
            cluster.apply(Applied(Node(metadata=meta, status=NodeStatus(allocatable=offer))))
        for number, weight in enumerate(self.weights):
            meta = ObjectMeta(name=f"queue-{number}", uid=f"q{number}")
            cluster.apply(Applied(Queue(metadata=meta, spec=QueueSpec(weight=weight))))
        container = Container(resources=ResourceRequirements(requests={"cpu": "1", "memory": "4Gi"}))
        spec = PodSpec(containers=[container])
        sizes = [self.pods // self.jobs + (number < self.pods % self.jobs) for number in range(self.jobs)]
        for number, size in enumerate(sizes):
            namespace = f"team-{number % self.namespaces}"
            group = f"job-{number:05d}"
            meta = ObjectMeta(name=group, namespace=namespace, uid=f"g{number}")
            needs: dict[str, str | int | float] = {"cpu": size, "memory": size * 4 * GI}
            group_spec = PodGroupSpec(
                min_member=size, queue=f"queue-{number % len(self.weights)}", min_resources=needs
            )
            cluster.apply(Applied(PodGroup(metadata=meta, spec=group_spec)))
            for index in range(size):
                meta = ObjectMeta(
                    name=f"{group}-{index}",
                    namespace=namespace,
                    uid=f"p{number}-{index}",
                    annotations={names.GROUP_NAME: group},
                )
                cluster.apply(Applied(Pod(metadata=meta, spec=spec)))
        return cluster


def _apply_decisions(cluster: Cluster, decided: Cycle) -> None:
    """Apply what would be written to groups and queues. The cluster knows the binds already."""
    from stromboli.cluster import Applied
    from stromboli.scheduling.decisions import PatchGroup, PatchQueue

    for decision in decided.decisions:
        if isinstance(decision, PatchGroup):
            group = cluster.jobs[decision.job].object
            assert group is not None
            cluster.apply(Applied(decision.applied_to(group)))
        elif isinstance(decision, PatchQueue):
            queue = cluster.queues[decision.queue].object
            assert queue is not None
            cluster.apply(Applied(decision.applied_to(queue)))


_BINPACK = """
actions: "enqueue, reclaim, allocate, preempt, backfill"
tiers:
- plugins: [{name: priority}, {name: gang}, {name: conformance}, {name: pdb}]
- plugins:
  - {name: overcommit}
  - {name: drf, enablePreemptable: false}
  - {name: predicates}
  - {name: proportion}
  - {name: binpack}
"""
