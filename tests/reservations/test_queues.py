"""Whose Reservation it is: the queue that it names, or that of whoever uses it."""

from __future__ import annotations

import pytest

from reservations.reservation_scenes import (
    ReservedOutcome,
    gang,
    job,
    node,
    owned,
    play,
    pod,
    pods,
    priority_class,
    queue,
    reservation,
)

HIGH = priority_class("high", 100)


class TestWithoutAQueue:
    """A Reservation that names no queue serves pods of any queue."""

    def test_a_pod_of_another_queue_uses_it(self) -> None:
        """4 CPUs, all held. The queue `team` deserves them, as nobody else wants any."""
        scene = [node("n1", 4), queue("team"), reservation("r", 4), owned(pod("p", 4, queue="team", at=2))]
        outcome = play(scene, until=5)
        assert outcome.bound() == {"p": (2, "n1")}
        assert outcome.reservation()["owners"] == ["default/p"]
        assert not outcome.pod("p")["backfill"]  # what is held is not lent

    @pytest.mark.parametrize(("second", "by_queue"), [(1, ("4", "0")), (3, ("1", "3")), (7, ("4", "0"))])
    def test_it_is_charged_to_default_and_then_to_its_user(self, second: int, by_queue: tuple[str, str]) -> None:
        """4 are held from 0 on. A pod of 3 uses them from 2 to 6: 3 count for its queue, 1 for `default`."""
        scene = [node("n1", 4), queue("team"), reservation("r", 4), owned(pod("p", 3, queue="team", at=2, run=4))]
        outcome = play(scene, until=second)
        assert tuple(outcome.queue(name)["allocated"].get("cpu", "0") for name in ("default", "team")) == by_queue

    def test_the_user_must_stay_within_what_its_queue_deserves(self) -> None:
        """8 CPUs, three queues of equal weight. `team` runs 3 that nobody may evict, `other` wants 8, and 4 are held
        for `team`'s pods: `default` has 4 of them, and `team` deserves no 3 + 4. When `other` has gone, it does."""
        scene = [
            node("n1", 8), queue("team"), queue("other"), reservation("r", 4),
            pod("old", 3, on="n1", queue="team", preemptable=False),
            *pods("want", 8, queue="other", at=1, selector={"no": "where"}, until=5),
            owned(pod("p", 4, queue="team", at=2)),
        ]  # fmt: skip
        early = play(scene, until=4)
        assert early.bound() == {}
        assert early.pod("p")["reason"] == "QueueOverDeserved"
        assert play(scene, until=7).bound() == {"p": (5, "n1")}

    def test_its_own_queue_need_not(self) -> None:
        """As for any Reservation, what `default` deserves does not hold a pod of `default`: it is charged already."""
        outcome = play(
            node("n1", 8), queue("q2"), reservation("r", 4), pod("old", 4, on="n1", preemptable=False),
            pods("b", 4, queue="q2", at=1, selector={"no": "where"}), owned(pod("mine", 4, at=2)), until=5,
        )  # fmt: skip
        assert outcome.bound() == {"mine": (2, "n1")}

    def test_the_hard_limit_of_the_user_counts(self) -> None:
        scene = [node("n1", 8), reservation("r", 4), owned(pod("p", 4, queue="team", at=2))]
        assert play(scene, queue("team", capability={"cpu": 3}), until=4).bound() == {}
        assert play(scene, queue("team", capability={"cpu": 4}), until=4).bound() == {"p": (2, "n1")}

    def test_order_does_not_hold_its_users(self) -> None:
        """The queue is FIFO, and its first pod fits nowhere."""
        outcome = play(
            node("n1", 4), queue("team", dequeueStrategy="fifo"), reservation("r", 2),
            pod("head", 4, queue="team", at=1), owned(pod("p", 2, queue="team", at=2)), until=4,
        )  # fmt: skip
        assert outcome.bound() == {"p": (2, "n1")}

    @pytest.mark.parametrize("sharing", ["proportion", "capacity"])
    def test_a_job_of_another_queue_is_admitted_on_it(self, sharing: str) -> None:
        """The whole cluster of 8 is held for the job. What is held counts as room in the cluster, and the job's queue
        has nothing yet."""
        outcome = play(
            node("n1", 8), queue("team", deserved={"cpu": 8}), reservation("r", 8, app="j"),
            job("j", 8, queue="team", at=1), until=5, sharing=sharing,
        )  # fmt: skip
        assert outcome.report["jobs"]["default/j"]["admitted"] == 1
        assert outcome.running_by("queue") == {"team": 8}

    def test_what_is_held_elsewhere_is_no_room_in_the_queue(self) -> None:
        """`team` may have 6 and runs 4. The 4 that are held count for `default`, so a job of 4 is not admitted."""
        outcome = play(
            node("n1", 12), queue("team", capability={"cpu": 6}), reservation("r", 4, app="j"),
            pod("old", 4, on="n1", queue="team"), job("j", 4, queue="team", at=1), until=4,
        )  # fmt: skip
        assert outcome.report["jobs"]["default/j"]["admitted"] is None

    def test_gangs_of_several_queues_share_one(self) -> None:
        """6 are held; a gang of 2 x 2 in one queue, and a pod of 2 in another."""
        outcome = play(
            node("n1", 6), queue("a"), queue("b"), reservation("r", 6), *map(owned, gang("g", 2, 2, queue="a", at=1)),
            owned(pod("p", 2, queue="b", at=2)), until=5,
        )  # fmt: skip
        assert set(outcome.bound()) == {"g-0", "g-1", "p"}
        assert [outcome.queue(name)["allocated"] for name in ("a", "b")] == [{"cpu": "4"}, {"cpu": "2"}]

    def test_with_a_queue_it_serves_only_that_one(self) -> None:
        scene = [node("n1", 2), queue("q1"), queue("q2"), reservation("r", 2, queue="q1")]
        assert play(scene, owned(pod("p", 2, queue="q2", at=1)), until=3).bound() == {}
        default = [node("n1", 2), queue("q2"), reservation("r", 2, queue="default")]
        assert play(default, owned(pod("p", 2, queue="q2", at=1)), until=3).bound() == {}


