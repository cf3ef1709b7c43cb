"""How much of the cluster was used over a run.

The meter adds up amount × time: what nodes offered, and what the pods on them requested, each for as long as it was
there. Amounts are exact integers and times are microseconds, so the sums are exact as well. It also keeps who was there
when, for pictures of the run; and `real_use` is what a metrics server would say.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from stromboli.api import Node, Pod, is_backfill, key
from stromboli.api.pod_requests import pod_requests
from stromboli.api.pod_timing import pod_use
from stromboli.api.quantity import amounts
from stromboli.cluster import NodesMeasured, NodeUse

from .virtual_time import START, Microseconds

Amounts = dict[str, int]

_FINISHED = ("Succeeded", "Failed")


@dataclass(slots=True)
class Presence:
    """Something that offers or uses amounts from a time on."""

    name: str
    amounts: Amounts
    since: Microseconds
    node: str = ""  # of a pod
    backfill: bool = False
    until: Microseconds | None = None  # None: it is still there
    outcome: str = "Running"  # of a pod; or Succeeded, Failed, Evicted, Deleted
    counted: Microseconds = field(init=False)  # until when it is part of the sums

    def __post_init__(self) -> None:
        self.counted = self.since


@dataclass(slots=True)
class UsageMeter:
    offered: Amounts = field(default_factory=lambda: defaultdict(int))  # amount × microseconds, by resource
    used: dict[str, Amounts] = field(default_factory=dict)  # the same by pod
    lost: dict[str, int] = field(default_factory=dict)  # millicores × microseconds of work lost, by pod
    evictions: dict[str, int] = field(default_factory=lambda: defaultdict(int))  # by pod
    node_history: list[Presence] = field(default_factory=list)  # all there were, in the order in which they came
    pod_history: list[Presence] = field(default_factory=list)
    _nodes: dict[str, Presence] = field(default_factory=dict)
    _pods: dict[str, Presence] = field(default_factory=dict)  # by uid

    def node_offers(self, node: Node, at: Microseconds) -> None:
        """A node was created or changed."""
        self.node_gone(node, at)
        name = node.metadata.name
        present = self._nodes[name] = Presence(name, amounts(node.status.allocatable), at)
        self.node_history.append(present)

    def node_gone(self, node: Node, at: Microseconds) -> None:
        present = self._nodes.pop(node.metadata.name, None)
        if present is not None:
            present.until = at
            _add(self.offered, present, at)

    def pod_starts(self, pod: Pod, at: Microseconds) -> None:
        present = Presence(key(pod), pod_requests(pod.spec), at, node=pod.spec.node_name, backfill=is_backfill(pod))
        self._pods[pod.metadata.uid] = present
        self.pod_history.append(present)

    def pod_evicted(self, pod: Pod, at: Microseconds) -> None:
        """What the pod has done so far is lost. It still uses its node until it is gone."""
        self.evictions[key(pod)] += 1
        present = self._pods.get(pod.metadata.uid)
        if present is not None:
            present.outcome = "Evicted"
            work = present.amounts.get("cpu", 0) * (at - present.since)
            self.lost[present.name] = self.lost.get(present.name, 0) + work

    def pod_ends(self, pod: Pod, at: Microseconds) -> None:
        present = self._pods.pop(pod.metadata.uid, None)
        if present is not None:
            present.until = at
            if present.outcome == "Running":
                present.outcome = pod.status.phase if pod.status.phase in _FINISHED else "Deleted"
            _add(self.used.setdefault(present.name, defaultdict(int)), present, at)

    def close(self, at: Microseconds) -> None:
        """The run ends: what is still there counts until now."""
        for present in self._nodes.values():
            _add(self.offered, present, at)
        for present in self._pods.values():
            _add(self.used.setdefault(present.name, defaultdict(int)), present, at)


def _add(total: Amounts, present: Presence, at: Microseconds) -> None:
    time = max(at - present.counted, START)
    present.counted = max(at, present.counted)
    for resource, amount in present.amounts.items():
        total[resource] += amount * time


def real_use(
    nodes: Iterable[Node], pods: Iterable[Pod], at: float, known: Mapping[str, NodeUse]
) -> NodesMeasured | None:
    """What nodes really use: what their pods that run say they use, or request. None if that is known."""
    totals: dict[str, dict[str, int]] = {node.metadata.name: {} for node in nodes}
    for pod in pods:
        total = totals.get(pod.spec.node_name)
        if total is not None and pod.status.phase == "Running":
            stated = pod_use(pod.metadata.annotations)
            for resource, amount in (pod_requests(pod.spec) if stated is None else stated).items():
                total[resource] = total.get(resource, 0) + amount
    if totals == {name: use.amounts for name, use in known.items()}:
        return None
    return NodesMeasured({name: NodeUse(total, at) for name, total in totals.items()})
