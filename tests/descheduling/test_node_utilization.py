"""HighNodeUtilization, LowNodeUtilization and LoadAware on small clusters; CPUs in millicores, nodes of 4 cores."""

from __future__ import annotations

from typing import Any

import pytest

from builders import Taint, Toleration, node
from descheduling.plans import plans_of, policy, replicas, set_of
from stromboli.api import Pod
from stromboli.api.quantity import amounts
from stromboli.scheduling.configuration import ConfigurationError


def high(**thresholds: float) -> Any:
    return policy({"thresholds": thresholds}, plugin="HighNodeUtilization")


def pods(name: str, on: str, count: int = 1, cpu: str = "400m", **facts: Any) -> list[Any]:
    return replicas(name, count, on=on, cpu=cpu, **facts)


def test_nodes_above_the_threshold_keep_their_pods() -> None:
    # Three nodes with 1,200 of 4,000 = 30 % each; the threshold is 20.
    objects = [x for n in "abc" for x in (node(n, cpu=4), *pods(f"p{n}", n, 3))]
    assert plans_of(objects, high(cpu=20, pods=20)) == []


def test_low_nodes_are_emptied_also_if_cordoned() -> None:
    # a: 400 of 4,000 and a critical pod; b: 4 x 400 = 40 %; c is cordoned and has 400. Only b is a target.
    objects = [
        node("a", cpu=4), node("b", cpu=4), node("c", cpu=4, cordoned=True), *pods("p1", "a"),
        *pods("p2", "a", priority=2_000_000_000), *pods("p3", "b", 4), *pods("p7", "c"),
    ]  # fmt: skip
    assert set_of(plans_of(objects, high(cpu=30, pods=30))) == {("p1-0", "a", "b"), ("p7-0", "c", "b")}


def test_only_protected_pods_on_the_low_node() -> None:
    objects = [node("a", cpu=4), node("b", cpu=4), *pods("p", "a", priority=2_000_000_000), *pods("q", "b", 4)]
    assert plans_of(objects, high(cpu=30, pods=30)) == []


def test_the_only_target_is_cordoned() -> None:
    objects = [node("a", cpu=4), node("b", cpu=4, cordoned=True), *pods("p", "a"), *pods("q", "b", 4)]
    assert plans_of(objects, high(cpu=30, pods=30)) == []


def test_room_counts_on_each_node_not_in_sum() -> None:
    # b has 2,000, of which 1,600 are used: one pod of 400 fits, the second does not.
    objects = [node("a", cpu=4), node("b", cpu=2), *pods("p", "a", 2), *pods("q", "b", 4)]
    assert len(set_of(plans_of(objects, high(cpu=20, pods=20)))) == 1
    # b and c have 300 each: together enough for a pod of 400, alone not.
    objects = [
        node("a", cpu=4), node("b", cpu=2), node("c", cpu=2), *pods("p", "a"), *pods("q", "b", cpu="1700m"),
        *pods("r", "c", cpu="1700m"),
    ]  # fmt: skip
    assert plans_of(objects, high(cpu=20)) == []


def test_low_priority_goes_first() -> None:
    objects = [
        node("a", cpu=4), node("b", cpu=2), *pods("important", "a", priority=10), *pods("other", "a", priority=1),
        *pods("q", "b", 4),
    ]  # fmt: skip
    assert set_of(plans_of(objects, high(cpu=20))) == {("other-0", "a", "b")}


@pytest.mark.parametrize(("selector", "moves"), [({"zone": "x"}, 1), ({"zone": "y"}, 0)])
def test_selectors_of_pods(selector: dict[str, str], moves: int) -> None:
    objects = [
        node("a", cpu=4), node("b", cpu=4, labels={"zone": "x"}), *pods("p", "a", node_selector=selector),
        *pods("q", "b", 4),
    ]  # fmt: skip
    assert len(set_of(plans_of(objects, high(cpu=20)))) == moves


@pytest.mark.parametrize(("tolerations", "moves"), [((), 0), ((Toleration(key="gpu", operator="Exists"),), 1)])
def test_taints(tolerations: Any, moves: int) -> None:
    taint = Taint(key="gpu", value="", effect="NoSchedule")
    objects = [
        node("a", cpu=4), node("b", cpu=4, taints=[taint]), *pods("p", "a", tolerations=tolerations),
        *pods("q", "b", 4, tolerations=[Toleration(key="gpu", operator="Exists")]),
    ]  # fmt: skip
    assert len(set_of(plans_of(objects, high(cpu=20)))) == moves


def test_all_nodes_low_or_too_few() -> None:
    objects = [node("a", cpu=4), node("b", cpu=4), *pods("p", "a"), *pods("q", "b")]
    assert plans_of(objects, high(cpu=20)) == []
    objects = [node("a", cpu=4), node("b", cpu=4), *pods("p", "a"), *pods("q", "b", 4)]
    few = policy({"thresholds": {"cpu": 20}, "numberOfNodes": 1}, plugin="HighNodeUtilization")
    assert plans_of(objects, few) == []


