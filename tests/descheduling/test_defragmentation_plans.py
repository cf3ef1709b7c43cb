"""What Defragmentation plans, on small clusters. Percentages stand above each case."""

from __future__ import annotations

from builders import node
from descheduling.plans import low_nodes, moves, plans_of, replicas, set_of


def test_a_low_node_is_emptied_into_the_fullest_that_stays_protected() -> None:
    # a: 8 of 10 = 80 %, b: 3 of 10 = 30 %, c: 3 of 10 = 30 %. low 40, protection 95: a takes 1 (90 %), as 2 would be
    # 100 %; the rest goes to c, which is as low as b and later by name. c is a target now, so it is not emptied.
    objects = [
        node("a", cpu=10), node("b", cpu=10), node("c", cpu=10),
        *replicas("full", 8, on="a", cpu=1), *replicas("low", 3, on="b", cpu=1), *replicas("other", 3, on="c", cpu=1),
    ]  # fmt: skip
    (plan,) = plans_of(objects, low_nodes("cpu", low=40))
    assert moves(plan) == [("low-0", "b", "a"), ("low-1", "b", "c"), ("low-2", "b", "c")]
    assert plan.emptied == ("b",)


def test_a_source_that_cannot_be_emptied_is_left_alone() -> None:
    # b: 3 of 10; a has 9 of 10 and would exceed 95 % with one more; nobody else.
    objects = [
        node("a", cpu=10), node("b", cpu=10), *replicas("full", 9, on="a", cpu=1), *replicas("low", 3, on="b", cpu=1),
    ]  # fmt: skip
    assert plans_of(objects, low_nodes("cpu", low=40)) == []


def test_strict_targets_are_those_of_the_first_tier() -> None:
    objects = [node("a", cpu=10), node("b", cpu=10), *replicas("x", 5, on="a", cpu=1), *replicas("y", 2, on="b", cpu=1)]
    (plan,) = plans_of(objects, low_nodes("cpu", low=40))
    assert [target for _, _, target in moves(plan)] == ["a", "a"]
    assert plans_of(objects, low_nodes("cpu", low=40, strictTargets=True)) == []


def test_limits_are_exclusive() -> None:
    # Exactly at the low threshold: no source.
    objects = [node("a", cpu=10), node("b", cpu=10), *replicas("x", 8, on="a", cpu=1), *replicas("y", 4, on="b", cpu=1)]
    assert plans_of(objects, low_nodes("cpu", low=40)) == []
    assert set_of(plans_of(objects, low_nodes("cpu", low=41, protection=100))) == set()  # 4 do not fit into 2
