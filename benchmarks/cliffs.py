"""What a cycle costs where schedulers tend to be slow, at size n and 2n.

    python benchmarks/cliffs.py [--scale 1.0] [--repeat 3] [--only NAME] [--output json]

    anti-affinity   n pods that must all be on different nodes, on n nodes
    spread          n pods spread over 10 zones with a skew of at most 1, on n/10 nodes
    queue tree      n queues in a tree of three levels, with one job of 4 pods each (plugin `capacity`)
    shapes          n pods that all request different amounts, in jobs of 10, on n/10 nodes
    unplaceable     n gangs of 10 pods of which the cluster has room for none
    host ports      n pods that use one of 10 ports of their node, on n/5 nodes
    one-pod jobs    n jobs of one pod in 4 queues, on n/10 nodes
    preempting      a gang of n pods evicts n of 8n running pods of lower priority, on 2n nodes
    reclaiming      a gang of n pods evicts n of 8n running pods of another queue, on 2n nodes
    hopeless        a gang of n pods, of a high priority, on a full cluster with room for 8n/9 of them
    preemptors      n jobs of one pod, of high priority, each evict one of 8n running pods, on 2n nodes
    service         a ReplicaSet of n pods, one of which runs, evicts for the others as in reclaiming
    service above its share  the same, but its queue has all that it deserves
    budgets         the same gang as in preempting, where all running pods are in one PodDisruptionBudget
    reclaim in tree n queues in a tree of three levels have borrowed nothing, and reclaim from n others that have
    volumes new     n pods with a claim each, whose volumes have to be made, in jobs of 10, on n/10 nodes
    volumes existing, volumes local   the same with n volumes that exist, in three zones or each on one node
    claims bound    the same with claims that are bound
    claims shared   the same with one claim for each job
    claims awaited  the same with claims whose volumes are being made
    locks           n pods of n/200 queues, each of which has 10 of n/10 nodes locked
    reservations    n Reservations for pods that are still to come, and n pods, on n/10 nodes
    reservations used  n Reservations, and n pods that use them
    many budgets    the same gang as in preempting, and ten budgets for each running job
    namespaces, namespace per pod   preemptors in n/10 weighted namespaces, or in one each
    resource names  1,000 pods on 100 nodes, and pods of a tenant that ask for n resources which no node offers
    starving        n jobs that have starved, each as large as a node, on n/10 nodes that drain
    lending         a gang that lacks half of its room, and n jobs of one pod that borrow what it cannot use yet
    half gangs      n/10 gangs that lack one of 10 pods, on full nodes, in two queues
    plans, plans for pending   a plan of the descheduler for n nodes with 10 pods each, by thresholds or for a job

Times are processor time, the best of several repeats, each on a fresh cluster. `later` is the next cycle, in which
nothing is new. `growth` is the exponent: 1.0 is linear, 2.0 is quadratic.
"""

from __future__ import annotations

import argparse
import gc
import json
import math
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from stromboli.api import decode
from stromboli.cluster import Applied, Cluster
from stromboli.console.bench_case import Case, _apply_decisions
from stromboli.scheduling.cycle import Scheduler
from stromboli.scheduling.registry import Registry

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.defragmentation import plan_seconds

Document = dict[str, Any]

TREE = """
actions: "enqueue, reclaim, allocate"
tiers:
- plugins:
  - {name: priority}
  - {name: gang}
  - {name: predicates}
  - {name: capacity, enableHierarchy: true}
  - {name: nodeorder}
"""

PATIENT = """
actions: "enqueue, reclaim, allocate, preempt, reserve, backfill"
configurations:
- {name: reserve, arguments: {starvingJobTimeThreshold: 1s, starvationClock: creation}}
- {name: backfill, arguments: {backfillNonBestEffort: true}}
tiers:
- plugins: [{name: priority}, {name: gang}, {name: conformance}, {name: pdb}]
- plugins:
  - {name: overcommit}
  - {name: drf, enablePreemptable: false}
  - {name: predicates}
  - {name: proportion}
  - {name: nodeorder}
"""


# -- objects ----------------------------------------------------------------------------------------------------------


def node(number: int, zones: int = 1, cpus: int = 32) -> Document:
    name = f"node-{number:06d}"
    labels = {"kubernetes.io/hostname": name, "zone": f"zone-{number % zones}"}
    return {
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "uid": name, "labels": labels},
        "status": {"allocatable": {"cpu": str(cpus), "memory": "128Gi", "pods": "110"}},
    }  # fmt: skip