def test_only_pods_that_request_what_is_measured() -> None:
    objects = [
        node("a", cpu=4, gpu=4), node("b", cpu=4, gpu=4), *pods("cpu", "a"), *pods("gpu", "a", gpu=1),
        *pods("q", "b", 3, gpu=1),
    ]  # fmt: skip
    only = policy(
        {"thresholds": {"nvidia.com/gpu": 30}, "evictionModes": ["OnlyThresholdingResources"]},
        plugin="HighNodeUtilization",
    )
    assert set_of(plans_of(objects, only)) == {("gpu-0", "a", "b")}


def test_low_node_utilization_relieves_full_nodes() -> None:
    # a: 9 x 400 = 90 %, target 50 %: pods leave until 5 x 400 = 50 %. b: empty, takes up to 50 %.
    objects = [node("a", cpu=4), node("b", cpu=4), *pods("p", "a", 9)]
    chosen = policy({"thresholds": {"cpu": 20}, "targetThresholds": {"cpu": 50}}, plugin="LowNodeUtilization")
    assert len(set_of(plans_of(objects, chosen))) == 4
    limited = policy(
        {"thresholds": {"cpu": 20}, "targetThresholds": {"cpu": 50}, "evictionLimits": {"node": 2}},
        plugin="LowNodeUtilization",
    )
    assert len(set_of(plans_of(objects, limited))) == 2


def test_deviation_thresholds() -> None:
    # 90 % and 10 %, mean 50: above 60 is too much, below 40 takes pods.
    objects = [node("a", cpu=4), node("b", cpu=4), *pods("p", "a", 9), *pods("q", "b")]
    chosen = policy(
        {"thresholds": {"cpu": 10}, "targetThresholds": {"cpu": 10}, "useDeviationThresholds": True},
        plugin="LowNodeUtilization",
    )
    assert len(set_of(plans_of(objects, chosen))) == 3  # 90 % to 60 %


def use_of(table: dict[str, str]) -> Any:
    def use(pod: Pod) -> Any:
        name = pod.metadata.name.rpartition("-")[0]
        return amounts({"cpu": table[name], "memory": "0"}) if name in table else None

    return use


LOAD = policy({"thresholds": {"cpu": 30}, "targetThresholds": {"cpu": 70}}, plugin="LoadAware")


def test_load_aware_goes_by_real_use() -> None:
    # All request 400. On a they use 1,200 + 1,000 + 800 + 200 = 80 %: the largest leaves, then it is 50 %.
    objects = [
        node("a", cpu=4), node("b", cpu=4), *pods("p", "a"), *pods("q", "a"), *pods("r", "a"), *pods("s", "a"),
        *pods("t", "b"),
    ]  # fmt: skip
    real = use_of({"p": "1200m", "q": "1", "r": "800m", "s": "200m", "t": "100m"})
    assert set_of(plans_of(objects, LOAD, real_use=real)) == {("p-0", "a", "b")}


def test_load_aware_does_not_overload_the_target() -> None:
    # 3,200 on a (80 %), 1,200 on b (30 %): with p (2,000) b would be at 80 %, above 70. q (1,200) makes 60 %.
    objects = [node("a", cpu=4), node("b", cpu=4), *pods("p", "a"), *pods("q", "a"), *pods("t", "b")]
    real = use_of({"p": "2", "q": "1200m", "t": "1200m"})
    assert set_of(plans_of(objects, LOAD, real_use=real)) == {("q-0", "a", "b")}


def test_nodes_with_unmeasured_pods_are_left_alone() -> None:
    objects = [node("a", cpu=4), node("b", cpu=4), *pods("p", "a"), *pods("q", "a"), *pods("t", "b")]
    assert plans_of(objects, LOAD, real_use=use_of({"p": "3", "t": "100m"})) == []
    assert plans_of(objects, LOAD, real_use=use_of({"p": "2", "q": "1200m"})) == []


@pytest.mark.parametrize(
    ("plugin", "arguments", "problem"),
    [
        ("HighNodeUtilization", {}, "is required"),
        ("HighNodeUtilization", {"thresholds": {"cpu": 120}}, "from 0 to 100"),
        ("HighNodeUtilization", {"thresholds": {"cores": 20}}, 'names "cores"'),
        ("LowNodeUtilization", {"thresholds": {"cpu": 20}, "targetThresholds": {"memory": 50}}, "same resources"),
        ("LowNodeUtilization", {"thresholds": {"cpu": 60}, "targetThresholds": {"cpu": 50}}, "must not be above"),
        ("LoadAware", {"thresholds": {"cpu": 90}, "targetThresholds": {"cpu": 80}}, "must not be above"),
    ],
)
def test_arguments_that_make_no_sense(plugin: str, arguments: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConfigurationError, match=problem):
        policy(arguments, plugin=plugin)
