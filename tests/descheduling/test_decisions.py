"""What was decided about moves, each with its numbers, and with a restart of everything at every second."""

from __future__ import annotations

from dataclasses import replace

import pytest

from descheduling.decision_scenes import CASES as MEETINGS
from descheduling.decision_scenes import HOLDER, Check
from descheduling.scenes import (
    FOR_PENDING,
    Scene,
    budget,
    defragment,
    job,
    node,
    pod,
    policy,
    queue,
    replicas,
    restart,
    run_by_hand,
    scene,
)

PACKING = {
    "actions": "enqueue, reclaim, allocate, preempt, reserve, backfill",
    "tiers": [
        {"plugins": [{"name": "priority"}, {"name": "gang"}, {"name": "conformance"}, {"name": "pdb"}]},
        {"plugins": [
            {"name": "overcommit"}, {"name": "drf", "enablePreemptable": False}, {"name": "predicates"},
            {"name": "proportion"}, {"name": "nodeorder", "arguments": {"leastrequested.weight": 0}},
            {"name": "binpack"}, {"name": "node_reservation"}, {"name": "reservation"},
        ]},
    ],
}  # fmt: skip

# Nodes with 7, 6 and 7 of 8 GPUs in use, and a job of 4: two pods of one GPU leave b.
MOTIVATING = scene(
    *(node(name, gpu=8) for name in "abc"),
    replicas("a", "a", 7, gpu=1), replicas("b", "b", 6, gpu=1), replicas("c", "c", 7, gpu=1),
    job("big", 1, gpu=4, at=2, run=20, movable=False),
    policy=policy(FOR_PENDING), until=40,
)  # fmt: skip


# The queue may have 8 CPUs and has 8: 6 on a, 2 on b. b (2 of 8 = 25 %) is emptied into a. z of the same queue waits
# for quota all along, and must not get that of the pods that are between two places.
QUOTA = scene(
    node("a", cpu=8), node("b", cpu=8),
    queue("q", capability={"cpu": 8}),
    replicas("x", "a", 6, cpu=1, queue="q"), replicas("y", "b", 2, cpu=1, queue="q", grace=2),
    pod("z", cpu=1, queue="q", at=1),
    policy=policy(defragment(high=100)), until=30,
)  # fmt: skip

# A gang of 5 with a minimum of 4, one of them on the hardly used node b.
GANG = scene(
    node("a", cpu=10), node("b", cpu=10),
    replicas("x", "a", 4, cpu=1, group="gang"), replicas("y", "b", 1, cpu=1, group="gang"),
    {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup", "metadata": {"name": "gang"},
     "spec": {"minMember": 4}},
    policy=policy(defragment(low=30)), until=30,
)  # fmt: skip

# A pod on lent resources moves.
LENT = scene(
    node("a", cpu=10), node("b", cpu=10), replicas("x", "a", 6, cpu=1),
    replicas("y", "b", 1, cpu=1, pod_notes={"scheduling.stromboli.io/backfill": "true"}),
    policy=policy(defragment()), until=30,
)  # fmt: skip

# b is emptied into a. A new pod at 20 s fits on both, and the scores prefer the idle b; b rests until about 36 s.
SCORES = scene(
    node("a", cpu=20), node("b", cpu=20), replicas("x", "a", 10, cpu=1), replicas("y", "b", 2, cpu=1),
    pod("early", cpu=1, at=20), pod("late", cpu=1, at=45),
    policy=policy(defragment(coolDownTime=30)), until=60,
)  # fmt: skip

STATEFUL = scene(
    node("a", cpu=10), node("b", cpu=10), replicas("x", "a", 6, cpu=1),
    replicas("y", ["b", "b"], cpu=1, kind="StatefulSet"),
    policy=policy(defragment()), until=30,
)  # fmt: skip


def check_motivating(found: Scene) -> None:
    outcome = found.outcome
    assert outcome.moves == {"planned": 2, "succeeded": 2, "failed": 0, "workLost": 0.0}
    assert outcome.report["jobs"]["default/big"]["phase"] == "Completed"
    assert outcome.report["pods"]["default/big-w-0"]["node"] == "b"
    assert len(outcome.running_on("a")) == len(outcome.running_on("c")) == 8
    assert len(outcome.running_on("b")) == 4
    assert outcome.held == []


