"""The trees of a cluster: from HyperNodes, or from labels; made anew when nodes or HyperNodes change, and only then."""

from __future__ import annotations

import msgspec

from builders import cluster, established, hyper_node, node, session
from stromboli.api import Condition, HyperNode
from stromboli.cluster import Applied, Cluster, Deleted
from stromboli.cluster.topology import NO_TREE, Topology, Tree

ZONE = "topology.kubernetes.io/zone"
KEYS = ("zone", "block", "rack")


def shown(tree: Tree) -> dict[str, tuple[int, str, list[int]]]:
    return {one.name: (one.tier, one.tier_name, one.rows.tolist()) for one in tree.domains}


def parents(tree: Tree) -> dict[str, str]:
    return {one.name: "" if one.parent < 0 else tree.domains[one.parent].name for one in tree.domains}


def tree_of(known: Cluster, *keys: str) -> Tree:
    return known.snapshot().topology.tree(keys)


def test_without_hyper_nodes_and_keys_there_is_no_tree() -> None:
    assert tree_of(cluster(node("n1", labels={"zone": "a"}))) is NO_TREE


class Asked(dict[str, str]):
    times = 0

    def get(self, key: str, default: str | None = None) -> str | None:  # type: ignore[override]
        Asked.times += 1
        return super().get(key, default)


def test_labels_that_no_node_has_make_no_tree_and_no_node_is_asked_about_them() -> None:
    """Groups of a tenant that named n such labels took n looks at each node whenever a node changed."""
    topology = Topology(lambda: [(f"n{number}", Asked(zone="a")) for number in range(3)])
    assert [topology.by_label(f"none-{number}") for number in range(50)] == [NO_TREE] * 50
    assert Asked.times == 0
    assert topology.by_label("zone").domains[0].rows.tolist() == [0, 1, 2]
    assert Asked.times == 3


def test_labels_from_the_widest_to_the_narrowest_make_a_tree() -> None:
    known = cluster(
        node("n1", labels={"zone": "z1", "block": "b1", "rack": "r1"}),
        node("n2", labels={"zone": "z1", "block": "b1", "rack": "r2"}),
        node("n3", labels={"zone": "z1", "block": "b2", "rack": "r3"}),
        node("n4", labels={"zone": "z2", "block": "b3", "rack": "r4"}),
    )
    tree = tree_of(known, *KEYS)
    assert shown(tree) == {
        "r1": (1, "rack", [0]), "r2": (1, "rack", [1]), "r3": (1, "rack", [2]), "r4": (1, "rack", [3]),
        "b1": (2, "block", [0, 1]), "b2": (2, "block", [2]), "b3": (2, "block", [3]),
        "z1": (3, "zone", [0, 1, 2]), "z2": (3, "zone", [3]),
    }  # fmt: skip
    assert parents(tree)["r2"] == "b1"
    assert parents(tree)["b2"] == "z1"
    assert tree.tier_named("block") == 2


def test_equal_values_in_different_domains_are_different_domains() -> None:
    known = cluster(
        node("n1", labels={"zone": "z1", "rack": "r1"}),
        node("n2", labels={"zone": "z2", "rack": "r1"}),
        node("n3", labels={"zone": "z2", "rack": "r2"}),
        node("n4", labels={"rack": "r1"}),
        node("n5", labels={"zone": "r2"}),
        node("n6"),
    )
    tree = tree_of(known, "zone", "rack")
    assert shown(tree) == {
        "z1/r1": (1, "rack", [0]), "z2/r1": (1, "rack", [1]), "z2/r2": (1, "rack", [2]), "r1": (1, "rack", [3]),
        "z1": (2, "zone", [0]), "z2": (2, "zone", [1, 2]), "r2": (2, "zone", [4]),
    }  # fmt: skip
    assert parents(tree)["r1"] == ""


