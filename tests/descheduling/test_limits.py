"""How many pods move at once, how often those of a workload, and how long a node must be overloaded before any does."""

from __future__ import annotations

import pytest

from descheduling.scenes import Outcome, node, policy, queue, replicas, restart, scene
from stromboli.descheduling.planning import Anomalies, AnomalyCondition

HIGH = ("HighNodeUtilization", {"thresholds": {"cpu": 40}, "coolDownTime": 20})
LOAD = {"thresholds": {"cpu": 30}, "targetThresholds": {"cpu": 70}}


def planned(outcome: Outcome) -> list[tuple[float, str]]:
    return [(at, name) for at, _, name, _ in outcome.events("MigrationPlanned")]


def test_a_third_pod_of_a_node_waits_for_the_next_run() -> None:
    # Three sets with one pod each on b (3 of 10 CPUs); a run may move two pods of a node. The nodes rest for 20 s.
    outcome = scene(
        node("a", cpu=10), node("b", cpu=10), replicas("x", "a", 5, cpu=1),
        *(replicas(f"y{number}", "b", 1, cpu=1) for number in range(3)),
        policy=policy(HIGH, maxNoOfPodsToEvictPerNode=2), until=60,
    ).outcome  # fmt: skip
    first, second, third = planned(outcome)
    assert [(first[0], first[1]), (second[0], second[1])] == [(5.0, "y0-0"), (5.0, "y1-0")]
    assert third[1] == "y2-0"
    assert third[0] >= 25
    assert outcome.moves["succeeded"] == 3


def test_one_pod_of_a_workload_at_a_time() -> None:
    # 10 replicas, 2 of them on b. One may move in a run, and the next waits until the workload has rested.
    outcome = scene(
        node("a", cpu=12), node("b", cpu=12), replicas("y", ["a"] * 8 + ["b"] * 2, cpu=1),
        policy=policy(HIGH, maxNoOfPodsToEvictPerWorkload=1), until=60,
    ).outcome  # fmt: skip
    (first, _), (second, _) = planned(outcome)
    assert (first, second >= 25) == (5.0, True)
    assert min(outcome.running_over_time("y-")[10:]) >= 9


def test_a_workload_rests_on_all_nodes() -> None:
    # y has a pod on each of b and c, both hardly used; a run may move one of them. The other waits for the workload to
    # rest, although its own node takes part in no move.
    outcome = scene(
        *(node(name, cpu=10) for name in "abc"), replicas("x", "a", 6, cpu=1), replicas("y", ["b", "c"], cpu=1),
        policy=policy(("HighNodeUtilization", {"thresholds": {"cpu": 40}, "coolDownTime": 300}),
                      maxNoOfPodsToEvictPerWorkload=1), until=400,
    ).outcome  # fmt: skip
    (first, _), (second, _) = planned(outcome)
    assert first == 5.0
    assert second >= 300


@pytest.mark.parametrize(("limit", "moved"), [(None, 1), (2, 1), (1, 0)])
def test_unavailable_pods_of_a_workload_count(limit: int | None, moved: int) -> None:
    # y has 3 pods: one on a, one on the hardly used b (4 of 12 CPUs), and one that waits, because its queue may have 8
    # CPUs. With a limit of one pod, the one that waits is that one.
    documents = replicas("y", ["a", "b"], cpu=4, queue="q")
    documents[0]["spec"]["replicas"] = 3
    limits = {} if limit is None else {"maxNoOfPodsToEvictPerWorkload": limit}
    outcome = scene(
        node("a", cpu=20), node("b", cpu=12), queue("q", capability={"cpu": 8}), replicas("x", "a", 5, cpu=1),
        documents, policy=policy(HIGH, **limits), until=20,
    ).outcome  # fmt: skip
    assert outcome.moves["succeeded"] == moved


