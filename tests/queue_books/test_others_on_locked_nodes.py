"""What others still use on a locked node stays common room until they leave; nothing is counted twice.

Only n1 has a GPU, so it is the node that is locked for whoever is guaranteed one."""

from __future__ import annotations

from typing import Any

import pytest

from queue_books.test_what_is_divided import foreign
from queue_locks.lock_scenes import LockOutcome, locking, node, patch, play, pod, pods, queue

GPU = "nvidia.com/gpu"
NODES = [node("n1", 8, **{GPU: 1}), node("n2", 8)]


def allocated(outcome: LockOutcome, *names: str) -> list[str]:
    return [outcome.queue(name)["allocated"].get("cpu", "0") for name in names]


def drained(*parts: Any, cpu: int = 0, policy: str = "", **options: Any) -> LockOutcome:
    """n1 is locked for q1, which is guaranteed its GPU and so many CPUs."""
    guarantee = {GPU: 1, **({"cpu": cpu} if cpu else {})}
    outcome = play(NODES, locking("q1", guarantee, policy=policy), queue("q2"), *parts, **options)
    assert outcome.locked("q1") == ["n1"]
    return outcome


@pytest.mark.parametrize("sharing", ["proportion", "capacity"])
def test_a_free_node_is_used_while_a_lock_drains(sharing: str) -> None:
    """Services of q2 have 8 CPUs on n1, which is locked for q1, and n2 is free. If the lock counted as 8 for q1 and the
    pods as 8 for q2, q2 would have all its 8 of 16, and n2 would stay idle for as long as the services run."""
    outcome = drained(pods("s", 8, queue="q2", on="n1"), pods("b", 8, queue="q2", at=6), cpu=8, sharing=sharing)
    assert outcome.running_by("node") == {"n1": 8, "n2": 8}
    assert allocated(outcome, "q1", "q2") == ["0", "16"]


@pytest.mark.parametrize("used", [0, 3, 7])
def test_sums_are_what_the_nodes_have(used: int) -> None:
    """Of n1's 8 CPUs q2 has so many, and 8 on n2. q1 has what is idle; with all of n1, sums would be above 16."""
    outcome = drained(pods("s", used, queue="q2", on="n1"), pods("t", 9, queue="q2"))
    assert allocated(outcome, "q1", "q2") == [str(8 - used), str(8 + used)]


def test_foreign_pods_there_are_nobodys() -> None:
    outcome = drained(foreign("f", 3, "n1"), pods("b", 8, queue="q2"))
    assert allocated(outcome, "q1", "q2") == ["5", "8"]


@pytest.mark.parametrize("policy", ["Best-Effort", "Guaranteed"])
def test_a_lock_guarantees_what_is_there(policy: str) -> None:
    """q1 is guaranteed 8 CPUs. Its node has 2 of them, and the other 6 are services of q2, which may not be evicted: so
    2 are guaranteed now, and q2 may have the other 14."""
    services = pods("s", 6, queue="q2", on="n1", preemptable=False)
    outcome = drained(services, pods("b", 8, queue="q2", at=6), cpu=8, policy=policy)
    assert outcome.queue("q1")["deserved"]["cpu"] == "2"
    assert outcome.pending == set()


def test_what_leaves_becomes_the_owners() -> None:
    """4 of q2's 8 pods on n1 end. What they leave is q1's, and nobody else's."""
    outcome = drained(
        pods("s", 4, queue="q2", on="n1"), pods("e", 4, queue="q2", on="n1", run=5), pods("t", 8, queue="q2", on="n2"),
        pods("w", 4, queue="q2"),
    )  # fmt: skip
    assert allocated(outcome, "q1", "q2") == ["4", "12"]
    assert outcome.pending == {f"w-0{i}" for i in range(4)}


def test_a_queue_below_the_owner_is_charged_for_what_it_uses() -> None:
    """child has 3 of the 8 CPUs that are locked for q1, which has the other 5. Together they have 8."""
    outcome = drained(queue("child", parent="q1"), pods("c", 3, queue="child"))
    assert outcome.running_by("node") == {"n1": 3}
    assert allocated(outcome, "q1", "child") == ["8", "3"]


