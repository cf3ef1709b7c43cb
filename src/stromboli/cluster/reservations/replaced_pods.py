"""The pod that a Reservation replaces, as the scheduler sees it.

A successor may use the place only when that pod has been evicted. Otherwise one of several successors of a ReplicaSet
could take the place of a pod that still runs: then that pod would have none when its turn comes, and another place
would be kept for nobody. That the pod terminates, or is gone, is the proof. It comes with the same watch as its
successor, and before it; a mark in the Reservation may come later.
"""

from __future__ import annotations

from stromboli.api import Reservation, names
from stromboli.cluster.model import Status, Task, TaskKey
from stromboli.cluster.node_table import NodeTable

_GONE = (Status.RELEASING, Status.SUCCEEDED, Status.FAILED)


def replaced_task(nodes: NodeTable, reservation: Reservation) -> Task | None:
    """The pod that a Reservation replaces, if it is still on its node, in whatever state."""
    replaced = reservation.spec.replaces
    if replaced is None:
        return None
    node = nodes.by_name.get(reservation.metadata.annotations.get(names.MIGRATION_SOURCE, ""))
    task = None if node is None else node.tasks.get(TaskKey(f"{replaced.namespace}/{replaced.name}"))
    return task if task is not None and task.uid == replaced.uid else None


def waits_for_eviction(nodes: NodeTable, reservation: Reservation) -> bool:
    """Whether the pod that a Reservation replaces still runs, so that nobody may use it yet."""
    task = replaced_task(nodes, reservation)
    return task is not None and task.true_status not in _GONE
