"""Pods in a PodGroup of `scheduling.k8s.io`: as many as it needs start together, or none."""

from __future__ import annotations

import pytest

from starvation.scenes import gang, group, node, priority_class, queue, restart
from workload_groups.scenes import (
    INITIALLY,
    TARGET,
    bound,
    condition,
    evicted,
    member,
    members,
    nodes,
    running,
    situation,
    why,
    workload_group,
)

HIGH = priority_class("high", 10)


def test_nothing_starts_before_the_group_exists() -> None:
    story = situation(*nodes(1, 4), workload_group("g", 2, at=5), *members("g", 2), until=8)
    assert bound(story.run()) == {"g-0": 5.0, "g-1": 5.0}
    assert why(story.at(4), "g-0") == (
        "NoPodGroup",
        "PodGroup default/g of scheduling.k8s.io does not exist; create it: no pod starts before that.",
    )


def test_nothing_starts_before_min_count_pods_exist() -> None:
    story = situation(*nodes(1, 4), workload_group("g", 3), *members("g", 2), member("g-2", "g", at=5), until=8)
    assert bound(story.run()) == {"g-0": 5.0, "g-1": 5.0, "g-2": 5.0}
    assert why(story.at(2), "g-0") == (
        "NotEnoughPods", "The gang has too few pods: 3 required, 2 created. Create the others or lower minCount.",
    )  # fmt: skip


def test_at_least_min_count_or_none() -> None:
    # There is room for two.
    assert bound(situation(*nodes(1, 2), workload_group("g", 3), *members("g", 3), until=3).run()) == {}
    found = situation(*nodes(1, 2), workload_group("g", 2), *members("g", 3), until=3).run()
    assert bound(found) == {"g-0": 0.0, "g-1": 0.0}


@pytest.mark.parametrize("again", [None, 2.0])
def test_pods_that_have_a_node_count(again: float | None) -> None:
    parts = [restart(again)] if again else []
    found = situation(
        *nodes(1, 3), workload_group("g", 3), member("g-0", "g", on="n0"), *members("g", 2, first=1, at=4), *parts,
        until=6,
    ).run()  # fmt: skip
    assert running(found) == {"g-0", "g-1", "g-2"}


def test_a_basic_group_starts_pod_by_pod() -> None:
    found = situation(*nodes(1, 2), workload_group("g", None), *members("g", 3), until=3).run()
    assert bound(found) == {"g-0": 0.0, "g-1": 0.0}
    assert condition(found, "g", INITIALLY)["message"] == "One of its pods has a node; they start one by one."


def test_pods_that_name_no_group_of_this_kind_are_as_before() -> None:
    found = situation(
        *nodes(1, 4), workload_group("g", 2), *members("g", 2), *gang("v", 1, 1), until=3
    ).run()  # fmt: skip
    assert running(found) == {"g-0", "g-1", "v-0", "v-1"}


# -- disruption and priority ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("whole", "gone"), [(True, ["g-0", "g-1", "g-2"]), (False, ["g-2"])])
def test_disruption_mode(whole: bool, gone: list[str]) -> None:
    """The third pod is above the minimum, so it can go alone, unless the group says otherwise."""
    story = situation(
        *nodes(1, 3), HIGH, workload_group("g", 2, whole=whole), *members("g", 3), *gang("u", 1, priority="high", at=3),
        until=8,
    )  # fmt: skip
    found = story.run()
    assert evicted(found) == gone
    assert "u-0" in running(found)
    if whole:
        target = condition(found, "g", TARGET)
        assert (target["status"], target["reason"]) == ("True", "PreemptionByScheduler")
    # It was scheduled once, and that is what the condition says.
    assert condition(found, "g", INITIALLY)["status"] == "True"


def test_the_priority_of_the_group_decides() -> None:
    found = situation(
        *nodes(1, 2), HIGH, workload_group("low", 2), *members("low", 2),
        workload_group("up", 2, priority="high", at=3), *members("up", 2, priority="high", at=3), until=8,
    ).run()  # fmt: skip
    assert evicted(found) == ["low-0", "low-1"]
    assert running(found) == {"up-0", "up-1"}


@pytest.mark.parametrize(
    ("odd", "said"),
    [
        (
            member("g-1", "g", scheduler="other"),
            'The pods of PodGroup default/g name 2 schedulers: "other", "volcano". A group is placed by one scheduler: '
            "create its pods with the same schedulerName.",
        ),
        (
            member("g-1", "g", priority="high"),
            "PodGroup default/g has priority 0, and 1 of its 2 pods have another: pod g-1 has 10. Create them with the "
            "priorityClassName of the group.",
        ),
    ],
)
def test_groups_at_odds_with_themselves_are_refused(odd: dict[str, object], said: str) -> None:
    found = situation(*nodes(1, 4), HIGH, workload_group("g", 1), member("g-0", "g"), odd, until=3).run()
    assert bound(found) == {}
    assert why(found, "g-0") == ("InvalidObject", said)
    initially = condition(found, "g", INITIALLY)
    assert (initially["status"], initially["reason"], initially["message"]) == ("False", "SchedulerError", said)


