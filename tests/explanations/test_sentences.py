"""The numbers in the sentences of waiting pods are true: sixty random worlds, and the worlds that once lied."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from explanations.sentence_checker import Checker
from explanations.worlds import world
from fairness.scenes import job, simulate
from reservations.reservation_scenes import reservation, run
from starvation.scenes import Document, Scene, gang, node, pod, queue, scene
from stromboli.scheduling.explanation.next_steps import next_step
from together.situations import replica_set

WORLDS = 60
PARTS = 3  # so that several processes share them


@pytest.mark.parametrize("part", range(PARTS))
def test_every_number_is_that_of_the_cluster_at_the_end(part: int) -> None:
    judged: Counter[str] = Counter()
    for seed in range(part, WORLDS, PARTS):
        drawn = world(seed)
        checker = Checker(drawn, drawn.situation().run()).check()
        judged += checker.judged
        assert checker.findings == []
    # A check that looks at nothing proves nothing.
    assert {"sum of nodes", "free", "available", "needed", "requested of the queue", "allocated"} <= set(judged)


def message(of: Scene, name: str) -> str:
    return str(of.run().report["pods"][f"default/{name}"]["message"])


# The queue may have 5 CPUs, and three pods of 2 must start together. In the trial two of them had a place and the third
# was refused; the queue has nothing.
def test_a_gang_too_large_for_its_queue_says_so_first() -> None:
    small = scene(node("n1", 16), queue("q", capability={"cpu": 5}), gang("big", 2, 2, 2, queue="q"))
    assert message(small, "big-0") == (
        "The gang can never start: 6 cpu requested, and queue q may have at most 5. Request less, or raise the queue's "
        "capability."
    )


# 8 CPUs, of which 3 are guaranteed to another queue. Queue q has no capability that could be raised.
def test_a_gang_that_needs_what_is_guaranteed_to_others_says_so() -> None:
    other = queue("other", guarantee={"resource": {"cpu": 3}})
    small = scene(node("n1", 8), queue("q"), other, gang("big", 2, 2, 2, queue="q"))
    assert message(small, "big-0") == (
        "The gang can never start: 6 cpu requested, and queue q may have at most 5; the rest is guaranteed to other "
        "queues. Request less, or lower their guarantees."
    )


# 5 CPUs and 3 on a node that is cordoned; 3 are guaranteed to another queue. Now q may have 2, and 5 when the node
# takes pods again, or its capability if that is less.
@pytest.mark.parametrize(
    ("capability", "ever"),
    [
        ({}, "5; the rest is guaranteed to other queues. Request less, or lower their guarantees."),
        ({"capability": {"cpu": 4}}, "4. Request less, or raise the queue's capability."),
    ],
)
def test_what_a_queue_may_have_some_day_includes_nodes_that_take_no_pods_now(
    capability: dict[str, dict[str, int]], ever: str
) -> None:
    nodes = [node("n1", 5), node("n2", 3) | {"spec": {"unschedulable": True}}]
    other = queue("other", guarantee={"resource": {"cpu": 3}})
    six = scene(*nodes, queue("q", **capability), other, gang("big", 2, 2, 2, queue="q"))
    told = f"The gang can never start: 6 cpu requested, and queue q may have at most {ever}"
    assert message(six, "big-0") == told
    five = scene(*nodes, queue("q", **capability), other, gang("big", 2, 2, 1, queue="q"))
    assert ("can never" in message(five, "big-0")) is bool(capability)


# 2 CPUs now, and 7 with the cordoned node; 4 are guaranteed to another queue, more than there are now. These come
# first, so q may have 3 some day, not 5.
def test_what_is_guaranteed_to_others_comes_first_when_there_is_more() -> None:
    nodes = [node("n1", 2), node("n2", 5) | {"spec": {"unschedulable": True}}]
    other = queue("other", guarantee={"resource": {"cpu": 4}})
    told = message(scene(*nodes, queue("q"), other, gang("big", 2, 2, queue="q")), "big-0")
    assert told.startswith("The gang can never start: 4 cpu requested, and queue q may have at most 3; ")


# The same for a job that has starved, where pods that do not end are known. A service of its queue uses 1 CPU. Now the
# queue may have 2, and 5 with n2: a pod of 5 can never start beside the service, and one of 3 not yet.
@pytest.mark.parametrize(
    ("cpu", "told"),
    [
        (5, "The pod can never start: 5 cpu requested, and queue q may have at most 5, of which pods that do not end "
            "and Reservations keep 1; the rest is guaranteed to other queues. Request less, or "),
        (3, "The pod cannot start yet: 3 cpu requested, and queue q may have at most 2 while nodes take no pods, or "
            "pods in no queue use them."),
    ],
)  # fmt: skip
def test_a_starved_job_is_told_what_its_queue_may_have_some_day(cpu: int, told: str) -> None:
    nodes = [node("n1", 5), node("n2", 3) | {"spec": {"unschedulable": True}}]
    other = queue("other", guarantee={"resource": {"cpu": 3}})
    service = replica_set("service", 1, 1, queue="q")
    starved = scene(
        *nodes,
        queue("q"),
        other,
        service,
        pod("large", cpu, queue="q"),
        reserve={"starvingJobTimeThreshold": 2},
        until=6,
    )
    assert message(starved, "large").startswith(told)


# 8 CPUs, of which 3 are guaranteed to another queue, and 3 are used: the other 2 are within what q may have, and 3 not.
def test_a_queue_that_is_limited_by_guarantees_is_not_told_to_raise_its_capability() -> None:
    other = queue("other", guarantee={"resource": {"cpu": 3}})
    small = scene(node("n1", 8), queue("q"), other, pod("one", 3, queue="q"), pod("two", 3, queue="q", at=1), until=3)
    assert message(small, "two") == (
        "Queue q would exceed its quota: 3 cpu requested, 3 allocated, at most 5 allowed; the rest is guaranteed to "
        "other queues. Wait for its jobs to finish, or lower their guarantees."
    )
    code, said = small.run().why("two")
    assert next_step(code, said) == "Wait until jobs of the queue finish, or lower the guarantees of other queues."


# 8 CPUs are requested, and there are 8: 4 are free for queues, and 4 are on a node that is cordoned, or used by a pod
# of another scheduler. With the overcommit factor, 4.8 can be admitted, and 4.8 more when they are free.
@pytest.mark.parametrize(
    ("hindrance", "when"),
    [
        ("cordoned", "nodes that take no pods now are ready and uncordoned"),
        ("foreign", "pods that are in no queue have ended"),
        ("", ""),
    ],
)
@pytest.mark.parametrize(("plugin", "most"), [("overcommit", "4.8"), ("proportion", "4"), ("capacity", "4")])
def test_a_job_that_would_fit_if_nodes_or_pods_changed_is_not_told_never(
    tmp_path: Path, hindrance: str, when: str, plugin: str, most: str
) -> None:
    config = f"""
    actions: "enqueue, allocate"
    tiers: [{{plugins: [{{name: gang}}, {{name: predicates}}, {{name: {plugin}}}]}}]
    """
    foreign = pod("foreign", 4, on="n2")
    foreign["spec"]["schedulerName"] = "default-scheduler"
    beside = {
        "cordoned": [node("n2", 4) | {"spec": {"unschedulable": True}}], "foreign": [node("n2", 4), foreign], "": []
    }  # fmt: skip
    large = job("default/big", 2, cpu=4, least=2, queue="q")
    report = simulate(tmp_path, node("n1", 4), *beside[hindrance], queue("q"), large, until=2, config=config)
    said = not_admitted(report)
    if hindrance:
        assert said.startswith(
            f"Waiting to be admitted, insufficient cpu: 8 requested, and at most {most} can be admit"
        )
        assert f"; {most} more when {when}. Wait for that, request less, or add nodes." in said
    else:
        assert said == "The gang can never start: 8 cpu requested, and the cluster has 4."


def not_admitted(report: Document) -> str:
    (message,) = (
        one["message"]
        for name, group in report["podGroups"].items() if name.startswith("default/big")
        for one in group["conditions"] if one["type"] == "Unschedulable"
    )  # fmt: skip
    return str(message)


# 11 CPUs, of which a pod uses 1. The other 10 are promised to a job that is admitted; nothing is allocated here.
@pytest.mark.parametrize("plugin", ["proportion", "capacity"])
def test_what_a_queue_has_promised_is_said(tmp_path: Path, plugin: str) -> None:
    config = f"""
    actions: "enqueue"
    tiers: [{{plugins: [{{name: gang}}, {{name: predicates}}, {{name: {plugin}}}]}}]
    """
    admitted, big = job("default/admitted", 2, cpu=5, least=2, queue="q"), job("default/big", 1, cpu=2, queue="q", at=1)
    uses_one = [node("n1", 5), node("n2", 6), pod("one", 1, on="n2", queue="q")]
    report = simulate(tmp_path, uses_one, queue("q"), admitted, big, until=3, config=config)
    assert not_admitted(report) == (
        "Waiting to be admitted, insufficient cpu: 2 requested, and of 11 that may be promised, 0 is left, and 10 is "
        "promised to admitted jobs that have not started. The job is admitted when other jobs finish."
    )


# 5 CPUs, of which one is used. Three pods of 2 must start together: 6 requested, not 2, and 1 allocated, not 5.
def test_a_queue_is_asked_about_the_whole_gang() -> None:
    limited = queue("q", capability={"cpu": 6})
    small = scene(node("n1", 16), limited, pod("one", 1, queue="q"), gang("big", 2, 2, 2, queue="q", at=1), until=3)
    assert message(small, "big-0").startswith(
        "Queue q would exceed its quota: 6 cpu requested, 1 allocated, at most 6 allowed."
    )


# Two nodes with 3 CPUs have room for one pod of 2 each, one has not.
def test_an_idle_node_is_not_called_full() -> None:
    nodes = [node("n1", 3), node("n2", 3), node("n3", 4), pod("old", 3, on="n3")]
    assert message(scene(nodes, gang("big", 2, 2, 2)), "big-0") == (
        "Only 2 of the 3 pods that must start together fit now. 2 of 3 nodes have room for some of "
        "them: 1 with insufficient cpu (2 requested, at most 1 free)."
    )


def test_a_pod_larger_than_every_node_says_so_first() -> None:
    nodes = [node("n1", 3), node("n2", 2)]
    assert message(scene(nodes, pod("big", 4)), "big").startswith(
        "The pod can never start: 4 cpu requested for one pod, and nodes that it may use have at most 3."
    )


# A Reservation is no pod, and does not start: it gets a node.
@pytest.mark.parametrize(
    ("requests", "on", "limit", "said"),
    [
        ({"cpu": "4"}, {}, {}, "4 cpu requested, and nodes that it may use have at most 3."),
        ({"cpu": "3", "memory": "3"}, {}, {}, "no node that it may use is large enough, even if it is empty."),
        ({"cpu": "2"}, {"queue": "q"}, {"capability": {"cpu": 1}}, "2 cpu requested, and queue q may have at most 1."),
    ],
)  # fmt: skip
def test_a_reservation_too_large_is_called_a_reservation(
    requests: dict[str, str], on: dict[str, str], limit: dict[str, dict[str, int]], said: str
) -> None:
    nodes = [node("n1", 3, memory="1"), node("n2", 1, memory="4")]
    outcome = run(nodes, queue("q", **limit), reservation("r", requests=requests, **on), until=3)
    told = outcome.report["reservations"]["r"]
    assert told["message"].startswith(f"The Reservation can never get a node: {said}")
    step = next_step(told["reason"], told["message"])
    assert step.startswith("Request less, or ")


def test_quiet_cycles_repeat_the_text() -> None:
    waits = scene(node("n1", 3), pod("old", 2, on="n1"), gang("big", 1, 1, 1), pod("huge", 7), until=8)
    said = [event for event in waits.run().report["events"] if event["t"] > 1]
    assert said == []
