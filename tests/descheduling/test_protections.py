"""Who stays, whichever plugin of the Kubernetes descheduler looks at them: gangs, budgets, rests, and what pods ask."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from builders import node
from descheduling.plans import NOW, plans_of, policy, replicas
from descheduling.test_wrong_places import GPU, hosts, labelled, requires, unwilling, with_spec
from stromboli.api import (
    ContainerStatus,
    KObject,
    LabelSelector,
    Pod,
    PodDisruptionBudget,
    PodGroup,
    ReplicaSet,
    TopologySpreadConstraint,
    names,
)
from stromboli.api.timestamps import format_timestamp

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
Case = tuple[list[KObject], Any]


def of(plugin: str, point: str = "deschedule", **arguments: Any) -> Any:
    return policy(arguments, plugin=plugin, point=point)


def wrong_affinity() -> Case:
    web = with_spec(replicas("web", 2, on=["a", "b"], cpu=1), affinity=requires("disk", "ssd"))
    chosen = of("RemovePodsViolatingNodeAffinity", nodeAffinityType=[REQUIRED])
    return [labelled("a"), labelled("b", disk="ssd"), *web], chosen


def wrong_taint() -> Case:
    tainted = node("a", cpu=4)
    tainted.spec.taints = [GPU]
    return [tainted, node("b", cpu=4), *replicas("web", 2, on=["a", "b"], cpu=1)], of("RemovePodsViolatingNodeTaints")


def wrong_neighbour() -> Case:
    db = with_spec(replicas("db", 1, on="a", cpu=1), affinity=unwilling("web"))
    web = replicas("web", 2, on=["a", "b"], cpu=1)
    return [*hosts("a", "b"), *db, *web], of("RemovePodsViolatingInterPodAntiAffinity")


def crowded() -> Case:
    return [node("a", cpu=4), node("b", cpu=4), *replicas("web", 2, on="a", cpu=1)], of("RemoveDuplicates", "balance")


def uneven() -> Case:
    constraint = TopologySpreadConstraint(
        max_skew=1, topology_key="zone", when_unsatisfiable="DoNotSchedule",
        label_selector=LabelSelector(match_labels={"app": "web"}),
    )  # fmt: skip
    web = with_spec(replicas("web", 2, on="a", cpu=1), topology_spread_constraints=[constraint])
    chosen = of("RemovePodsViolatingTopologySpreadConstraint", "balance")
    return [labelled("a", zone="1"), labelled("b", zone="2"), *web], chosen


def too_old() -> Case:
    return [node("a", cpu=4), *replicas("web", 1, on="a", cpu=1)], of("PodLifeTime", maxPodLifeTimeSeconds=1)


def restarting() -> Case:
    web = [
        replace(obj, status=replace(obj.status, container_statuses=[ContainerStatus(name="main", restart_count=9)]))
        if isinstance(obj, Pod)
        else obj
        for obj in replicas("web", 1, on="a", cpu=1)
    ]
    return [node("a", cpu=4), *web], of("RemovePodsHavingTooManyRestarts", podRestartThreshold=5)


CASES = [wrong_affinity, wrong_taint, wrong_neighbour, crowded, uneven, too_old, restarting]
pytestmark = pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)


def changed(objects: list[KObject], kind: type[Any], change: Callable[[Any], Any]) -> list[KObject]:
    """The same with a change of the objects of one kind that belong to `web`."""
    return [change(obj) if isinstance(obj, kind) and "web" in obj.metadata.name else obj for obj in objects]


def annotated(obj: Any, name: str, value: str) -> Any:
    meta = replace(obj.metadata, annotations={**obj.metadata.annotations, name: value})
    return replace(obj, metadata=meta)


def leaving(objects: list[KObject], chosen: Any) -> int:
    plans = plans_of(objects, chosen)
    return sum(len(plan.moves) + len(plan.removals) for plan in plans)


def test_one_leaves_if_nothing_protects_it(case: Callable[[], Case]) -> None:
    assert leaving(*case()) >= 1


def test_a_gang_keeps_its_minimum(case: Callable[[], Case]) -> None:
    objects, chosen = case()
    members = sum(isinstance(obj, Pod) and obj.metadata.name.startswith("web") for obj in objects)

    def as_gang(group: PodGroup) -> PodGroup:
        # Not the name of a group that was generated: a user has made it.
        return replace(
            group, metadata=replace(group.metadata, name="web-gang"), spec=replace(group.spec, min_member=members)
        )

    objects = changed(objects, PodGroup, as_gang)
    objects = changed(objects, Pod, lambda obj: annotated(obj, names.GROUP_NAME, "web-gang"))
    assert leaving(objects, chosen) == 0


def test_a_budget_keeps_them(case: Callable[[], Case]) -> None:
    objects, chosen = case()
    budget = PodDisruptionBudget()
    budget.metadata.name, budget.metadata.namespace = "web", "default"
    budget.spec.selector = LabelSelector(match_labels={"app": "web"})
    assert leaving([*objects, budget], chosen) == 0


def test_a_group_rests_after_a_move(case: Callable[[], Case]) -> None:
    objects, chosen = case()
    until = format_timestamp(NOW + 60)
    assert leaving(changed(objects, PodGroup, lambda obj: annotated(obj, names.COOLDOWN_UNTIL, until)), chosen) == 0


def test_pods_that_must_not_be_evicted_stay(case: Callable[[], Case]) -> None:
    objects, chosen = case()
    assert leaving(changed(objects, Pod, lambda obj: annotated(obj, names.PREEMPTABLE, "false")), chosen) == 0


def test_pods_whose_set_lacks_one_stay(case: Callable[[], Case]) -> None:
    objects, chosen = case()
    more = changed(objects, ReplicaSet, lambda obj: replace(obj, spec=replace(obj.spec, replicas=9)))
    assert leaving(more, chosen) == 0


def test_a_critical_node_keeps_its_pods(case: Callable[[], Case]) -> None:
    """Pods that need no place leave it all the same: it is not the node that they leave for."""
    objects, chosen = case()
    shielded = [
        replace(obj, metadata=replace(obj.metadata, labels={**obj.metadata.labels, "critical": "true"}))
        if obj.kind == "Node" and obj.metadata.name == "a"
        else obj
        for obj in objects
    ]
    assert leaving(shielded, chosen) == (1 if case in (too_old, restarting) else 0)
