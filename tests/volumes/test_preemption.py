"""Pods that have their place and wait for volumes give way to others: they are pending again, not deleted."""

from __future__ import annotations

from starvation.scenes import queue
from volumes.volume_scenes import (
    Document,
    VolumeOutcome,
    claim,
    gang,
    node,
    pod,
    priority_class,
    restart,
    run,
    storage_class,
    with_claims,
)

HIGH = priority_class("high", 10)


def preempted(outcome: VolumeOutcome, reason: str = "Preempted") -> list[tuple[float, str]]:
    assert outcome.happened("Evicted") == []
    return outcome.warnings(reason)


def urgent(cpu: float = 3, **times: float) -> Document:
    return pod("urgent", cpu, priority="high", at=5, **times)


def members(count: int, cpu: float, least: int) -> list[Document]:
    head, *pods = gang("g", *[cpu] * count, least=least)
    return [head, *(with_claims(one, f"data-{n}") for n, one in enumerate(pods))]


def test_a_pod_that_waits_for_its_volume_is_preempted() -> None:
    # The volume would be there at 30. The urgent pod comes at 5, runs from 6 to 16, and the volume is begun again.
    documents = [HIGH, node("a1"), storage_class(takes=30), claim("data"), with_claims(pod("p", 3), "data")]
    outcome = run(documents, urgent(run=10), until=60)
    assert preempted(outcome) == [(5, "p")]
    assert outcome.started == {"urgent": 6, "p": 46}
    assert len(outcome.report["volumes"]) == 1


def test_its_claim_gets_a_volume_elsewhere() -> None:
    # a2 is free from 8 on, and the claim is no longer tied to a1.
    nodes = [HIGH, node("a1"), node("a2"), pod("busy", 3, on="a2", run=8)]
    documents = [storage_class(takes=30), claim("data"), with_claims(pod("p", 3), "data")]
    outcome = run(nodes, documents, urgent(), until=60)
    assert (outcome.started["p"], outcome.nodes["p"]) == (38, "a2")
    assert outcome.report["claims"]["default/data"]["node"] == "a2"


def test_a_restart_in_between() -> None:
    documents = [HIGH, node("a1"), storage_class(takes=30), claim("data"), with_claims(pod("p", 3), "data")]
    for second in (4, 5, 6):
        outcome = run(documents, urgent(run=10), restart(second), until=60)
        assert outcome.started["urgent"] <= 8
        assert outcome.started["p"] <= 50


def test_a_gang_gives_way_as_a_whole() -> None:
    nodes = [HIGH, node("a1"), node("a2")]
    claims = [storage_class(takes=30), claim("data-0"), claim("data-1")]
    outcome = run(nodes, claims, members(2, 3, least=2), urgent(run=10), until=60)
    assert preempted(outcome) == [(5, "g-0"), (5, "g-1")]
    assert outcome.started == {"urgent": 6, "g-0": 46, "g-1": 46}


def test_the_others_of_a_gang_keep_their_places() -> None:
    """Two of three are enough: one gives way, and the others are bound when their volumes are there."""
    nodes = [HIGH, node("a1"), node("a2"), node("a3")]
    claims = [storage_class(takes=30), *(claim(f"data-{n}") for n in range(3))]
    outcome = run(nodes, claims, members(3, 3, least=2), urgent(), until=60)
    ((_, victim),) = preempted(outcome)
    assert {name: at for name, at in outcome.started.items() if name != "urgent"} == {
        name: 30 for name in ("g-0", "g-1", "g-2") if name != victim
    }


def test_those_that_are_left_wait_for_each_other() -> None:
    """The first two are placed together, with 20 s until their volumes are there. The third joins them, with 40 s. When
    one of the first two gives way, the other must not start alone: the gang needs two."""
    nodes = [HIGH, node("a1"), node("a2"), node("a3")]
    classes = [storage_class(takes=20), storage_class("slow", takes=40)]
    claims = [claim("data-0"), claim("data-1"), claim("data-2", of="slow")]
    outcome = run(nodes, classes, claims, members(3, 3, least=2), urgent(), until=60)
    ((_, victim),) = preempted(outcome)
    assert victim in ("g-0", "g-1")
    assert [at for name, at in outcome.started.items() if name != "urgent"] == [40, 40]


def test_a_claim_that_others_wait_for_keeps_its_node() -> None:
    nodes = [HIGH, node("a1"), node("a2")]
    documents = [storage_class(takes=30), claim("data", mode="ReadWriteMany")]
    pods = [with_claims(pod("p", 3), "data"), with_claims(pod("q", 3), "data")]
    outcome = run(nodes, documents, pods, urgent(run=10), until=60)
    assert len(preempted(outcome)) == 1
    assert (outcome.started["p"], outcome.started["q"]) == (30, 30)


def test_a_queue_reclaims_its_share_from_pods_that_wait_for_volumes() -> None:
    # Two queues of equal weight on 4 CPUs. x has all of it, and y comes at 5 with 2 CPUs.
    documents = [node("a1", 4), queue("x"), queue("y"), storage_class(takes=30), *(claim(f"d{n}") for n in range(4))]
    pods = [with_claims(pod(f"x{n}", queue="x"), f"d{n}") for n in range(4)]
    outcome = run(documents, pods, [pod(f"y{n}", queue="y", at=5) for n in range(2)], until=20)
    assert [at for at, _ in preempted(outcome, "Reclaimed")] == [5, 5]
    assert outcome.started == {"y0": 6, "y1": 6}