class TestUsersOfOtherQueuesAsVictims:
    def test_preemption_in_their_queue_takes_nothing_of_another(self) -> None:
        """4 are held, 3 of them used by a pod of `team`. A higher pod of `team` needs 3: what the user leaves would
        return to the Reservation, and to give that up would take 1 from `default`. It waits."""
        scene = [HIGH, node("n1", 4), queue("team"), reservation("r", 4), owned(pod("a", 3, queue="team", at=1))]
        outcome = play(scene, pod("urgent", 3, queue="team", at=3, priority="high"), until=6)
        assert outcome.evictions() == []
        assert outcome.reservation()["phase"] == "Available"

    def test_if_nothing_is_left_of_it_both_go(self) -> None:
        scene = [HIGH, node("n1", 4), queue("team"), reservation("r", 4), owned(pod("a", 4, queue="team", at=1))]
        outcome = play(scene, pod("urgent", 4, queue="team", at=3, priority="high"), until=6)
        assert [who for _, who, _ in outcome.evictions()] == ["a"]
        assert outcome.phases()[-1] == (3, "Pending")
        assert outcome.bound()["urgent"] == (4, "n1")


class TestPodsThatMayNotUseIt:
    """Both are told: the pod in its reason, and the Reservation in a condition and an event, once."""

    def said(self, outcome: ReservedOutcome) -> list[str]:
        return [event["message"] for event in outcome.report["events"] if event.get("reason") == "PodRefused"]

    def test_of_another_queue(self) -> None:
        """Another such pod is there when the first is deleted at 4. It is told, but not the Reservation."""
        scene = [node("n1", 2), queue("q1"), queue("q2"), reservation("r", 2, queue="q1")]
        second = owned(pod("p2", 2, queue="q2", at=2))
        outcome = play(scene, owned(pod("p", 2, queue="q2", at=1, until=4)), second, until=7)
        clause = "it is for queue q1, and the pod is in queue q2."
        assert f"Reservation r matches, but the pod cannot use it: {clause}" in outcome.pod("p2")["message"]
        assert self.said(outcome) == [f"Pod default/p matches its owners, but cannot use it: {clause}"]

    def test_of_another_namespace(self) -> None:
        foreign = owned(pod("p", 2, at=1))
        foreign["metadata"]["namespace"] = "other"
        outcome = play(node("n1", 2), reservation("r", 2), foreign, until=4)
        clause = "it is for namespace default, and the pod is in other"
        assert clause in outcome.report["pods"]["other/p"]["message"]
        assert len(self.said(outcome)) == 1

    def test_too_little_left(self) -> None:
        outcome = play(node("n1", 4), reservation("r", 3), owned(pod("p", 4, at=1)), until=4)
        assert "it has 3 cpu left, and the pod requests 4." in outcome.pod("p")["message"]
        assert len(self.said(outcome)) == 1

    def test_a_resource_that_it_does_not_hold(self) -> None:
        """n1 has 4Gi of memory, of which a pod uses 3. The Reservation holds CPUs only."""
        big = node("n1", 4, memory="4Gi")
        old = pod("old", 1, on="n1")
        old["spec"]["containers"][0]["resources"]["requests"]["memory"] = "3Gi"
        mine = owned(pod("p", 2, at=1))
        mine["spec"]["containers"][0]["resources"]["requests"]["memory"] = "2Gi"
        outcome = play(big, old, reservation("r", 2), mine, until=4)
        clause = "it does not hold memory, and its node n1 has 1Gi free of the 2Gi that the pod requests"
        assert clause in outcome.pod("p")["message"]
        assert len(self.said(outcome)) == 1

    def test_nothing_that_it_holds(self) -> None:
        outcome = play(
            node("n1", 4, memory="4Gi"), reservation("r", requests={"memory": "1Gi"}), owned(pod("p", 8, at=1)),
            until=4,
        )  # fmt: skip
        assert "it holds memory, and the pod requests nothing of that" in outcome.pod("p")["message"]

    def test_above_what_its_queue_may_have(self) -> None:
        scene = [node("n1", 8), queue("team", capability={"cpu": 3}), reservation("r", 4)]
        outcome = play(scene, owned(pod("p", 4, queue="team", at=2)), until=4)
        assert "queue team would have 4 cpu, and may have at most 3" in outcome.pod("p")["message"]
        assert self.said(outcome) == []

    def test_a_weightier_reason_later(self) -> None:
        """Too little is left for the first pod, and the second one is of another queue. A third changes nothing."""
        scene = [node("n1", 2), queue("q1"), queue("q2"), reservation("r", 2, queue="q1")]
        outcome = play(
            scene, owned(pod("a", 3, queue="q1", at=1)), owned(pod("b", 2, queue="q2", at=3)),
            owned(pod("c", 3, queue="q1", at=5)), until=8,
        )  # fmt: skip
        assert [message.partition(":")[0] for message in self.said(outcome)] == [
            "Pod default/a matches its owners, but cannot use it",
            "Pod default/b matches its owners, but cannot use it",
        ]

    def test_nothing_is_said_to_pods_that_only_wait_for_others(self) -> None:
        """The gang lacks room for its third pod; the Reservation is good for the first two."""
        members = gang("g", 2, 2, 2, at=1)
        outcome = play(node("n1", 4), reservation("r", 4), members[0], *map(owned, members[1:]), until=3)
        assert "Reservation r" not in outcome.pod("g-0")["message"]
        assert self.said(outcome) == []


