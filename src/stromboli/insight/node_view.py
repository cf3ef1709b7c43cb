"""Nodes: how much of each is used, reserved, promised, locked, held and backfilled, and by whom."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from stromboli.cluster import OCCUPYING, Cluster, Job, Node, Status, Task
from stromboli.cluster.ledger import ON_NODE
from stromboli.cluster.queue_index import unoffered_use
from stromboli.cluster.topology import Tree

from .picture import Amounts, NodePicture, share_of
from .queue_view import locks, with_unoffered, without_pods

_PRESENT = OCCUPYING | {Status.RELEASING, Status.UNKNOWN}


def node_pictures(
    cluster: Cluster, name_of: Callable[[Job], str], topology_keys: Sequence[str] = ()
) -> list[NodePicture]:
    """After a snapshot. `name_of`: what a job is called. `topology_keys`: of the configuration."""
    locked_by, promised = locks(cluster), cluster.ledger.promised()
    tree = cluster.topology.tree(topology_keys)
    return [
        _node(cluster, node, locked_by.get(node.name, ""), promised.get(node.name, ()), _domains(tree, node), name_of)
        for node in cluster.ledger.table.nodes
    ]


def _domains(tree: Tree, node: Node) -> dict[str, str]:
    inside = [tree.domains[index] for tier in tree.tiers if (index := tree.at(tier, node.row)) >= 0]
    return {domain.tier_name or f"tier {domain.tier}": domain.name for domain in inside}


def _node(
    cluster: Cluster, node: Node, locked_by: str, promised: Sequence[Task], domains: dict[str, str],
    name_of: Callable[[Job], str],
) -> NodePicture:  # fmt: skip
    table, axis, row = cluster.ledger.table, cluster.axis, node.row
    allocatable = {name: n for name, n in sorted(node.allocatable.items()) if name != "pods"}
    others = unoffered_use(node.tasks.values(), ON_NODE)
    used = with_unoffered(_all_of(allocatable, without_pods(axis, table.used[row] - table.held[row])), others.items())
    present = [task for task in node.tasks.values() if task.status in _PRESENT]
    return NodePicture(
        name=node.name,
        ready=node.ready,
        schedulable=node.schedulable,
        allocatable=allocatable,
        used=used,
        idle=_all_of(allocatable, without_pods(axis, table.idle[row])),
        releasing=without_pods(axis, table.releasing[row]),
        backfilled=without_pods(axis, table.backfilled[row]),
        held=without_pods(axis, table.held[row]),
        reserved=without_pods(axis, table.reserved[row]),
        promised=without_pods(axis, sum((task.request for task in promised), start=axis.zeros())),
        pods=len(present),
        use=share_of(used, allocatable),
        domains=domains,
        locked_by=locked_by,
        reserved_for=_names((t.job for t in node.tasks.values() if t.status is Status.RESERVED), name_of),
        promised_to=_names((task.job for task in promised), name_of),
        jobs=_names((task.job for task in present), name_of),
    )


def _all_of(offered: Amounts, amounts: Amounts) -> Amounts:
    """With a zero for each resource that the node offers."""
    return {**dict.fromkeys(offered, 0), **amounts}


def _names(jobs: Iterable[Job | None], name_of: Callable[[Job], str]) -> list[str]:
    return sorted({name_of(job) for job in jobs if job is not None})
