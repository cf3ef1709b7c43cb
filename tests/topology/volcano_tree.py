"""The clusters in which Volcano's end-to-end tests of topology run, and its Jobs, in documents of a scenario."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from explanations.close_scenes import hyper_node
from starvation.scenes import Document, node, pod
from together.situations import Report, Situation, flat

CPUS = 7.9  # of each node; a DaemonSet has the rest of 8
UNTIL = 12


def tree(racks: int, cpus: float = CPUS) -> list[Document]:
    """Nodes n0, n1 and so on; racks s0, s1 of two nodes each; above them blocks of two racks, and one domain of all."""
    found = [node(f"n{number}", cpus, memory="64Gi", pods=110) for number in range(2 * racks)]
    below = [f"s{number}" for number in range(racks)]
    found += [
        hyper_node(name, 1, ("Node", f"n{2 * row}"), ("Node", f"n{2 * row + 1}")) for row, name in enumerate(below)
    ]
    tier, count = 2, racks
    while len(below) > 1:
        pairs = list(zip(below[::2], below[1::2], strict=True))
        below = [f"s{count + number}" for number in range(len(pairs))]
        found += [
            hyper_node(name, tier, *(("HyperNode", inner) for inner in pair))
            for name, pair in zip(below, pairs, strict=True)
        ]
        tier, count = tier + 1, count + len(pairs)
    return found


def used(cpus: Mapping[int, int]) -> list[Document]:
    """Pods that run already: by number of a node, its CPUs in use."""
    return [pod(f"used-{number}", cpu, on=f"n{number}") for number, cpu in cpus.items()]


def tier(highest: int) -> Document:
    return {"mode": "hard", "highestTierAllowed": highest}


SOFT: Document = {"mode": "soft"}


def parts(total: int, size: int, topology: Document | None, least: int | None = None) -> Document:
    return {
        "totalPartitions": total, "partitionSize": size,
        **({} if least is None else {"minPartitions": least}),
        **({} if topology is None else {"networkTopology": topology}),
    }  # fmt: skip


def job(
    name: str, replicas: int, cpu: int, *, least: int | None = None, topology: Document | None = None,
    partition: Document | None = None, queue: str = "default", priority: str = "", at: float = 0,
    roles: Mapping[str, tuple[int, int]] | None = None,
) -> Document:  # fmt: skip
    """`roles`: by name of a task, its replicas and how many of them it needs; otherwise there is one task, `t`."""
    template: Document = {"spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": cpu}}}]}}
    tasks: list[Document] = [{"name": "t", "replicas": replicas, "template": template}]
    if roles is not None:
        tasks = [
            {"name": role, "replicas": all_, "minAvailable": needed, "template": template}
            for role, (all_, needed) in roles.items()
        ]
    if partition is not None:
        tasks[0]["partitionPolicy"] = partition
    spec: dict[str, Any] = {
        "queue": queue, "minAvailable": replicas if least is None else least, "schedulerName": "volcano", "tasks": tasks
    }  # fmt: skip
    if topology is not None:
        spec["networkTopology"] = topology
    if priority:
        spec["priorityClassName"] = priority
    notes = {"sim.stromboli.io/at": f"{at}s"}
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": name, "annotations": notes},
        "spec": spec,
    }  # fmt: skip


def config(*actions: str, capacity: bool = False) -> Document:
    """That of Volcano's end-to-end tests, without the plugin `sla`, which has no part in them. `capacity`: that of its
    tests of gangs that are evicted, which go whole there, so `gang` has to be asked here."""
    first: list[Document] = [
        {"name": "priority"},
        {"name": "gang", "enablePreemptable": capacity},
        {"name": "conformance"},
    ]
    second: list[Document] = [
        {"name": "overcommit"},
        {"name": "drf", "enablePreemptable": False},
        {"name": "predicates"},
    ]
    sharing: Document = {"name": "capacity", "enableHierarchy": False} if capacity else {"name": "proportion"}
    (first if capacity else second).append(sharing)
    second += [{"name": name} for name in ("nodeorder", "binpack", "network-topology-aware")]
    return {
        "actions": [{"name": name} for name in actions],
        "tiers": [{"plugins": first}, {"plugins": second}],
    }  # fmt: skip


def run(config: Document, *documents: Any, until: float = UNTIL) -> Report:
    return Situation(flat(documents), config, until).run()


def places(report: Report, name: str) -> dict[str, str]:
    """Where the pods of a Job run."""
    return {
        key.removeprefix("default/"): one["node"]
        for key, one in report["pods"].items()
        if key.startswith(f"default/{name}-") and one["phase"] == "Running"
    }


def rack_of(place: str) -> str:
    return f"s{int(place.removeprefix('n')) // 2}"
