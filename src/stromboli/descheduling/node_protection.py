"""Keeps cluster-autoscaler from removing nodes that somebody counts on.

A node that is locked for a queue, set aside for a starving job, holds a Reservation, or was emptied for a job looks
idle to an autoscaler. An annotation tells it to leave the node alone, as long as that lasts. Nodes that were emptied by
thresholds alone do not get it: removing those is the point. A second annotation says that we set the first one, so that
one which an administrator set is never removed.
"""

from __future__ import annotations

from stromboli.api import Node, Queue, Reservation, names
from stromboli.api.reservations import is_over
from stromboli.api.waiting_reservations import reserved_node_of, waiting_pod_of

from .migration import AnnotateNode
from .planning import Objects, cooldown_of

ON = "true"


def protect_nodes(objects: Objects, now: float) -> list[AnnotateNode]:
    """The annotations that have to change."""
    wanted = _nodes_counted_on(objects, now)
    changes = []
    for node in objects.list(Node):
        notes = node.metadata.annotations
        ours = notes.get(names.KEEPS_NODE) == ON
        if node.metadata.name in wanted and not ours and notes.get(names.SCALE_DOWN_DISABLED) != ON:
            marks: dict[str, str | None] = {names.SCALE_DOWN_DISABLED: ON, names.KEEPS_NODE: ON}
            changes.append(AnnotateNode(node.metadata.name, marks))
        elif node.metadata.name not in wanted and ours:
            cleared: dict[str, str | None] = {names.SCALE_DOWN_DISABLED: None, names.KEEPS_NODE: None}
            changes.append(AnnotateNode(node.metadata.name, cleared))
    return changes


def _nodes_counted_on(objects: Objects, now: float) -> set[str]:
    nodes = {name for queue in objects.list(Queue) for name in queue.status.reservation.nodes}
    for reservation in objects.list(Reservation):
        if waiting_pod_of(reservation) is not None and not is_over(reservation):
            nodes.add(reserved_node_of(reservation))
        elif not is_over(reservation) and reservation.status.node_name:
            nodes.add(reservation.status.node_name)
    for node in objects.list(Node):
        if node.metadata.annotations.get(names.EMPTIED_FOR) and cooldown_of(node, now):
            nodes.add(node.metadata.name)
    return nodes
