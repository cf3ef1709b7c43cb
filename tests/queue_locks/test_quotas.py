"""Guarantees for which nothing is locked: the queue is told so, once, and how nodes would be locked."""

from __future__ import annotations

import pytest

from queue_locks.lock_objects import Setting
from queue_locks.lock_scenes import Document, LockOutcome, locking, node, patch, play, pods, queue, run
from stromboli.api import Guarantee, Node, ObjectMeta, Queue, QueueSpec
from stromboli.controllers.queue_locks import QueueLocks
from stromboli.scheduling.queue_locks import LockRules

FOUR = [node(f"n{i}", 4) for i in range(1, 5)]
BARE = queue("q1", guarantee={"resource": {"cpu": 8}})


def told(outcome: LockOutcome) -> list[tuple[float, str, str]]:
    """(when, event or warning, which queue)"""
    return [
        (e["t"], e["type"], e["object"])
        for e in outcome.report["events"]
        if e["type"] == "NotLocked" or e["reason"] == "NotLocked"
    ]


class TestAmountsAlone:
    def test_are_a_quota_and_the_queue_is_told_once(self) -> None:
        """8 of 16 CPUs are q1's, on whichever nodes: q2's 12 pods get 8 of them. Nothing is locked."""
        outcome = play(FOUR, BARE, queue("q2"), pods("b", 12, queue="q2", at=1))
        assert told(outcome) == [(0, "NotLocked", "q1")]
        assert outcome.condition("q1", "LocksNodes") == ("False", "QuotaOnly")
        assert outcome.locked("q1") == []
        assert outcome.running_by("queue") == {"q2": 8}
        message = next(e["message"] for e in outcome.report["events"] if e["type"] == "NotLocked")
        assert "is a quota" in message
        assert "Add a policy" in message

    def test_also_beside_a_queue_that_locks(self) -> None:
        outcome = play(FOUR, BARE, locking("q2", {"cpu": 4}))
        assert told(outcome) == [(0, "NotLocked", "q1")]
        assert outcome.locked("q2") == ["n1"]

    def test_with_a_policy_it_is_over_and_without_it_said_again(self) -> None:
        add = patch("Queue", "q1", {"spec": {"guarantee": {"policy": "Best-Effort"}}}, at=3)
        remove = patch("Queue", "q1", {"spec": {"guarantee": {"policy": None}}}, at=6)
        between = play(FOUR, BARE, add, until=5)
        assert between.locked("q1") == ["n1", "n2"]
        assert between.condition("q1", "LocksNodes") is None
        after = play(FOUR, BARE, add, remove)
        assert after.locked("q1") == []
        assert told(after) == [(0, "NotLocked", "q1"), (6, "NotLocked", "q1")]

    def test_nothing_is_said_about_a_queue_without_a_guarantee(self) -> None:
        gone = patch("Queue", "q1", {"spec": {"guarantee": None}}, at=3)
        outcome = play(FOUR, BARE, queue("q2"), gone)
        assert told(outcome) == [(0, "NotLocked", "q1")]
        assert outcome.report["queues"]["q1"]["conditions"] == []

    def test_a_server_that_drops_conditions_is_not_asked_for_ever(self) -> None:
        """Volcano's own definition of a Queue has no conditions."""
        plain = Queue(metadata=ObjectMeta(name="q1"), spec=QueueSpec(guarantee=Guarantee(resource={"cpu": 1})))
        setting = Setting([Node(metadata=ObjectMeta(name="n1"))], [plain])
        locks = QueueLocks(lambda: LockRules(setting.rules.most_percent))
        answers = []
        for second in range(3):
            locks.observe(plain)
            answers.append(len(locks.decide(setting, float(second), is_valid=lambda queue: True)))
        assert answers == [1, 0, 0]


