"""What each plugin that is not in the built-in configuration adds to a cycle.

    python benchmarks/plugins.py [--nodes 1000] [--pods 10000] [--jobs 100] [--repeat 5] [--only NAME] [--output json]

The cluster is that of `stromboli bench cycle`, with what the plugin acts by: half of the gangs say in how much time
they should start, nodes are in four groups, one pod of ten is to be shared by the others of its gang, and so on. `off`
is the same cluster without the plugin. Times are processor time in milliseconds, the lowest of several repeats, each on
a fresh cluster. `later` is the next cycle, in which nothing is new.
"""

from __future__ import annotations

import argparse
import gc
import json
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from msgspec.structs import replace

from stromboli.api import (
    KObject,
    Node,
    ObjectMeta,
    Pod,
    PodGroup,
    Queue,
    QueueAffinity,
    ResourceQuota,
    ResourceQuotaSpec,
    names,
)
from stromboli.api.kinds.batch import NodeGroupAffinity
from stromboli.cluster import Applied, Cluster, NodesMeasured, NodeUse
from stromboli.console.bench_case import Case, _apply_decisions
from stromboli.scheduling.cycle import Scheduler
from stromboli.scheduling.decisions import Bind
from stromboli.scheduling.registry import Registry

GROUPS: Final = ("a", "b", "c", "d")
WITHOUT: Final = """
actions: "enqueue, reclaim, allocate, preempt, reserve, backfill"
tiers:
- plugins: [{name: priority}, {name: gang}, {name: conformance}, {name: pdb}]
- plugins:
  - {name: overcommit}
  - {name: drf, enablePreemptable: false}
  - {name: predicates}
  - {name: proportion}
  - {name: nodeorder}
"""

Change = Callable[[KObject, int], KObject]


def number_of(obj: KObject) -> int:
    return int(obj.metadata.name.rpartition("-")[2])


def with_annotations(obj: Any, annotations: Mapping[str, str]) -> Any:
    return replace(obj, metadata=replace(obj.metadata, annotations={**obj.metadata.annotations, **annotations}))


def agreed(obj: KObject, number: int) -> KObject:
    if isinstance(obj, PodGroup) and number % 2:
        return with_annotations(obj, {names.SLA_WAITING_TIME: f"{number}m"})
    return obj


def in_groups(obj: KObject, number: int) -> KObject:
    if isinstance(obj, Node):
        labels = {**obj.metadata.labels, names.NODE_GROUP: GROUPS[number % len(GROUPS)]}
        return replace(obj, metadata=replace(obj.metadata, labels=labels))
    if isinstance(obj, Queue):
        lists = NodeGroupAffinity(
            required_during_scheduling_ignored_during_execution=["a", "b"],
            preferred_during_scheduling_ignored_during_execution=["c"],
        )
        return replace(obj, spec=replace(obj.spec, affinity=QueueAffinity(node_group_affinity=lists)))
    return obj


def with_roles(obj: KObject, number: int) -> KObject:
    if isinstance(obj, PodGroup):
        return with_annotations(obj, {names.TASK_AFFINITY: "ps,worker", names.TASK_ANTI_AFFINITY: "ps"})
    if isinstance(obj, Pod):
        return with_annotations(obj, {names.TASK_SPEC: "worker" if number % 10 else "ps"})
    return obj


def same(obj: KObject, number: int) -> KObject:
    return obj


def with_quotas(obj: KObject, number: int) -> KObject:
    """The minimums of gangs are asked about one by one."""
    return replace(obj, status=replace(obj.status, phase="Pending")) if isinstance(obj, PodGroup) else obj


class Measured:
    def __init__(self, entry: str, change: Change = same) -> None:
        self.entry = entry  # of the plugin in a tier
        self.change = change

    @property
    def configuration(self) -> str:
        return f"{WITHOUT}  - {self.entry}\n"


