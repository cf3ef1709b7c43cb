"""Pods that crowd: duplicates on one node, and more in one domain than a spread constraint allows."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from builders import Taint, node
from descheduling.plans import plans_of, policy, replicas, set_of
from descheduling.test_wrong_places import labelled, with_spec
from stromboli.api import LabelSelector, Pod, TopologySpreadConstraint
from stromboli.scheduling.configuration import ConfigurationError


def duplicates(**arguments: Any) -> Any:
    return policy(arguments, plugin="RemoveDuplicates")


def spread(**arguments: Any) -> Any:
    return policy(arguments, plugin="RemovePodsViolatingTopologySpreadConstraint")


def targets(plans: Any) -> list[str]:
    return sorted(target for _, _, target in set_of(plans))


# -- duplicates -------------------------------------------------------------------------------------------------------


def test_pods_of_one_owner_are_divided_evenly() -> None:
    # 7 pods on 3 nodes: 7 / 3, rounded up, is 3 on each. a has 5, so two leave, and they go to b and c alike.
    objects = [*(node(name, cpu=8) for name in "abc"), *replicas("web", 7, on=["a"] * 5 + ["b", "c"], cpu=1)]
    plans = plans_of(objects, duplicates())
    assert {source for _, source, _ in set_of(plans)} == {"a"}
    assert targets(plans) == ["b", "c"]
    assert all(len(plan.moves) == 1 for plan in plans)


def test_the_youngest_leave() -> None:
    objects = [node("a", cpu=8), node("b", cpu=8), *replicas("web", 4, on="a", cpu=1)]
    assert {name for name, _, _ in set_of(plans_of(objects, duplicates()))} == {"web-2", "web-3"}


def test_a_node_that_they_may_not_use_does_not_count() -> None:
    # c would make it 4 / 3, rounded up 2; without c it is 4 / 2 = 2 as well, and with b alone all 4 may stay.
    closed = node("c", cpu=8)
    closed.spec.taints = [Taint(key="gpu", value="", effect="NoSchedule")]
    objects = [node("a", cpu=8), closed, *replicas("web", 4, on="a", cpu=1)]
    assert plans_of(objects, duplicates()) == []


def test_different_images_are_no_duplicates() -> None:
    objects: list[Any] = [node("a", cpu=8), node("b", cpu=8)]
    for number, obj in enumerate(replicas("web", 2, on="a", cpu=1)):
        if isinstance(obj, Pod):
            main = replace(obj.spec.containers[0], image=f"x:{number}")
            obj = replace(obj, spec=replace(obj.spec, containers=[main]))
        objects.append(obj)
    assert plans_of(objects, duplicates()) == []
    assert len(plans_of([*objects[:2], *replicas("web", 2, on="a", cpu=1)], duplicates())) == 1


def test_owners_may_be_left_out() -> None:
    objects = [node("a", cpu=8), node("b", cpu=8), *replicas("web", 2, on="a", cpu=1)]
    assert plans_of(objects, duplicates(excludeOwnerKinds=["ReplicaSet"])) == []
    assert plans_of(objects, duplicates(namespaces={"exclude": ["default"]})) == []
    with pytest.raises(ConfigurationError, match="excludeOwnerKinds"):
        duplicates(excludeOwnerKinds="ReplicaSet")


def test_nobody_leaves_without_a_place() -> None:
    full = replicas("other", 1, on="b", cpu=8)
    objects = [node("a", cpu=8), node("b", cpu=8), *replicas("web", 4, on="a", cpu=1), *full]
    assert plans_of(objects, duplicates()) == []


# -- spread constraints -----------------------------------------------------------------------------------------------


def constrained(on: list[str], *, kind: str = "DoNotSchedule", skew: int = 1, **more: Any) -> list[Any]:
    constraint = TopologySpreadConstraint(
        max_skew=skew, topology_key="zone", when_unsatisfiable=kind,
        label_selector=LabelSelector(match_labels={"app": "web"}), **more,
    )  # fmt: skip
    return with_spec(replicas("web", len(on), on=on, cpu=1), topology_spread_constraints=[constraint])


def zones(*names: str) -> list[Any]:
    return [labelled(name, cpu=16, zone=name) for name in names]


def test_pods_leave_the_domain_with_the_most_until_the_skew_is_kept() -> None:
    # 5, 1 and 0 pods, skew 1. The first goes to c (4, 1, 1), then one to b and one to c: 2, 2, 2.
    plans = plans_of([*zones("a", "b", "c"), *constrained(["a"] * 5 + ["b"])], spread())
    assert {source for _, source, _ in set_of(plans)} == {"a"}
    assert targets(plans) == ["b", "c", "c"]
    assert plans[0].goal == "leaves node a: zone=a has 5 pods, others 0"


def test_a_skew_that_is_allowed_stays() -> None:
    assert plans_of([*zones("a", "b"), *constrained(["a", "a", "b"])], spread()) == []
    assert plans_of([*zones("a", "b"), *constrained(["a"] * 3, skew=3)], spread()) == []


def test_soft_constraints_count_if_the_policy_says_so() -> None:
    objects = [*zones("a", "b"), *constrained(["a"] * 4, kind="ScheduleAnyway")]
    assert plans_of(objects, spread()) == []
    both = spread(constraints=["DoNotSchedule", "ScheduleAnyway"])
    assert len(plans_of(objects, both)) == 2
    with pytest.raises(ConfigurationError, match="constraints"):
        spread(constraints=["Never"])


def test_a_domain_whose_nodes_the_pods_do_not_match_is_none() -> None:
    objects = [*zones("a", "b"), *with_spec(constrained(["a"] * 4), node_selector={"zone": "a"})]
    assert plans_of(objects, spread()) == []


def test_a_domain_without_room_is_passed_over() -> None:
    # c is full. A hard constraint forbids a second pod in b while c has none, so nothing leaves; a soft one does not.
    full = replicas("other", 1, on="c", cpu=16)
    assert plans_of([*zones("a", "b", "c"), *constrained(["a"] * 4 + ["b"]), *full], spread()) == []
    soft = constrained(["a"] * 4 + ["b"], kind="ScheduleAnyway")
    plans = plans_of([*zones("a", "b", "c"), *soft, *full], spread(constraints=["ScheduleAnyway"]))
    assert targets(plans) == ["b"]


def test_the_evictor_is_asked() -> None:
    objects = [*zones("a", "b"), *constrained(["a"] * 4)]
    assert len(plans_of(objects, spread())) == 2
    assert plans_of(objects, spread(labelSelector={"matchLabels": {"app": "db"}})) == []
    protected = policy({}, plugin="RemovePodsViolatingTopologySpreadConstraint", evictor={"minReplicas": 5})
    assert plans_of(objects, protected) == []


def test_an_argument_without_effect_is_named() -> None:
    (warning,) = [each for each in spread(topologyBalanceNodeFit=False).warnings if "topologyBalanceNodeFit" in each]
    assert "never leaves before it has a place" in warning
