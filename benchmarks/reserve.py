"""How long the reserve action takes when everybody starves.

Every node is full, and hundreds of gangs have waited for longer than the threshold. In the cycle that notices it, the
action chooses a node for every pod of every gang: the largest amount of work it can be given at once. Each pod asks for
a whole node, so no two share one, and what is measured grows with pods times nodes.

    python benchmarks/reserve.py [--nodes 5000] [--gangs 500] [--size 8] [--repeat 3] [--profile]

prints one JSON document; times are medians in milliseconds. The goal for the sizes above is less than a second.
"""

from __future__ import annotations

import argparse
import cProfile
import gc
import json
import pstats
import statistics
import sys
import time

from stromboli.api import (
    Container,
    Node,
    NodeStatus,
    ObjectMeta,
    Pod,
    PodGroup,
    PodGroupSpec,
    PodGroupStatus,
    PodSpec,
    PodStatus,
    Queue,
    ResourceRequirements,
    names,
)
from stromboli.cluster import Applied, Cluster
from stromboli.scheduling.cycle import Scheduler, close_session
from stromboli.scheduling.decisions import Reserve
from stromboli.scheduling.registry import Registry

CPUS = 8
THREE_DAYS = 3 * 86_400.0

CONFIGURATION = """
actions:
- name: enqueue
- name: allocate
- name: reserve
  arguments: {{maxHolders: {gangs}, reservedNodePercent: 100}}
- name: backfill
tiers:
- plugins: [{{name: priority}}, {{name: gang}}, {{name: conformance}}, {{name: pdb}}]
- plugins: [{{name: drf, enablePreemptable: false}}, {{name: predicates}}, {{name: proportion}}, {{name: nodeorder}}]
"""


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--gangs", type=int, default=500)
    parser.add_argument("--size", type=int, default=8, help="pods of a gang; each asks for a whole node")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--profile", action="store_true", help="show where the time of one more run goes")
    asked = parser.parse_args(arguments)
    runs = []
    for number in range(asked.repeat):
        print(f"repeat {number + 1} of {asked.repeat} …", file=sys.stderr)
        runs.append(measure(asked.nodes, asked.gangs, asked.size))
    figures = {key: round(statistics.median(run[key] for run in runs), 1) for key in runs[0]}
    print(json.dumps({"nodes": asked.nodes, "gangs": asked.gangs, "size": asked.size, **figures}))
    if asked.profile:
        profiler = cProfile.Profile()
        measure(asked.nodes, asked.gangs, asked.size, profiler)
        pstats.Stats(profiler, stream=sys.stderr).sort_stats("tottime").print_stats(15)


def measure(nodes: int, gangs: int, size: int, profiler: cProfile.Profile | None = None) -> dict[str, float]:
    """One cycle on a fresh cluster: how long each action took, and how many nodes were set aside."""
    registry = Registry()
    scheduler = Scheduler(registry.load(CONFIGURATION.format(gangs=gangs)), registry)
    cluster = starving_cluster(nodes, gangs, size)
    gc.collect()
    session = scheduler.open(cluster.snapshot(), THREE_DAYS)
    figures: dict[str, float] = {}
    for option in scheduler.configuration.actions:
        action = registry.action(option.name)(option.arguments)
        if profiler is not None and option.name == "reserve":
            profiler.enable()
        before = time.perf_counter()
        action.execute(session)
        figures[f"{option.name}_ms"] = (time.perf_counter() - before) * 1e3
        if profiler is not None:
            profiler.disable()
    before = time.perf_counter()
    decided = close_session(session)
    figures["close_ms"] = (time.perf_counter() - before) * 1e3
    figures["reserved"] = sum(isinstance(decision, Reserve) for decision in decided.decisions)
    return figures


def starving_cluster(nodes: int, gangs: int, size: int) -> Cluster:
    """Full nodes, and gangs that were let in three days ago."""
    cluster = Cluster()
    cluster.apply(Applied(Queue(metadata=ObjectMeta(name=names.DEFAULT_QUEUE, uid="queue"))))
    whole = [Container(resources=ResourceRequirements(requests={"cpu": CPUS}))]
    meta = ObjectMeta(name="service", namespace="prod", uid="service")
    cluster.apply(Applied(PodGroup(metadata=meta, spec=PodGroupSpec(min_member=1), status=_phase("Running"))))
    for number in range(nodes):
        name = f"node-{number:05d}"
        offer: dict[str, str | int | float] = {"cpu": CPUS, "memory": "64Gi", "pods": 110}
        cluster.apply(Applied(Node(metadata=ObjectMeta(name=name, uid=name), status=NodeStatus(allocatable=offer))))
        meta = _member(f"service-{number:05d}", "prod", "service")
        running = PodSpec(containers=whole, node_name=name)
        cluster.apply(Applied(Pod(metadata=meta, spec=running, status=PodStatus(phase="Running"))))
    for number in range(gangs):
        group = f"training-{number:04d}"
        meta = ObjectMeta(name=group, namespace="lab", uid=group, creation_timestamp="1970-01-01T00:00:00Z")
        spec = PodGroupSpec(min_member=size)
        cluster.apply(Applied(PodGroup(metadata=meta, spec=spec, status=_phase("Inqueue"))))
        for index in range(size):
            meta = _member(f"{group}-{index}", "lab", group)
            cluster.apply(Applied(Pod(metadata=meta, spec=PodSpec(containers=whole))))
    return cluster


def _member(name: str, namespace: str, group: str) -> ObjectMeta:
    return ObjectMeta(name=name, namespace=namespace, uid=name, annotations={names.GROUP_NAME: group})


def _phase(phase: str) -> PodGroupStatus:
    return PodGroupStatus(phase=phase)


if __name__ == "__main__":
    main()
