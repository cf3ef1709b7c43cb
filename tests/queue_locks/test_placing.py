"""Where pods land while nodes are locked: not on nodes of others, and on their queue's own nodes first."""

from __future__ import annotations

from queue_locks.lock_scenes import locking, node, patch, play, pod, pods, queue


def test_a_pod_that_fits_only_the_locked_node_waits() -> None:
    """n1 (8 CPUs) is locked for q1's 4. q2's pod of 6 CPUs fits nowhere else: n2 has 4."""
    outcome = play(node("n1", 8), node("n2", 4), locking("q1", {"cpu": 6}), queue("q2"), pod("a", 6, queue="q2"))
    assert outcome.locked("q1") == ["n1"]
    reason, message = outcome.why("a")
    assert reason == "NodeLockedByQueue"
    assert "1 locked for queue q1" in message
    assert "1 with insufficient cpu" in message


def test_the_owner_goes_to_its_node_although_another_scores_higher() -> None:
    """n2 is twice as large and empty, which is the better score. The third pod finds n1 full."""
    outcome = play(
        node("n1", 4), node("n2", 8), node("n3", 8), locking("q1", {"cpu": 4}),
        pod("first", 2, queue="q1"), pod("second", 2, queue="q1"), pod("third", 2, queue="q1", at=1),
    )  # fmt: skip
    assert outcome.locked("q1") == ["n1"]
    assert outcome.nodes == {"first": "n1", "second": "n1", "third": "n2"}


def test_a_pod_that_cannot_use_the_locked_node_goes_elsewhere() -> None:
    outcome = play(
        node("n1", 4), node("n2", 8, labels={"disk": "ssd"}), locking("q1", {"cpu": 4}),
        pod("a", 2, queue="q1", selector={"disk": "ssd"}),
    )  # fmt: skip
    assert outcome.locked("q1") == ["n1"]
    assert outcome.nodes == {"a": "n2"}


def test_pods_without_requests_may_land_anywhere() -> None:
    outcome = play(node("n1", 4), node("n2", 4), locking("q1", {"cpu": 4}), queue("q2"),
                   pods("full", 4, queue="q2", on="n2"), pod("a", 0, queue="q2", selector=None))  # fmt: skip
    assert "a" in outcome.running


def test_pods_of_others_stay_until_they_finish() -> None:
    """Best-Effort evicts nobody: q2's pods on n1 run to their end at t=6, and then q1's pods start there. Only in the
    rounds at t=5 and t=10 the status says how much is idle."""
    parts = [
        node("n1", 4), node("n2", 8), locking("q1", {"cpu": 4}), queue("q2"),
        *pods("old", 4, queue="q2", on="n1", run=6, preemptable=False),
        *pods("full", 8, queue="q2", on="n2", preemptable=False),
        *pods("mine", 4, queue="q1", at=1), pod("new", 1, queue="q2", at=2),
    ]  # fmt: skip
    outcome = play(parts, until=12)
    assert outcome.locked("q1") == ["n1"]
    assert {outcome.started[f"mine-0{i}"] for i in range(4)} == {6.0}
    assert outcome.pending == {"new"}
    assert outcome.evictions() == []
    assert play(parts, until=4).satisfied("q1") == ("False", "Draining")
    assert play(parts, until=12).satisfied("q1") == ("True", "Satisfied")


class TestSwitching:
    """A guarantee is turned on, changed and turned off by editing the queue, while everything runs."""

    PARTS = (node("n1", 4), node("n2", 4), node("n3", 4), node("n4", 4), queue("q1"), queue("q2"))

    def test_on_and_off(self) -> None:
        on = patch("Queue", "q1", {"spec": {"guarantee": {"policy": "Best-Effort", "resource": {"cpu": 4}}}}, at=3)
        off = patch("Queue", "q1", {"spec": {"guarantee": None}}, at=8)
        parts = [*self.PARTS, on, off, *pods("a", 4, cpu=4, queue="q2", at=6)]
        assert play(parts, until=2).locked("q1") == []
        during = play(parts, until=7)
        assert during.locked("q1") == ["n1"]
        assert during.running_by("node") == {"n2": 1, "n3": 1, "n4": 1}
        after = play(parts, until=9)
        assert after.locked("q1") == []
        assert after.started["a-03"] == 8.0
        assert after.moves() == [(3.0, "Locked", "q1", "n1"), (8.0, "Unlocked", "q1", "n1")]
        assert after.queue("q1")["conditions"] == []

    def test_more_and_less(self) -> None:
        """4 CPUs are one node, 8 are two, 3 are one again: the one that was locked first stays."""
        more = patch("Queue", "q1", {"spec": {"guarantee": {"policy": "Best-Effort", "resource": {"cpu": 8}}}}, at=2)
        less = patch("Queue", "q1", {"spec": {"guarantee": {"resource": {"cpu": 3}}}}, at=4)
        on = patch("Queue", "q1", {"spec": {"guarantee": {"policy": "Best-Effort", "resource": {"cpu": 4}}}}, at=1)
        outcome = play(self.PARTS, on, more, less, until=5)
        assert outcome.moves() == [
            (1.0, "Locked", "q1", "n1"), (2.0, "Locked", "q1", "n2"), (4.0, "Unlocked", "q1", "n2"),
        ]  # fmt: skip

    def test_a_bare_amount_again(self) -> None:
        """Without the policy it is a quota: nothing is locked, and 4 of 16 CPUs are still kept for q1."""
        on = patch("Queue", "q1", {"spec": {"guarantee": {"policy": "Best-Effort", "resource": {"cpu": 4}}}}, at=1)
        bare = patch("Queue", "q1", {"spec": {"guarantee": {"policy": None}}}, at=3)
        outcome = play(self.PARTS, on, bare, pods("a", 16, queue="q2", at=5), until=8)
        assert outcome.locked("q1") == []
        assert sum(outcome.running_by("node").values()) == 12
