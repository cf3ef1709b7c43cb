"""Locks and nodes that are set aside for starving jobs."""

from __future__ import annotations

from queue_locks.lock_scenes import Document, gang, locking, node, patch, play, pod, pods, queue

SOON: Document = {"starvingJobTimeThreshold": 3}


def test_a_starving_job_of_another_queue_gets_no_locked_node() -> None:
    """n1 is locked for q1. q2's pod of 4 CPUs starves: n2 is set aside for it, not n1, although n1 is empty."""
    outcome = play(
        node("n1", 4), node("n2", 4), locking("q1", {"cpu": 4}), queue("q2"),
        pods("busy", 4, queue="q2", on="n2"), pod("big", 4, queue="q2", at=1),
        reserve={**SOON, "reservedNodePercent": 100},
    )  # fmt: skip
    assert outcome.locked("q1") == ["n1"]
    assert outcome.reserved == {"n2": ["big"]}


def test_a_node_that_is_set_aside_is_not_locked() -> None:
    """n1 is set aside for q2's big pod since t=4. q1 wants 4 CPUs from t=6 and gets n2, which has as much idle."""
    outcome = play(
        node("n1", 4), node("n2", 4), queue("q1"), queue("q2"),
        pods("a", 1, queue="q2", on="n1"), pods("b", 1, queue="q2", on="n2"), pod("big", 4, queue="q2", at=0),
        patch("Queue", "q1", {"spec": {"guarantee": {"policy": "Best-Effort", "resource": {"cpu": 4}}}}, at=6),
        reserve=SOON,
    )  # fmt: skip
    assert outcome.reserved == {"n1": ["big"]}
    assert outcome.locked("q1") == ["n2"]


def test_the_limit_is_a_part_of_the_nodes_in_reach() -> None:
    """Of 6 nodes 3 are locked for q1. q2 may have half of the other 3 set aside, rounded up: 2. Its gang needs 3."""
    nodes = [node(f"n{i}", 4) for i in range(1, 7)]
    busy = [p for i in range(4, 7) for p in pods(f"busy{i}", 1, queue="q2", on=f"n{i}")]
    parts = [*nodes, locking("q1", share=0.5), queue("q2"), *busy]
    three = play(parts, gang("g", 4, 4, 4, queue="q2"), reserve=SOON)
    assert three.locked("q1") == ["n1", "n2", "n3"]
    assert three.reserved == {}
    assert "at most 2 may be reserved" in three.messages("Warning")[0]
    two = play(parts, gang("g", 4, 4, queue="q2"), reserve=SOON)
    assert two.reserved == {"n4": ["g"], "n5": ["g"]}


def test_own_locked_nodes_come_first_and_count_nothing() -> None:
    """Of 4 nodes n1 and n2 are locked for q1, which has half its gang's nodes there. One more may be set aside of those
    that count: ceil(4 · 25 %) = 1. So three nodes are, and n1 and n2 stay locked."""
    nodes = [node(f"n{i}", 4) for i in range(1, 5)]
    busy = [p for i in range(1, 5) for p in pods(f"busy{i}", 1, queue="q1", on=f"n{i}")]
    outcome = play(
        nodes, locking("q1", share=0.5), queue("q2"), busy, gang("g", 4, 4, 4, queue="q1", at=1),
        reserve={**SOON, "reservedNodePercent": 25}, until=12,
    )  # fmt: skip
    assert outcome.locked("q1") == ["n1", "n2"]
    assert sorted(outcome.reserved) == ["n1", "n2", "n3"]


def test_own_locked_nodes_come_first_although_others_are_emptier() -> None:
    """On n1 and n2, which are locked for q1, 3 of 4 CPUs are used, elsewhere 1. One node may be set aside of those that
    count, and the gang needs two: it gets n1 and n2."""
    nodes = [node(f"n{i}", 4) for i in range(1, 5)]
    used = {1: 3, 2: 3, 3: 1, 4: 1}
    busy = [p for i, cpus in used.items() for p in pods(f"busy{i}", cpus, queue="q1", on=f"n{i}")]
    outcome = play(
        nodes, locking("q1", share=0.5), queue("q2"), busy, gang("g", 4, 4, queue="q1", at=1),
        reserve={**SOON, "reservedNodePercent": 25}, until=12,
    )  # fmt: skip
    assert outcome.locked("q1") == ["n1", "n2"]
    assert sorted(outcome.reserved) == ["n1", "n2"]


def test_an_own_locked_node_is_set_aside_although_no_other_may_be() -> None:
    """One node may be set aside: ceil(4 · 25 %) = 1, or ceil(2 · 25 %) = 1 for q2. Its pod h has it."""
    nodes = [node(f"n{i}", 4) for i in range(1, 5)]
    busy = [p for i in range(1, 5) for p in pods(f"busy{i}", 1, queue="q1", on=f"n{i}")]
    outcome = play(
        nodes, locking("q1", share=0.5), queue("q2"), busy,
        pod("h", 4, queue="q2", at=1), pod("p", 4, queue="q1", at=3),
        reserve={**SOON, "reservedNodePercent": 25}, until=9,
    )  # fmt: skip
    assert outcome.reserved == {"n1": ["p"], "n3": ["h"]}


def test_what_is_set_aside_at_the_same_moment_wins() -> None:
    """At t=4 the scheduler sets n1 aside for q2's big pod (starving since t=3), and at the same time q1's guarantee is
    turned on. The controllers run first, so n1 is q1's and n2 is set aside. Where the status says n1 although n1 is set
    aside, the lock does not count, and the next round chooses another."""
    parts = [
        node("n1", 4), node("n2", 4), node("n3", 4), queue("q1"), queue("q2"), *pods("a", 1, queue="q2", on="n1"),
        *pods("b", 1, queue="q2", on="n2"), *pods("c", 1, queue="q2", on="n3"), pod("big", 4, queue="q2"),
    ]  # fmt: skip
    guarantee = {"policy": "Best-Effort", "resource": {"cpu": 4}}
    stale = patch(
        "Queue", "q1",
        {"spec": {"guarantee": guarantee}, "status": {"reservation": {"nodes": ["n1"], "guarantee": guarantee}}}, at=6,
    )  # fmt: skip
    outcome = play(parts, stale, reserve=SOON, until=8)
    assert outcome.reserved == {"n1": ["big"]}
    assert outcome.locked("q1") == ["n2"]