PLUGINS: Final = {
    "sla": Measured("{name: sla, arguments: {sla-waiting-time: 1h}}", agreed),
    "nodegroup": Measured("{name: nodegroup, arguments: {enablePreferredOrder: true}}", in_groups),
    "task-topology": Measured("{name: task-topology, arguments: {task-topology.weight: 10}}", with_roles),
    "resourcequota": Measured("{name: resourcequota}", with_quotas),
    "usage": Measured("{name: usage}"),
    "resource-strategy-fit": Measured(
        "{name: resource-strategy-fit, arguments: {resources: {cpu: {type: MostAllocated, weight: 2},"
        " memory: {type: LeastAllocated}}}}"
    ),
    "resource-strategy-fit, sra and proportional": Measured(
        "{name: resource-strategy-fit, arguments: {resourceStrategyFitWeight: 0,"
        " sra: {enable: true, resources: nvidia.com/gpu, weight: 10},"
        " proportional: {enable: true, resources: nvidia.com/gpu, resourceProportion: {nvidia.com/gpu.cpu: 2,"
        " nvidia.com/gpu.memory: 4}}}}"
    ),
}


def built(case: Case, change: Change) -> Cluster:
    """The cluster of the case, with these changes to its objects."""
    cluster = case.cluster()
    objects: list[KObject] = [node.object for node in cluster.nodes.values()]
    objects += [queue.object for queue in cluster.queues.values() if queue.object is not None]
    objects += [job.object for job in cluster.jobs.values() if job.object is not None]
    objects += [task.pod for task in cluster.tasks.values()]
    for obj in objects:
        changed = change(obj, number_of(obj)) if obj.metadata.name[-1].isdigit() else obj
        if changed is not obj:
            cluster.apply(Applied(changed))
    hard: dict[str, str | int | float] = {"requests.cpu": 2 * case.pods, "pods": 2 * case.pods}
    quota = ResourceQuota(metadata=ObjectMeta(name="limit", namespace="team-0"), spec=ResourceQuotaSpec(hard=hard))
    cluster.apply(Applied(quota))
    used = {"cpu": 8_000, "memory": 32 << 30}
    cluster.apply(NodesMeasured({node: NodeUse(used, 0.0) for node in sorted(cluster.nodes)}))
    return cluster


def cycle(case: Case, change: Change, configuration: str) -> tuple[float, float, int]:
    registry = Registry(installed_plugins=(), installed_actions=())
    scheduler, cluster = Scheduler(registry.load(configuration), registry), built(case, change)
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        start = time.process_time()
        decided = scheduler.run(cluster, 0.0)
        first = time.process_time()
        _apply_decisions(cluster, decided)
        later = time.process_time()
        scheduler.run(cluster, 1.0)
        end = time.process_time()
    finally:
        gc.enable()
        gc.unfreeze()
    return (first - start) * 1e3, (end - later) * 1e3, sum(isinstance(one, Bind) for one in decided.decisions)


def measure(name: str, case: Case, repeat: int) -> dict[str, Any]:
    plugin = PLUGINS[name]
    figures: dict[str, Any] = {"plugin": name}
    for what, configuration in (("off", WITHOUT), ("on", plugin.configuration)):
        runs = [cycle(case, plugin.change, configuration) for _ in range(repeat)]
        figures[what] = round(min(run[0] for run in runs), 1)
        figures[f"{what}_later"] = round(min(run[1] for run in runs), 1)
        figures[f"{what}_bound"] = runs[-1][2]
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--pods", type=int, default=10_000)
    parser.add_argument("--jobs", type=int, default=100)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--only", choices=sorted(PLUGINS))
    parser.add_argument("--output", choices=["table", "json"], default="table")
    options = parser.parse_args()
    case = Case(options.nodes, options.pods, options.jobs, [1], 1, "nodeorder", None)
    Case(max(options.nodes, 256), 512, 8, [1], 1, "nodeorder", None).run()  # compiles the kernels
    found = [measure(name, case, options.repeat) for name in PLUGINS if options.only in (None, name)]
    if options.output == "json":
        print(json.dumps(found))
        return
    print(f"| plugin | off | on | later, off | later, on | pods bound |\n|{'---|' * 6}")
    for row in found:
        figures = [row[key] for key in ("off", "on", "off_later", "on_later", "on_bound")]
        print(f"| {row['plugin']} | " + " | ".join(str(figure) for figure in figures) + " |")


if __name__ == "__main__":
    main()
