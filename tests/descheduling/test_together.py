"""Where moves meet queues with locked nodes, load, autoscalers, reclaim, and each other."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from builders import node as node_object
from descheduling.decision_scenes import BOTH, STATE
from descheduling.plans import moves, plans_of, set_of
from descheduling.plans import policy as loaded
from descheduling.plans import replicas as objects_of
from descheduling.scenes import (
    defragment,
    node,
    patch,
    pod,
    policy,
    queue,
    replicas,
    scene,
)
from stromboli.api import Queue

# -- 66: Defragmentation and LoadAware ------------------------------------------------------------------------------


def test_no_ping_pong_over_200_cycles() -> None:
    """Both plugins, every 5 seconds, with loads that change: no workload moves more than once per cooldown."""
    documents: list[Any] = [node(name, cpu=10) for name in "abcd"]
    loads = ["cpu=3", "cpu=2", "cpu=200m", "cpu=100m", "cpu=1", "cpu=2500m", "cpu=50m", "cpu=1500m"]
    for number, use in enumerate(loads):
        documents.append(replicas(f"r{number}", "abcd"[number % 4], 1, cpu=1 + number % 2, usage=use))
    outcome = scene(*documents, policy=policy(*BOTH, interval=5), until=1000).outcome
    starts: dict[str, list[float]] = {}
    for at, _, name, _ in outcome.events("MigrationStarted"):
        starts.setdefault(name.rpartition("-")[0], []).append(at)
    for workload, times in starts.items():
        gaps = [later - earlier for earlier, later in pairwise(times)]
        assert all(gap >= 100 for gap in gaps), f"{workload} moved at {times}"
    assert outcome.moves["failed"] == 0
    assert 0 < outcome.moves["succeeded"] <= sum(map(len, starts.values()))


# -- 67: locked nodes -----------------------------------------------------------------------------------------------


def locked(queue_name: str, *nodes: str) -> Queue:
    from builders import queue as queue_object
    from stromboli.api import Guarantee, QueueReservation

    found = queue_object(queue_name)
    found.spec.guarantee = Guarantee(resource={"cpu": 10}, policy="Best-Effort")
    found.status.reservation = QueueReservation(nodes=list(nodes), guarantee=found.spec.guarantee)
    return found


def test_locked_nodes_in_plans() -> None:
    # a is locked for q. y of the default queue on b cannot go there, though a is the fuller node.
    cpu = {"ResourceType": "cpu", "lowThresholds": {"cpu": 30}, "defragmentThresholds": {"cpu": 50},
           "protectionThresholds": {"cpu": 95}}  # fmt: skip
    objects = [
        node_object("a", cpu=10), node_object("b", cpu=10), node_object("c", cpu=10), locked("q", "a"),
        *objects_of("x", 8, on="a", cpu=1), *objects_of("y", 1, on="b", cpu=1), *objects_of("z", 6, on="c", cpu=1),
    ]  # fmt: skip
    for obj in objects:
        if obj.kind == "PodGroup" and "rs-x" in obj.metadata.name:
            obj.spec.queue = "q"
    assert set_of(plans_of(objects, loaded(cpu))) == {("y-0", "b", "c")}


def test_pods_of_others_on_a_locked_node_leave_first() -> None:
    cpu = {"ResourceType": "cpu", "lowThresholds": {"cpu": 30}, "defragmentThresholds": {"cpu": 50},
           "protectionThresholds": {"cpu": 65}}  # fmt: skip
    # b (1 of 10) is used less than a (2 of 10), but a is locked for q and its pods are of another queue. c takes two.
    objects = [
        node_object("a", cpu=10), node_object("b", cpu=10), node_object("c", cpu=10), locked("q", "a"),
        *objects_of("x", 2, on="a", cpu="500m"), *objects_of("y", 1, on="b", cpu=1),
        *objects_of("z", 11, on="c", cpu="500m"),
    ]  # fmt: skip
    plans = plans_of(objects, loaded(cpu))
    assert [move for plan in plans for move in moves(plan)] == [("x-0", "a", "c"), ("x-1", "a", "c")]


# -- 64: two evictors -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("offset", range(10))
def test_two_evictors_and_one_gang(offset: int) -> None:
    """A gang of 5 with a minimum of 4: b is emptied at 5 s, and a queue with a claim arrives at about that time. The
    gang never has fewer than 4."""
    outcome = scene(
        node("a", cpu=6), node("b", cpu=6), queue("lender", weight=1), queue("claimant", weight=3),
        {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup", "metadata": {"name": "gang"},
         "spec": {"minMember": 4, "queue": "lender"}},
        replicas("g", ["a", "a", "a", "a", "b"], cpu=1, group="gang", queue="lender", grace=1),
        replicas("other", "a", 1, cpu=1, queue="lender"),
        *(pod(f"claim-{n}", cpu=1, queue="claimant", at=4 + offset / 4) for n in range(8)),
        policy=policy(defragment(low=30, middle=60, high=100)), until=25,
    ).outcome  # fmt: skip
    counts = outcome.running_over_time("g-")
    assert min(counts[4:]) >= 4, counts
    assert outcome.times("Evicted"), "somebody wants something of the gang"


# -- 70: autoscalers ------------------------------------------------------------------------------------------------


def test_nodes_that_somebody_counts_on_are_kept() -> None:
    from descheduling.plans import KnownObjects
    from stromboli.api import Node, names
    from stromboli.descheduling.node_protection import protect_nodes

    free, emptied, theirs = node_object("a", cpu=1), node_object("b", cpu=1), node_object("c", cpu=1)
    emptied.metadata.annotations = {names.EMPTIED_FOR: "default/big", names.COOLDOWN_UNTIL: "2030-01-01T01:00:00Z"}
    theirs.metadata.annotations = {names.SCALE_DOWN_DISABLED: "true"}
    known = KnownObjects([free, emptied, theirs, locked("q", "c")])
    now = 1_893_456_000.0
    (change,) = protect_nodes(known, now)
    assert (change.node, change.annotations[names.SCALE_DOWN_DISABLED]) == ("b", "true")
    emptied.metadata.annotations |= {k: v for k, v in change.annotations.items() if v is not None}
    assert protect_nodes(known, now) == []
    (cleared,) = protect_nodes(known, now + 7200)
    assert cleared.annotations == {names.SCALE_DOWN_DISABLED: None, names.KEEPS_NODE: None}
    by_thresholds: Node = node_object("d", cpu=1)
    by_thresholds.metadata.annotations = {names.EMPTIED_FOR: "", names.COOLDOWN_UNTIL: "2030-01-01T01:00:00Z"}
    assert protect_nodes(KnownObjects([by_thresholds]), now) == []


# -- 72: the state of a group ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("until", "state"), [(5, "Pending"), (6, "Running"), (20, "Succeeded")])
def test_the_state_of_a_group_with_several_moves(until: float, state: str) -> None:
    outcome = STATE.but(until=until).outcome
    assert outcome.report["podGroups"]["default/gang"]["migrationState"] == state


def test_a_pod_comes_back_from_a_move_also_if_its_queue_is_above_its_limit() -> None:
    # Both sets use 7 CPUs. The limit is lowered to 4 before the run at 5 s, which empties node a: web moves to b. The
    # queue may not have anything new, but it has had web all the time.
    story = scene(
        node("a", cpu=10), node("b", cpu=10), queue("team", weight=1, capability={"cpu": 8}),
        replicas("web", "a", cpu=1, queue="team"), replicas("model", "b", cpu=6, queue="team"),
        patch(2, "Queue", "team", {"spec": {"capability": {"cpu": 4}}}),
        policy=policy(defragment()), until=20,
    )  # fmt: skip
    assert story.outcome.times("MigrationSucceeded", "web-0") == [7.0]
    assert {told["node"] for told in story.outcome.report["pods"].values() if told["phase"] == "Running"} == {"b"}
