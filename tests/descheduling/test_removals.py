"""Pods that go without a place for a successor: too old, failed, or restarted too often."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from builders import START, node
from descheduling.plans import descheduler, plans_of, policy, replicas
from descheduling.scenes import budget, pod, scene
from descheduling.scenes import node as scene_node
from descheduling.scenes import policy as scene_policy
from descheduling.scenes import replicas as scene_replicas
from stromboli.api import (
    Condition,
    ContainerState,
    ContainerStateTerminated,
    ContainerStateWaiting,
    ContainerStatus,
    KObject,
    LabelSelector,
    Pod,
    PodDisruptionBudget,
)
from stromboli.api.timestamps import format_timestamp
from stromboli.descheduling import Plan
from stromboli.descheduling.migration import RemovePod
from stromboli.scheduling.configuration import ConfigurationError

LATER = START + 10_000.0


def life_time(**arguments: Any) -> Any:
    return policy(arguments, plugin="PodLifeTime", point="deschedule")


def failed_pods(evictor: dict[str, Any] | None = None, **arguments: Any) -> Any:
    return policy(arguments, plugin="RemoveFailedPods", point="deschedule", evictor=evictor)


def restarts(**arguments: Any) -> Any:
    return policy(arguments, plugin="RemovePodsHavingTooManyRestarts", point="deschedule")


def with_status(objects: list[KObject], *names: str, **fields: Any) -> list[KObject]:
    """The same with these fields in the statuses of some pods; of all unless they are named."""
    return [
        replace(obj, status=replace(obj.status, **fields))
        if isinstance(obj, Pod) and (not names or obj.metadata.name in names)
        else obj
        for obj in objects
    ]


def removed(plans: list[Plan]) -> list[str]:
    assert not any(plan.moves for plan in plans)
    return [each.pod.removeprefix("default/") for plan in plans for each in plan.removals]


def ended(exit_code: int, reason: str = "") -> ContainerStatus:
    state = ContainerState(terminated=ContainerStateTerminated(exit_code=exit_code, reason=reason))
    return ContainerStatus(name="main", state=state)


# -- too old ----------------------------------------------------------------------------------------------------------


def test_pods_that_are_too_old_go_the_oldest_first() -> None:
    # The builders create objects one second apart: node 0 s, set 1 s, group 2 s, and the pods 3, 4 and 5 s after START.
    objects = [node("a", cpu=4), *replicas("web", 3, on="a", cpu=1)]
    plans = plans_of(objects, life_time(maxPodLifeTimeSeconds=100), now=START + 104.5)
    assert removed(plans) == ["web-0", "web-1"]
    assert plans[0].goal.startswith("removes default/web-0: it is 1m")


def test_it_is_evicted_at_once_and_no_place_is_asked_for() -> None:
    objects = [node("a", cpu=4), *replicas("web", 1, on="a", cpu=4)]
    found, known = descheduler(objects, life_time(maxPodLifeTimeSeconds=100))
    (write,) = found.run(known, LATER)
    assert isinstance(write, RemovePod)
    assert (write.pod, write.plugin) == ("default/web-0", "PodLifeTime")


def test_a_state_may_be_asked_for() -> None:
    waiting = ContainerState(waiting=ContainerStateWaiting(reason="CrashLoopBackOff"))
    objects = with_status(
        [node("a", cpu=4), *replicas("web", 2, on="a", cpu=1)], "web-1",
        container_statuses=[ContainerStatus(name="main", state=waiting)],
    )  # fmt: skip
    plans = plans_of(objects, life_time(maxPodLifeTimeSeconds=100, states=["CrashLoopBackOff"]), now=LATER)
    assert removed(plans) == ["web-1"]
    assert plans[0].goal.endswith("old and CrashLoopBackOff")


def test_a_condition_that_has_lasted_may_be_asked_for() -> None:
    since = format_timestamp(LATER - 50)
    objects = with_status(
        [node("a", cpu=4), *replicas("web", 1, on="a", cpu=1)],
        conditions=[Condition(type="Ready", status="False", last_transition_time=since)],
    )
    for least, names in ((40, ["web-0"]), (60, [])):
        wanted = [{"type": "Ready", "status": "False", "minTimeSinceLastTransitionSeconds": least}]
        assert removed(plans_of(objects, life_time(conditions=wanted), now=LATER)) == names


def test_pods_that_have_finished_are_deleted_and_owners_choose() -> None:
    objects = with_status(
        [node("a", cpu=4), *replicas("web", 2, on="a", cpu=1)], "web-0", phase="Succeeded",
        container_statuses=[ended(0, "Completed")],
    )  # fmt: skip
    done = {"maxPodLifeTimeSeconds": 100, "states": ["Succeeded"]}
    plans = plans_of(objects, life_time(**done), now=LATER)
    assert removed(plans) == ["web-0"]
    assert plans[0].removals[0].has_finished
    assert plans_of(objects, life_time(**done, ownerKinds={"exclude": ["ReplicaSet"]}), now=LATER) == []
    assert plans_of(objects, life_time(**done, ownerKinds={"include": ["Job"]}), now=LATER) == []
    assert removed(plans_of(objects, life_time(exitCodes=[0]), now=LATER)) == ["web-0"]


def test_budgets_limits_and_the_evictor_hold() -> None:
    objects: list[KObject] = [node("a", cpu=4), *replicas("web", 3, on="a", cpu=1)]
    allows = PodDisruptionBudget()
    allows.metadata.name, allows.metadata.namespace = "web", "default"
    allows.spec.selector = LabelSelector(match_labels={"app": "web"})
    allows.status.disruptions_allowed = 1
    assert len(removed(plans_of([*objects, allows], life_time(maxPodLifeTimeSeconds=1), now=LATER))) == 1
    for more, count in (
        ({"maxNoOfPodsToEvictTotal": 2}, 2), ({"evictor": {"minReplicas": 4}}, 0),
        ({"evictor": {"priorityThreshold": {"value": 0}}}, 0),
    ):  # fmt: skip
        chosen = policy({"maxPodLifeTimeSeconds": 1}, plugin="PodLifeTime", point="deschedule", **more)
        assert len(removed(plans_of(objects, chosen, now=LATER))) == count, more


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "maxPodLifeTimeSeconds"),
        ({"maxPodLifeTimeSeconds": -1}, "maxPodLifeTimeSeconds"),
        ({"states": ["Sleeping"]}, "Sleeping"),
        ({"conditions": [{}]}, "conditions"),
        ({"exitCodes": ["1"]}, "exitCodes"),
        ({"maxPodLifeTimeSeconds": 1, "ownerKinds": {"include": ["A"], "exclude": ["B"]}}, "ownerKinds"),
    ],
)
def test_arguments_that_are_wrong(given: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        life_time(**given)


# -- failed -----------------------------------------------------------------------------------------------------------


def some_failed(**fields: Any) -> list[KObject]:
    return with_status(
        [node("a", cpu=4), *replicas("web", 2, on="a", cpu=1)], "web-0",
        **{"phase": "Failed", "container_statuses": [ended(3, "Error")], **fields},
    )  # fmt: skip


def test_failed_pods_go_after_an_hour_unless_the_policy_says_otherwise() -> None:
    assert plans_of(some_failed(), failed_pods(), now=START + 3600) == []
    assert removed(plans_of(some_failed(), failed_pods(), now=START + 3700)) == ["web-0"]
    assert removed(plans_of(some_failed(), failed_pods(minPodLifetimeSeconds=10), now=START + 20)) == ["web-0"]


def test_reasons_and_exit_codes_choose() -> None:
    for arguments, names in (
        ({"reasons": ["Error"]}, ["web-0"]), ({"reasons": ["OOMKilled"]}, []),
        ({"exitCodes": [3]}, ["web-0"]), ({"exitCodes": [4]}, []),
        ({"excludeOwnerKinds": ["ReplicaSet"]}, []), ({"namespaces": {"include": ["other"]}}, []),
    ):  # fmt: skip
        assert removed(plans_of(some_failed(), failed_pods(**arguments), now=LATER)) == names, arguments
    evicted = some_failed(reason="Evicted", container_statuses=[])
    assert removed(plans_of(evicted, failed_pods(reasons=["Evicted"]), now=LATER)) == ["web-0"]


def test_a_failed_pod_without_an_owner_stays_unless_the_evictor_says_otherwise() -> None:
    bare = [
        replace(obj, metadata=replace(obj.metadata, owner_references=[])) if isinstance(obj, Pod) else obj
        for obj in some_failed()
    ]
    assert plans_of(bare, failed_pods(), now=LATER) == []
    assert removed(plans_of(bare, failed_pods({"evictFailedBarePods": True}), now=LATER)) == ["web-0"]


# -- restarted --------------------------------------------------------------------------------------------------------


def test_pods_that_restart_again_and_again_go() -> None:
    objects = with_status(
        [node("a", cpu=4), *replicas("web", 2, on="a", cpu=1)], "web-1",
        container_statuses=[ContainerStatus(name="a", restart_count=3), ContainerStatus(name="b", restart_count=2)],
        init_container_statuses=[ContainerStatus(name="i", restart_count=4)],
    )  # fmt: skip
    assert removed(plans_of(objects, restarts(podRestartThreshold=5), now=LATER)) == ["web-1"]
    assert plans_of(objects, restarts(podRestartThreshold=6), now=LATER) == []
    assert removed(plans_of(objects, restarts(podRestartThreshold=9, includingInitContainers=True), now=LATER)) == [
        "web-1"
    ]
    assert plans_of(objects, restarts(podRestartThreshold=5, states=["CrashLoopBackOff"]), now=LATER) == []
    assert removed(plans_of(objects, restarts(podRestartThreshold=5, states=["Running"]), now=LATER)) == ["web-1"]


@pytest.mark.parametrize("given", [{}, {"podRestartThreshold": 0}, {"podRestartThreshold": 1, "states": ["Failed"]}])
def test_restarts_need_a_threshold_and_known_states(given: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError):
        restarts(**given)


# -- whole stories ----------------------------------------------------------------------------------------------------


def test_old_pods_are_renewed_one_after_the_other_in_a_scenario() -> None:
    # A budget allows one at a time. The run at 10 s evicts one of two pods that are 10 s old, whose successor runs at
    # 11 s; the run at 15 s the other one. At 20 s the successor of the first is 9 s old.
    found = scene(
        scene_node("a"), scene_replicas("web", "a", 2, cpu=1), budget("one", "web", maxUnavailable=1),
        policy=scene_policy(("PodLifeTime", {"maxPodLifeTimeSeconds": 9}), interval=5), until=19,
    ).outcome  # fmt: skip
    assert found.times("Evicted") == [10.0, 15.0]
    assert found.reasons("Evicted") == ["PodLifeTime", "PodLifeTime"]
    assert found.running_on("a") == ["web-2", "web-3"]
    assert found.times("MigrationPlanned") == []


def test_failed_pods_are_deleted_in_a_scenario() -> None:
    lost = pod("lost", cpu=1, run=3)
    lost["metadata"]["annotations"]["sim.stromboli.io/exit-code"] = "1"
    policies = scene_policy(
        ("RemoveFailedPods", {"minPodLifetimeSeconds": 1}),
        ("DefaultEvictor", {"evictFailedBarePods": True}),
        interval=5,
    )
    found = scene(scene_node("a"), lost, policy=policies, until=12).outcome
    assert found.times("Deleted", "lost") == [5.0]
