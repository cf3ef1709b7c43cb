"""Who may use the place of a pod that is moved, and what becomes of a plan that has lost one."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from descheduling.scenes import (
    Document,
    Outcome,
    Scene,
    budget,
    defragment,
    job,
    node,
    patch,
    policy,
    queue,
    replicas,
    restart,
    run_by_hand,
    scene,
    with_names,
)

NOT_READY: Document = {"status": {"conditions": [{"type": "Ready", "status": "False"}]}}


def states(outcome: Outcome) -> set[str | None]:
    return {group["migrationState"] for group in outcome.report["podGroups"].values()}


# Two pods of w leave b: one for a and one for c, each of which has room for one. A third one runs on d and is deleted
# by its user at 6.5 s; its successor goes back to d. The descheduler is away from 5.5 s to 9 s, so at that time both
# places are kept, and nobody has been evicted.
def _sibling_goes() -> Scene:
    service = replicas("w", ["b", "b", "d"], cpu=1, grace=1)
    service[-1]["metadata"]["annotations"]["sim.stromboli.io/until"] = "6500ms"
    return scene(
        node("a", cpu=5), node("b", cpu=10), node("c", cpu=5), node("d", cpu=1, labels={"critical": "true"}),
        replicas("x", ["a"] * 4 + ["c"] * 4, cpu=1), service, run_by_hand(5), restart(5.5, "descheduler", away=3.5),
        policy=policy(defragment(high=100), interval=0), until=30,
    )  # fmt: skip


SIBLING = _sibling_goes()


@pytest.mark.parametrize("found", [SIBLING, with_names(SIBLING)], ids=["ReplicaSet", "StatefulSet"])
def test_a_place_is_not_used_before_its_pod_is_evicted(found: Scene) -> None:
    outcome = found.outcome
    assert outcome.moves["succeeded"] == 2
    assert outcome.moves["failed"] == 0
    assert [len(outcome.running_on(name)) for name in "abcd"] == [5, 0, 5, 1]
    assert outcome.held == []
    assert not states(outcome) & {"Pending", "Running"}


def planned(outcome: Outcome) -> dict[str, str]:
    return {name: target for _, _, name, target in outcome.events("MigrationPlanned")}


def test_successors_with_names_get_their_own_places() -> None:
    """y-0 and y-1 leave b, one for a and one for c. y-0 needs longer to end, so the successor of y-1 comes first. It
    would take the place of y-0, which was asked for first."""
    pair = replicas("y", ["b", "b"], cpu=1, kind="StatefulSet")
    pair[0]["spec"]["podManagementPolicy"] = "Parallel"
    for each, grace in zip(pair[1:], ("5s", "1s"), strict=True):
        each["metadata"]["annotations"]["sim.stromboli.io/grace"] = grace
    found = scene(
        node("a", cpu=5), node("b", cpu=10), node("c", cpu=5), replicas("x", ["a"] * 4 + ["c"] * 4, cpu=1), pair,
        run_by_hand(5), policy=policy(defragment(high=100), interval=0), until=30,
    )  # fmt: skip
    outcome = found.outcome
    assert sorted(planned(outcome).values()) == ["a", "c"]
    assert outcome.moves["succeeded"] == 2
    assert [name for _, _, name, _ in outcome.events("Bound")] == ["y-1", "y-0"]
    assert {name: target for _, _, name, target in outcome.events("Bound")} == planned(outcome)


def test_pods_of_a_job_get_their_own_places() -> None:
    """The pods of the tasks w (2 CPUs) and v (1 CPU) of one Job leave b. c has a place for v only."""
    two = job("y", 1, cpu=2, grace=1)
    (first,) = two["spec"]["tasks"]
    (second,) = job("y", 1, cpu=1, grace=1)["spec"]["tasks"]
    two["spec"] |= {"minAvailable": 0, "tasks": [first, second | {"name": "v"}]}
    late = {"sim.stromboli.io/at": "4s"}
    found = scene(
        node("b", cpu=20), two, node("a", cpu=10, at=3), node("c", cpu=10, at=3),
        [document | {"metadata": document["metadata"] | {"annotations": late}}
         for document in [*replicas("x", "a", 8, cpu=1), *replicas("z", "c", 9, cpu=1)]],
        run_by_hand(6), policy=policy(defragment(high=100), interval=0), until=30,
    )  # fmt: skip
    outcome = found.outcome
    assert planned(outcome) == {"y-w-0": "a", "y-v-0": "c"}
    assert outcome.moves["succeeded"] == 2
    assert {name: outcome.report["pods"][f"default/{name}"]["node"] for name in planned(outcome)} == planned(outcome)


@pytest.mark.parametrize("change", [{"spec": {"unschedulable": True}}, NOT_READY], ids=["cordoned", "not ready"])
def test_a_successor_starts_elsewhere_if_its_place_is_closed(change: Document) -> None:
    """web leaves a for b, and b is closed at 6.5 s, when web is on its way. Its queue may have 2 CPUs, and pays for the
    place on b. So without an end of the move nothing could start on a or c for half an hour."""
    outcome = scene(
        node("a", cpu=10), node("b", cpu=10), node("c", cpu=10, labels={"critical": "true"}),
        queue("team", capability={"cpu": 2}), replicas("web", "a", cpu=2, queue="team", grace=1),
        replicas("model", "b", cpu=6), patch(6.5, "Node", "b", change), run_by_hand(5),
        policy=policy(defragment(), interval=0), until=20,
    ).outcome  # fmt: skip
    assert [told[3] for told in outcome.events("MigrationPlanned")] == ["b"]
    assert outcome.times("Evicted") == [6.0]
    (failed,) = [event for event in outcome.report["events"] if event["type"] == "MigrationFailed"]
    assert failed["reason"] == "TargetLost"
    assert outcome.held == []
    assert len(outcome.running_on("a")) + len(outcome.running_on("c")) == 1
    assert not states(outcome) & {"Pending", "Running"}


# A set that starts its pods in order: y-0 runs on c, y-1 on b, which a run at 5 s empties. Their queue may have 2 CPUs.
# At some time y-0 is deleted by its user, and the queue may have 1 CPU: y-0 waits for what y-1 uses, or its place.
def _in_order(gone: float, *more: Document) -> Scene:
    pods = replicas("y", ["c", "b"], cpu=1, queue="team", grace=1, kind="StatefulSet")
    pods[1]["metadata"]["annotations"] = pods[1]["metadata"]["annotations"] | {"sim.stromboli.io/until": f"{gone}s"}
    return scene(
        node("a", cpu=10), node("b", cpu=10), node("c", cpu=1, labels={"critical": "true"}),
        queue("team", capability={"cpu": 2}), replicas("x", "a", 6, cpu=1), pods,
        patch(gone, "Queue", "team", {"spec": {"capability": {"cpu": 1}}}), run_by_hand(5), *more,
        policy=policy(defragment(), interval=0), until=20,
    )  # fmt: skip


def test_no_pod_moves_behind_one_of_its_set_that_waits() -> None:
    """The successor of y-1 would not come before y-0 runs, and y-0 would wait for the quota that the place takes."""
    found = _in_order(1.5)
    assert found.outcome.report["pods"]["default/y-0"]["phase"] == "Pending"
    assert planned(found.outcome) == {}
    at_once = json.loads(json.dumps(found.documents))
    for document in at_once:
        if document["kind"] == "StatefulSet":
            document["spec"]["podManagementPolicy"] = "Parallel"
    assert planned(replace(found, documents=tuple(at_once)).outcome) == {"y-1": "a"}


def test_no_pod_is_evicted_behind_one_of_its_set_that_has_gone_since_the_plan() -> None:
    outcome = _in_order(5.5, restart(5.5, "descheduler", away=3.5)).outcome
    assert planned(outcome) == {"y-1": "a"}
    assert outcome.times("Evicted") == []
    assert outcome.reasons("MigrationFailed") == ["NoSuccessor"]
    assert outcome.held == []


def test_a_place_is_given_up_if_a_pod_before_its_successor_waits() -> None:
    outcome = _in_order(6.5).outcome
    assert outcome.times("Evicted", "y-1") == [6.0]
    assert outcome.reasons("MigrationFailed") == ["NoSuccessor"]
    assert outcome.held == []
    assert outcome.report["pods"]["default/y-0"]["phase"] == "Running"
    assert not states(outcome) & {"Pending", "Running"}


def test_moves_of_one_set_in_order_do_not_wait_for_each_other() -> None:
    """The budget allows one eviction at a time: y-0 is away while y-1 is to be evicted, but its place is kept."""
    outcome = scene(
        node("a", cpu=10), node("b", cpu=10), replicas("x", "a", 6, cpu=1),
        replicas("y", ["b", "b"], cpu=1, grace=1, kind="StatefulSet"), budget("y", "y", maxUnavailable=2),
        patch(6.2, "PodDisruptionBudget", "y", {"spec": {"maxUnavailable": 1}}), run_by_hand(5),
        restart(5.5, "descheduler", away=1),
        policy=policy(defragment(), interval=0), until=30,
    ).outcome  # fmt: skip
    assert planned(outcome) == {"y-0": "a", "y-1": "a"}
    assert outcome.moves["succeeded"] == 2
    assert len(set(outcome.times("Evicted"))) == 2
