"""Pods that keep a scheduling gate until their queue has room for them, so that autoscalers do not see them before.

Always a node of 4 CPUs, and a queue `team` that may have 2 of them. Pods request one CPU, unless a test says otherwise.
Cycles are one second apart: a gate that is removed in one is gone in the next.
"""

from __future__ import annotations

from typing import Any

import pytest

from starvation import scenes
from starvation.scenes import Document, Outcome, Scene, group, node, patch, pod, priority_class, queue, restart, scene

GATE = "scheduling.volcano.sh/queue-allocation-gate"
NODE = node("n1", 4)
TEAM = queue("team", capability={"cpu": 2})
NOWHERE = {"zone": "none"}


def opted_in(name: str, cpu: float = 1, *, gates: tuple[str, ...] = (), value: str = "true", **facts: Any) -> Document:
    made = pod(name, cpu, **{"queue": "team", **facts})
    made["metadata"]["annotations"][GATE] = value
    if gates:
        made["spec"]["schedulingGates"] = [{"name": gate} for gate in gates]
    return made


def story(*parts: Any, until: float = 10, team: Document = TEAM, nodes: tuple[Document, ...] = (NODE,)) -> Scene:
    return scene(list(nodes), team, *parts, until=until)


def ungated(told: Outcome) -> list[tuple[float, str]]:
    return told.happened("Ungated")


def gated(told: Outcome) -> set[str]:
    return {name for name in told.pending if told.why(name)[0] == "SchedulingGated"}


# -- the two specs of Volcano ---------------------------------------------------------------------------------------


def test_unschedulable_pod_with_removed_gate_reserves_queue_capacity_and_blocks_other_pods() -> None:
    """Both CPUs of the queue are for pod-1, then for pod-2, which fits on no node. pod-3 waits until that is gone."""
    members = [
        opted_in("pod-1", 2, group="g", until=5),
        opted_in("pod-2", 2, group="g", at=6, selector=NOWHERE, until=20),
        opted_in("pod-3", 2, group="g", at=7),
    ]
    told = story(group("g", 1, queue="team"), *members, until=30).run()
    assert ungated(told) == [(0, "pod-1"), (6, "pod-2"), (20, "pod-3")]
    assert told.started == {"pod-1": 1, "pod-3": 21}
    waits = story(group("g", 1, queue="team"), *members).at(15)
    assert waits.why("pod-2")[0] == "PredicateNodeAffinity", "an autoscaler may add a node for this one"
    assert waits.why("pod-3") == (
        "SchedulingGated",
        "The pod keeps its scheduling gate until its queue has room for it. Queue team would exceed its quota: 2 cpu "
        "requested, 0 allocated, 2 promised to other pods of this job, at most 2 allowed. Wait for its jobs to finish, "
        "or raise its capability.",
    )


def test_multiple_scheduling_gates_scheduler_skips_until_only_volcano_gate_remains_then_removes_it() -> None:
    pod_ = opted_in("two-gates", gates=("example.com/other-gate",))
    other_removed = patch("Pod", "two-gates", {"spec": {"schedulingGates": [{"name": GATE}]}}, at=6)
    told = story(pod_, other_removed).run()
    assert ungated(told) == [(6, "two-gates")]
    assert told.started == {"two-gates": 7}
    assert gated(story(pod_, other_removed).at(5)) == {"two-gates"}


# -- which gates ----------------------------------------------------------------------------------------------------


def test_a_gate_of_the_same_name_stays_if_the_pod_did_not_opt_in() -> None:
    told = story(opted_in("a", gates=(GATE,), value="false"), opted_in("b", value="yes")).run()
    assert ungated(told) == []
    assert (told.pending, told.running) == ({"a"}, {"b"})
    assert told.why("a") == ("SchedulingGated", "The pod has scheduling gates; it is scheduled once they are removed.")


def test_a_pod_without_the_annotation_has_no_gate() -> None:
    assert story(pod("plain", queue="team")).run().started == {"plain": 0}


