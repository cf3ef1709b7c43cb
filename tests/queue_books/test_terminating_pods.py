"""Pods that terminate use their nodes until they are gone, so they count where something is to start."""

from __future__ import annotations

from typing import Any

import pytest

from queue_locks.lock_scenes import Document, LockOutcome, gang, node, patch, play, pod, pods, queue


def most_in_use(outcome: LockOutcome, documents: list[Document], line: str) -> int:
    """The most CPUs that pods of a queue used on nodes at the same time: from their start until they were gone."""
    said = {d["metadata"]["name"]: d for d in documents if d["kind"] == "Pod"}
    changes: list[tuple[float, int]] = []
    for name, told in outcome.report["pods"].items():
        document = said[name.partition("/")[2]]
        notes = document["metadata"]["annotations"]
        if told["queue"] == line and told["bound"] is not None:
            cpu = int(document["spec"]["containers"][0]["resources"]["requests"]["cpu"])
            changes.append((told["bound"], cpu))
            evicted = [e["t"] for e in outcome.report["events"] if e["object"] == name and e["type"] == "Evicted"]
            deleted = notes.get("sim.stromboli.io/until")
            left = evicted if deleted is None else [float(deleted.rstrip("s"))]
            if left:
                changes.append((left[0] + float(notes.get("sim.stromboli.io/grace", "0s").rstrip("s")), -cpu))
    most = now = 0
    for _, change in sorted(changes):
        now += change
        most = max(most, now)
    return most


def capped(amount: int) -> Document:
    return queue("q", capability={"cpu": amount})


@pytest.mark.parametrize("sharing", ["proportion", "capacity"])
def test_a_capped_queue_never_uses_more_while_its_pods_terminate(sharing: str) -> None:
    """q may use 13 CPUs and does. Four of its pods are deleted at t=3 and take 7 s to go. What comes at t=4 starts when
    they are gone, not before: that would be 17 CPUs for 7 s."""
    documents = [
        node("n1", 16), node("n2", 16), capped(13), *pods("a", 9, queue="q"),
        *pods("old", 4, queue="q", until=3, grace=7), *pods("new", 4, queue="q", at=4),
    ]  # fmt: skip
    outcome = play(documents, sharing=sharing, until=15)
    assert most_in_use(outcome, documents, "q") == 13
    assert [outcome.report["pods"][f"default/new-0{i}"]["bound"] for i in range(4)] == [10.0] * 4


def test_the_reason_says_so() -> None:
    """The pod may not use the node that the others leave, so it is promised nothing there."""
    documents = [
        node("n1", 16, labels={"zone": "a"}), node("n2", 16), capped(13), *pods("a", 9, queue="q", on="n1"),
        *pods("old", 4, queue="q", until=3, grace=7, on="n2"), pod("new", 4, queue="q", selector={"zone": "a"}, at=4),
    ]  # fmt: skip
    outcome = play(documents, until=6)
    assert outcome.why("new") == (
        "QueueOverQuota",
        "Queue q would exceed its quota: 4 cpu requested, 9 allocated, 4 still used by terminating pods, at most 13 "
        "allowed. Wait for its jobs to finish, or raise its capability.",
    )


def test_a_gang_waits_for_them_as_a_whole() -> None:
    """q may use 6 CPUs; 2 pods stay and 2 terminate. 12 are free, and the gang of 4 starts at t=10, not 2 of it now."""
    documents = [
        node("n1", 16), capped(6), *pods("a", 2, queue="q"),
        *pods("old", 2, queue="q", until=3, grace=7), *gang("g", 1, 1, 1, 1, queue="q", at=4),
    ]  # fmt: skip
    outcome = play(documents, until=15)
    assert [outcome.report["pods"][f"default/g-{i}"]["bound"] for i in range(4)] == [10.0] * 4
    assert most_in_use(outcome, documents, "q") == 6


