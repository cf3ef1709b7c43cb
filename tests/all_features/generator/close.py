"""Makes the groups of a world close: a tree of domains, what groups and Jobs ask for, gangs of sub-groups, and groups
of Kubernetes' own kind.

Everything else of the world stays as it was drawn, so what happens there still happens, beside groups that must be
close together: locks, Reservations, moves, lent room, lost nodes, restarts. `draw_close(seed)` is always the same for
the same seed.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from random import Random

from all_features.generator.documents import (
    GROUP,
    QUEUE,
    SCHEDULING,
    ZONE,
    Document,
    metadata,
    pod,
    pod_spec,
    times,
)
from all_features.generator.draft import ARRIVALS_END
from all_features.generator.draw import draw
from all_features.world import World

RACK = "example.com/rack"
POLICY, UNIT = "example.com/policy", "example.com/unit"  # labels of the pods of sub-groups


def draw_close(seed: int) -> World:
    return make_close(draw(seed), seed)


def make_close(world: World, seed: int) -> World:
    dice = Random(f"close {seed}")  # a sequence of its own
    documents, config = deepcopy(world.documents), deepcopy(world.config)
    tree = _racks(documents, dice)
    if dice.random() < 0.3:
        config["topologyKeys"] = [ZONE, RACK]
        tiers = [1, 2]
    else:
        made = _hyper_nodes(tree, dice)
        documents += made
        tiers = sorted({one["spec"]["tier"] for one in made})
    for document in documents:
        if document["kind"] == "PodGroup" and dice.random() < 0.55:
            document["spec"]["networkTopology"] = _asks(tiers, dice)
        elif document["kind"] == "Job" and dice.random() < 0.6:
            _ask_for_job(document["spec"], tiers, dice)
    for number in range(dice.randint(1, 3)):
        documents += _halves(world, f"halves{number}", tiers, dice)
    for number in range(dice.randint(1, 2)):
        documents += _of_kubernetes(world, f"own{number}", dice)
    return replace(world, documents=documents, config=config)


# -- the tree -------------------------------------------------------------------------------------------------------


def _racks(documents: list[Document], dice: Random) -> dict[str, list[str]]:
    """A label on each node but a few; the nodes by its value. All nodes of a rack are in one zone, as both make a
    tree."""
    zones: dict[str, list[str]] = {}
    for document in documents:
        if document["kind"] == "Node":
            nodes = zones.setdefault(document["metadata"]["labels"][ZONE], [])
            if document["metadata"]["name"] not in nodes:
                nodes.append(document["metadata"]["name"])
    racks: dict[str, list[str]] = {}
    for zone, nodes in sorted(zones.items()):
        parts = dice.randint(1, max(1, len(nodes) // 2))
        for name in sorted(nodes):
            if dice.random() > 0.06:
                racks.setdefault(f"rack-{zone}{dice.randrange(parts)}", []).append(name)
    of_node = {name: rack for rack, names in racks.items() for name in names}
    for document in documents:
        if document["kind"] == "Node" and document["metadata"]["name"] in of_node:
            document["metadata"]["labels"][RACK] = of_node[document["metadata"]["name"]]
    return racks


def _hyper_nodes(racks: dict[str, list[str]], dice: Random) -> list[Document]:
    """Racks, and in most worlds blocks of racks, and one domain of all blocks."""
    found = [_hyper_node(rack, 1, _nodes_of(rack, names, dice)) for rack, names in sorted(racks.items())]
    names, tier = sorted(racks), 2
    while len(names) > 1 and tier < 4 and dice.random() < 0.8:
        parts: dict[str, list[str]] = {}
        for name in names:
            parts.setdefault(f"tier{tier}-{dice.randrange(max(1, len(names) // 2))}", []).append(name)
        found += [_hyper_node(part, tier, _inner(members)) for part, members in sorted(parts.items())]
        names, tier = sorted(parts), tier + 1
    return found


def _nodes_of(rack: str, names: list[str], dice: Random) -> list[Document]:
    if dice.random() < 0.5:
        return [{"type": "Node", "selector": {"labelMatch": {"matchLabels": {RACK: rack}}}}]
    return [{"type": "Node", "selector": {"exactMatch": {"name": name}}} for name in sorted(names)]


def _inner(names: list[str]) -> list[Document]:
    return [{"type": "HyperNode", "selector": {"exactMatch": {"name": name}}} for name in names]


def _hyper_node(name: str, tier: int, members: list[Document]) -> Document:
    return {
        "apiVersion": "topology.volcano.sh/v1alpha1", "kind": "HyperNode", "metadata": metadata(name),
        "spec": {"tier": tier, "members": members},
    }  # fmt: skip


# -- who asks -------------------------------------------------------------------------------------------------------


def _asks(tiers: list[int], dice: Random, at_most: int = 9) -> Document:
    if dice.random() < 0.2:
        return {"mode": "soft"}
    allowed = [tier for tier in tiers if tier <= at_most]
    return {"mode": "hard", **({"highestTierAllowed": dice.choice(allowed)} if dice.random() < 0.85 else {})}


def _ask_for_job(spec: Document, tiers: list[int], dice: Random) -> None:
    task = spec["tasks"][0]
    if len(spec["tasks"]) == 1 and "minAvailable" not in spec and "minAvailable" not in task and dice.random() < 0.6:
        parts = dice.choice([number for number in range(1, 4) if task["replicas"] % number == 0])
        task["partitionPolicy"] = {
            "totalPartitions": parts, "partitionSize": task["replicas"] // parts,
            "networkTopology": _asks(tiers, dice, 1),
        }  # fmt: skip
        if dice.random() < 0.5:
            return
    spec["networkTopology"] = _asks(tiers, dice)


def _halves(world: World, name: str, tiers: list[int], dice: Random) -> list[Document]:
    """A gang of two or three sub-groups of equal pods, of which it needs all, or all but one."""
    namespace, queue, priority = _where(world, dice)
    at, run, grace = dice.randint(0, ARRIVALS_END), dice.choice((6, 10, 20)), dice.choice((None, None, 2))
    units, size, cpu = dice.randint(2, 3), dice.randint(1, 3), dice.choice((0.5, 1, 1, 2))
    least = units - (dice.random() < 0.3)
    policy: Document = {
        "name": "half", "labelSelector": {"matchLabels": {POLICY: "half"}}, "matchLabelKeys": [UNIT],
        "subGroupSize": size, "minSubGroups": least,
    }  # fmt: skip
    if dice.random() < 0.75:
        policy["networkTopology"] = _asks(tiers, dice, 1)
    spec: Document = {"minMember": least * size, "queue": queue, "subGroupPolicy": [policy]}
    if priority:
        spec["priorityClassName"] = priority
    if dice.random() < 0.4:
        spec["networkTopology"] = _asks(tiers, dice)
    found: list[Document] = [{
        "apiVersion": SCHEDULING, "kind": "PodGroup", "metadata": metadata(name, namespace, None, **times(at=at)),
        "spec": spec,
    }]  # fmt: skip
    for unit in range(units):
        for member in range(size):
            labels = {"app": name, POLICY: "half", UNIT: str(unit)}
            notes = {QUEUE: queue, GROUP: name, **times(at=at, run=run, grace=grace)}
            body = pod_spec({"cpu": cpu}, priority=priority)
            found.append(pod(namespace, f"{name}-{unit}{member}", body, labels=labels, notes=notes))
    return found


def _where(world: World, dice: Random) -> tuple[str, str, str]:
    """A namespace and a queue of the world, and a priority."""
    namespaces = {one["metadata"]["namespace"] for one in world.documents if one["kind"] == "Pod"}
    queues = {one["spec"]["queue"] for one in world.documents if one["kind"] == "PodGroup"}
    return dice.choice(sorted(namespaces)), dice.choice(sorted(queues)), dice.choice(("", "", "high"))


def _of_kubernetes(world: World, name: str, dice: Random) -> list[Document]:
    """A gang in a PodGroup of `scheduling.k8s.io`. In most worlds all its pods are on nodes with one value of a label,
    and in some all of them are evicted or none."""
    namespace, queue, priority = _where(world, dice)
    at, run = dice.randint(0, ARRIVALS_END), dice.choice((6, 10, 20))
    pods, cpu = dice.randint(2, 4), dice.choice((0.5, 1, 1, 2))
    spec: Document = {"schedulingPolicy": {"gang": {"minCount": dice.randint(1, pods)}}}
    if priority:
        spec["priorityClassName"] = priority
    if dice.random() < 0.7:
        spec["schedulingConstraints"] = {"topology": [{"key": dice.choice((RACK, ZONE))}]}
    if dice.random() < 0.5:
        spec["disruptionMode"] = {"all": {}}
    meta = metadata(name, namespace, None, **{QUEUE: queue}, **times(at=at))
    found: list[Document] = [
        {"apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup", "metadata": meta, "spec": spec}
    ]
    for number in range(pods):
        body = {**pod_spec({"cpu": cpu}, priority=priority), "schedulingGroup": {"podGroupName": name}}
        notes = {QUEUE: queue, **times(at=at, run=run)}
        found.append(pod(namespace, f"{name}-{number}", body, labels={"app": name}, notes=notes))
    return found