def test_gates_are_removed_in_the_order_of_jobs_while_the_queue_has_room() -> None:
    # Two CPUs: the first two of equal priority by age, and the third when one of them has ended.
    pods = [opted_in(name, at=at, run=10) for name, at in (("c", 0), ("a", 2), ("b", 1))]
    assert ungated(story(*pods, until=30).run()) == [(0, "c"), (1, "b"), (11, "a")]


def test_a_later_pod_without_a_gate_does_not_go_past_one_that_waits_for_its_queue() -> None:
    # At 10 s both CPUs become free. `late` has just come, and would take them before the end of the cycle.
    pods = [pod("first", 2, queue="team", run=10), opted_in("second", 2, at=1), pod("late", 2, at=10, queue="team")]
    told = story(*pods, until=15).run()
    assert ungated(told) == [(10, "second")]
    assert told.started == {"first": 0, "second": 11}


def test_an_earlier_pod_without_a_gate_goes_first() -> None:
    pods = [pod("first", 2, queue="team", run=10), pod("plain", 2, at=1, queue="team"), opted_in("gated", 2, at=2)]
    assert story(*pods, until=15).run().started == {"first": 0, "plain": 10}
    # One that fits on no node has not been promised anything.
    pods[1] = pod("plain", 2, at=1, queue="team", selector=NOWHERE)
    assert story(*pods, until=15).run().started == {"first": 0, "gated": 11}


def test_a_closed_queue_removes_no_gates() -> None:
    closed = patch("Queue", "team", {"status": {"state": "Closed"}}, at=1)
    told = story(opted_in("a", at=2), closed).run()
    assert ungated(told) == []
    assert gated(told) == {"a"}
    assert "team is not open" in told.why("a")[1]


# -- promises -------------------------------------------------------------------------------------------------------


def test_what_was_promised_is_kept_from_pods_without_gates_as_well() -> None:
    told = story(opted_in("nowhere", 2, selector=NOWHERE), pod("late", at=5, queue="team")).run()
    assert told.started == {}
    assert told.why("late")[0] == "QueueOverQuota"
    assert "2 kept for other pods" in told.why("late")[1]


def test_pods_of_higher_priority_do_not_wait_for_a_promise() -> None:
    nowhere = opted_in("nowhere", 2, selector=NOWHERE)
    for urgent in (pod("urgent", at=5, queue="team", priority="high"), opted_in("urgent", at=5, priority="high")):
        assert "urgent" in story(priority_class("high", 10), nowhere, urgent).run().started


def test_a_promise_survives_a_restart() -> None:
    pods = [opted_in("nowhere", 2, selector=NOWHERE), pod("late", at=7, queue="team"), opted_in("gated", at=7)]
    assert story(*pods, restart(6, "scheduler")).run().started == {}


def test_a_promise_ends_with_the_place_of_its_pod() -> None:
    # One CPU of two is used by `a`, not two.
    assert story(opted_in("a"), pod("b", at=5, queue="team")).run().started == {"a": 1, "b": 5}


