"""Queues divide what is there for them, and nothing else.

Not theirs is what pods of other schedulers use, static pods, pods of queues that are gone, and what is idle on nodes
that take no pods. Otherwise queues deserve more than they can get, everybody is within what they deserve, and those who
came late wait for ever.
"""

from __future__ import annotations

from typing import Any

import pytest

from queue_locks.lock_scenes import Document, LockOutcome, node, patch, play, pod, pods, queue, tainted


def foreign(name: str, cpu: float, on: str, **options: Any) -> Document:
    """A pod that another scheduler placed."""
    document = pod(name, cpu, on=on, **options)
    document["spec"]["schedulerName"] = "default-scheduler"
    return document


def static(name: str, cpu: float, on: str) -> Document:
    """A static pod, as its kubelet shows it."""
    document = pod(name, cpu, on=on)
    document["metadata"]["annotations"]["kubernetes.io/config.mirror"] = "1"
    return document


def deserved(outcome: LockOutcome, *names: str) -> list[str]:
    return [outcome.queue(name)["deserved"].get("cpu", "0") for name in names]


def shared(*parts: Any, sharing: str = "proportion", **options: Any) -> LockOutcome:
    """Four queues of weight 1; q1 and q2 have all that is left when q3 and q4 come. With `capacity` each says that it
    deserves one CPU."""
    amounts = {"deserved": {"cpu": 1}} if sharing == "capacity" else {}
    return play(
        *parts, [queue(f"q{i}", **amounts) for i in range(1, 5)],
        pods("a", 2, queue="q1"), pods("b", 2, queue="q2"),
        pods("c", 2, queue="q3", at=3), pods("d", 2, queue="q4", at=3),
        sharing=sharing, **options,
    )  # fmt: skip


@pytest.mark.parametrize("sharing", ["proportion", "capacity"])
def test_pods_of_other_schedulers_take_nothing_from_those_who_wait(sharing: str) -> None:
    """Volcano's Reclaim Case 10. 8 CPUs, of which foreign pods use 4: the queues divide 4, one each. Of 8 they would
    deserve 2 each, q1 and q2 would be within that, and the others would wait for ever."""
    outcome = shared(
        node("n1", 4), node("n2", 4), [foreign(f"f{i}", 1, on) for i, on in enumerate(("n1", "n1", "n2", "n2"))],
        sharing=sharing,
    )  # fmt: skip
    assert deserved(outcome, "q1", "q2", "q3", "q4") == ["1", "1", "1", "1"]
    assert outcome.running_by("queue") == {"": 4, "q1": 1, "q2": 1, "q3": 1, "q4": 1}


def test_neither_do_static_pods() -> None:
    outcome = shared(node("n1", 8), static("etcd", 4, "n1"))
    assert deserved(outcome, "q1", "q2", "q3", "q4") == ["1", "1", "1", "1"]
    assert outcome.running_by("queue") == {"": 1, "q1": 1, "q2": 1, "q3": 1, "q4": 1}


def test_a_foreign_pod_that_names_a_group_of_ours_is_in_no_queue() -> None:
    """Whoever places it, only its scheduler can say what it may have."""
    stranger = foreign("f", 4, "n1", group="g", queue="q1")
    outcome = shared(node("n1", 8), stranger, {**_group("g", "q1")})
    assert outcome.queue("q1")["allocated"] == {"cpu": "1"}
    assert deserved(outcome, "q1", "q2", "q3", "q4") == ["1", "1", "1", "1"]


def test_pods_of_a_queue_that_is_gone_are_in_nobodys_way() -> None:
    """4 of 8 CPUs are used by pods that name a queue which does not exist. They go on, and others divide the rest."""
    outcome = shared(node("n1", 8), pods("z", 4, queue="q0", on="n1"))
    assert deserved(outcome, "q1", "q2", "q3", "q4") == ["1", "1", "1", "1"]


@pytest.mark.parametrize(
    "closed",
    [
        {"spec": {"unschedulable": True}},
        {"status": {"conditions": [{"type": "Ready", "status": "False"}]}},
        {"spec": {"taints": [{"key": "node.kubernetes.io/disk-pressure", "effect": "NoSchedule"}]}},
        {"spec": {"taints": [{"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"}]}},
    ],
)
def test_what_is_idle_on_a_node_that_takes_no_pods_is_not_divided(closed: Document) -> None:
    """n1 is full with a's 4 pods and n2 takes none. Each queue deserves 2 of 4 CPUs, not 4 of 8, so b gets its half."""
    outcome = play(
        node("n1", 4), node("n2", 4), patch("Node", "n2", closed, at=1), queue("a"), queue("b"),
        pods("a", 4, queue="a", on="n1"), pods("b", 4, queue="b", at=3),
    )  # fmt: skip
    assert deserved(outcome, "a", "b") == ["2", "2"]
    assert outcome.running_by("queue") == {"a": 2, "b": 2}


