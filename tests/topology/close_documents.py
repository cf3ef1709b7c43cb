"""The documents of a world of close groups: the same tree as HyperNodes of all member kinds, or as labels of nodes."""

from __future__ import annotations

from collections.abc import Iterable
from random import Random
from typing import Any

from topology.close_world import (
    FOREVER,
    KEYS,
    NAMESPACE,
    TIER_NAMES,
    Close,
    CloseWorld,
    Document,
    DomainFact,
    GroupFact,
    NodeFact,
    PodFact,
)

VALUE = "unit"  # the label whose values divide the pods of a policy
POLICY = "policy"


def write_documents(world: CloseWorld, dice: Random) -> None:
    found = world.documents
    found.append({
        "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 100,
    })  # fmt: skip
    for queue, weight in world.queues.items():
        found.append({
            "apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": queue},
            "spec": {"weight": weight},
        })  # fmt: skip
    for node in world.nodes:
        found.extend(_node(world, node))
    if not world.by_labels:
        found.extend(hyper_nodes(world, dice))
    if world.moved is not None:
        at, name, _, rack = world.moved
        found.append({
            "apiVersion": "sim.stromboli.io/v1", "kind": "Patch", "at": f"{at}s",
            "target": {"kind": "Node", "name": name}, "patch": {"metadata": {"labels": {"rack": rack}}},
        })  # fmt: skip
    found.extend(_pod(pod) for pod in world.singles)
    for group in world.groups:
        found.extend([_job(group)] if group.job else [_group(group), *map(_pod, group.pods)])


def _times(**given: int) -> dict[str, str]:
    return {f"sim.stromboli.io/{name}": f"{value}s" for name, value in given.items() if 0 < value < FOREVER}


# -- nodes ----------------------------------------------------------------------------------------------------------


def _node(world: CloseWorld, node: NodeFact) -> Iterable[Document]:
    labels = {KEYS[-domain.tier]: domain.name for domain in world.domains if node.name in domain.nodes}
    lives = [(0, node.lost)] + [(node.returns, FOREVER)] * (node.returns < FOREVER)
    for since, until in lives:
        if world.moved is not None and world.moved[1] == node.name and since > world.moved[0]:
            labels = {**labels, "rack": world.moved[3]}
        yield {
            "apiVersion": "v1", "kind": "Node",
            "metadata": {"name": node.name, "labels": labels, "annotations": _times(at=since, until=until)},
            "status": {"allocatable": {"cpu": node.cpu, "memory": "64Gi", "pods": 50}},
        }  # fmt: skip


def hyper_nodes(world: CloseWorld, dice: Random) -> Iterable[Document]:
    named = dice.random() < 0.5
    for domain in sorted(world.domains, key=lambda domain: dice.random()):
        spec: Document = {"tier": domain.tier, "members": _members(world, dice, domain)}
        if named:
            spec["tierName"] = TIER_NAMES[domain.tier]
        yield {
            "apiVersion": "topology.volcano.sh/v1alpha1", "kind": "HyperNode", "metadata": {"name": domain.name},
            "spec": spec,
        }  # fmt: skip


def _members(world: CloseWorld, dice: Random, domain: DomainFact) -> list[Document]:
    inner = [one for one in world.domains if one.tier < domain.tier and one.nodes <= domain.nodes]
    inner = [one for one in inner if not any(one.nodes < other.nodes for other in inner) or one.tier == domain.tier - 1]
    inner = [one for one in inner if one.tier == max(other.tier for other in inner)]
    if inner and (dice.random() < 0.7 or _is_moved(world, domain)):
        rest = domain.nodes - frozenset().union(*(one.nodes for one in inner))
        members = [_member("HyperNode", exactMatch={"name": one.name}) for one in inner]
    else:
        members, rest = [], domain.nodes
    kind = "labels" if _is_moved(world, domain) else dice.choice(("names", "pattern", "labels"))
    if not rest:
        return members
    if kind == "labels" and not members:
        selector = {"matchLabels": {KEYS[-domain.tier]: domain.name}}
        return [_member("Node", labelMatch=selector)]
    if kind == "pattern":
        return [*members, _member("Node", regexMatch={"pattern": f"^({'|'.join(sorted(rest))})$"})]
    return [*members, *(_member("Node", exactMatch={"name": name}) for name in sorted(rest))]


def _is_moved(world: CloseWorld, domain: DomainFact) -> bool:
    return world.moved is not None and domain.tier == 1


def _member(kind: str, **selector: Any) -> Document:
    return {"type": kind, "selector": selector}


# -- work -----------------------------------------------------------------------------------------------------------


def _spec(pod: PodFact) -> Document:
    spec: Document = {
        "schedulerName": "volcano",
        "containers": [{"name": "main", "resources": {"requests": {"cpu": pod.cpu}}}],
    }
    if pod.priority:
        spec["priorityClassName"] = "high"
    if pod.node:
        spec["nodeName"] = pod.node
    return spec


def _pod(pod: PodFact) -> Document:
    notes = {
        "scheduling.volcano.sh/queue-name": pod.queue, **_times(at=pod.at, run=pod.run, grace=pod.grace),
        **({"scheduling.k8s.io/group-name": pod.group} if pod.group else {}),
    }  # fmt: skip
    policy, _, value = pod.unit.partition("/")
    labels = {POLICY: policy, VALUE: value} if pod.unit else {}
    meta = {"name": pod.name, "namespace": NAMESPACE, "labels": labels, "annotations": notes}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": _spec(pod)}


def _topology(close: Close) -> Document:
    if close.tier is None:
        return {"mode": "hard" if close.hard else "soft"}
    return {"mode": "hard" if close.hard else "soft", "highestTierAllowed": close.tier}


def _group(group: GroupFact) -> Document:
    spec: Document = {"minMember": group.least, "queue": group.queue}
    if group.priority:
        spec["priorityClassName"] = "high"
    if group.close is not None:
        spec["networkTopology"] = _topology(group.close)
    if group.policies:
        spec["subGroupPolicy"] = [
            {
                "name": policy.name, "labelSelector": {"matchLabels": {POLICY: policy.name}},
                "matchLabelKeys": [VALUE], "subGroupSize": policy.size, "minSubGroups": policy.least,
                **({} if policy.close is None else {"networkTopology": _topology(policy.close)}),
            }
            for policy in group.policies
        ]  # fmt: skip
    meta = {"name": group.name, "namespace": NAMESPACE, "annotations": _times(at=group.pods[0].at)}
    return {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup", "metadata": meta, "spec": spec}


def _job(group: GroupFact) -> Document:
    first = group.pods[0]
    spec: Document = {
        "queue": group.queue, "minAvailable": group.least, "schedulerName": "volcano",
        "tasks": [{
            "name": "w", "replicas": len(group.pods),
            "template": {"metadata": {"annotations": _times(run=first.run, grace=first.grace)}, "spec": _spec(first)},
        }],
    }  # fmt: skip
    if group.priority:
        spec["priorityClassName"] = "high"
    if group.close is not None:
        spec["networkTopology"] = _topology(group.close)
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job",
        "metadata": {"name": group.name, "namespace": NAMESPACE, "annotations": _times(at=first.at)}, "spec": spec,
    }  # fmt: skip
