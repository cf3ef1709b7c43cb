"""Whatever goes wrong ends Failed, with nothing held and the old pod running if it was not evicted yet."""

from __future__ import annotations

from typing import Any

import pytest

from descheduling.scenes import (
    FOR_PENDING,
    Outcome,
    budget,
    defragment,
    job,
    node,
    patch,
    pod,
    policy,
    replicas,
    restart,
    run_by_hand,
    scene,
)

GPU = "nvidia.com/gpu"
GROUP_STATE = "migrationState"


def basic(*more: Any, until: float = 30, interval: float = 0, **arguments: Any) -> Outcome:
    """b (1 of 10 CPUs) is emptied into a (6 of 10) by a run at 5 s."""
    return scene(
        node("a", cpu=10), node("b", cpu=10), replicas("x", "a", 6, cpu=1), replicas("y", "b", 1, cpu=1, grace=1),
        *more, *([] if interval else [run_by_hand(5)]), policy=policy(defragment(**arguments), interval=interval),
        until=until,
    ).outcome  # fmt: skip


def state_of(outcome: Outcome, app: str = "y") -> str | None:
    groups = {pod["podGroup"] for key, pod in outcome.report["pods"].items() if key.startswith(f"default/{app}-")}
    states = {outcome.report["podGroups"][group]["migrationState"] for group in groups}
    (state,) = states
    return state  # type: ignore[no-any-return]


def test_success_for_comparison() -> None:
    outcome = basic()
    assert outcome.moves == {"planned": 1, "succeeded": 1, "failed": 0, "workLost": 6.0}
    assert state_of(outcome) == "Succeeded"
    assert outcome.held == []


def test_no_place_in_time() -> None:
    # A pod of 4 CPUs takes the rest of a in the second of the plan: the place is never found, and after 300 s the move
    # fails. y stays where it is.
    late = replicas("z", "a", 1, cpu=4)
    late[0]["metadata"]["annotations"] = late[1]["metadata"]["annotations"] | {"sim.stromboli.io/at": "5500ms"}
    late[1]["metadata"]["annotations"] = late[1]["metadata"]["annotations"] | {"sim.stromboli.io/at": "5500ms"}
    outcome = basic(late, until=400, coolDownTime=1000)
    assert outcome.moves["failed"] == 1
    assert outcome.times("MigrationFailed") == [305.0]
    assert outcome.reasons("MigrationFailed") == ["NoPlaceFound"]
    assert outcome.running_on("b") == ["y-0"]
    assert outcome.held == []
    assert state_of(outcome) == "Failed"


def test_a_budget_that_refuses() -> None:
    # The budget allows one disruption when the plan is made, and none from 5.5 s on: the place is not given.
    refusing = patch(5.5, "PodDisruptionBudget", "y", {"spec": {"minAvailable": 1}})
    outcome = basic(budget("y", "y", minAvailable=0), refusing, until=700, coolDownTime=1000)
    assert outcome.moves["failed"] == 1
    assert outcome.running_on("b") == ["y-0"]
    assert outcome.held == []


@pytest.mark.parametrize("at", [5.5, 6.5])
def test_the_target_is_lost(at: float) -> None:
    """Before the place is kept the move fails at once; after the eviction it fails and y starts elsewhere."""
    spare = node("c", cpu=10, labels={"critical": "true"})
    taken = node("a2", cpu=10)
    outcome = scene(
        taken | {"metadata": {**taken["metadata"], "name": "a", "annotations": {"sim.stromboli.io/until": f"{at}s"}}},
        node("b", cpu=10), spare, replicas("x", "a", 6, cpu=1), replicas("y", "b", 1, cpu=1, grace=1),
        policy=policy(defragment(coolDownTime=1000), interval=5), until=40,
    ).outcome  # fmt: skip
    assert outcome.moves["failed"] == 1
    assert outcome.held == []
    assert sum(len(outcome.running_on(name)) for name in "bc") == 7  # x and y all run again


def test_the_replacement_never_comes() -> None:
    # The set is scaled to 0 while its pod terminates: nobody will use the place, so it is given up.
    gone = patch(6.5, "ReplicaSet", "y", {"spec": {"replicas": 0}})
    outcome = basic(gone, coolDownTime=10000)
    assert len(outcome.times("MigrationStarted")) == 1
    assert outcome.times("Evicted") == [6.0]
    assert outcome.reasons("MigrationFailed") == ["NoSuccessor"]
    assert outcome.times("MigrationFailed") == [7.0]
    assert outcome.held == []


def test_the_pod_goes_before_its_eviction() -> None:
    gone = replicas("y", "b", 1, cpu=1)
    gone[1]["metadata"]["annotations"]["sim.stromboli.io/until"] = "5500ms"
    outcome = scene(
        node("a", cpu=10), node("b", cpu=10), replicas("x", "a", 6, cpu=1), gone,
        policy=policy(defragment(coolDownTime=1000), interval=5), until=30,
    ).outcome  # fmt: skip
    assert outcome.reasons("MigrationFailed") == ["PodGone"]
    assert outcome.held == []


def test_another_replica_takes_the_place() -> None:
    # The set grows in the second of the plan. Its new pod may take the place that is kept for a successor, and then the
    # old one is not evicted.
    more = patch(5.5, "ReplicaSet", "y", {"spec": {"replicas": 2}})
    outcome = basic(more, until=40, coolDownTime=1000)
    assert outcome.held == []
    running = [name for node_name in "ab" for name in outcome.running_on(node_name) if name.startswith("y-")]
    assert len(running) == 2


