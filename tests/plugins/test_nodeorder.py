"""Which node is best: one preference at a time, then the ranking for reserved room."""

from __future__ import annotations

import pytest

from builders import cluster, group, node, pod, session
from node_queries import scores, task_of
from stromboli.api import (
    Affinity,
    Container,
    ContainerImage,
    Node,
    NodeAffinity,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    PreferredSchedulingTerm,
    Taint,
    Toleration,
)
from stromboli.cluster import Cluster
from stromboli.scheduling.configuration.arguments import Arguments, ConfigurationError
from stromboli.scheduling.plugins.nodeorder import Nodeorder
from stromboli.scheduling.session import Session

WISHES = (
    "leastrequested", "mostrequested", "nodeaffinity", "podaffinity", "balancedresource", "tainttoleration",
    "imagelocality", "podtopologyspread",
)  # fmt: skip
MB = 1024 * 1024


def opened(known: Cluster, **weights: float) -> Session:
    """Only the wishes named count."""
    chosen = {f"{wish}.weight": weights.get(wish, 0) for wish in WISHES}
    return session(known, tiers=[[Nodeorder(Arguments(chosen))]])


def best(cycle: Session, known: Cluster) -> str:
    by_name = scores(cycle, task_of(known, "p"))
    return max(by_name, key=by_name.__getitem__)


# -- amounts --------------------------------------------------------------------------------------------------------


def test_least_requested_takes_the_roomier_node_and_most_requested_the_tighter_one() -> None:
    # Free after the pod: n1 (1/2 + 3/4) / 2 = 62.5 %, n2 (3/4 + 7/8) / 2 = 81.25 %.
    known = cluster(
        node("n1", cpu=2, memory="4Gi"), node("n2", cpu=4, memory="8Gi"), group("pg"),
        pod("p", group="pg", cpu=1, memory="1Gi"),
    )  # fmt: skip
    cycle = opened(known, leastrequested=1)
    assert scores(cycle, task_of(known, "p")) == pytest.approx({"n1": 62.5, "n2": 81.25})
    assert scores(opened(known, mostrequested=2), task_of(known, "p")) == pytest.approx({"n1": 75, "n2": 37.5})


def test_balance_takes_the_node_whose_cpu_and_memory_fill_alike() -> None:
    # n1: 1/2 and 1/2. n2: 1/4 and 1/2, apart by a quarter, half of which is lost.
    known = cluster(
        node("n1", cpu=2, memory="2Gi"), node("n2", cpu=4, memory="2Gi"), group("pg"),
        pod("p", group="pg", cpu=1, memory="1Gi"),
    )  # fmt: skip
    cycle = opened(known, balancedresource=1)
    assert scores(cycle, task_of(known, "p")) == pytest.approx({"n1": 100, "n2": 87.5})


# -- wishes of the pod and the node ---------------------------------------------------------------------------------


def preferring(**weights: int) -> Affinity:
    return Affinity(
        node_affinity=NodeAffinity(
            preferred_during_scheduling_ignored_during_execution=[
                PreferredSchedulingTerm(
                    weight=weight,
                    preference=NodeSelectorTerm(
                        match_expressions=[NodeSelectorRequirement(key=label, operator="Exists")]
                    ),
                )
                for label, weight in weights.items()
            ]
        )
    )


def test_preferred_node_affinity_gives_the_best_node_100() -> None:
    # ssd 3, fast 1: both 4, ssd alone 3, neither 0; times 100 / 4, times the weight 2.
    known = cluster(
        node("both", cpu=4, labels={"ssd": "", "fast": ""}), node("plain", cpu=4),
        node("ssd", cpu=4, labels={"ssd": ""}),
        group("pg"), pod("p", group="pg", cpu=1, affinity=preferring(ssd=3, fast=1)),
    )  # fmt: skip
    cycle = opened(known, nodeaffinity=2)
    assert scores(cycle, task_of(known, "p")) == pytest.approx({"both": 200, "plain": 0, "ssd": 150})


def test_taints_that_would_rather_not_have_the_pod_cost_by_their_number() -> None:
    busy = Taint(key="busy", effect="PreferNoSchedule")
    slow = Taint(key="slow", effect="PreferNoSchedule")
    hard = Taint(key="hard", effect="NoSchedule")
    nodes = [
        node("free", cpu=4, taints=[hard]), node("one", cpu=4, taints=[busy]), node("two", cpu=4, taints=[busy, slow]),
    ]  # fmt: skip
    known = cluster(nodes, group("pg"), pod("p", group="pg", cpu=1))
    cycle = opened(known, tainttoleration=1)
    assert scores(cycle, task_of(known, "p")) == pytest.approx({"free": 100, "one": 50, "two": 0})

    tolerating = [Toleration(key="slow", operator="Exists")]
    known = cluster(nodes, group("pg"), pod("p", group="pg", cpu=1, tolerations=tolerating))
    assert scores(opened(known, tainttoleration=1), task_of(known, "p")) == pytest.approx(
        {"free": 100, "one": 0, "two": 0}
    )


def with_images(made: Node, **sizes: int) -> Node:
    made.status.images = [
        ContainerImage(names=[f"registry.example/{name}:latest", f"{name}@sha256:0"], size_bytes=size * MB)
        for name, size in sizes.items()
    ]
    return made