@pytest.mark.parametrize("cpus", [4, 1])
def test_queues_below_one_limit_share_its_promises(cpus: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether the nodes have more or less than that."""
    plain = scenes.configuration
    monkeypatch.setattr(scenes, "configuration", lambda *args, **kinds: _with_a_tree(plain(*args, **kinds)))
    tree = [queue("above", capability={"cpu": 2}), *(queue(name, parent="above") for name in ("team", "other"))]
    pods = [opted_in("nowhere", 2, selector=NOWHERE), opted_in("beside", at=5, queue="other")]
    told = scene([node("n1", cpus)], tree, pods).run()
    assert ungated(told) == [(0, "nowhere")]
    assert "Queue above would exceed its quota" in told.why("beside")[1]
    assert ungated(scene([node("n1", cpus)], tree, pods[1:]).run()) == [(5, "beside")]


# -- nodes that an autoscaler adds ----------------------------------------------------------------------------------


def test_the_limit_counts_even_where_the_nodes_have_less() -> None:
    """No node is there yet. Two pods may be seen by an autoscaler, and get the node that it adds."""
    pods = [opted_in(f"p{number}") for number in range(3)]
    told = story(*pods, nodes=(node("new", 8, at=20),), until=30).run()
    assert ungated(told) == [(0, "p0"), (0, "p1")]
    assert told.started == {"p0": 20, "p1": 20}
    assert gated(told) == {"p2"}


# -- gangs ----------------------------------------------------------------------------------------------------------


def test_a_gang_gets_all_the_gates_removed_that_it_needs_or_none() -> None:
    # One CPU is used until 10 s, so one pod of the gang would have room in the queue, but two are needed.
    gang = [group("g", 2, queue="team"), *(opted_in(f"g-{number}", group="g", queue="") for number in range(2))]
    told = story(pod("first", queue="team", run=10), gang, until=20).run()
    assert ungated(told) == [(10, "g-0"), (10, "g-1")]
    assert told.started == {"first": 0, "g-0": 11, "g-1": 11}


def test_pods_beyond_the_minimum_are_looked_at_one_by_one() -> None:
    gang = [group("g", 1, queue="team"), *(opted_in(f"g-{number}", group="g", queue="") for number in range(3))]
    told = story(gang, until=20).run()
    assert ungated(told) == [(0, "g-0"), (0, "g-1")]
    assert gated(told) == {"g-2"}


def test_a_gang_waits_for_the_gates_of_others() -> None:
    gang = [
        group("g", 2, queue="team"),
        opted_in("g-0", group="g", queue=""),
        opted_in("g-1", group="g", queue="", gates=("example.com/wait",)),
    ]
    opened = patch("Pod", "g-1", {"spec": {"schedulingGates": [{"name": GATE}]}}, at=6)
    assert ungated(story(gang, opened).run()) == [(6, "g-0"), (6, "g-1")]
    why = story(gang, opened).at(5).why("g-0")[1]
    assert why.endswith("1 other pod that its gang needs has scheduling gates of others.")


def test_pods_of_a_gang_without_gates_need_room_as_well() -> None:
    # The gang needs 3 CPUs of 2: to remove the gate would not help it.
    gang = [group("g", 2, queue="team"), opted_in("g-0", group="g", queue=""), pod("g-1", 2, group="g")]
    assert ungated(story(gang).run()) == []


def test_each_role_gets_its_minimum_first() -> None:
    """Two of the three fit, and one of them must be the master, which comes last by its name."""
    head = group("g", 2, queue="team")
    head["spec"]["minTaskMember"] = {"master": 1, "worker": 1}
    members = [opted_in(f"g-{name}", group="g", queue="") for name in ("a", "b", "z")]
    for member, role in zip(members, ("worker", "worker", "master"), strict=True):
        member["metadata"]["annotations"]["volcano.sh/task-spec"] = role
    assert ungated(story(head, members).run()) == [(0, "g-a"), (0, "g-z")]


def test_a_group_that_is_not_admitted_keeps_its_gates() -> None:
    head = group("g", 1, queue="team")
    head["spec"]["minResources"] = {"cpu": 2}
    told = story(pod("first", queue="team", run=10), head, opted_in("g-0", 2, group="g", queue=""), until=20).run()
    assert ungated(told) == [(10, "g-0")]
    waits = story(pod("first", queue="team", run=10), head, opted_in("g-0", 2, group="g", queue="")).at(5)
    assert gated(waits) == {"g-0"}
    assert "Queue team would exceed its quota: 2 cpu requested" in waits.why("g-0")[1]


def test_what_a_gated_group_was_admitted_for_is_not_promised_twice() -> None:
    """A pod that waits for its queue counts, one that waits for others does not: 1 of 2 CPUs is promised to `a`."""
    head = group("a", 2, queue="team")
    head["spec"]["minResources"] = {"cpu": 2}
    gang = [head, opted_in("a-0", group="a", queue=""), opted_in("a-1", group="a", queue="", gates=("example.com/w",))]
    for cpus, phase in ((1, "Inqueue"), (2, "Pending")):
        late = group("b", 1, queue="team", at=5)
        late["spec"]["minResources"] = {"cpu": cpus}
        assert story(gang, late).run().report["podGroups"]["default/b"]["phase"] == phase


def _with_a_tree(configuration: str) -> str:
    """With limits of queues that have others below them."""
    return configuration.replace('{"name": "proportion"}', '{"name": "capacity", "enableHierarchy": true}')
