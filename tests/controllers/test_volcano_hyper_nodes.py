"""Volcano's end-to-end cases of the controller of HyperNodes, by their names.

Two of them are about a second deployment that can do this work in place of the controllers: `deploys exactly one
HyperNode controller owner`, and `uses a topology-scoped standalone service account`. We have one deployment, of which
one process works at a time; what its account may do is tested with `deploy/` (`tests/kube/test_deploy.py`).
"""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from builders import node
from controllers.fake_cluster import FakeCluster
from stromboli.api import HyperNode, Node
from stromboli.controllers import ControllerManager

LABEL = "example.com/rack"


def cluster_of(nodes: int, **more: Any) -> FakeCluster:
    nobody = (node(f"kwok-node-{number}", cpu=1) for number in range(nodes))
    return FakeCluster(*nobody, controllers=lambda: ControllerManager(topology_keys=(LABEL,)), **more)


def set_label(cluster: FakeCluster, name: str, value: str) -> None:
    known = cluster.get(Node, name)
    assert known is not None
    labels = {LABEL: value} if value else {}
    cluster.put(replace(known, metadata=replace(known.metadata, labels=labels)))
    cluster.settle()


def discovered(cluster: FakeCluster) -> dict[str, tuple[list[str], int]]:
    """The members of each HyperNode, and how many nodes its status counts."""
    return {
        one.metadata.name: (
            [member.selector.exact_match.name for member in one.spec.members if member.selector.exact_match],
            one.status.node_count,
        )
        for one in cluster.list(HyperNode)
    }


def work_by(cluster: FakeCluster, *keys: str) -> None:
    """The controllers stop, and others start, which make HyperNodes from these labels."""
    cluster._make_controllers = lambda: ControllerManager(topology_keys=keys)
    cluster.restart()
    cluster.settle()


def test_discovers_updates_and_removes_label_topology_while_reconciling_status() -> None:
    cluster = cluster_of(2)
    set_label(cluster, "kwok-node-0", "rack-a")
    set_label(cluster, "kwok-node-1", "rack-a")
    assert discovered(cluster) == {"rack-a": (["kwok-node-0", "kwok-node-1"], 2)}
    set_label(cluster, "kwok-node-1", "rack-b")
    assert discovered(cluster) == {"rack-a": (["kwok-node-0"], 1), "rack-b": (["kwok-node-1"], 1)}
    set_label(cluster, "kwok-node-0", "")
    set_label(cluster, "kwok-node-1", "")
    assert discovered(cluster) == {}


def test_fails_over_and_continues_reconciliation() -> None:
    cluster = cluster_of(3)
    set_label(cluster, "kwok-node-0", "rack-a")
    cluster.restart()
    set_label(cluster, "kwok-node-2", "rack-after-failover")
    assert discovered(cluster) == {"rack-a": (["kwok-node-0"], 1), "rack-after-failover": (["kwok-node-2"], 1)}


def test_preserves_hyper_nodes_while_moving_ownership_in_both_directions() -> None:
    """Without the option nobody makes or deletes them; with it, they are the same objects as before."""
    cluster = cluster_of(2)
    set_label(cluster, "kwok-node-0", "rack-t")
    (first,) = cluster.list(HyperNode)
    for label, before, after in (("rack-t", 1, 2), ("", 2, 1)):
        work_by(cluster)
        set_label(cluster, "kwok-node-1", label)
        assert {name: number for name, (_, number) in discovered(cluster).items()} == {"rack-t": before}
        work_by(cluster, LABEL)
        assert {name: number for name, (_, number) in discovered(cluster).items()} == {"rack-t": after}
        (now,) = cluster.list(HyperNode)
        assert now.metadata.uid == first.metadata.uid