class TestLockBareGuarantees:
    LOCKS: Document = {"lockBareGuarantees": True}  # noqa: RUF012

    def test_they_lock_as_best_effort(self) -> None:
        """q2 runs on all nodes first. Nobody is evicted; when its pods end, two nodes are q1's."""
        late = {**BARE, "metadata": {"name": "q1", "annotations": {"sim.stromboli.io/at": "2s"}}}
        outcome = play(FOUR, late, queue("q2"), pods("b", 24, queue="q2", run=6), locks=self.LOCKS, until=9)
        assert outcome.evictions() == []
        assert told(outcome) == []
        locked = outcome.locked("q1")
        assert len(locked) == 2
        assert outcome.running_by("queue") == {"q2": 8}
        assert outcome.accepted("q1") == ("True", "Accepted")

    def test_what_cannot_be_locked_stays_a_quota(self) -> None:
        """12 of 16 CPUs are three nodes, and two may be locked. The guarantee is refused as a lock, and q2 gets 4."""
        large = queue("q1", guarantee={"resource": {"cpu": 12}})
        outcome = play(FOUR, large, queue("q2"), pods("b", 16, queue="q2", at=1), locks=self.LOCKS)
        assert outcome.accepted("q1") == ("False", "ExceedsMaxReservedPercent")
        assert "it stays a quota" in outcome.messages("Warning")[0]
        assert outcome.locked("q1") == []
        assert outcome.running_by("queue") == {"q2": 4}

    def test_one_with_a_policy_that_cannot_be_locked_does_not(self) -> None:
        outcome = play(FOUR, locking("q1", {"cpu": 12}), queue("q2"), pods("b", 16, queue="q2", at=1), locks=self.LOCKS)
        assert outcome.running_by("queue") == {"q2": 16}


class TestWithoutThePlugin:
    @pytest.mark.parametrize(
        "asking", [locking("q1", {"cpu": 8}), locking("q1", share=0.5), locking("q1", {"cpu": 8}, policy="Guaranteed")]
    )
    def test_a_policy_is_a_warning(self, asking: Document) -> None:
        outcome = play(FOUR, asking, queue("q2"), locks=None)
        assert told(outcome) == [(0, "Warning", "q1")]
        assert "node_reservation is not configured" in outcome.messages("Warning")[0]
        assert outcome.condition("q1", "LocksNodes") == ("False", "NotConfigured")

    def test_amounts_alone_are_not(self) -> None:
        assert told(play(FOUR, BARE, locks=None)) == []


class TestShortNames:
    """`gpu` is NVIDIA's, in `resource` and in `dimensions`, unless nodes offer something of that name."""

    NODES = (
        node("cpu-1", 4), node("cpu-2", 4),
        node("gpu-1", 4, **{"nvidia.com/gpu": 4}), node("gpu-2", 4, **{"nvidia.com/gpu": 4}),
    )  # fmt: skip

    @pytest.mark.parametrize("name", ["gpu", "nvidia.com/gpu"])
    def test_in_resource(self, name: str) -> None:
        assert play(self.NODES, locking("q1", {name: 4})).locked("q1") in (["gpu-1"], ["gpu-2"])

    @pytest.mark.parametrize("name", ["gpu", "nvidia.com/gpu"])
    def test_in_dimensions(self, name: str) -> None:
        assert play(self.NODES, locking("q1", share=0.25, dimensions=[name])).locked("q1") in (["gpu-1"], ["gpu-2"])

    def test_a_resource_of_that_name_wins(self) -> None:
        odd = node("odd", 4, gpu=4)
        assert play(self.NODES, odd, locking("q1", {"gpu": 4})).locked("q1") == ["odd"]
        assert play(self.NODES, odd, locking("q1", share=0.25, dimensions=["gpu"])).locked("q1") == ["odd"]

    def test_as_a_quota(self) -> None:
        """q1 is guaranteed 6 of 8 GPUs, so q2 gets 2."""
        bare = queue("q1", guarantee={"resource": {"gpu": 6}})
        wanting = pods("b", 8, 0.1, queue="q2", at=1)
        for one in wanting:
            one["spec"]["containers"][0]["resources"]["requests"]["nvidia.com/gpu"] = 1
        assert play(self.NODES, bare, queue("q2"), wanting).running_by("queue") == {"q2": 2}

    def test_a_name_that_nodes_begin_to_offer(self) -> None:
        late = node("odd", 4, gpu=4, at=3)
        outcome = play(self.NODES, late, locking("q1", {"gpu": 4}))
        assert outcome.locked("q1") == ["odd"]


@pytest.mark.parametrize(("share", "advises"), [(0, False), (0.0, False), (0.1, True)])
def test_a_percentage_of_nothing_is_not_told_to_be_raised(share: float, advises: bool) -> None:
    outcome = run(FOUR, locking("q1", share=share))
    (message,) = outcome.messages("Warning")
    assert ("Raise the percentage" in message) is advises
    assert outcome.locked("q1") == []
