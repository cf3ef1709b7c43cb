"""Which groups of a world must be close together, and where they may be, by the documents alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from all_features.case import Case
from all_features.generator.close import POLICY, RACK, UNIT
from all_features.generator.documents import ZONE
from all_features.scenario import PodSpec, key
from all_features.world import Document

Nodes = frozenset[str]
PARTITION: Final = "volcano.sh/partition-id"


@dataclass(frozen=True)
class Domain:
    name: str
    tier: int
    nodes: Nodes


@dataclass(frozen=True)
class Policy:
    name: str
    size: int
    least: int
    topology: Document | None


@dataclass(frozen=True)
class Layout:
    """What a group asks for."""

    topology: Document | None
    policy: Policy | None = None
    goes_whole: bool = False  # all its pods are evicted, or none

    def unit_of(self, pod: PodSpec) -> str:
        """The sub-group of a pod; empty if it is in none."""
        if self.policy is None:
            return ""
        if pod.owner.startswith("Job "):
            return str(int(pod.key.rpartition("-")[2]) // self.policy.size)
        return pod.labels.get(UNIT, "") if pod.labels.get(POLICY) else ""


def is_hard(topology: Document | None) -> bool:
    return topology is not None and topology["mode"] == "hard"


def layouts(case: Case) -> dict[str, Layout]:
    """By the name of a unit, of groups that ask for anything."""
    found = {}
    for group in case.scenario.of("PodGroup"):
        spec = group["spec"]
        if "schedulingPolicy" in spec:
            found[key(group)] = _layout_of_kubernetes(spec)
            continue
        policies = [
            Policy(one["name"], one["subGroupSize"], one["minSubGroups"], one.get("networkTopology"))
            for one in spec.get("subGroupPolicy", [])
        ]
        if policies or "networkTopology" in spec:
            found[key(group)] = Layout(spec.get("networkTopology"), policies[0] if policies else None)
    for job in case.scenario.of("Job"):
        spec = job["spec"]
        parts = spec["tasks"][0].get("partitionPolicy")
        policy = None
        if parts is not None:
            total, size = parts["totalPartitions"], parts["partitionSize"]
            policy = Policy("", size, total, parts.get("networkTopology"))
        if policy is not None or "networkTopology" in spec:
            found[f"Job {key(job)}"] = Layout(spec.get("networkTopology"), policy)
    return found


def _layout_of_kubernetes(spec: Document) -> Layout:
    keys = [one["key"] for one in spec.get("schedulingConstraints", {}).get("topology", [])]
    topology = {"mode": "hard", "key": keys[0]} if keys else None
    return Layout(topology, goes_whole="all" in spec.get("disruptionMode", {}))


def domains(case: Case, time: float, topology: Document) -> list[Domain]:
    """Those that are meant, with the nodes that there are."""
    there = {node.name: node.labels for node in case.scenario.nodes(time)}
    if "key" in topology:
        found = _of_labels(there, topology["key"])
    elif case.scenario.of("HyperNode"):
        found = _of_hyper_nodes(case, there)
    elif "topologyKeys" in case.run.world.config:
        found = _of_labels(there, RACK, ZONE)
    else:
        found = []
    return [domain for domain in found if domain.nodes]


def _of_labels(there: Mapping[str, Mapping[str, str]], *keys: str) -> list[Domain]:
    """`keys`: from the narrowest to the widest."""
    found: dict[tuple[int, str], set[str]] = {}
    for node, labels in there.items():
        for tier, label in enumerate(keys, start=1):
            if label in labels:
                found.setdefault((tier, f"{label}={labels[label]}"), set()).add(node)
    return [Domain(name, tier, frozenset(nodes)) for (tier, name), nodes in sorted(found.items())]


def _of_hyper_nodes(case: Case, there: Mapping[str, Mapping[str, str]]) -> list[Domain]:
    nodes: dict[str, set[str]] = {}
    found = []
    for one in sorted(case.scenario.of("HyperNode"), key=lambda one: one["spec"]["tier"]):
        name = one["metadata"]["name"]
        mine = nodes[name] = set()
        for member in one["spec"]["members"]:
            selector = member["selector"]
            if member["type"] == "HyperNode":
                mine |= nodes[selector["exactMatch"]["name"]]
            elif "exactMatch" in selector:
                mine |= {selector["exactMatch"]["name"]} & set(there)
            else:
                wanted = selector["labelMatch"]["matchLabels"].items()
                mine |= {node for node, labels in there.items() if wanted <= labels.items()}
        found.append(Domain(name, one["spec"]["tier"], frozenset(mine)))
    return found


def allowed(tree: Iterable[Domain], topology: Document) -> list[Domain]:
    """The domains that a hard group may be in."""
    highest = topology.get("highestTierAllowed")
    return [domain for domain in tree if highest is None or domain.tier <= highest]


def may_join(tree: Iterable[Domain], topology: Document, others: Sequence[str]) -> list[Nodes]:
    """The sets of nodes that new pods of a hard group may go to; `others`: the nodes of its other pods. If no domain
    has all of these, because of a change or because the scenario put them there: where most are, in the highest
    tier."""
    open_ = allowed(tree, topology)
    around = [domain.nodes for domain in open_ if domain.nodes.issuperset(others)]
    if around or not others:
        return around
    highest = max((domain.tier for domain in open_), default=0)
    counts = {domain.nodes: sum(node in domain.nodes for node in others) for domain in open_ if domain.tier == highest}
    most = max(counts.values(), default=0)
    return [nodes for nodes, count in counts.items() if count == most > 0]