def test_the_reason_of_others_says_what_is_held_beside_what_is_free() -> None:
    """10 CPUs: 4 used, 4 held, 2 free. A pod of 8 finds 2, and would find 6 without the Reservation."""
    outcome = play(node("n1", 10), pod("a", 4, on="n1"), reservation("r", 4), pod("p", 8, at=1), until=3)
    said = "insufficient cpu (8 requested, at most 2 free, 6 with what Reservations hold)"
    assert said in outcome.pod("p")["message"]
    without = play(node("n1", 10), pod("a", 4, on="n1"), pod("p", 8, at=1), until=3)
    assert "insufficient cpu (8 requested, at most 6 free)" in without.pod("p")["message"]


def test_pods_that_terminate_count_for_users_as_well() -> None:
    """The queue may have 2 CPUs. Until 7 s old uses one of them, though it was deleted at 3 s: with the pod of 2 that
    comes at 5 s the queue would use 3."""
    scene = [
        node("n1", 4), queue("team", capability={"cpu": 2}), pod("old", 1, queue="team", on="n1", until=3, grace=4),
        reservation("r", 2, at=4), owned(pod("p", 2, queue="team", at=5)),
    ]  # fmt: skip
    assert play(scene, until=6).pod("p")["reason"] == "WaitingForRelease"
    outcome = play(scene, until=9)
    assert outcome.bound() == {"p": (7, "n1")}
    assert outcome.reservation()["owners"] == ["default/p"]
