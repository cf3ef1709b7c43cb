"""How much of the cluster was used over a run.

The meter adds up amount × time: what nodes offered, and what the pods on them requested, each for as long as it was
there. Amounts are exact integers and times are microseconds, so the sums are exact as well.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

from stromboli.api import Node, Pod, key
from stromboli.api.pod_requests import pod_requests
from stromboli.api.quantity import amounts

from .virtual_time import START, Microseconds

Amounts = dict[str, int]


@dataclass(slots=True)
class _Presence:
    """Something that offers or uses amounts since a time."""

    name: str
    amounts: Amounts
    since: Microseconds


@dataclass(slots=True)
class UsageMeter:
    offered: Amounts = field(default_factory=lambda: defaultdict(int))  # amount × microseconds, by resource
    used: dict[str, Amounts] = field(default_factory=dict)  # the same by pod
    lost: dict[str, int] = field(default_factory=dict)  # millicores × microseconds of work lost, by pod
    evictions: dict[str, int] = field(default_factory=lambda: defaultdict(int))  # by pod
    _nodes: dict[str, _Presence] = field(default_factory=dict)
    _pods: dict[str, _Presence] = field(default_factory=dict)  # by uid

    def node_offers(self, node: Node, at: Microseconds) -> None:
        """A node was created or changed."""
        self.node_gone(node, at)
        name = node.metadata.name
        self._nodes[name] = _Presence(name, amounts(node.status.allocatable), at)

    def node_gone(self, node: Node, at: Microseconds) -> None:
        present = self._nodes.pop(node.metadata.name, None)
        if present is not None:
            _add(self.offered, present, at)

    def pod_starts(self, pod: Pod, at: Microseconds) -> None:
        self._pods[pod.metadata.uid] = _Presence(key(pod), pod_requests(pod.spec), at)

    def pod_evicted(self, pod: Pod, at: Microseconds) -> None:
        """What the pod has done so far is lost. It still uses its node until it is gone."""
        self.evictions[key(pod)] += 1
        present = self._pods.get(pod.metadata.uid)
        if present is not None:
            work = present.amounts.get("cpu", 0) * (at - present.since)
            self.lost[present.name] = self.lost.get(present.name, 0) + work

    def pod_ends(self, pod: Pod, at: Microseconds) -> None:
        present = self._pods.pop(pod.metadata.uid, None)
        if present is not None:
            _add(self.used.setdefault(present.name, defaultdict(int)), present, at)

    def close(self, at: Microseconds) -> None:
        """The run ends: what is still there counts until now."""
        for present in self._nodes.values():
            _add(self.offered, present, at)
            present.since = at
        for present in self._pods.values():
            _add(self.used.setdefault(present.name, defaultdict(int)), present, at)
            present.since = at


def _add(total: Amounts, present: _Presence, at: Microseconds) -> None:
    time = max(at - present.since, START)
    for resource, amount in present.amounts.items():
        total[resource] += amount * time