def check_quota(found: Scene) -> None:
    outcome = found.outcome
    assert outcome.moves["succeeded"] == 2
    assert outcome.report["pods"]["default/z"]["phase"] == "Pending"
    assert outcome.times("Bound", "z") == []
    assert outcome.running_on("b") == []
    assert outcome.report["queues"]["q"]["allocated"]["cpu"] == "8"


def check_gang(found: Scene) -> None:
    outcome = found.outcome
    assert outcome.moves["succeeded"] == 1
    assert outcome.running_on("b") == []
    states = {key: group["migrationState"] for key, group in outcome.report["podGroups"].items()}
    assert states["default/gang"] == "Succeeded"


def check_lent(found: Scene) -> None:
    outcome = found.outcome
    assert outcome.moves["succeeded"] == 1
    moved = [pod for pod in outcome.report["pods"].values() if pod["node"] == "a" and pod["backfill"]]
    assert len(moved) == 1


def check_scores(found: Scene) -> None:
    outcome = found.outcome
    assert outcome.moves["succeeded"] == 2
    assert outcome.report["pods"]["default/early"]["node"] == "a"
    assert outcome.report["pods"]["default/late"]["node"] == "b"


def check_stateful(found: Scene) -> None:
    outcome = found.outcome
    assert outcome.moves["succeeded"] == 2
    assert {"y-0", "y-1"} <= set(outcome.running_on("a"))


CASES: dict[str, tuple[Scene, Check]] = {
    **MEETINGS,
    "motivating": (MOTIVATING, check_motivating),
    "62 quota": (QUOTA, check_quota),
    "64 gang": (GANG, check_gang),
    "65 scores": (SCORES, check_scores),
    "68 lent": (LENT, check_lent),
    "stateful": (STATEFUL, check_stateful),
}


@pytest.mark.parametrize("name", CASES)
def test_decision(name: str) -> None:
    found, check = CASES[name]
    check(found)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("at", range(3, 13))
def test_decision_with_a_restart(name: str, at: int) -> None:
    found, check = CASES[name]
    check(found.but(restart(at)))


@pytest.mark.parametrize("name", CASES)
def test_decision_with_a_restart_in_every_second(name: str) -> None:
    found, check = CASES[name]
    check(found.but(*(restart(at) for at in range(1, min(30, int(found.until))))))


@pytest.mark.parametrize("at", range(3, 13))
@pytest.mark.parametrize("component", ["scheduler", "controllers", "descheduler"])
def test_an_outage_at_any_second_only_delays_a_move(component: str, at: int) -> None:
    found = MOTIVATING.but(restart(at, component, away=7), until=80)
    outcome = found.outcome
    assert outcome.report["jobs"]["default/big"]["phase"] == "Completed"
    assert outcome.moves["failed"] == 0
    assert len(outcome.running_on("a")) == len(outcome.running_on("c")) == 8
    assert outcome.held == []


def test_a_gang_at_its_minimum_stays() -> None:
    # The same with a minimum of 5: nobody moves.
    documents = tuple(
        {**document, "spec": {"minMember": 5}} if document["kind"] == "PodGroup" else document
        for document in GANG.documents
    )
    assert scene(documents, policy=GANG.policy, until=30).outcome.moves["planned"] == 0


def test_a_critical_node_is_not_emptied_for_a_job_that_holds_it() -> None:
    documents = tuple(
        {**document, "metadata": {"name": "b", "labels": {"critical": "true"}}}
        if (document["kind"], document["metadata"]["name"]) == ("Node", "b") else document
        for document in HOLDER.documents if "metadata" in document
    )  # fmt: skip
    outcome = replace(HOLDER, documents=(*documents, run_by_hand(10))).outcome
    assert {event["node"] for event in outcome.report["events"] if event["type"] == "Reserved"} == {"b"}
    assert outcome.moves["planned"] == 0


def test_two_pods_of_one_budget_do_not_leave_at_once() -> None:
    # y has a pod on each of b and c, both hardly used; the budget allows one disruption.
    found = scene(
        node("a", cpu=10), node("b", cpu=10), node("c", cpu=10), replicas("x", "a", 5, cpu=1),
        replicas("y", ["b", "c"], cpu=1), budget("y", "y", minAvailable=1),
        policy=policy(defragment(coolDownTime=10)), until=15,
    )  # fmt: skip
    assert found.outcome.moves["planned"] == 1
    assert min(found.outcome.running_over_time("y-")[2:]) >= 1