def test_images_count_by_size_and_by_how_many_nodes_have_them() -> None:
    # One container: from 23 MB (0) to 1000 MB (100). big is on 2 of 4 nodes, 1000 MB × 2/4 = 500 MB:
    # (500 - 23) / (1000 - 23) = 48.8 %. small is 40 MB × 1/4 = 10 MB, below what is worth a detour.
    known = cluster(
        with_images(node("n1", cpu=4), big=1000), with_images(node("n2", cpu=4), big=1000, small=40),
        with_images(node("n3", cpu=4), other=900), node("n4", cpu=4),
        group("pg"),
        pod("p", group="pg", containers=[Container(name="c", image="registry.example/big")]),
        pod("q", group="pg", containers=[Container(name="c", image="registry.example/small:latest")]),
        pod("r", group="pg", containers=[Container(name="c", image="registry.example/big:v2")]),
        pod("s", group="pg", containers=[Container(image="registry.example/big"), Container(image="unknown")]),
    )  # fmt: skip
    cycle = opened(known, imagelocality=1)
    found = 100 * (500 - 23) / (1000 - 23)
    assert scores(cycle, task_of(known, "p")) == pytest.approx({"n1": found, "n2": found, "n3": 0, "n4": 0})
    # Two containers: the same 500 MB out of 2000.
    found = 100 * (500 - 23) / (2000 - 23)
    assert scores(cycle, task_of(known, "s")) == pytest.approx({"n1": found, "n2": found, "n3": 0, "n4": 0})
    for nothing in ("q", "r"):
        assert set(scores(cycle, task_of(known, nothing)).values()) == {0}


def test_a_registry_with_a_port_is_not_taken_for_a_tag() -> None:
    n1 = node("n1", cpu=4)
    n1.status.images = [ContainerImage(names=["registry.example:5000/big:latest"], size_bytes=1000 * MB)]
    known = cluster(
        n1, group("pg"), pod("p", group="pg", containers=[Container(name="c", image="registry.example:5000/big")])
    )
    assert scores(opened(known, imagelocality=1), task_of(known, "p")) == pytest.approx({"n1": 100})


# -- arguments ------------------------------------------------------------------------------------------------------


def test_weights_unless_set() -> None:
    known = cluster(node("n1", cpu=4), group("pg"), pod("p", group="pg", cpu=1, affinity=preferring(ssd=3)))
    cycle = session(known, tiers=[[Nodeorder(Arguments())]])
    assert (cycle.resource_score.least, cycle.resource_score.most, cycle.resource_score.balanced) == (1, 0, 1)
    assert len(cycle.scores) == 5
    off = session(known, tiers=[[Nodeorder(Arguments({f"{wish}.weight": 0 for wish in WISHES}))]])
    assert off.scores == []
    with pytest.raises(ConfigurationError, match=r"podaffinity\.weight"):
        Nodeorder(Arguments({"podaffinity.weight": -1}))


def test_a_plain_pod_has_no_wishes_but_those_of_amounts() -> None:
    known = cluster(
        node("n1", cpu=4, labels={"zone": "a"}), node("n2", cpu=4), group("pg"), pod("p", group="pg", cpu=1)
    )
    cycle = session(known, tiers=[[Nodeorder(Arguments())]])
    assert all(hook.prepare(task_of(known, "p")) is None for hook in cycle.scores)
    assert not cycle.placement.fitting(task_of(known, "p")).alone


# -- room to be reserved --------------------------------------------------------------------------------------------


def test_reserving_ranks_nodes_by_what_is_idle() -> None:
    # Four 5C5G nodes with 1 to 4 used: idle 80, 60, 40, 20 %, and no devices asked for, so a third of that.
    known = cluster(
        [node(f"n{used}", cpu=5, memory="5Gi") for used in range(1, 5)], group("pg"),
        [pod(f"u{used}", cpu=used, memory=f"{used}Gi", node=f"n{used}") for used in range(1, 5)],
        pod("p", group="pg", cpu=5, memory="5Gi"),
    )  # fmt: skip
    order = opened(known).node_order_on_resource(task_of(known, "p"))
    assert order.tolist() == pytest.approx([80 / 3, 20, 40 / 3, 20 / 3])


def test_devices_count_twice_and_only_where_the_node_has_them() -> None:
    # n1: CPU and memory idle 100, GPUs 50: (100 + 2 × 50) / 3. n2 has no GPUs: 100 / 3.
    # n3 has GPUs and foo, idle 100 and 0: (100 + 2 × 50) / 3. n4 is over-full in CPU: (50 + 2 × 100) / 3.
    foo = "example.com/foo"
    known = cluster(
        node("n1", cpu=4, memory="4Gi", gpu=4), node("n2", cpu=4, memory="4Gi"),
        node("n3", cpu=4, memory="4Gi", gpu=2, resources={foo: 2}), node("n4", cpu=1, memory="4Gi", gpu=1),
        group("pg"), pod("u1", gpu=2, node="n1"), pod("u3", resources={foo: 2}, node="n3"), pod("u4", cpu=2, node="n4"),
        pod("p", group="pg", cpu=1, gpu=1, resources={foo: 1}),
    )  # fmt: skip
    order = opened(known).node_order_on_resource(task_of(known, "p"))
    assert order.tolist() == pytest.approx([200 / 3, 100 / 3, 200 / 3, 250 / 3])