def test_a_plan_for_a_job_that_is_deleted() -> None:
    # 7, 6 and 7 of 8 GPUs, a job of 4; it is deleted in the second of the plan. Nothing moves, nothing is set aside.
    big = job("big", 1, gpu=4, at=2, until=5.5, movable=False)
    outcome = scene(
        *(node(name, gpu=8) for name in "abc"), replicas("a", "a", 7, gpu=1), replicas("b", "b", 6, gpu=1),
        replicas("c", "c", 7, gpu=1), big, policy=policy(FOR_PENDING), until=30,
    ).outcome  # fmt: skip
    assert outcome.moves["failed"] == 2
    assert outcome.times("Evicted") == []
    assert outcome.held == []


def test_a_cooldown_after_a_failure() -> None:
    refusing = patch(5.5, "PodDisruptionBudget", "y", {"spec": {"minAvailable": 1}})
    outcome = basic(budget("y", "y", minAvailable=0), refusing, until=500, coolDownTime=50, interval=5)
    assert outcome.moves["planned"] == 1  # from then on the budget is seen when plans are made
    assert outcome.running_on("b") == ["y-0"]


def test_a_run_by_hand() -> None:
    documents = [
        *(node(name, gpu=8) for name in "ab"), replicas("a", "a", 7, gpu=1), replicas("b", "b", 5, gpu=1),
        job("big", 1, gpu=4, at=2, movable=False),
    ]  # fmt: skip
    manual = policy(("Defragmentation", {}), interval=0)
    assert scene(*documents, policy=manual, until=30).outcome.moves["planned"] == 0
    group = next(key for key in scene(*documents, policy=manual, until=5).outcome.report["podGroups"] if "big" in key)
    outcome = scene(*documents, run_by_hand(10, job=group), policy=manual, until=30).outcome
    assert outcome.times("MigrationPlanned") == [10.0]
    assert outcome.report["jobs"]["default/big"]["phase"] == "Running"
    unknown = scene(*documents, run_by_hand(10, profile="other"), policy=manual, until=30).outcome
    assert "UnknownProfile" in unknown.reasons("Warning")


@pytest.mark.parametrize("at", range(4, 12))
def test_restarts_while_a_move_fails(at: int) -> None:
    gone = patch(6.5, "ReplicaSet", "y", {"spec": {"replicas": 0}})
    outcome = basic(gone, restart(at), until=2000, coolDownTime=10000)
    assert outcome.times("Evicted") == [6.0]
    assert outcome.held == []
    assert outcome.moves["failed"] == 1


def test_a_scheduler_that_is_away_finds_the_place_kept() -> None:
    # The scheduler is away from the eviction at 6 s until 66 s. A pod of 4 CPUs arrives meanwhile and would fill a.
    outcome = basic(restart(6.2, "scheduler", away=60), pod("z", cpu=4, at=20), until=100)
    assert outcome.moves == {"planned": 1, "succeeded": 1, "failed": 0, "workLost": 6.0}
    assert len([name for name in outcome.running_on("a") if name.startswith("y-")]) == 1
    assert outcome.running_on("b") == ["z"]


def test_a_gang_that_lost_a_pod_meanwhile() -> None:
    # A gang of 3 with a minimum of 2. The place of g-0 is Available at 6 s, when the descheduler is away. At 8 s node d
    # is lost, and the member there finds no room elsewhere. The descheduler is back at 16 s: g-0 must stay now.
    lost = node("d", cpu=4)
    lost["metadata"]["annotations"]["sim.stromboli.io/until"] = "8s"
    gang = {
        "apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup", "metadata": {"name": "gang"},
        "spec": {"minMember": 2},
    }  # fmt: skip
    outcome = scene(
        node("a", cpu=10), node("b", cpu=10), lost, gang, replicas("x", "a", 6, cpu=1), replicas("g", "b", 1, cpu=1,
        group="gang"), replicas("h", ["a", "d"], cpu=2, group="gang"), pod("late", cpu=9, at=7),
        run_by_hand(5), restart(5.5, "descheduler", away=10),
        policy=policy(defragment(low=20, middle=50, high=100), interval=0), until=60,
    ).outcome  # fmt: skip
    assert outcome.times("ReservationAvailable")
    assert outcome.reasons("MigrationFailed") == ["GangAtMinimum"]
    assert "Migrated" not in outcome.reasons("Evicted")
    assert outcome.held == []


def test_a_node_set_aside_for_a_job_is_given_back_when_the_plan_fails() -> None:
    # x-0 was to move from a to b at 6. b is cordoned before.
    outcome = scene(
        node("a", gpu=4), node("b", gpu=4), replicas("x", "a", 3, gpu=1), replicas("y", "b", 3, gpu=1),
        pod("big", gpu=2, at=1), patch(5.5, "Node", "b", {"spec": {"unschedulable": True}}),
        policy=policy(defragment("gpu", forPending=True)), until=8,
    ).outcome  # fmt: skip
    assert outcome.reasons("MigrationFailed") == ["TargetLost"]
    assert {e["message"] for e in outcome.report["events"] if e["type"] == "Unreserved"} == {"Its plan failed."}
    assert outcome.held == []