def test_a_cordoned_node_offers_its_owner_nothing_idle() -> None:
    """n1 is cordoned with 2 pods of q1, and counts as those 2. There is no other node to lock."""
    outcome = play(
        NODES, locking("q1", {GPU: 1}), pods("a", 2, queue="q1", on="n1"),
        patch("Node", "n1", {"spec": {"unschedulable": True}}, at=3),
    )  # fmt: skip
    assert allocated(outcome, "q1") == ["2"]


@pytest.mark.parametrize("locked_at", [7, 1])
def test_a_lock_that_begins_takes_no_node_from_a_starving_job(locked_at: float) -> None:
    """q2 has 9 CPUs, and n2 is set aside for its pod of 8 since t=4. q2 and q3 deserve 12 of 24 CPUs each, and only 8
    when n1 is locked for q1. q2 has more than that now, but its pod does not lose n2 for a lock that somebody else has
    got since. If the lock was there before, q2 is above what it deserves, and gets no node."""
    parts = [
        node("n1", 8, **{GPU: 1}), node("n2", 8, labels={"zone": "a"}), node("n3", 8, labels={"zone": "a"}),
        queue("q1"), queue("q2"), queue("q3"),
        *pods("s", 8, queue="q2", on="n3", preemptable=False), *pods("t", 1, queue="q2", on="n2", preemptable=False),
        pod("big", 8, queue="q2", selector={"zone": "a"}),
        *pods("w", 2, 8, queue="q3", selector={"zone": "a"}, at=3),
        patch("Queue", "q1", {"spec": {"guarantee": {"policy": "Best-Effort", "resource": {GPU: 1}}}}, at=locked_at),
    ]  # fmt: skip
    rules = {"starvingJobTimeThreshold": 3, "reservationTimeout": 0, "maxHolders": 1}
    outcome = play(parts, reserve=rules, until=10)
    assert outcome.locked("q1") == ["n1"]
    assert outcome.queue("q2")["deserved"]["cpu"] == "8"
    assert (outcome.reserved == {"n2": ["big"]}) is (locked_at == 7)


@pytest.mark.parametrize("sharing", ["proportion", "capacity"])
def test_nor_does_one_that_guarantees_what_the_job_waits_for(sharing: str) -> None:
    """q2 has all 24 CPUs, and a node is set aside for its pod of 8 since t=5. Since t=7 another is locked for q1, which
    is guaranteed 8 CPUs. As common room that node would be q2's; nor is q1 then guaranteed 8 CPUs anywhere else, for
    which q2 would have 8 too many in each cycle."""
    parts = [
        node("n1", 8), node("n2", 8), node("n3", 8),
        queue("q1", deserved={"cpu": 8}), queue("q2", deserved={"cpu": 24}),
        *pods("s", 12, 2, queue="q2", run=100), pod("big", 8, queue="q2", at=1),
        patch("Queue", "q1", {"spec": {"guarantee": {"policy": "Best-Effort", "resource": {"cpu": 8}}}}, at=7),
    ]  # fmt: skip
    outcome = play(parts, reserve={"starvingJobTimeThreshold": 3}, until=10, sharing=sharing)
    assert len(outcome.locked("q1")) == 1
    told = [(e["t"], e["type"]) for e in outcome.report["events"] if e["type"] in ("Reserved", "Unreserved")]
    assert told == [(5, "Reserved")]


@pytest.mark.parametrize(("size", "evicted"), [(8, 1), (3, 0)])
def test_an_owners_pod_outside_goes_only_if_it_fits_on_the_lock(size: int, evicted: int) -> None:
    """n1 is locked for q1, which has a pod of 4 CPUs on n2 and counts as having that and all of n1. q2 deserves more of
    n2 than is free there. If n1 is as large as the pod, it goes, because it fits on n1; else it stays."""
    outcome = play(
        node("n1", size, **{GPU: 1}), node("n2", 8), locking("q1", {GPU: 1}), queue("q2"),
        pod("mine", 4, queue="q1", on="n2"), pods("b", 8, queue="q2", at=6), until=12,
    )  # fmt: skip
    assert outcome.locked("q1") == ["n1"]
    assert len(outcome.evictions()) == evicted
