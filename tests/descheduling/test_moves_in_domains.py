"""Moves and domains: no pod leaves those of its group, and room for a job that must be close together is in one.

Nodes a0, a1 are rack a, b0, b1 rack b, and so on; racks a and b are block x.
"""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from builders import group, hyper_node, node, pod
from descheduling.plans import low_nodes, moves, plans_of, policy, replicas, set_of
from stromboli.api import KObject, PodGroup
from stromboli.api.kinds.batch import NetworkTopology, SubGroupPolicy

RACK = NetworkTopology(mode="hard", highest_tier_allowed=1)
BLOCK = NetworkTopology(mode="hard", highest_tier_allowed=2)
SOFT = NetworkTopology(mode="soft")
PENDING = policy({"forPending": True})
EMPTY = low_nodes("gpu", low=40)


def racks(**gpus: tuple[int, ...]) -> list[KObject]:
    """By name of a rack: the GPUs of each of its nodes. Racks a and b are in block x."""
    nodes: list[KObject] = [
        node(f"{name}{number}", gpu=amount, cpu=64) for name, each in gpus.items() for number, amount in enumerate(each)
    ]
    objects = [hyper_node(name, 1, nodes=[f"{name}{row}" for row in range(len(each))]) for name, each in gpus.items()]
    return [*nodes, *objects, hyper_node("x", 2, "a", "b")]


def close(pods: list[KObject], topology: NetworkTopology, **more: object) -> list[KObject]:
    """The group of these asks for it."""
    return [
        replace(one, spec=replace(one.spec, network_topology=topology, **more)) if isinstance(one, PodGroup) else one
        for one in pods
    ]


# -- pods that run ---------------------------------------------------------------------------------------------------


# a0 has 2 of 8 GPUs in use (25 %), and its pods could leave it. b0 is fuller than a1, so it would be taken first.
def emptied(topology: NetworkTopology | None) -> set[tuple[str, str, str]]:
    service = replicas("s", 3, on=["a0", "a0", "a1"], gpu=1)
    asked = service if topology is None else close(service, topology)
    others = [*replicas("t", 3, on="a1", gpu=1), *replicas("u", 5, on="b0", gpu=1), *replicas("v", 4, on="c0", gpu=1)]
    return set_of(plans_of([*racks(a=(8, 8), b=(8,), c=(8,)), *asked, *others], EMPTY))


def test_without_topology_the_fullest_node_is_the_target() -> None:
    assert emptied(None) == {("s-0", "a0", "b0"), ("s-1", "a0", "b0")}


def test_a_pod_never_leaves_the_domain_of_its_hard_group() -> None:
    assert emptied(RACK) == {("s-0", "a0", "a1"), ("s-1", "a0", "a1")}


def test_a_group_that_may_be_in_a_block_may_leave_its_rack() -> None:
    assert emptied(BLOCK) == {("s-0", "a0", "b0"), ("s-1", "a0", "b0")}


def test_a_soft_group_comes_to_be_of_no_higher_tier() -> None:
    assert emptied(SOFT) == {("s-0", "a0", "a1"), ("s-1", "a0", "a1")}


def test_a_node_is_not_emptied_if_the_domain_has_no_room() -> None:
    service = close(replicas("s", 3, on=["a0", "a0", "a1"], gpu=1), RACK)
    full = [*replicas("t", 7, on="a1", gpu=1), *replicas("u", 5, on="b0", gpu=1)]
    assert plans_of([*racks(a=(8, 8), b=(8,)), *service, *full], EMPTY) == []