def queue(name: str, parent: str = "", **spec: Any) -> Document:
    if parent:
        spec["parent"] = parent
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": name, "uid": name},
        "spec": {"weight": 1, **spec},
    }  # fmt: skip


def gang(
    name: str,
    pods: int,
    *,
    cpu: Callable[[int], str] = lambda _: "1",
    queue_name: str = "default",
    priority: str = "",
    on: Callable[[int], str] | None = None,
    **spec: Any,
) -> Iterable[Document]:
    """A PodGroup and its pods. `on`: the node of each pod, if they run; then the group may lose all of them but one."""
    yield {
        "apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup",
        "metadata": {"name": name, "namespace": "team", "uid": name},
        "spec": {"minMember": pods if on is None else 1, "queue": queue_name, "priorityClassName": priority},
        "status": {"phase": "Inqueue" if on is None else "Running"},
    }  # fmt: skip
    ports = spec.pop("ports", None)
    for number in range(pods):
        container: Document = {"name": "main", "resources": {"requests": {"cpu": cpu(number)}}}
        if ports is not None:
            container["ports"] = [{"containerPort": port, "hostPort": port} for port in ports(number)]
        key = f"{name}-{number}"
        yield {
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {
                "name": key, "namespace": "team", "uid": key, "labels": {"job": name},
                "annotations": {"scheduling.k8s.io/group-name": name},
            },
            "spec": {
                "schedulerName": "volcano", "containers": [container], "priorityClassName": priority, **spec,
                **({} if on is None else {"nodeName": on(number)}),
            },
            "status": {"phase": "Pending" if on is None else "Running"},
        }  # fmt: skip


def priority_class(name: str, value: int) -> Document:
    return {
        "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name, "uid": name},
        "value": value,
    }  # fmt: skip


def nodes(number: int, zones: int = 1) -> list[Document]:
    return [node(position, zones) for position in range(number)]


# -- the cases --------------------------------------------------------------------------------------------------------


def anti_affinity(size: int) -> Iterable[Document]:
    apart = {"labelSelector": {"matchLabels": {"job": "apart"}}, "topologyKey": "kubernetes.io/hostname"}
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [apart]}}
    return [*nodes(size), queue("default"), *gang("apart", size, affinity=affinity)]


