"""Pods whose node is not, or no longer, the right one: by node affinity, by taints, by pods that do not want them."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from builders import Taint, Toleration, node
from descheduling.plans import NOW, descheduler, plans_of, policy, replicas, set_of
from descheduling.scenes import node as scene_node
from descheduling.scenes import patch, scene
from descheduling.scenes import policy as scene_policy
from descheduling.scenes import replicas as scene_replicas
from stromboli.api import (
    Affinity,
    KObject,
    LabelSelector,
    NodeAffinity,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    Pod,
    PodAffinityTerm,
    PodAntiAffinity,
    PodDisruptionBudget,
    PreferredSchedulingTerm,
)
from stromboli.descheduling.migration import CreateReservation
from stromboli.scheduling.configuration import ConfigurationError

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def affinity(*types: str, **more: Any) -> Any:
    arguments = {"nodeAffinityType": list(types or (REQUIRED,)), **more}
    return policy(arguments, plugin="RemovePodsViolatingNodeAffinity", point="deschedule")


def taints(**arguments: Any) -> Any:
    return policy(arguments, plugin="RemovePodsViolatingNodeTaints", point="deschedule")


def anti_affinity(**arguments: Any) -> Any:
    return policy(arguments, plugin="RemovePodsViolatingInterPodAntiAffinity", point="deschedule")


def labelled(name: str, cpu: int = 4, **labels: str) -> Any:
    made = node(name, cpu=cpu)
    made.metadata.labels.update(labels)
    return made


def with_spec(objects: list[KObject], **fields: Any) -> list[KObject]:
    """The same with these fields in the specs of the pods."""
    return [replace(obj, spec=replace(obj.spec, **fields)) if isinstance(obj, Pod) else obj for obj in objects]


def wants(key: str, value: str) -> NodeSelectorTerm:
    return NodeSelectorTerm(match_expressions=[NodeSelectorRequirement(key=key, operator="In", values=[value])])


def requires(key: str, value: str) -> Affinity:
    selector = NodeSelector(node_selector_terms=[wants(key, value)])
    return Affinity(node_affinity=NodeAffinity(required_during_scheduling_ignored_during_execution=selector))


# -- node affinity ----------------------------------------------------------------------------------------------------


def test_a_pod_leaves_a_node_that_no_longer_matches() -> None:
    # a has lost its label since web-0 came there; b has it and room.
    web = with_spec(replicas("web", 2, on=["a", "b"], cpu=1), affinity=requires("disk", "ssd"))
    nodes = [labelled("a"), labelled("b", disk="ssd"), labelled("c")]
    (plan,) = plans_of([*nodes, *web], affinity())
    assert set_of([plan]) == {("web-0", "a", "b")}
    assert plan.goal == "leaves node a, which its node affinity forbids"


def test_a_node_selector_counts_as_well() -> None:
    web = with_spec(replicas("web", 1, on="a", cpu=1), node_selector={"disk": "ssd"})
    assert set_of(plans_of([labelled("a"), labelled("b", disk="ssd"), *web], affinity())) == {("web-0", "a", "b")}


def test_it_stays_while_no_other_node_has_room() -> None:
    web = with_spec(replicas("web", 1, on="a", cpu=2), affinity=requires("disk", "ssd"))
    full = replicas("other", 1, on="b", cpu=3)
    assert plans_of([labelled("a"), labelled("b", disk="ssd"), *web, *full], affinity()) == []


def test_a_place_is_kept_before_it_leaves() -> None:
    web = with_spec(replicas("web", 1, on="a", cpu=1), affinity=requires("disk", "ssd"))
    found, known = descheduler([labelled("a"), labelled("b", disk="ssd"), *web], affinity())
    first = found.run(known, NOW)[0]
    assert isinstance(first, CreateReservation)
    assert first.reservation.spec.node_name == "b"


def test_a_pod_goes_where_it_would_rather_be() -> None:
    preferred = PreferredSchedulingTerm(weight=10, preference=wants("disk", "ssd"))
    rather = Affinity(node_affinity=NodeAffinity(preferred_during_scheduling_ignored_during_execution=[preferred]))
    web = with_spec(replicas("web", 2, on=["a", "b"], cpu=1), affinity=rather)
    objects = [labelled("a"), labelled("b", disk="ssd"), *web]
    assert plans_of(objects, affinity(REQUIRED)) == []
    assert set_of(plans_of(objects, affinity(PREFERRED))) == {("web-0", "a", "b")}


def test_namespaces_and_labels_choose_the_pods() -> None:
    web = with_spec(replicas("web", 1, on="a", cpu=1), affinity=requires("disk", "ssd"))
    objects = [labelled("a"), labelled("b", disk="ssd"), *web]
    for more, moves in (
        ({"namespaces": {"exclude": ["default"]}}, 0),
        ({"namespaces": {"include": ["default"]}}, 1),
        ({"labelSelector": {"matchLabels": {"app": "db"}}}, 0),
        ({"labelSelector": {"matchLabels": {"app": "web"}}}, 1),
    ):
        assert len(set_of(plans_of(objects, affinity(**more)))) == moves, more


def test_budgets_and_limits_hold() -> None:
    web = with_spec(replicas("web", 3, on="a", cpu=1), affinity=requires("disk", "ssd"))
    nodes = [labelled("a"), labelled("b", disk="ssd")]
    budget = PodDisruptionBudget()
    budget.metadata.name, budget.metadata.namespace = "web", "default"
    budget.spec.selector = LabelSelector(match_labels={"app": "web"})
    budget.status.disruptions_allowed = 1
    assert len(set_of(plans_of([*nodes, *web], affinity()))) == 3
    assert len(set_of(plans_of([*nodes, *web, budget], affinity()))) == 1
    limited = policy(
        {"nodeAffinityType": [REQUIRED]}, plugin="RemovePodsViolatingNodeAffinity", point="deschedule",
        maxNoOfPodsToEvictPerNode=2,
    )  # fmt: skip
    assert len(set_of(plans_of([*nodes, *web], limited))) == 2


@pytest.mark.parametrize("given", [{}, {"nodeAffinityType": []}, {"nodeAffinityType": ["required"]}])
def test_the_type_is_required(given: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match="nodeAffinityType"):
        policy(given, plugin="RemovePodsViolatingNodeAffinity", point="deschedule")


# -- taints -----------------------------------------------------------------------------------------------------------


def tainted(name: str, *found: Taint) -> Any:
    made = node(name, cpu=4)
    made.spec.taints = list(found)
    return made


GPU = Taint(key="gpu", value="yes", effect="NoSchedule")
SLOW = Taint(key="slow", value="", effect="PreferNoSchedule")
GOING = Taint(key="going", value="", effect="NoExecute")


def test_a_pod_leaves_a_node_that_was_tainted_later() -> None:
    web = replicas("web", 1, on="a", cpu=1)
    tolerant = with_spec(replicas("gpu", 1, on="a", cpu=1), tolerations=[Toleration(key="gpu", operator="Exists")])
    (plan,) = plans_of([tainted("a", GPU), node("b", cpu=4), *web, *tolerant], taints())
    assert set_of([plan]) == {("web-0", "a", "b")}
    assert plan.goal == "leaves node a, whose taint gpu it does not tolerate"


def test_taints_that_only_discourage_count_if_the_policy_says_so() -> None:
    objects = [tainted("a", SLOW), node("b", cpu=4), *replicas("web", 1, on="a", cpu=1)]
    assert plans_of(objects, taints()) == []
    assert set_of(plans_of(objects, taints(includePreferNoSchedule=True))) == {("web-0", "a", "b")}
    # No node without such a taint: it would only go from one to the other.
    objects = [tainted("a", SLOW), tainted("b", SLOW), *replicas("web", 1, on="a", cpu=1)]
    assert plans_of(objects, taints(includePreferNoSchedule=True)) == []


def test_taints_that_evict_are_for_others() -> None:
    assert plans_of([tainted("a", GOING), node("b", cpu=4), *replicas("web", 1, on="a", cpu=1)], taints()) == []


def test_taints_are_chosen_by_key_or_by_key_and_value() -> None:
    objects = [tainted("a", GPU), node("b", cpu=4), *replicas("web", 1, on="a", cpu=1)]
    for arguments, moves in (
        ({"excludedTaints": ["gpu"]}, 0),
        ({"excludedTaints": ["gpu=yes"]}, 0),
        ({"excludedTaints": ["gpu=no"]}, 1),
        ({"includedTaints": ["gpu=yes"]}, 1),
        ({"includedTaints": ["other"]}, 0),
    ):
        assert len(set_of(plans_of(objects, taints(**arguments)))) == moves, arguments
    with pytest.raises(ConfigurationError, match="cannot be combined"):
        taints(excludedTaints=["a"], includedTaints=["b"])


# -- other pods -------------------------------------------------------------------------------------------------------


def unwilling(app: str, key: str = "kubernetes.io/hostname") -> Affinity:
    term = PodAffinityTerm(topology_key=key, label_selector=LabelSelector(match_labels={"app": app}))
    return Affinity(pod_anti_affinity=PodAntiAffinity(required_during_scheduling_ignored_during_execution=[term]))


def hosts(*names: str, **labels: str) -> list[Any]:
    return [labelled(name, **{"kubernetes.io/hostname": name}, **labels) for name in names]


def test_a_pod_leaves_a_node_where_another_does_not_want_it() -> None:
    db = with_spec(replicas("db", 1, on="a", cpu=1), affinity=unwilling("web"))
    web = replicas("web", 2, on=["a", "b"], cpu=1)
    (plan,) = plans_of([*hosts("a", "b"), *db, *web], anti_affinity())
    assert set_of([plan]) == {("web-0", "a", "b")}
    assert plan.goal == "leaves node a, where default/db-0 does not want it"


def test_of_two_that_do_not_want_each_other_one_goes() -> None:
    pair = with_spec(replicas("web", 2, on="a", cpu=1), affinity=unwilling("web"))
    assert len(set_of(plans_of([*hosts("a", "b"), *pair], anti_affinity()))) == 1


def test_the_topology_may_be_wider_than_a_node() -> None:
    db = with_spec(replicas("db", 1, on="a", cpu=1), affinity=unwilling("web", "zone"))
    web = replicas("web", 1, on="b", cpu=1)
    near, far = hosts("a", "b", zone="1"), hosts("c", zone="2")
    assert set_of(plans_of([*near, *far, *db, *web], anti_affinity())) == {("web-0", "b", "c")}
    assert plans_of([*near, *db, *web], anti_affinity()) == []


# -- whole stories ----------------------------------------------------------------------------------------------------


def test_a_pod_follows_the_label_of_a_node_in_a_scenario() -> None:
    # At 8 s the label moves from a to b. The run at 10 s asks for a place, which is kept at 11 s; then the pod leaves,
    # and its successor runs one second later.
    documents = scene_replicas("web", "a", cpu=1)
    for each in documents:
        spec = each["spec"]["template"]["spec"] if each["kind"] == "ReplicaSet" else each["spec"]
        spec["nodeSelector"] = {"disk": "ssd"}
    found = scene(
        scene_node("a", labels={"disk": "ssd"}), scene_node("b"), documents,
        patch(8, "Node", "a", {"metadata": {"labels": {"disk": None}}}),
        patch(8, "Node", "b", {"metadata": {"labels": {"disk": "ssd"}}}),
        policy=scene_policy(("RemovePodsViolatingNodeAffinity", {"nodeAffinityType": [REQUIRED]}), interval=10),
        until=30,
    ).outcome  # fmt: skip
    assert found.times("MigrationPlanned", "web-0") == [10.0]
    assert found.times("Evicted", "web-0") == [11.0]
    assert found.running_on("b") == ["web-0"]
    assert found.report["pods"]["default/web-0"]["bound"] == 12.0