def test_no_pod_of_a_sub_group_is_moved_that_the_group_needs() -> None:
    """Two sub-groups of two pods on a0, a1 and b0, c0, and the group needs as many as `least`."""

    def moved(least: int) -> set[tuple[str, str, str]]:
        each = SubGroupPolicy(name="p", match_label_keys=["unit"], sub_group_size=2, min_sub_groups=least)
        pods = close(replicas("s", 4, on=["a0", "a1", "b0", "c0"], gpu=1), SOFT, sub_group_policy=[each])
        for number, one in enumerate(one for one in pods if one.metadata.name.startswith("s-")):
            one.metadata.labels = {**one.metadata.labels, "unit": str(number // 2)}
        full = [*replicas("t", 5, on="a1", gpu=1), *replicas("u", 5, on="b0", gpu=1), *replicas("v", 5, on="c0", gpu=1)]
        return set_of(plans_of([*racks(a=(8, 8), b=(8,), c=(8,)), *pods, *full], EMPTY))

    assert moved(2) == set()
    assert moved(1) == {("s-0", "a0", "a1")}


def test_no_part_of_a_group_is_moved_that_goes_whole() -> None:
    service = replicas("s", 2, on=["a0", "a1"], gpu=1)
    for one in service:
        if isinstance(one, PodGroup):
            one.metadata.annotations["scheduling.stromboli.io/goes-whole"] = "true"
    others = replicas("t", 4, on="a1", gpu=1)
    assert plans_of([*racks(a=(8, 8), b=(8,)), *service, *others], EMPTY) == []


# -- room for a group that waits -------------------------------------------------------------------------------------


def waiting(pods: int, gpu: int, topology: NetworkTopology | None, **facts: object) -> list[KObject]:
    members = [pod(f"default/big-{number}", gpu=gpu, group="big") for number in range(pods)]
    return [group("default/big", min_member=pods, topology=topology, **facts), *members]  # type: ignore[arg-type]


# One pod is in the way on each of a1, b0 and b1, and a0 and c0 are free: nodes have 2 GPUs, and so does each pod of the
# group. One move leaves a0 and a1, or a0 and any other node; d0 has room for what moves.
def cluster_of_racks() -> list[KObject]:
    fixed = replicas("f", 1, on="c1", gpu=2, preemptable=False)
    moved = [*replicas("m", 1, on="a1", gpu=1), *replicas("n", 2, on=["b0", "b1"], gpu=1)]
    return [*racks(a=(2, 2), b=(2, 2), c=(2, 2), d=(1, 1)), *fixed, *moved]


def test_room_is_made_in_one_domain() -> None:
    (plan,) = plans_of([*cluster_of_racks(), *waiting(2, 2, RACK)], PENDING)
    assert {place.node for place in plan.places} == {"a0", "a1"}
    assert [(name, source) for name, source, _ in moves(plan)] == [("m-0", "a1")]


def test_what_moves_may_leave_the_domain() -> None:
    (plan,) = plans_of([*cluster_of_racks(), *waiting(2, 2, RACK)], PENDING)
    assert {target[0] for _, _, target in moves(plan)} <= {"b", "d"}


def test_nothing_moves_where_no_domain_could_be_enough() -> None:
    assert plans_of([*cluster_of_racks(), *waiting(3, 2, RACK)], PENDING) == []


def test_a_group_without_topology_needs_no_move_there() -> None:
    assert plans_of([*cluster_of_racks(), *waiting(2, 2, None)], PENDING) == []  # a0 and c0


@pytest.mark.parametrize("least", [0, 2])
def test_each_sub_group_gets_a_domain_of_its_own(least: int) -> None:
    """All four pods must start together. So both sub-groups are needed, whether the policy says so or not."""
    each = SubGroupPolicy(
        name="p", match_label_keys=["unit"], sub_group_size=2, min_sub_groups=least, network_topology=RACK
    )
    job = waiting(4, 2, None, sub_groups=[each])
    for number, one in enumerate(job[1:]):
        one.metadata.labels = {"unit": str(number // 2)}
    nodes = [*racks(a=(2, 2), b=(2, 2), d=(1, 1, 1)), *replicas("m", 2, on=["a1", "b1"], gpu=1)]
    (plan,) = plans_of([*nodes, *job], PENDING)
    racks_of = [{place.node[0] for place in plan.places[first : first + 2]} for first in (0, 2)]
    assert sorted(map(sorted, racks_of)) == [["a"], ["b"]]
    assert len(moves(plan)) == 2


def test_nothing_moves_for_sub_groups_that_cannot_be_whole() -> None:
    each = SubGroupPolicy(name="p", match_label_keys=["unit"], sub_group_size=3, min_sub_groups=0)
    job = waiting(4, 2, RACK, sub_groups=[each])
    for number, one in enumerate(job[1:]):
        one.metadata.labels = {"unit": str(number // 2)}
    nodes = [*racks(a=(2, 2, 2, 2), b=(2,), d=(1, 1, 1)), *replicas("m", 1, on="a1", gpu=1)]
    assert plans_of([*nodes, *job], PENDING) == []