def test_a_node_without_a_label_is_in_no_domain_of_its_tier() -> None:
    known = cluster(
        node("n1", labels={"zone": "z1", "rack": "r1"}), node("n2", labels={"zone": "z1", "block": "b1", "rack": "r1"})
    )
    tree = tree_of(known, *KEYS)
    assert shown(tree) == {
        "z1/r1": (1, "rack", [0]), "z1/b1/r1": (1, "rack", [1]), "b1": (2, "block", [1]), "z1": (3, "zone", [0, 1]),
    }  # fmt: skip
    assert parents(tree) == {"z1/r1": "z1", "z1/b1/r1": "b1", "b1": "z1", "z1": ""}
    assert (tree.at(2, 0), tree.at(1, 0)) == (-1, tree.by_name["z1/r1"].index)


def test_hyper_nodes_take_precedence_over_labels() -> None:
    known = cluster(node("n1", labels={"zone": "z1"}), hyper_node("rack", 1, nodes=["n1"]))
    assert shown(tree_of(known, "zone")) == {"rack": (1, "", [0])}
    assert shown(known.snapshot().topology.by_label("zone")) == {"z1": (1, "zone", [0])}
    known.apply(Deleted(hyper_node("rack", 1)))
    assert shown(tree_of(known, "zone")) == {"z1": (1, "zone", [0])}


def test_bad_hyper_nodes_do_not_bring_the_labels_back() -> None:
    known = cluster(node("n1", labels={"zone": "z1"}), hyper_node("rack", 1, nodes=["n9"]))
    assert not tree_of(known, "zone")
    assert known.topology.problems["rack"].reason == "MembersMissing"


def test_trees_are_kept_until_nodes_or_hyper_nodes_change() -> None:
    known = cluster(node("n1", labels={"rack": "r1"}), node("n2", labels={"rack": "r2"}))
    first = tree_of(known, "rack")
    known.apply(Applied(established(node("n1", labels={"rack": "r1"}, cordoned=True))))
    assert tree_of(known, "rack") is first
    known.apply(Applied(established(node("n1", labels={"rack": "r2"}))))
    assert shown(tree_of(known, "rack")) == {"r2": (1, "rack", [0, 1])}
    known.apply(Applied(established(node("n0", labels={"rack": "r1"}))))
    assert shown(tree_of(known, "rack")) == {"r1": (1, "rack", [0]), "r2": (1, "rack", [1, 2])}
    known.apply(Deleted(node("n1")))
    assert shown(tree_of(known, "rack")) == {"r1": (1, "rack", [0]), "r2": (1, "rack", [1])}
    rack = established(hyper_node("rack", 1, labels={"rack": "r1"}))
    assert isinstance(rack, HyperNode)
    known.apply(Applied(rack))
    second = tree_of(known)
    assert shown(second) == {"rack": (1, "", [0])}
    known.apply(Applied(_with_status(rack)))
    assert tree_of(known) is second
    known.apply(Applied(established(hyper_node("rack", 2, labels={"rack": "r1"}))))
    assert shown(tree_of(known)) == {"rack": (2, "", [0])}


def _with_status(obj: HyperNode) -> HyperNode:
    status = msgspec.structs.replace(obj.status, node_count=1, conditions=[Condition(type="Ready", status="True")])
    return msgspec.structs.replace(obj, status=status)


def test_a_changed_hyper_node_is_a_change_and_its_status_is_none() -> None:
    rack = hyper_node("rack", 1, nodes=["n1"])
    known = cluster(node("n1"), rack)
    before = known.ledger.changes
    known.apply(Applied(_with_status(rack)))
    assert known.ledger.changes == before
    known.apply(Applied(established(hyper_node("rack", 1, nodes=["n2"]))))
    assert known.ledger.changes == before + 1
    known.apply(Deleted(rack))
    assert known.ledger.changes == before + 2


def test_a_session_knows_the_tree_of_its_configuration() -> None:
    known = cluster(node("n1", labels={ZONE: "z1"}))
    assert session(known).topology is NO_TREE
    known.apply(Applied(established(hyper_node("rack", 1, nodes=["n1"]))))
    assert shown(session(known).topology) == {"rack": (1, "", [0])}