@pytest.mark.parametrize("lost", [{"spec": {"unschedulable": True}},
                                  {"status": {"conditions": [{"type": "Ready", "status": "False"}]}}])  # fmt: skip
def test_what_queues_use_there_is_divided(lost: Document) -> None:
    """a has 4 CPUs on n1, of which it loses nothing by the cordon, and 2 on n2. Of 8 CPUs each deserves 4, so b takes 2
    more from a. Without n1 each would deserve 2, and a would keep 6 of 8."""
    outcome = play(
        node("n1", 4), node("n2", 4), patch("Node", "n1", lost, at=1), queue("a"), queue("b"),
        pods("a", 4, queue="a", on="n1"), pods("aa", 2, queue="a", on="n2"), pods("b", 4, queue="b", at=3),
    )  # fmt: skip
    assert deserved(outcome, "a", "b") == ["4", "4"]
    assert outcome.running_by("queue") == {"a": 4, "b": 4}


def test_a_taint_that_some_pods_tolerate_changes_nothing() -> None:
    """Nodes with GPUs are often tainted. Their room is for those who tolerate it, so it is divided."""
    outcome = play(
        node("n1", 4), tainted(node("n2", 4)), queue("a"), queue("b"),
        pods("a", 4, queue="a", on="n1"), pods("b", 4, queue="b", at=3),
    )  # fmt: skip
    assert deserved(outcome, "a", "b") == ["4", "4"]


def test_pods_of_daemon_sets_that_we_place_count_in_their_queue() -> None:
    """Of 8 CPUs, an agent of queue a has 2. Both queues deserve 4: the agent and 2 others are a's."""
    agent = pod("agent", 2, queue="a", on="n1")
    agent["metadata"]["ownerReferences"] = [
        {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "agent", "uid": "1", "controller": True}
    ]
    outcome = play(node("n1", 8), queue("a"), queue("b"), agent, pods("a", 8, queue="a"), pods("b", 8, queue="b"))
    assert deserved(outcome, "a", "b") == ["4", "4"]
    assert outcome.queue("a")["allocated"] == outcome.queue("b")["allocated"] == {"cpu": "4"}


def test_guarantees_may_exceed_what_there_is() -> None:
    """6 of 8 CPUs are foreign. q1 is guaranteed 4 and can have 2; q2 deserves nothing of what is guaranteed."""
    outcome = play(
        node("n1", 8), foreign("f", 6, "n1"), queue("q1", guarantee={"resource": {"cpu": 4}}), queue("q2"),
        pods("a", 4, queue="q1"), pods("b", 4, queue="q2"),
    )  # fmt: skip
    assert deserved(outcome, "q1", "q2") == ["4", "0"]
    assert outcome.running_by("queue") == {"": 1, "q1": 2}


def test_in_a_tree_the_root_is_what_there_is() -> None:
    """Of 8 CPUs 4 are foreign, so b's capability follows from a guarantee: 4 - 1. Of all 8 it would be 7."""
    outcome = play(
        node("n1", 8), foreign("f", 4, "n1"),
        queue("top"), queue("a", parent="top", guarantee={"resource": {"cpu": 1}}), queue("b", parent="top"),
        pods("b", 8, queue="b"), sharing="capacity", tree=True,
    )  # fmt: skip
    assert outcome.running_by("queue") == {"": 1, "b": 3}


def test_admission_does_not_count_on_room_that_is_not_there() -> None:
    """A job needs 5 CPUs. 4 are free on n1, and the cordoned n2 has 4 more; 1.2 times 4 are less than 5."""
    group = {**_group("j", ""), "spec": {"minMember": 5, "minResources": {"cpu": 5}}}
    jobs = [group, *[pod(f"j-{i}", 1, group="j") for i in range(5)]]
    closed = patch("Node", "n2", {"spec": {"unschedulable": True}}, at=0)
    outcome = play(node("n1", 4), node("n2", 4), closed, jobs)
    assert outcome.report["podGroups"]["default/j"]["phase"] == "Pending"
    assert play(node("n1", 4), node("n2", 4), jobs).report["podGroups"]["default/j"]["phase"] == "Running"


def test_admission_does_not_overcommit_what_strangers_use() -> None:
    """12 of 16 CPUs are foreign: 1.2 times the other 4 are 4.8. With 1.2 times 16, a job of 5 would be admitted."""
    group = {**_group("j", ""), "spec": {"minMember": 5, "minResources": {"cpu": 5}}}
    outcome = play(node("n1", 16), foreign("f", 12, "n1"), [group, *[pod(f"j-{i}", 1, group="j") for i in range(5)]])
    assert outcome.report["podGroups"]["default/j"]["phase"] == "Pending"


def _group(name: str, line: str) -> Document:
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup", "metadata": {"name": name},
        "spec": {"minMember": 1, "queue": line},
    }  # fmt: skip
