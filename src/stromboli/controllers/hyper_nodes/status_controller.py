"""What HyperNodes are worth, in their status: how many nodes each has, and whether groups are placed by it.

Whether a HyperNode can be used depends on all others and on all nodes, so no server can refuse a wrong one. People find
out here:

    condition Accepted   True    Used, or MembersMissing and TierName: it is used, but something may be amiss
                         False   Invalid, NoNodes, or how it contradicts others (`cluster.topology.hyper_nodes`)

The scheduler decides about each by the same code, from the same objects. A change of one may alter all, so all are
compared, in each pass after a node, its labels or a HyperNode has changed. One that contradicts others, or is invalid,
has an event as well; in a simulation that is a warning.
"""

from __future__ import annotations

from typing import ClassVar, Final

from msgspec.structs import replace

from stromboli.api import Condition, HyperNode, KObject, Node
from stromboli.api.kinds.topology import HyperNodeStatus
from stromboli.api.timestamps import format_timestamp
from stromboli.api.validation.acceptance import ACCEPTED
from stromboli.cluster.topology import Problem, Topology
from stromboli.controllers.changes import Change, Notify, Objects, Update

NO_NODES: Final = "NoNodes"
_USED: Final = Problem("Used", "Groups that must be close together are placed by it.", left_out=False)
_EMPTY: Final = Problem(NO_NODES, "It has no nodes: its members have none.", left_out=False)


class HyperNodeController:
    observes: ClassVar = (HyperNode, Node)

    def __init__(self) -> None:
        self._labels: dict[str, dict[str, str]] = {}  # by node
        self._topology = Topology(lambda: sorted(self._labels.items(), key=lambda one: one[0]))
        self._is_due = False

    def observe(self, before: KObject | None, after: KObject | None) -> None:
        if isinstance(after, HyperNode):
            self._topology.apply(after)
            self._is_due = True
        elif isinstance(before, HyperNode):
            self._topology.delete(before.metadata.name)
            self._is_due = True
        elif after is not None:
            self._observe_labels(after.metadata.name, after.metadata.labels)
        elif before is not None:
            self._observe_labels(before.metadata.name, None)

    def _observe_labels(self, node: str, labels: dict[str, str] | None) -> None:
        if self._labels.get(node) == labels:
            return
        if labels is None:
            del self._labels[node]
        else:
            self._labels[node] = labels
        self._topology.nodes_changed()
        self._is_due = True

    def next_due(self, now: float) -> float | None:
        return None

    def reconcile(self, objects: Objects, now: float) -> list[Change]:
        if not self._is_due:
            return []
        changes: list[Change] = []
        for hyper_node in objects.list(HyperNode):
            status = self._status(hyper_node, now)
            if status != hyper_node.status:
                changes.append(Update(replace(hyper_node, status=status)))
                changes += self._warnings(hyper_node, status)
        self._is_due = bool(changes)  # they may fail
        return changes

    def _warnings(self, before: HyperNode, status: HyperNodeStatus) -> list[Change]:
        problem = self._topology.problems.get(before.metadata.name)
        if problem is None or not problem.left_out:
            return []
        (known,) = [one.message for one in before.status.conditions if one.type == ACCEPTED] or [""]
        (now,) = [one for one in status.conditions if one.type == ACCEPTED]
        return [] if now.message == known else [Notify(before, now.reason, now.message, warning=True)]

    def _status(self, hyper_node: HyperNode, now: float) -> HyperNodeStatus:
        name = hyper_node.metadata.name
        count = self._topology.counts.get(name, 0)
        problem = self._topology.problems.get(name, _USED if count else _EMPTY)
        reason = NO_NODES if not count and not problem.left_out else problem.reason
        accepted = Condition(
            type=ACCEPTED, status="True" if count and not problem.left_out else "False", reason=reason,
            message=problem.message, last_transition_time=format_timestamp(now),
        )  # fmt: skip
        conditions = [_since(accepted, one) if one.type == ACCEPTED else one for one in hyper_node.status.conditions]
        if all(one.type != ACCEPTED for one in conditions):
            conditions.append(accepted)
        return replace(hyper_node.status, conditions=conditions, node_count=count)


def _since(condition: Condition, before: Condition) -> Condition:
    """Its time is when its status changed last."""
    same = before.status == condition.status and before.last_transition_time is not None
    return replace(condition, last_transition_time=before.last_transition_time) if same else condition
