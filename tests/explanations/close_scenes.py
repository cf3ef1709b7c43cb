"""Racks of nodes, and groups that must be in one of them."""

from __future__ import annotations

from typing import Any

from starvation.scenes import Document, gang, node, pod

GPU = "nvidia.com/gpu"


def rack(
    name: str, *gpus: int, tier: int = 1, tier_name: str = "rack", cordoned: tuple[int, ...] = ()
) -> list[Document]:
    """A HyperNode with a node `<name>-0` and so on for each number of GPUs. `cordoned`: the numbers of these nodes."""
    nodes = [node(f"{name}-{number}", 64, **{GPU: amount}) for number, amount in enumerate(gpus)]
    for number in cordoned:
        nodes[number]["spec"] = {"unschedulable": True}
    return [*nodes, hyper_node(name, tier, *[("Node", one["metadata"]["name"]) for one in nodes], tier_name=tier_name)]


def hyper_node(name: str, tier: int, *members: tuple[str, str], tier_name: str = "") -> Document:
    """`members`: (kind, name)."""
    return {
        "apiVersion": "topology.volcano.sh/v1alpha1", "kind": "HyperNode", "metadata": {"name": name},
        "spec": {
            "tier": tier, **({"tierName": tier_name} if tier_name else {}),
            "members": [{"type": kind, "selector": {"exactMatch": {"name": inner}}} for kind, inner in members],
        },
    }  # fmt: skip


def hard(**highest: Any) -> Document:
    return {"mode": "hard", **highest}


def close_gang(
    name: str, pods: int, gpus: int = 1, *, topology: Document | None = None, policies: list[Document] | None = None,
    values: str = "", least: int | None = None, **options: Any,
) -> list[Document]:  # fmt: skip
    """`values`: for each pod a letter, its value of the label `unit`; " " for none."""
    group, *members = gang(name, *[1] * pods, least=least, **options)
    if topology is not None:
        group["spec"]["networkTopology"] = topology
    if policies is not None:
        group["spec"]["subGroupPolicy"] = policies
    for number, member in enumerate(members):
        member["spec"]["containers"][0]["resources"]["requests"] = {GPU: gpus}
        if values[number : number + 1].strip():
            member["metadata"]["labels"] = {"unit": values[number]}
    return [group, *members]


def policy(name: str, size: int, least: int, topology: Document | None = None) -> Document:
    close = {} if topology is None else {"networkTopology": topology}
    return {"name": name, "matchLabelKeys": ["unit"], "subGroupSize": size, "minSubGroups": least, **close}


def gpu_pod(name: str, gpus: int = 1, **options: Any) -> Document:
    found = pod(name, **options)
    found["spec"]["containers"][0]["resources"]["requests"] = {GPU: gpus}
    return found


def racks(**gpus: tuple[int, ...]) -> list[Document]:
    """Racks of these names, of nodes with so many GPUs, in one block."""
    inside = [("HyperNode", name) for name in gpus]
    documents = [document for name, each in gpus.items() for document in rack(name, *each)]
    return [*documents, hyper_node("block", 2, *inside, tier_name="block")]


def close_job(name: str, pods: int, topology: Document, *, least: int | None = None, gpus: int = 1) -> Document:
    """Its controller creates pods anew that are gone."""
    containers = [{"name": "main", "resources": {"requests": {GPU: gpus}}}]
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": name},
        "spec": {
            "minAvailable": pods if least is None else least, "schedulerName": "volcano", "networkTopology": topology,
            "tasks": [{"name": "w", "replicas": pods, "template": {"spec": {"containers": containers}}}],
        },
    }  # fmt: skip