def test_below_the_limit_nobody_waits() -> None:
    outcome = play(
        node("n1", 16), node("n2", 16), capped(17), pods("a", 9, queue="q"),
        pods("old", 4, queue="q", until=3, grace=7), pods("new", 4, queue="q", at=4),
    )  # fmt: skip
    assert outcome.report["pods"]["default/new-00"]["bound"] == 4.0


def test_what_others_are_guaranteed_stays_free() -> None:
    """10 CPUs, of which 4 are guaranteed to c. Six pods of b terminate when a's come: these start when b's are gone, so
    that c's 4 CPUs are free all the time."""
    outcome = play(
        node("n1", 10), queue("a"), queue("b"), queue("c", guarantee={"resource": {"cpu": 4}}),
        pods("b", 6, queue="b", until=3, grace=7), pods("a", 3, queue="a", at=4), until=15,
    )  # fmt: skip
    assert [outcome.report["pods"][f"default/a-0{i}"]["bound"] for i in range(3)] == [10.0] * 3


def test_in_a_tree_they_count_for_all_queues_above() -> None:
    """top may use 4 CPUs, and 2 of those that left have not gone."""
    outcome = play(
        node("n1", 16), queue("top", capability={"cpu": 4}), queue("a", parent="top"), queue("b", parent="top"),
        pods("stay", 2, queue="a"), pods("old", 2, queue="a", until=3, grace=7), pods("new", 2, queue="b", at=4),
        sharing="capacity", tree=True, until=15,
    )  # fmt: skip
    assert [outcome.report["pods"][f"default/new-0{i}"]["bound"] for i in range(2)] == [10.0] * 2


def test_what_they_leave_is_promised_at_once() -> None:
    """q may use 8 CPUs and has them on n1. A pod of higher priority evicts one of 4 CPUs, which takes 5 s to go, and
    starts there as soon as it is gone."""
    high: Document = {
        "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 10,
    }  # fmt: skip
    documents: list[Any] = [
        node("n1", 8), capped(8), high, *pods("low", 2, 4, queue="q", grace=5),
        pod("big", 4, queue="q", priority="high", at=2),
    ]  # fmt: skip
    outcome = play(documents, until=12)
    assert len(outcome.evictions()) == 1
    assert outcome.report["pods"]["default/big"]["bound"] == 7.0


@pytest.mark.parametrize(("ready", "bound"), [(True, 14.0), (False, 9.0)])
def test_on_a_node_that_is_lost_they_count_until_they_should_be_gone(ready: bool, bound: float) -> None:
    """n2 is lost with 4 pods that were deleted at t=4 and should be gone at t=9, but stay. From then on they count no
    longer for q, which may use 4 CPUs."""
    lost = patch("Node", "n2", {"status": {"conditions": [{"type": "Ready", "status": "False"}]}}, at=2)
    documents = [
        node("n1", 16), node("n2", 4), capped(4),
        *pods("old", 4, queue="q", on="n2", until=4, grace=10 if ready else 5), *([] if ready else [lost]),
        *pods("new", 4, queue="q", at=5),
    ]  # fmt: skip
    outcome = play(documents, until=16)
    assert outcome.report["pods"]["default/new-00"]["bound"] == bound


def test_namespaces_wait_for_their_own_terminating_pods() -> None:
    """ns1 has 2 terminating pods on n1 and ns2 has 1 pod; both wait for the one CPU that is free. ns2 has less."""
    documents = [
        node("n1", 4), queue("q"),
        *_in("ns1", pods("old", 2, queue="q", until=3, grace=7)), *_in("ns2", pods("x", 1, queue="q")),
        *_in("ns1", pods("a", 1, queue="q", at=4)), *_in("ns2", pods("b", 1, queue="q", at=4)),
    ]  # fmt: skip
    outcome = play(documents, until=6)
    assert outcome.report["pods"]["ns2/b-00"]["phase"] == "Running"
    assert outcome.report["pods"]["ns1/a-00"]["phase"] == "Pending"


def _in(namespace: str, documents: list[Document]) -> list[Document]:
    for document in documents:
        document["metadata"]["namespace"] = namespace
    return documents
