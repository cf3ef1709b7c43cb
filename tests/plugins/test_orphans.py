"""Pods and groups that no cycle sees because a name leads nowhere: they are told so, once."""

from __future__ import annotations

from builders import cluster, group, pod, queue
from stromboli.api import Condition
from stromboli.cluster import Cluster
from stromboli.scheduling.decisions import PatchGroup, PatchPod
from stromboli.scheduling.explanation import orphans

NOW = 1_893_456_000.0


def told(known: Cluster) -> dict[str, str]:
    known.snapshot()
    return {
        decision.task if isinstance(decision, PatchPod) else f"group {decision.job}": decision.reason
        if isinstance(decision, PatchPod)
        else decision.conditions[0].reason
        for decision in orphans(known, NOW)
        if isinstance(decision, PatchPod | PatchGroup)
    }


def test_each_is_told_what_it_lacks() -> None:
    known = cluster(
        queue("default"),
        group("fine"),
        group("lost", queue="tpyo"),
        pod("a", group="fine"),
        pod("b", group="lost"),
        pod("c", group="nowhere"),
        pod("d"),
        pod("e", group="nowhere", node="n1"),  # it has a node: it does not wait
    )
    assert told(known) == {
        "group default/lost": "NoQueue",
        "default/b": "NoQueue",
        "default/c": "NoPodGroup",
        "default/d": "NoPodGroup",
    }


def test_what_stands_there_is_not_written_again() -> None:
    known = cluster(queue("default"), group("lost", queue="tpyo"), pod("b", group="lost"))
    known.snapshot()
    for decision in orphans(known, NOW):
        if isinstance(decision, PatchGroup):
            job = known.jobs[decision.job].object
            assert job is not None
            job.status.conditions = list(decision.conditions)
        elif isinstance(decision, PatchPod):
            said = Condition(type="PodScheduled", status="False", message=decision.message)
            known.tasks[decision.task].pod.status.conditions = [said]
    assert told(known) == {}


def test_a_group_is_none_any_more_once_its_queue_is_there() -> None:
    known = cluster(queue("default"), queue("tpyo"), group("lost", queue="tpyo"), pod("b", group="lost"))
    assert told(known) == {}
