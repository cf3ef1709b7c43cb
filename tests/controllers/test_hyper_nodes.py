"""HyperNodes say what they are worth, and are made from labels of nodes if somebody wants that."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from builders import hyper_node, node
from controllers.fake_cluster import FakeCluster
from stromboli.api import HyperNode, Node
from stromboli.cluster.topology import Members, PatternMatches, Topology, Tree, by_labels
from stromboli.controllers import ControllerManager
from stromboli.controllers.changes import Notify

KEYS = ("zone", "rack")


def discovering(*objects: Any, keys: tuple[str, ...] = KEYS, now: float = 0.0) -> FakeCluster:
    return FakeCluster(*objects, controllers=lambda: ControllerManager(topology_keys=keys), now=now)


def verdicts(cluster: FakeCluster) -> dict[str, tuple[int, str, str]]:
    """By HyperNode: how many nodes it has, whether it is accepted, and why."""
    found = {}
    for one in cluster.list(HyperNode):
        (accepted,) = one.status.conditions
        assert accepted.type == "Accepted"
        found[one.metadata.name] = (one.status.node_count, accepted.status, accepted.reason)
    return found


def message(cluster: FakeCluster, name: str) -> str:
    found = cluster.get(HyperNode, name)
    assert found is not None
    return found.status.conditions[0].message


def relabel(cluster: FakeCluster, name: str, **labels: str) -> None:
    known = cluster.get(Node, name)
    assert known is not None
    cluster.put(replace(known, metadata=replace(known.metadata, labels=labels)))
    cluster.settle()


def test_a_good_tree_is_counted() -> None:
    cluster = FakeCluster(
        *(node(f"n{number}", cpu=1) for number in range(4)),
        hyper_node("r1", 1, nodes=["n0", "n1"]),
        hyper_node("r2", 1, regex="^n[23]$"),
        hyper_node("all", 2, "r1", "r2"),
    )
    cluster.settle()
    assert verdicts(cluster) == {"all": (4, "True", "Used"), "r1": (2, "True", "Used"), "r2": (2, "True", "Used")}
    assert message(cluster, "all") == "Groups that must be close together are placed by it."


@pytest.mark.parametrize(
    ("objects", "expected", "said"),
    [
        (
            [hyper_node("a", 2, "b"), hyper_node("b", 1, "a")],
            {"a": (0, "False", "Cycle"), "b": (0, "False", "Cycle")},
            ("a", "It is a member of itself: a → b → a. Remove one of these members."),
        ),
        (
            [hyper_node("a", 1, nodes=["n0", "n1"]), hyper_node("b", 1, nodes=["n1", "n2"])],
            {"a": (2, "True", "Used"), "b": (2, "False", "Overlap")},
            (
                "b",
                "1 node of it, such as n1, is in a, which has the same tier (1). A node can be in one HyperNode of a "
                "tier only.",
            ),
        ),
        (
            [hyper_node("a", 1, nodes=["n0", "nobody"])],
            {"a": (1, "True", "MembersMissing")},
            ("a", "It has 1 node by its other members: there is no node nobody."),
        ),
        (
            [hyper_node("a", 1, labels={"rack": "none"})],
            {"a": (0, "False", "NoNodes")},
            ("a", "It has no nodes: no node has the labels of a member."),
        ),
        (
            [hyper_node("a", 1, regex="^x"), hyper_node("b", 2, "a")],
            {"a": (0, "False", "NoNodes"), "b": (0, "False", "NoNodes")},
            ("b", "It has no nodes: its members have none."),
        ),
        (
            [hyper_node("a", 2, nodes=["n0"]), hyper_node("b", 1, "a")],
            {"a": (1, "True", "Used"), "b": (0, "False", "TierOrder")},
            ("b", "Its tier is 1, and that of its member a is 2. The tier must be above those of all members."),
        ),
        (
            [hyper_node("a", 1, regex="n(0"), hyper_node("b", 2, "a"), hyper_node("c", 2, "c", nodes=["n1"])],
            {"a": (0, "False", "Invalid"), "b": (0, "False", "MemberLeftOut"), "c": (1, "False", "Invalid")},
            (
                "a",
                "spec.members[0].selector.regexMatch.pattern: must be a regular expression such as rack-1-.*: missing "
                "), unterminated subpattern at position 1",
            ),
        ),
        (
            [hyper_node("a", 1, "a", nodes=["n0"])],
            {"a": (1, "False", "Invalid")},
            ("a", "spec.members: must not have the HyperNode itself"),
        ),
    ],
)
def test_what_is_wrong_is_said_on_the_object(
    objects: list[HyperNode], expected: dict[str, tuple[int, str, str]], said: tuple[str, str]
) -> None:
    cluster = FakeCluster(*(node(f"n{number}", cpu=1) for number in range(3)), *objects)
    cluster.settle()
    assert verdicts(cluster) == expected
    assert message(cluster, said[0]) == said[1]


def test_one_that_contradicts_others_has_one_event() -> None:
    nodes = [node(f"n{number}", cpu=1) for number in range(3)]
    cluster = FakeCluster(*nodes, hyper_node("a", 1, nodes=["n0", "n1"]), hyper_node("b", 1, nodes=["n1", "gone"]))
    found = [change for change in cluster.settle() if isinstance(change, Notify)]
    assert [(one.object.metadata.name, one.reason, one.warning) for one in found] == [("b", "Overlap", True)]
    assert found[0].message == message(cluster, "b")
    cluster.restart()
    cluster.add(node("n3", cpu=1))
    assert [change for change in cluster.settle() if isinstance(change, Notify)] == []


def test_the_status_follows_nodes_and_keeps_conditions_of_others() -> None:
    cluster = FakeCluster(node("n0", cpu=1), hyper_node("a", 1, regex="^n"), now=10.0)
    cluster.settle()
    cluster.now = 20.0
    cluster.add(node("n1", cpu=1))
    cluster.settle()
    (found,) = cluster.list(HyperNode)
    assert found.status.node_count == 2
    assert found.status.conditions[0].last_transition_time == "1970-01-01T00:00:10Z"  # it was accepted all the time
    foreign = replace(found.status.conditions[0], type="Audited")
    cluster.put(replace(found, status=replace(found.status, conditions=[foreign, *found.status.conditions])))
    for one in list(cluster.list(Node)):
        cluster.remove(one)
    cluster.settle()
    (found,) = cluster.list(HyperNode)
    assert [(one.type, one.status) for one in found.status.conditions] == [("Audited", "True"), ("Accepted", "False")]
    assert found.status.conditions[1].last_transition_time == "1970-01-01T00:00:20Z"


def members(cluster: FakeCluster) -> dict[str, tuple[int, str, list[str]]]:
    return {
        one.metadata.name: (
            one.spec.tier or 0,
            one.spec.tier_name,
            [member.selector.exact_match.name for member in one.spec.members if member.selector.exact_match],
        )
        for one in cluster.list(HyperNode)
    }


def test_labels_of_nodes_become_hyper_nodes() -> None:
    cluster = discovering(
        node("n0", cpu=1, labels={"zone": "a", "rack": "r1"}),
        node("n1", cpu=1, labels={"zone": "a", "rack": "r2"}),
        node("n2", cpu=1, labels={"zone": "a"}),
        node("n3", cpu=1),
    )
    cluster.settle()
    assert members(cluster) == {
        "a": (2, "zone", ["r1", "r2", "n2"]),
        "r1": (1, "rack", ["n0"]),
        "r2": (1, "rack", ["n1"]),
    }
    assert verdicts(cluster)["a"] == (3, "True", "Used")
    (rack,) = (one for one in cluster.list(HyperNode) if one.metadata.name == "r1")
    assert rack.metadata.labels == {"zone": "a", "rack": "r1", "volcano.sh/network-topology-source": "label"}

    relabel(cluster, "n1", zone="a", rack="r1")
    assert members(cluster) == {"a": (2, "zone", ["r1", "n2"]), "r1": (1, "rack", ["n0", "n1"])}
    for name in ("n0", "n1", "n2"):
        relabel(cluster, name)
    assert members(cluster) == {}


def test_without_keys_nothing_is_made() -> None:
    cluster = FakeCluster(node("n0", cpu=1, labels={"zone": "a"}))
    cluster.settle()
    assert members(cluster) == {}


def test_what_users_made_is_left_alone() -> None:
    cluster = discovering(
        node("n0", cpu=1, labels={"zone": "a", "rack": "r1"}), hyper_node("r1", 3, nodes=["n0"], tier_name="mine")
    )
    cluster.settle()
    (name,) = members(cluster).keys() - {"a", "r1"}
    assert name.startswith("r1-")
    assert members(cluster)["r1"] == (3, "mine", ["n0"])
    assert members(cluster)["a"] == (2, "zone", [name])


def test_what_somebody_changed_or_deleted_is_made_again() -> None:
    cluster = discovering(node("n0", cpu=1, labels={"rack": "r1"}), keys=("rack",))
    cluster.settle()
    (found,) = cluster.list(HyperNode)
    cluster.put(replace(found, spec=replace(found.spec, tier=7)))
    cluster.settle()
    assert members(cluster) == {"r1": (1, "rack", ["n0"])}
    (found,) = cluster.list(HyperNode)
    cluster.remove(found)
    cluster.settle()
    assert members(cluster) == {"r1": (1, "rack", ["n0"])}


LABELS = st.fixed_dictionaries(
    {}, optional={"zone": st.sampled_from(["a", "B_1"]), "rack": st.sampled_from(["r1", "r2", "a", "B.1"])}
)


@settings(max_examples=60)
@given(st.lists(LABELS, min_size=1, max_size=7))
def test_the_objects_make_the_tree_that_the_labels_make(labels: list[dict[str, str]]) -> None:
    cluster = discovering(*(node(f"n{number}", cpu=1, labels=own) for number, own in enumerate(labels)))
    cluster.settle()
    nodes = [(f"n{number}", own) for number, own in enumerate(labels)]
    topology = Topology(lambda: nodes)
    for one in cluster.list(HyperNode):
        topology.apply(one)
    assert not topology.problems
    assert shape(topology.tree(())) == shape(by_labels(KEYS, Members(nodes, PatternMatches())))


def shape(tree: Tree) -> set[tuple[int, str, tuple[int, ...]]]:
    return {(domain.tier, domain.tier_name, tuple(domain.rows.tolist())) for domain in tree.domains}


def test_an_invalid_one_is_used_once_it_is_corrected() -> None:
    cluster = FakeCluster(node("n0", cpu=1), hyper_node("a", 1, regex="n("))
    cluster.settle()
    assert verdicts(cluster) == {"a": (0, "False", "Invalid")}
    known = cluster.get(HyperNode, "a")
    assert known is not None
    cluster.put(replace(known, spec=hyper_node("a", 1, regex="n").spec))
    cluster.settle()
    assert verdicts(cluster) == {"a": (1, "True", "Used")}
