"""How long the plugins of the Kubernetes descheduler take for one run, at n and 2n nodes with ten pods each.

Each plugin runs alone, on the same cluster with something to do for it: a node in fifty has a taint, pods of one set in
fifty require another label, sets of one in three do not want their own beside them, every set has a spread constraint,
and one in ten crowds on five nodes.

    python benchmarks/descheduler_plugins.py [--nodes 1000]
"""

from __future__ import annotations

import argparse
import json
import time
from typing import Any, Final

from stromboli.api import KObject, decode, key, names
from stromboli.cluster import Applied, Cluster
from stromboli.descheduling import Descheduler
from stromboli.descheduling import Registry as Plugins
from stromboli.scheduling.cycle import Scheduler
from stromboli.scheduling.registry import Registry

NOW: Final = 1_900_000_000.0
PER_SET: Final = 20
REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"
RUNS: Final[tuple[tuple[str, dict[str, Any], str], ...]] = (
    ("RemovePodsViolatingNodeAffinity", {"nodeAffinityType": [REQUIRED, PREFERRED]}, "deschedule"),
    ("RemovePodsViolatingNodeTaints", {}, "deschedule"),
    ("RemovePodsViolatingInterPodAntiAffinity", {}, "deschedule"),
    ("RemoveDuplicates", {}, "balance"),
    ("RemovePodsViolatingTopologySpreadConstraint", {}, "balance"),
    ("PodLifeTime", {"maxPodLifeTimeSeconds": 86400}, "deschedule"),
    ("RemovePodsHavingTooManyRestarts", {"podRestartThreshold": 5}, "deschedule"),
    ("RemoveFailedPods", {}, "deschedule"),
)


def cluster_of(nodes: int) -> list[KObject]:
    found: list[KObject] = [decode({
        "apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": "default"},
        "status": {"state": "Open"},
    })]  # fmt: skip
    for number in range(nodes):
        name = f"node-{number:05d}"
        labels = {"kubernetes.io/hostname": name, "zone": f"zone-{number % 3}", "disk": ("hdd", "ssd")[number % 2]}
        taints = [{"key": "ml", "effect": "NoSchedule"}] if number % 50 == 0 else []
        found.append(decode({
            "apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels},
            "spec": {"taints": taints}, "status": {"allocatable": {"cpu": 64, "pods": 110}},
        }))  # fmt: skip
    for number in range(nodes * 10 // PER_SET):
        found += _set(number, nodes)
    return found


def _set(number: int, nodes: int) -> list[KObject]:
    name, labels = f"set-{number:05d}", {"app": f"set-{number:05d}"}
    spec: dict[str, Any] = {
        "schedulerName": names.DEFAULT_SCHEDULER,
        "containers": [{"name": "main", "image": "x:1", "resources": {"requests": {"cpu": 1}}}],
        "topologySpreadConstraints": [{
            "maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": labels},
        }],
    }  # fmt: skip
    if number % 50 == 0:
        spec["nodeSelector"] = {"disk": "ssd"}
    elif number % 3 == 0:
        term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": labels}}
        spec["affinity"] = {"podAntiAffinity": {REQUIRED: [term]}}
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": name, "uid": name, "controller": True}
    meta = {"namespace": "default", "creationTimestamp": "2030-01-01T00:00:00Z"}
    group = f"podgroup-{name}"
    documents: list[dict[str, Any]] = [
        {
            "apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {**meta, "name": name, "uid": name},
            "spec": {
                "replicas": PER_SET, "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": spec},
            },
        },
        {
            "apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup",
            "metadata": {**meta, "name": group, "uid": group, "ownerReferences": [owner]},
            "spec": {"minMember": 1, "queue": "default"}, "status": {"phase": "Running"},
        },
    ]  # fmt: skip
    for pod in range(PER_SET):
        where = (number * 7 + (pod if number % 10 else pod % 5)) % nodes
        documents.append({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {
                **meta, "name": f"{name}-{pod}", "uid": f"{name}-{pod}", "labels": labels, "ownerReferences": [owner],
                "annotations": {names.GROUP_NAME: group},
            },
            "spec": {**spec, "nodeName": f"node-{where:05d}"}, "status": {"phase": "Running"},
        })  # fmt: skip
    return [decode(document) for document in documents]


class Known:
    def __init__(self, objects: list[KObject]) -> None:
        self._objects: dict[type, dict[str, Any]] = {}
        for obj in objects:
            self._objects.setdefault(type(obj), {})[key(obj)] = obj

    def get(self, kind: Any, name: str) -> Any:
        return self._objects.get(kind, {}).get(name)

    def list(self, kind: Any) -> Any:
        return [obj for _, obj in sorted(self._objects.get(kind, {}).items())]


def measure(objects: list[KObject], plugin: str, arguments: dict[str, Any], point: str) -> tuple[float, int]:
    """Processor time of one run, and how many pods it would move or evict."""
    profile = {
        "name": "run", "pluginConfig": [{"name": plugin, "args": arguments}], "plugins": {point: {"enabled": [plugin]}}
    }  # fmt: skip
    document = {"apiVersion": "descheduler/v1alpha2", "kind": "DeschedulerPolicy", "profiles": [profile]}
    plugins, registry = Plugins(installed=()), Registry(installed_plugins=(), installed_actions=())
    policy = plugins.load(json.dumps(document))
    descheduler = Descheduler(lambda: policy, plugins, lambda: Scheduler(registry.default(), registry))
    descheduler.cluster = Cluster(scheduler_name=names.DEFAULT_SCHEDULER)
    for obj in objects:
        descheduler.cluster.apply(Applied(obj))
    known = Known(objects)
    began = time.process_time()
    plans = descheduler.plan(known, NOW)
    return time.process_time() - began, sum(len(plan.moves) + len(plan.removals) for plan in plans)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=int, default=1000)
    options = parser.parse_args()
    for nodes in (options.nodes, 2 * options.nodes):
        objects = cluster_of(nodes)
        print(f"{nodes:,} nodes, {nodes * 10:,} pods")
        for plugin, arguments, point in RUNS:
            seconds, pods = measure(objects, plugin, arguments, point)
            print(f"  {plugin:<45} {seconds:6.2f} s  {pods:5} pods", flush=True)


if __name__ == "__main__":
    main()