def spread(size: int) -> Iterable[Document]:
    even = {
        "maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"job": "even"}},
    }  # fmt: skip
    pods = gang("even", size, topologySpreadConstraints=[even])
    return [*nodes(max(size // 10, 10), zones=10), queue("default"), *pods]


def queue_tree(size: int) -> Iterable[Document]:
    top = max(round(size ** (1 / 3)), 1)
    made: list[Document] = [*nodes(max(size // 5, 5)), queue("default"), queue("root")]
    made += [queue(f"a{one}", "root") for one in range(top)]
    made += [queue(f"a{one}-b{two}", f"a{one}") for one in range(top) for two in range(top)]
    for number in range(size):
        parent = f"a{number % top}-b{number // top % top}"
        made.append(queue(f"leaf{number:05d}", parent, deserved={"cpu": "8"}))
        made += gang(f"job{number:05d}", 4, queue_name=f"leaf{number:05d}")
    return made


def shapes(size: int) -> Iterable[Document]:
    made: list[Document] = [*nodes(max(size // 10, 1)), queue("default")]
    for first in range(0, size, 10):
        made += gang(f"job{first:06d}", 10, cpu=lambda number, first=first: f"{500 + first + number}m")
    return made


def unplaceable(size: int) -> Iterable[Document]:
    made: list[Document] = [*nodes(max(size // 10, 1)), queue("default")]
    for number in range(size):
        made += gang(f"job{number:06d}", 10, cpu=lambda _: "33")
    return made


def host_ports(size: int) -> Iterable[Document]:
    pods = gang("ports", size, cpu=lambda _: "100m", ports=lambda number: [9000 + number % 10])
    return [*nodes(max(size // 5, 1)), queue("default"), *pods]


def one_pod_jobs(size: int) -> Iterable[Document]:
    made: list[Document] = [*nodes(max(size // 10, 1)), *(queue(f"q{number}") for number in range(4))]
    for number in range(size):
        made += gang(f"job{number:06d}", 1, queue_name=f"q{number % 4}")
    return made


def full(size: int, queue_name: str = "default") -> list[Document]:
    """4 pods of 8 CPUs run on each of so many nodes, in jobs of 100."""
    made = [*nodes(size), queue(queue_name), priority_class("low", 1), priority_class("high", 1000)]
    for first in range(0, 4 * size, 100):
        where = [f"node-{position % size:06d}" for position in range(first, min(first + 100, 4 * size))]
        made += gang(
            f"running{first:06d}", len(where), cpu=lambda _: "8", queue_name=queue_name, priority="low",
            on=where.__getitem__,
        )  # fmt: skip
    return made


def preempting(size: int) -> Iterable[Document]:
    return [*full(2 * size), *gang("urgent", size, cpu=lambda _: "8", priority="high")]


def reclaiming(size: int) -> Iterable[Document]:
    return [*full(2 * size), queue("other"), *gang("claims", size, cpu=lambda _: "8", queue_name="other")]


def hopeless(size: int) -> Iterable[Document]:
    return [*full(2 * size // 9), *gang("large", size, cpu=lambda _: "8", priority="high")]


def preemptors(size: int) -> Iterable[Document]:
    made = full(2 * size)
    for number in range(size):
        made += gang(f"urgent{number:06d}", 1, cpu=lambda _: "8", priority="high")
    return made


def service(size: int, *, at_its_share: bool = False) -> Iterable[Document]:
    """A ReplicaSet whose pods share a generated group; one of them runs already."""
    made = [*full(2 * size), queue("other", **({"capability": {"cpu": "8"}} if at_its_share else {})), node(2 * size)]
    group, *pods = gang("podgroup-service", size, cpu=lambda _: "8", queue_name="other")
    group["metadata"]["ownerReferences"] = [
        {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "service", "uid": "service", "controller": True}
    ]
    group["spec"]["minMember"], group["status"]["phase"] = 1, "Running"
    first = pods[0]
    first["spec"]["nodeName"], first["status"]["phase"] = f"node-{2 * size:06d}", "Running"
    # The rest of its node is not for its other pods.
    others = gang("neighbours", 3, cpu=lambda _: "8", on=lambda _: f"node-{2 * size:06d}")
    return [*made, group, *pods, *others]


def service_above_its_share(size: int) -> Iterable[Document]:
    return service(size, at_its_share=True)


def budgets(size: int) -> Iterable[Document]:
    budget = {
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
        "metadata": {"name": "all", "namespace": "team", "uid": "all"},
        "spec": {"maxUnavailable": "50%", "selector": {}}, "status": {"disruptionsAllowed": size},
    }  # fmt: skip
    return [*preempting(size), budget]


def reclaim_in_tree(size: int) -> Iterable[Document]:
    made: list[Document] = [*nodes(max(size // 4, 5)), queue("default"), queue("root")]
    top = max(round(size ** (1 / 3)), 1)
    made += [queue(f"a{one}", "root") for one in range(top)]
    made += [queue(f"a{one}-b{two}", f"a{one}") for one in range(top) for two in range(top)]
    for number in range(size):
        parent = f"a{number % top}-b{number // top % top}"
        made.append(queue(f"has{number:05d}", parent, deserved={"cpu": "4"}))
        made.append(queue(f"lacks{number:05d}", parent, deserved={"cpu": "4"}))
        where = f"node-{number // 4:06d}"
        made += gang(f"running{number:05d}", 8, queue_name=f"has{number:05d}", on=lambda _, where=where: where)
        made += gang(f"claims{number:05d}", 4, queue_name=f"lacks{number:05d}")
    return made


def _zone(number: int) -> str:
    return f"zone-{number % 3}"


def storage_class(provisioner: str) -> Document:
    return {
        "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "disks", "uid": "disks"},
        "provisioner": provisioner, "volumeBindingMode": "WaitForFirstConsumer",
    }  # fmt: skip


def with_volumes(documents: Iterable[Document], *, kind: str) -> Iterable[Document]:
    """The pods with a claim each. `kind`: its volume has to be made; exists (in a zone, or on one node) and is free; or
    is bound to the claim."""
    yield storage_class("csi.example.com" if kind == "new" else "kubernetes.io/no-provisioner")
    hosts = 0
    for position, document in enumerate(documents):
        hosts += document["kind"] == "Node"
        if document["kind"] == "Pod":
            name = document["metadata"]["name"]
            volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": name}}]
            yield from claim_and_volume(name, position, kind, hosts)
            document = {**document, "spec": {**document["spec"], "volumes": volumes}}
        yield document


def claim_and_volume(name: str, position: int, kind: str, hosts: int) -> Iterable[Document]:
    volume = f"volume-{name}"
    yield {
        "apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": "team", "uid": name},
        "spec": {
            "accessModes": ["ReadWriteOnce"], "storageClassName": "disks",
            "resources": {"requests": {"storage": "10Gi"}}, **({"volumeName": volume} if kind == "bound" else {}),
        },
        "status": {"phase": "Bound" if kind == "bound" else "Pending"},
    }  # fmt: skip
    if kind == "new":
        return
    label, value = ("zone", _zone(position)) if kind != "local" else (
        "kubernetes.io/hostname", f"node-{position % hosts:06d}"
    )  # fmt: skip
    terms = [{"matchExpressions": [{"key": label, "operator": "In", "values": [value]}]}]
    reference = {"kind": "PersistentVolumeClaim", "namespace": "team", "name": name, "uid": name}
    yield {
        "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": volume, "uid": volume},
        "spec": {
            "accessModes": ["ReadWriteOnce"], "storageClassName": "disks", "capacity": {"storage": "10Gi"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": terms}},
            **({"claimRef": reference} if kind == "bound" else {}),
        },
        "status": {"phase": "Bound" if kind == "bound" else "Available"},
    }  # fmt: skip


def volumes(kind: str) -> Callable[[int], Iterable[Document]]:
    def build(size: int) -> Iterable[Document]:
        made = [*nodes(max(size // 10, 3), zones=3), queue("default")]
        for first in range(0, size, 10):
            made += gang(f"job{first:06d}", 10)
        return with_volumes(made, kind=kind)

    return build


def shared_claims(size: int) -> Iterable[Document]:
    made = [*nodes(max(size // 10, 3), zones=3), queue("default"), storage_class("csi.example.com")]
    for first in range(0, size, 10):
        name = f"job{first:06d}"
        shared = [{"name": "data", "persistentVolumeClaim": {"claimName": name}}]
        made += [*gang(name, 10, volumes=shared), *claim_and_volume(name, first, "new", 1)]
    return made


def held_pods(size: int) -> Iterable[Document]:
    """Claims with a selected node: their pods wait for their volumes on the nodes that they were nominated to."""
    for document in volumes("new")(size):
        if document["kind"] == "PersistentVolumeClaim":
            number = int(document["metadata"]["name"].removeprefix("job").replace("-", "")) // 10
            where = f"node-{number % max(size // 10, 3):06d}"
            notes = {
                "volume.kubernetes.io/selected-node": where,
                "scheduling.stromboli.io/selected-at": "2000-01-01T00:00:00Z",
            }
            document["metadata"]["annotations"] = notes
        yield document


def locks(size: int) -> Iterable[Document]:
    """Half of the nodes are locked, 10 for each queue; each queue has 20 pods."""
    made: list[Document] = nodes(max(size // 10, 20))
    hosts = len(made)
    for number in range(hosts // 20):
        mine = [f"node-{position:06d}" for position in range(number * 10, number * 10 + 10)]
        guarantee = {"resource": {"cpu": "320"}, "policy": "Best-Effort"}
        one = queue(f"q{number:05d}", guarantee=guarantee)
        one["status"] = {"state": "Open", "reservation": {"nodes": mine, "guarantee": guarantee, "basis": "resource"}}
        made.append(one)
        for first in range(20):
            made += gang(f"job{number:05d}-{first:02d}", 10, queue_name=f"q{number:05d}")
    return made


def reservations(*, used: bool) -> Callable[[int], Iterable[Document]]:
    """Each holds one CPU for a pod: of those that wait, or of others that are still to come."""

    def build(size: int) -> Iterable[Document]:
        hosts = max(size // 10, 3)
        made: list[Document] = [*nodes(hosts), queue("default")]
        for number in range(size):
            job = f"job{number // 10:06d}"
            labels = {"job": job if used else f"later-{job}"}
            container = {"name": "main", "resources": {"requests": {"cpu": "1"}}}
            made.append({
                "apiVersion": "scheduling.volcano.sh/v1alpha1", "kind": "Reservation",
                "metadata": {"name": f"r{number:06d}", "uid": f"r{number:06d}"},
                "spec": {
                    "queue": "default", "ttl": "0", "owners": [{"labelSelector": {"matchLabels": labels}}],
                    "template": {"metadata": {"namespace": "team"}, "spec": {"containers": [container]}},
                },
                "status": {
                    "phase": "Available", "nodeName": f"node-{number % hosts:06d}",
                    "allocatable": {"cpu": "1", "pods": "1"},
                },
            })  # fmt: skip
        for first in range(0, size, 10):
            made += gang(f"job{first // 10:06d}", 10)
        return made

    return build


def many_budgets(size: int) -> Iterable[Document]:
    """Each running job has a budget of its own."""
    made = list(preempting(size))
    for document in [one for one in made if one["kind"] == "PodGroup" and one["status"]["phase"] == "Running"]:
        name = document["metadata"]["name"]
        for part in range(10):
            made.append({
                "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
                "metadata": {"name": f"{name}-{part}", "namespace": "team", "uid": f"{name}-{part}"},
                "spec": {"maxUnavailable": "50%", "selector": {"matchLabels": {"job": name}}},
                "status": {"disruptionsAllowed": 50},
            })  # fmt: skip
    return made


def namespaces(number_of: Callable[[int], int], *, weighted: bool = False) -> Callable[[int], Iterable[Document]]:
    """The preempting jobs of one pod, in so many namespaces."""

    def build(size: int) -> Iterable[Document]:
        many = number_of(size)
        made = list(preemptors(size))
        for document in made:
            name = document["metadata"]["name"]
            if name.startswith("urgent") and document["kind"] in ("Pod", "PodGroup"):
                document["metadata"]["namespace"] = f"team-{int(name[6:12]) % many:06d}"
        for number in range(many if weighted else 0):
            made.append({
                "apiVersion": "v1", "kind": "ResourceQuota",
                "metadata": {"name": "weight", "namespace": f"team-{number:06d}", "uid": f"w{number}"},
                "spec": {"hard": {"volcano.sh/namespace.weight": str(1 + number % 5)}},
            })  # fmt: skip
        return made

    return build


def resource_names(size: int) -> Iterable[Document]:
    """Each of the tenant's pods asks for 60 names that nobody else asks for."""
    made: list[Document] = [*nodes(100), queue("default")]
    for first in range(0, 1000, 10):
        made += gang(f"job{first:06d}", 10)
    for first in range(0, size, 60):
        made += gang(f"names{first:06d}", 1)
        requests = made[-1]["spec"]["containers"][0]["resources"]["requests"]
        requests |= {f"example.com/n{number}": "1" for number in range(first, first + 60)}
    return made


def starving(size: int) -> Iterable[Document]:
    """The jobs have waited for a day when the cycle begins."""
    made = full(max(size // 10, 3))
    for number in range(size):
        group, pod = gang(f"large{number:06d}", 1, cpu=lambda _: "32")
        group["metadata"]["creationTimestamp"] = "1969-12-31T00:00:00Z"
        made += [group, pod]
    return made


def lending(size: int) -> Iterable[Document]:
    """Half of the gang's pods find room, and each of their nodes has room for four of the small jobs."""
    hosts = max(size // 4, 2)
    made: list[Document] = [*nodes(hosts), queue("default"), *gang("large", 2 * hosts, cpu=lambda _: "32")]
    for number in range(size):
        made += gang(f"small{number:06d}", 1, cpu=lambda _: "8")
    return made


def half_gangs(size: int) -> Iterable[Document]:
    """9 of 10 pods run, and the node has no room for the tenth."""
    hosts = max(size // 10, 2)
    made: list[Document] = [*nodes(hosts), queue("one"), queue("two")]
    for number in range(hosts):
        group, *pods = gang(f"half{number:06d}", 10, cpu=lambda _: "3500m", queue_name=("one", "two")[number % 2])
        for pod in pods[:9]:
            pod["spec"]["nodeName"] = f"node-{number:06d}"
            pod["status"]["phase"] = "Running"
        reached = {"type": "Scheduled", "status": "True", "reason": "TasksReady", "message": "All 10 pods have a node."}
        group["status"] = {"phase": "Running", "conditions": [reached]}
        made += [group, *pods]
    return made


CASES: dict[str, tuple[Callable[[int], Iterable[Document]], int, str]] = {
    "anti-affinity": (anti_affinity, 5000, ""),
    "spread": (spread, 5000, ""),
    "queue tree": (queue_tree, 500, TREE),
    "shapes": (shapes, 10000, ""),
    "unplaceable": (unplaceable, 2000, ""),
    "host ports": (host_ports, 5000, ""),
    "one-pod jobs": (one_pod_jobs, 10000, ""),
    "preempting": (preempting, 500, ""),
    "reclaiming": (reclaiming, 500, ""),
    "hopeless": (hopeless, 900, ""),
    "preemptors": (preemptors, 500, ""),
    "service": (service, 500, ""),
    "service above its share": (service_above_its_share, 5000, ""),
    "budgets": (budgets, 500, ""),
    "reclaim in tree": (reclaim_in_tree, 200, TREE),
    "volumes new": (volumes("new"), 2000, ""),
    "volumes existing": (volumes("existing"), 1000, ""),
    "volumes local": (volumes("local"), 1000, ""),
    "claims bound": (volumes("bound"), 2000, ""),
    "claims shared": (shared_claims, 1000, ""),
    "claims awaited": (held_pods, 2000, ""),
    "locks": (locks, 4000, ""),
    "reservations": (reservations(used=False), 2000, ""),
    "reservations used": (reservations(used=True), 2000, ""),
    "many budgets": (many_budgets, 300, ""),
    "namespaces": (namespaces(lambda size: max(size // 10, 1), weighted=True), 500, ""),
    "namespace per pod": (namespaces(lambda size: size), 500, ""),
    "resource names": (resource_names, 3480, ""),
    "starving": (starving, 1000, PATIENT),
    "lending": (lending, 1000, PATIENT),
    "half gangs": (half_gangs, 1000, ""),
}
PLANS = {"plans": False, "plans for pending": True}  # of the descheduler; whether for a job that waits
PLAN_SIZE = 100  # nodes


# -- measuring --------------------------------------------------------------------------------------------------------


def measure(documents: Iterable[Document], configuration: str, repeat: int) -> dict[str, float]:
    """Seconds of the first cycle and of the next one, and how many decisions the first one made."""
    objects = [decode(document) for document in documents]
    registry = Registry()
    first = later = math.inf
    decided = 0
    for _ in range(repeat):
        cluster = Cluster()
        for obj in objects:
            cluster.apply(Applied(obj))
        scheduler = Scheduler(registry.load(configuration) if configuration else registry.default(), registry)
        gc.collect()
        gc.freeze()
        start = time.process_time()
        cycle = scheduler.run(cluster, 0.0)
        first = min(first, time.process_time() - start)
        decided = len(cycle.decisions)
        _apply_decisions(cluster, cycle)
        scheduler.run(cluster, 1.0)
        start = time.process_time()
        scheduler.run(cluster, 2.0)
        later = min(later, time.process_time() - start)
        gc.unfreeze()
    return {"first": first, "later": later, "decisions": decided}


def measured_case(name: str, size: int, repeat: int) -> dict[str, float]:
    if name in CASES:
        build, _, configuration = CASES[name]
        return measure(build(size), configuration, repeat)
    _, moves, seconds = plan_seconds(size, repeat=repeat, pending=PLANS[name])
    return {"first": seconds, "later": seconds, "decisions": moves}


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--scale", type=float, default=1.0, help="multiplies all sizes")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--only", choices=sorted([*CASES, *PLANS]))
    parser.add_argument("--output", choices=["table", "json"], default="table")
    chosen = parser.parse_args(arguments)
    Case(256, 512, 8, [1], 1, "nodeorder", None).run()  # compiles the kernels
    rows = []
    for name in [*CASES, *PLANS]:
        if chosen.only not in (None, name):
            continue
        size = CASES[name][1] if name in CASES else PLAN_SIZE
        small = max(round(size * chosen.scale), 10)
        measured = [measured_case(name, number, chosen.repeat) for number in (small, 2 * small)]
        for number, result in zip((small, 2 * small), measured, strict=True):
            rows.append({"case": name, "size": number, **result})
        rows[-1]["growth"] = math.log2(measured[1]["first"] / measured[0]["first"])
        if chosen.output == "table":
            print(_line(rows[-2]), _line(rows[-1]), sep="\n", flush=True)
    if chosen.output == "json":
        json.dump(rows, sys.stdout, indent=2)


def _line(row: dict[str, Any]) -> str:
    growth = f"{row['growth']:6.2f}" if "growth" in row else ""
    return (
        f"{row['case']:<16}{row['size']:>8}{row['first']:>9.3f} s{row['later'] * 1e3:>9.1f} ms later"
        f"{row['decisions']:>8} decisions {growth}"
    )


if __name__ == "__main__":
    main()