@pytest.mark.parametrize(("cpus", "moved"), [(16, ["y-2"]), (12, [])])
def test_a_pod_that_terminates_counts_as_its_successor_does(cpus: int, moved: list[str]) -> None:
    # y-0 is deleted at 3 s and terminates for 60 s. If its queue may have 16 CPUs, its successor runs beside it, and
    # y-2 may leave b (4 of 20 CPUs); with 12 CPUs the successor waits, and it is the one pod that may be missing.
    documents = replicas("y", ["a", "a", "b"], cpu=4, grace=60, queue="q")
    documents[1]["metadata"]["annotations"]["sim.stromboli.io/until"] = "3s"
    outcome = scene(
        node("a", cpu=20), node("b", cpu=20), queue("q", capability={"cpu": cpus}), replicas("x", "a", 6, cpu=1),
        documents, policy=policy(HIGH, maxNoOfPodsToEvictPerWorkload=1), until=6,
    ).outcome  # fmt: skip
    assert outcome.report["pods"]["default/y-3"]["phase"] == ("Running" if cpus == 16 else "Pending")
    assert [name for _, name in planned(outcome)] == moved


def test_a_single_replica_stays_if_two_are_required() -> None:
    single = [node("a", cpu=10), node("b", cpu=10), replicas("x", "a", 6, cpu=1), replicas("y", "b", 1, cpu=1)]
    two = [node("a", cpu=10), node("b", cpu=10), replicas("x", "a", 6, cpu=1), replicas("y", ["a", "b"], cpu=1)]
    careful = policy(HIGH, ("DefaultEvictor", {"minReplicas": 2}))
    assert planned(scene(*single, policy=careful, until=20).outcome) == []
    assert [name for _, name in planned(scene(*two, policy=careful, until=20).outcome)] == ["y-1"]


# -- how long a node must be overloaded -----------------------------------------------------------------------------


def after(*observations: bool, condition: AnomalyCondition, every: float = 10.0) -> list[bool]:
    """Whether the node counts as overloaded after each observation."""
    anomalies, found = Anomalies(), []
    for number, abnormal in enumerate(observations, start=1):
        anomalies.observe("a", abnormal, every * number, condition)
        found.append(anomalies.lasts("a", every * number, condition))
    return found


def test_an_anomaly_begins_with_the_sixth_and_ends_with_the_fourth() -> None:
    condition = AnomalyCondition(abnormalities=5, normalities=3)
    assert after(*[True] * 6, condition=condition) == [False] * 5 + [True]
    assert after(*[True] * 5, False, *[True] * 6, condition=condition) == [False] * 11 + [True]
    assert after(*[True] * 6, *[False] * 4, condition=condition) == [False] * 5 + [True] * 4 + [False]
    assert after(*[True] * 6, *[False] * 3, True, False, condition=condition) == [False] * 5 + [True] * 6


def test_an_anomaly_ends_in_silence() -> None:
    condition = AnomalyCondition(abnormalities=1, timeout=60)
    anomalies = Anomalies()
    for at in (10, 20):
        anomalies.observe("a", True, at, condition)
    assert [anomalies.lasts("a", at, condition) for at in (20, 80, 81)] == [True, True, False]
    anomalies.observe("a", True, 90, condition)
    assert not anomalies.lasts("a", 90, condition)  # it counts from the beginning


@pytest.mark.parametrize(
    ("arguments", "restarts", "first"),
    [
        (LOAD, (), 5.0),
        ({**LOAD, "consecutiveAbnormalities": 5}, (), 30.0),
        ({**LOAD, "consecutiveAbnormalities": 5}, (12,), 40.0),  # counted again from the run at 15 s on
    ],
)
def test_load_must_last_before_pods_move(arguments: dict[str, object], restarts: tuple[int, ...], first: float) -> None:
    # a uses 8 of 10, b 0.5; runs are 5 s apart.
    outcome = scene(
        node("a", cpu=10), node("b", cpu=10), replicas("x", "a", 4, cpu=1, usage="cpu=2"),
        replicas("y", "b", 1, cpu=1, usage="cpu=500m"), *(restart(at, "descheduler") for at in restarts),
        policy=policy(("LoadAware", arguments)), until=60,
    ).outcome  # fmt: skip
    assert outcome.times("MigrationPlanned") == [first]