# -- queues ---------------------------------------------------------------------------------------------------------


def test_a_pod_in_groups_of_both_kinds_is_refused() -> None:
    pod = member("x-0", "x")
    pod["metadata"]["annotations"]["scheduling.k8s.io/group-name"] = "v"
    found = situation(*nodes(1, 4), workload_group("x", 1), group("v", 1), pod, until=3).run()
    assert why(found, "x-0") == (
        "InvalidObject",
        "The pod names two PodGroups: v in an annotation, and x in spec.schedulingGroup. It can be in one: create it "
        "without the annotation, or without schedulingGroup.",
    )


NAMESPACE = {
    "apiVersion": "v1", "kind": "Namespace",
    "metadata": {"name": "default", "annotations": {"scheduling.volcano.sh/queue-name": "of-space"}},
}  # fmt: skip
QUEUES = [queue("of-group"), queue("of-pods"), queue("of-space")]


@pytest.mark.parametrize(
    ("of_group", "of_pods", "expected"),
    [("of-group", "of-pods", "of-group"), ("", "of-pods", "of-pods"), ("", "", "of-space")],
)
def test_the_queue_is_that_of_the_group_or_of_its_pods_or_of_the_namespace(
    of_group: str, of_pods: str, expected: str
) -> None:
    found = situation(
        *nodes(1, 4), *QUEUES, NAMESPACE, workload_group("g", 2, queue=of_group), *members("g", 2, queue=of_pods),
        until=3,
    ).run()  # fmt: skip
    assert {pod["queue"] for pod in found["pods"].values()} == {expected}
    assert running(found) == {"g-0", "g-1"}


def test_pods_that_name_several_queues_are_refused() -> None:
    found = situation(
        *nodes(1, 4), *QUEUES, workload_group("g", 2), member("g-0", "g", queue="of-pods"),
        member("g-1", "g", queue="of-space"), until=3,
    ).run()  # fmt: skip
    assert why(found, "g-1") == (
        "InvalidObject",
        'The pods of PodGroup default/g name 2 queues: "of-pods", "of-space". Name one, in the annotation '
        "scheduling.volcano.sh/queue-name of the group.",
    )


def test_the_queue_is_fixed_at_first_sight() -> None:
    change = {
        "apiVersion": "sim.stromboli.io/v1", "kind": "Patch", "at": "3s",
        "target": {"apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup", "name": "g"},
        "patch": {"metadata": {"annotations": {"scheduling.volcano.sh/queue-name": "of-space"}}},
    }  # fmt: skip
    found = situation(
        *nodes(1, 4), *QUEUES, workload_group("g", 2, queue="of-group"), *members("g", 2), change, restart(4),
        member("g-2", "g", at=5), until=8,
    ).run()  # fmt: skip
    assert {pod["queue"] for pod in found["pods"].values()} == {"of-group"}
    assert "g-2" in running(found)


# -- domains and clocks ---------------------------------------------------------------------------------------------


def test_a_topology_constraint_is_a_hard_domain() -> None:
    """Rack a has room for two and one, rack b for three on one node; the node without the label has room for all."""
    racks = [node("n0", 2, labels={"rack": "a"}), node("n1", 3, labels={"rack": "b"}), node("n2", 9)]
    found = situation(*racks, workload_group("g", 3, key="rack"), *members("g", 3), until=3).run()
    assert {pod["node"] for pod in found["pods"].values()} == {"n1"}
    found = situation(*racks, workload_group("g", 4, key="rack"), *members("g", 4), until=3).run()
    assert bound(found) == {}
    assert why(found, "g-0")[0] == "DomainShort"
    assert condition(found, "g", INITIALLY)["reason"] == "Unschedulable"


def test_its_clock_goes_on_after_it_was_scheduled_once() -> None:
    """`PodGroupInitiallyScheduled` stays True, so since when it waits is in a condition of ours."""
    found = situation(
        *nodes(1, 2), HIGH, workload_group("g", 2), *members("g", 2), *gang("u", 1, priority="high", at=3),
        *members("g", 2, first=2, at=6), restart(8), until=20,
    ).run()  # fmt: skip
    assert condition(found, "g", INITIALLY)["status"] == "True"
    waiting = condition(found, "g", "scheduling.stromboli.io/Waiting")
    assert (waiting["status"], waiting["lastTransitionTime"]) == ("True", 6.0)
