"""Nodes as the controllers need them: what they offer, their labels, and whether they take pods.

Kubelets write the status of their node every few minutes, with new heartbeats and lists of images. With thousands of
nodes that is an event every moment, and each would start a pass. So nodes are reduced to what the controllers read, and
an event that changes none of it is dropped.
"""

from __future__ import annotations

from stromboli.api import Condition, Node, NodeSpec, NodeStatus, ObjectMeta
from stromboli.cluster import Applied, Deleted


class EssentialNodes:
    def __init__(self) -> None:
        self._nodes: dict[str, Node] = {}

    def reduced(self, event: Applied | Deleted, node: Node) -> Applied | Deleted | None:
        """The event about the reduced node; None if it changes nothing."""
        name = node.metadata.name
        reduced = _reduced(node)
        if isinstance(event, Deleted):
            self._nodes.pop(name, None)
            return Deleted(reduced)
        if self._nodes.get(name) == reduced:
            return None
        self._nodes[name] = reduced
        return Applied(reduced)


def _reduced(node: Node) -> Node:
    meta = node.metadata
    ready = [Condition(type=c.type, status=c.status) for c in node.status.conditions if c.type == "Ready"]
    return Node(
        metadata=ObjectMeta(
            name=meta.name, uid=meta.uid, labels=meta.labels, deletion_timestamp=meta.deletion_timestamp
        ),
        spec=NodeSpec(unschedulable=node.spec.unschedulable, taints=node.spec.taints),
        status=NodeStatus(allocatable=node.status.allocatable or node.status.capacity, conditions=ready),
    )
