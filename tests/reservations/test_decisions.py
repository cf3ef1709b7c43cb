"""Where Reservations meet admission, fifo queues, shares, reclaim, preemption, gangs, locks and starving jobs."""

from __future__ import annotations

import pytest

from reservations.reservation_scenes import (
    Document,
    gang,
    job,
    node,
    owned,
    patch,
    play,
    pod,
    pods,
    priority_class,
    queue,
    reservation,
    run,
)

HIGH = priority_class("high", 100)


class TestAdmission:
    """What is held for a job counts as room when it is to be admitted."""

    SCENE = (
        node("n1", 10), queue("q", capability={"cpu": 8}), pod("old", 2, on="n1"),
        reservation("r", 8, queue="q", app="j"), job("j", 8, queue="q", at=1),
    )  # fmt: skip

    def test_a_job_that_fills_its_queue(self) -> None:
        """10 CPUs, 2 of them used, 8 held; the queue may have 8. The job is admitted in the cycle in which it comes,
        its pods are created after that cycle and bound in the next one."""
        outcome = play(*self.SCENE, until=4)
        assert outcome.report["jobs"]["default/j"]["admitted"] == 1
        assert {when for name, (when, _) in outcome.bound().items()} == {2}
        assert outcome.running_by("queue")["q"] == 8

    @pytest.mark.parametrize("second", range(5))
    def test_the_queue_has_eight_all_the_time(self, second: int) -> None:
        assert run(*self.SCENE, until=second).queue("q")["allocated"] == {"cpu": "8"}

    def test_by_the_label_of_its_job(self) -> None:
        owner = {"labelSelector": {"matchLabels": {"volcano.sh/job-name": "j"}}}
        scene = [*self.SCENE[:3], reservation("r", 8, queue="q", owners=[owner]), self.SCENE[4]]
        assert play(*scene, until=3).running_by("queue")["q"] == 8

    def test_another_job_is_not_admitted(self) -> None:
        other = job("other", 8, queue="q", at=1)
        outcome = play(*self.SCENE[:4], other, until=4)
        assert outcome.report["jobs"]["default/other"]["admitted"] is None

    def test_it_is_counted_once(self) -> None:
        """Two jobs that could use it: the second is not admitted on the same room."""
        other = job("k", 8, queue="q", at=1, app="j")
        outcome = play(*self.SCENE, other, until=4)
        admitted = [outcome.report["jobs"][f"default/{name}"]["admitted"] for name in ("j", "k")]
        assert admitted == [1, None]

    @pytest.mark.parametrize("sharing", ["proportion", "capacity"])
    def test_others_beside_a_job_that_waits_with_its_reservation(self, sharing: str) -> None:
        """20 CPUs. A gang of 9 was admitted with 8 held for it, and waits because no node takes its last pod. What is
        held and what it was promised are the same 8: a job of 8 finds 20 - 8 - 1 = 11, in the cluster and in a queue
        that may have 20, and starts."""
        stuck = job("j", 8, queue="q", at=1, minAvailable=9)
        odd = {**stuck["spec"]["tasks"][0]["template"]["spec"], "nodeSelector": {"no": "where"}}
        stuck["spec"]["tasks"].append({"name": "odd", "replicas": 1, "template": {"spec": odd}})
        outcome = play(
            node("n1", 20), queue("q", capability={"cpu": 20}), reservation("r", 8, queue="q", app="j"), stuck,
            job("m", 8, queue="q", at=3), until=5, sharing=sharing,
        )  # fmt: skip
        assert outcome.report["jobs"]["default/m"]["admitted"] == 3
        assert outcome.report["jobs"]["default/m"]["started"] == 4
        assert outcome.pod("j-main-0")["reason"] == "GangShort"

    def test_with_the_plugin_capacity(self) -> None:
        outcome = play(*self.SCENE, until=4, sharing="capacity")
        assert outcome.running_by("queue")["q"] == 8


class TestUsersGoFirst:
    def test_a_fifo_queue_does_not_hold_them(self) -> None:
        """The first pod of the queue fits nowhere and stops the queue, but not the pod that has its room already."""
        scene = [node("n1", 4), queue("q", dequeueStrategy="fifo"), reservation("r", 2, queue="q")]
        mine, later = owned(pod("mine", 2, queue="q", at=2)), pod("next", 1, queue="q", at=2)
        outcome = play(scene, pod("head", 4, queue="q", at=1), mine, later, until=4)
        assert outcome.bound() == {"mine": (2, "n1")}
        assert outcome.pod("next")["reason"] == "QueueFirstInLine"

    def test_shares_do_not_hold_them(self) -> None:
        """8 CPUs. q1 has 4 held and runs 4 when q2 comes and deserves half. q1 has all it deserves, and its pod starts
        on what is held."""
        outcome = play(
            node("n1", 8), queue("q1", reclaimable=False), queue("q2"), reservation("r", 4, queue="q1"),
            pod("old", 4, on="n1", queue="q1"), pods("b", 4, queue="q2", at=1), owned(pod("mine", 4, queue="q1", at=2)),
            until=5,
        )  # fmt: skip
        assert outcome.bound() == {"mine": (2, "n1")}
        assert outcome.queue("q1")["deserved"] == {"cpu": "4"}
        assert outcome.queue("q1")["allocated"] == {"cpu": "8"}

    def test_hard_limits_count_with_what_it_gives_back(self) -> None:
        """The queue may have 4 and has 4 held, so a pod of 4 starts. With a limit of 3 it does not."""
        scene = [node("n1", 8), queue("q", capability={"cpu": 4}), reservation("r", 4, queue="q")]
        mine = owned(pod("mine", 4, queue="q", at=2))
        assert play(scene, mine, until=4).bound() == {"mine": (2, "n1")}
        lower = patch("Queue", "q", {"spec": {"capability": {"cpu": 3}}}, at=1)
        assert play(scene, lower, mine, until=4).bound() == {}


class TestRoomOfOthers:
    def test_within_what_the_queue_deserves(self) -> None:
        """8 CPUs, two queues. While q2 wants 8, q1 deserves 4: no 6 for its Reservation, although 6 are idle. When q2's
        pod is gone, q1 deserves 6."""
        outcome = play(
            node("n1", 8), queue("q1"), queue("q2"), pod("b", 8, queue="q2", selector={"no": "where"}, until=3),
            pod("c", 2, on="n1", queue="q2"), reservation("r", 6, queue="q1", at=1), until=5,
        )  # fmt: skip
        assert outcome.phases() == [(1, "Pending"), (3, "Available")]

    def test_it_evicts_nobody(self) -> None:
        """Unless its template names a PriorityClass; see `test_priorities`."""
        outcome = play(HIGH, node("n1", 4), pod("low", 4, on="n1"), reservation("r", 4), until=4)
        assert outcome.evictions() == []
        assert outcome.reservation()["phase"] == "Pending"

    def test_it_never_stops_a_fifo_queue(self) -> None:
        outcome = play(
            HIGH, node("n1", 4), queue("q", dequeueStrategy="fifo"),
            reservation("r", 8, queue="q", template={"priorityClassName": "high"}), pod("p", 4, queue="q", at=1),
            until=3,
        )  # fmt: skip
        assert outcome.bound() == {"p": (1, "n1")}

    def test_reclaim_takes_it_before_any_pod(self) -> None:
        """q1 has 4 held and runs 4 pods. q2 wants 4 and deserves 4: the Reservation goes, and no pod. What q1 deserves
        is used up, so it stays away."""
        outcome = play(
            node("n1", 8), queue("q1"), queue("q2"), reservation("r", 4, queue="q1"), pods("a", 4, queue="q1"),
            pods("b", 4, queue="q2", at=2), until=6,
        )  # fmt: skip
        assert outcome.evictions() == []
        assert outcome.phases() == [(0, "Pending"), (0, "Available"), (2, "Pending")]
        assert outcome.running_by("queue") == {"q1": 4, "q2": 4}
        assert max(when for name, (when, _) in outcome.bound().items() if name.startswith("b")) == 3

    def test_reclaim_takes_nothing_within_what_the_queue_deserves(self) -> None:
        outcome = play(
            node("n1", 8), queue("q1"), queue("q2"), reservation("r", 4, queue="q1"), pods("b", 8, queue="q2", at=2),
            until=6,
        )  # fmt: skip
        assert outcome.reservation()["phase"] == "Available"
        assert outcome.running_by("queue") == {"q2": 4}

    def test_preemption_takes_it_before_any_pod(self) -> None:
        """A pod of high priority needs 4; 4 are held and 4 used by pods of low priority."""
        outcome = play(
            HIGH, node("n1", 8), reservation("r", 4), pods("low", 4), pod("urgent", 4, at=2, priority="high"), until=5
        )  # fmt: skip
        assert outcome.evictions() == []
        assert outcome.bound()["urgent"] == (3, "n1")
        assert outcome.phases()[-1] == (2, "Pending")

    def test_together_with_pods_where_it_is_not_enough(self) -> None:
        """A pod of 6: the 4 that are held and 2 of the pods. Another Reservation elsewhere stays."""
        outcome = play(
            HIGH, node("n1", 8), node("n2", 2), reservation("r", 4, nodeName="n1"), reservation("s", 2, nodeName="n2"),
            pods("low", 4), pod("urgent", 6, at=2, priority="high"), until=5,
        )  # fmt: skip
        assert len(outcome.evictions()) == 2
        assert outcome.bound()["urgent"] == (3, "n1")
        assert outcome.reservation("s")["phase"] == "Available"

    def test_one_that_stays_would_exceed_the_quota(self) -> None:
        """The queue may have 7: 3 that stay, 3 of a lower pod, 1 held. A pod of 4 takes the place of the lower one on
        n1. The Reservation is not in its way there, but in the quota: 3 + 4 + 1 are 8."""
        outcome = play(
            HIGH, node("n1", 4), node("n2", 4), queue("q", capability={"cpu": 7}), pod("low", 3, queue="q", on="n1"),
            pod("stays", 3, queue="q", on="n2", priority="high"), reservation("r", 1, queue="q", nodeName="n2"),
            pod("urgent", 4, queue="q", at=2, priority="high"), until=5,
        )  # fmt: skip
        assert outcome.bound()["urgent"] == (3, "n1")
        assert outcome.queue("q")["allocated"] == {"cpu": "7"}
        assert outcome.phases()[-1] == (2, "Pending")

    def test_not_for_equal_priority(self) -> None:
        outcome = play(
            HIGH, node("n1", 4), reservation("r", 4, template={"priorityClassName": "high"}),
            pod("urgent", 4, at=2, priority="high"), until=5,
        )  # fmt: skip
        assert outcome.bound() == {}

    @pytest.mark.parametrize(
        ("other", "theirs", "gives_way"), [(5, 0, False), (1, 4, True), (3, 3, False), (2, 3, True)]
    )
    def test_the_order_of_namespaces(self, other: float, theirs: float, gives_way: bool) -> None:
        """2 CPUs are held for ns2. A pod of 1 in `default` ranks higher. It may have the room if `default`, with the
        pod, has no more than ns2 would have left: what its pods use."""
        held = reservation("r", 2)
        held["spec"]["template"]["metadata"] = {"namespace": "ns2"}
        running = pod("theirs", theirs, on="n1")
        running["metadata"]["namespace"] = "ns2"
        used = [pod("old", other, on="n1", preemptable=False), *([running] if theirs else [])]
        urgent = pod("urgent", 1, at=2, priority="high")
        outcome = play(HIGH, node("n1", other + theirs + 2), used, held, urgent, until=5)
        assert (outcome.phases()[-1] == (2, "Pending")) is gives_way
        assert ("urgent" in outcome.bound()) is gives_way

    def test_migrations_do_not_give_way(self) -> None:
        replaced = {"namespace": "default", "name": "old", "uid": "u1"}
        old = pod("old", 2, on="n2")
        old["metadata"]["uid"] = "u1"
        outcome = play(
            HIGH, node("n1", 4), node("n2", 2), old, reservation("r", 4, replaces=replaced, nodeName="n1"),
            pod("urgent", 4, at=2, priority="high"), until=5,
        )  # fmt: skip
        assert outcome.bound() == {}
        assert outcome.reservation()["phase"] == "Available"


class TestUsersAsVictims:
    SCENE = (HIGH, node("n1", 4), reservation("r", 4), owned(pod("a", 3, at=1)))

    def test_a_reservation_alone(self) -> None:
        """It holds 1, and that is enough."""
        outcome = play(*self.SCENE, pod("urgent", 1, at=2, priority="high"), until=5)
        assert outcome.evictions() == []
        assert outcome.phases()[-1] == (2, "Pending")
        assert outcome.bound()["urgent"] == (3, "n1")

    def test_it_goes_with_the_pod(self) -> None:
        """What the pod leaves would return to the Reservation, so both go."""
        outcome = play(*self.SCENE, pod("urgent", 4, at=2, priority="high"), until=5)
        assert [who for _, who, _ in outcome.evictions()] == ["a"]
        assert outcome.phases()[-1] == (2, "Pending")
        assert outcome.bound()["urgent"] == (3, "n1")

    def test_both_go_although_nothing_is_left_of_it(self) -> None:
        outcome = play(
            HIGH, node("n1", 4), reservation("r", 4), owned(pod("a", 4, at=1)),
            pod("urgent", 4, at=2, priority="high"), until=5,
        )  # fmt: skip
        assert [who for _, who, _ in outcome.evictions()] == ["a"]
        assert outcome.phases()[-1] == (2, "Pending")
        assert outcome.bound()["urgent"] == (3, "n1")

    @pytest.mark.parametrize("priority", [100, 200])
    def test_not_if_the_reservation_ranks_as_high(self, priority: int) -> None:
        """The pod has no priority, but the resources that it leaves would return to a Reservation that has. A pod
        beside it goes instead, if there is one."""
        scene = [
            HIGH, node("n1", 4), reservation("r", 4, template={"priority": priority}), owned(pod("a", 3, at=1)),
        ]  # fmt: skip
        urgent = pod("urgent", 3, at=3, priority="high")
        alone = play(scene, urgent, until=6)
        assert alone.evictions() == []
        assert alone.reservation()["owners"] == ["default/a"]
        beside = play(scene, node("n2", 3), pod("b", 3, at=2), urgent, until=6)
        assert [who for _, who, _ in beside.evictions()] == ["b"]
        assert beside.bound()["urgent"] == (4, "n2")
        assert beside.reservation()["owners"] == ["default/a"]


class TestWhose:
    def test_of_its_own_queue_only(self) -> None:
        scene = [node("n1", 2), queue("q1"), queue("q2"), reservation("r", 2, queue="q1")]
        assert play(scene, owned(pod("p", 2, queue="q2", at=1)), until=3).bound() == {}
        assert play(scene, owned(pod("p", 2, queue="q1", at=1)), until=3).bound() == {"p": (1, "n1")}

    def test_a_selector_means_the_namespace_of_the_template(self) -> None:
        foreign = owned(pod("p", 2, at=1))
        foreign["metadata"]["namespace"] = "other"
        scene: list[Document] = [node("n1", 2), reservation("r", 2)]
        assert play(scene, foreign, until=3).bound() == {}
        scene[1]["spec"]["owners"][0]["namespaces"] = ["other"]
        assert play(scene, foreign, until=3).report["pods"]["other/p"]["phase"] == "Running"

    def test_that_namespace_is_charged(self) -> None:
        held = reservation("r", 2)
        held["spec"]["template"]["metadata"] = {"namespace": "team"}
        mine = pod("p", 1)
        mine["metadata"]["namespace"] = "team"
        outcome = play(node("n1", 4), held, mine, until=2)
        assert outcome.report["namespaces"]["default/team"]["allocated"] == {"cpu": "3"}

    def test_nothing_spills_over(self) -> None:
        """3 CPUs are held, 1 is idle: a pod of 4 does not start on both."""
        outcome = play(node("n1", 4), reservation("r", 3), owned(pod("p", 4, at=1)), until=3)
        assert outcome.bound() == {}


class TestGangs:
    def test_some_members_have_their_room(self) -> None:
        """Two of three pods are held for; the third finds idle room. All start together."""
        outcome = play(
            node("n1", 4), node("n2", 2), reservation("r", 4, nodeName="n1"), *map(owned, gang("g", 2, 2, 2, at=1)[1:]),
            gang("g", 2, 2, 2, at=1)[0], until=3,
        )  # fmt: skip
        assert sorted(where for when, where in outcome.bound().values()) == ["n1", "n1", "n2"]
        assert {when for when, _ in outcome.bound().values()} == {1}

    def test_all_or_nothing(self) -> None:
        """The third has no room: nobody starts, and the Reservation has all of its room."""
        members = gang("g", 2, 2, 2, at=1)
        outcome = play(node("n1", 5), reservation("r", 4), members[0], [owned(one) for one in members[1:]], until=3)
        assert outcome.bound() == {}
        assert outcome.node()["held"] == {"cpu": "4"}
        assert outcome.reservation()["owners"] == []

    def test_members_with_few_choices_choose_first(self) -> None:
        """g-0 may use r and s, g-1 only r. If g-0 took r first, g-1 would find nothing."""
        members = gang("g", 2, 2, at=1)
        by_name = {"object": {"namespace": "default", "name": "g-1"}}
        both = [{"labelSelector": {"matchLabels": {"app": "both"}}}, by_name]
        owned(members[1], "both")
        outcome = play(
            node("n1", 2), node("n2", 2), reservation("r", 2, owners=both, nodeName="n1"),
            reservation("s", 2, app="both", nodeName="n2"), members, until=3,
        )  # fmt: skip
        assert outcome.bound() == {"g-0": (1, "n2"), "g-1": (1, "n1")}

    @pytest.mark.parametrize(("ends", "phase"), [({"ttl": "4s"}, "Expired"), ({"until": 4}, "Available")])
    def test_a_member_with_room_hunts_nobody_and_keeps_it(self, ends: Document, phase: str) -> None:
        """A gang of three: two have 4 CPUs held on n1, and for the third a pod is evicted on n2, which takes until 5.
        The Reservation expires at 4, or is deleted, and a stranger wants n1; it is the members' by then."""
        members = gang("g", 2, 2, 2, at=1, priority="high")
        scene = [
            HIGH, node("n1", 4), node("n2", 2),
            reservation("r", 4, nodeName="n1", template={"priorityClassName": "high"}, **ends),
            pod("low", 2, on="n2", grace=4), members[0], *map(owned, members[1:]), pod("stranger", 4, at=3),
        ]  # fmt: skip
        outcome = play(scene, until=8)
        assert outcome.evictions() == [(1, "low", "n2")]
        assert outcome.phases()[-1][1] == phase
        assert {name: when for name, (when, _) in outcome.bound().items()} == {"g-0": 5, "g-1": 5, "g-2": 5}


class TestStarvingJobs:
    RESERVE = {"starvingJobTimeThreshold": 2, "reservedNodePercent": 100}  # noqa: RUF012

    def test_what_is_held_does_not_drain(self) -> None:
        """Both nodes have 4 CPUs, and 2 of n1 are held for others: only n2 can be set aside for a job of 4."""
        outcome = play(
            node("n1", 4), node("n2", 4), reservation("r", 2, nodeName="n1"), pod("x", 1, on="n1", run=20),
            pod("y", 1, on="n2", run=20), pod("big", 4, at=1), reserve=self.RESERVE, until=6,
        )  # fmt: skip
        assert outcome.node("n2")["reservedFor"] != []
        assert outcome.node("n1")["reservedFor"] == []

    def test_its_pods_pass(self) -> None:
        """n1 is set aside for a job of 2. What was held there before is still open to its pods."""
        outcome = play(
            node("n1", 4), reservation("r", 2), pod("x", 1, on="n1", run=20), pod("big", 2, at=1),
            owned(pod("mine", 2, at=5)), reserve=self.RESERVE, until=7,
        )  # fmt: skip
        assert outcome.node()["reservedFor"] != []
        assert outcome.bound() == {"mine": (5, "n1")}

    def test_one_for_a_node_that_is_closed_fails(self) -> None:
        outcome = play(
            node("n1", 4), pod("x", 1, on="n1", run=20), pod("big", 4, at=1), reservation("r", 1, nodeName="n1", at=5),
            reserve=self.RESERVE, until=7,
        )  # fmt: skip
        assert outcome.phases() == [(5, "Pending"), (5, "Failed")]

    def test_what_is_held_for_the_job_itself(self) -> None:
        """8 CPUs, 2 of them held for the gang of 4 x 2. Its node is set aside whole, the pod of 1 that comes at 10
        seconds waits, and the gang starts when the last of the others has ended."""
        scene = [
            node("n1", 8), reservation("r", 2), pod("a", 3, run=9), pod("b", 3, run=12), pod("late", 1, at=10),
            *[owned(one) for one in gang("g", 2, 2, 2, 2, at=1)],
        ]  # fmt: skip
        outcome = play(scene, until=13, reserve={"starvingJobTimeThreshold": 4})
        assert {name: when for name, (when, _) in outcome.bound().items() if name.startswith("g-")} == {
            f"g-{number}": 12 for number in range(4)
        }
        assert len(outcome.reservation()["owners"]) == 1

    def test_what_is_held_for_others_stays_in_the_quota(self) -> None:
        """The queue may have 8 and has 3 held for others. A pod of 6 cannot start as long as that is so: no node is set
        aside for it, and a pod of another queue starts."""
        scene = [
            node("n1", 3), node("n2", 8), queue("q", capability={"cpu": 8}), queue("o"),
            reservation("r", 3, queue="q", nodeName="n1"), pod("a", 5, queue="o", on="n2"),
            pod("big", 6, queue="q", at=1), pod("b", 1, queue="o", at=8),
        ]  # fmt: skip
        outcome = play(scene, until=10, reserve={"starvingJobTimeThreshold": 4})
        assert outcome.bound() == {"b": (8, "n2")}
        assert outcome.node("n2")["reserved"] == {}

    def test_a_waiting_reservation_of_their_namespace(self) -> None:
        """A gang of ns1 has starved, and another namespace waits, too. A Reservation of ns1 that has no node yet is
        compared with it, and waits on."""
        other = pod("other", 2, at=1)
        other["metadata"]["namespace"] = "ns2"
        scene = [
            node("n1", 2), pod("old", 2, on="n1", run=20), *gang("g", 1, 1, at=1), other,
            reservation("r", 1, at=2), pod("small", 1, at=3),
        ]  # fmt: skip
        outcome = play(scene, until=8, reserve={"starvingJobTimeThreshold": 2})
        assert outcome.reservation()["phase"] == "Pending"


class TestLocks:
    LOCKING = queue("q1", guarantee={"policy": "Best-Effort", "resource": {"cpu": 4}})

    def test_no_new_reservation_of_others(self) -> None:
        outcome = play(node("n1", 4), node("n2", 2), self.LOCKING, queue("q2"), reservation("r", 4, queue="q2", at=2))
        assert outcome.report["queues"]["q1"]["reservation"]["nodes"] == ["n1"]
        assert outcome.reservation()["phase"] == "Pending"
        outcome = play(
            node("n1", 4), node("n2", 2), self.LOCKING, queue("q2"),
            reservation("r", 2, queue="q2", at=2, nodeName="n1"),
        )  # fmt: skip
        assert outcome.phases() == [(2, "Pending"), (2, "Failed")]

    def test_one_that_was_there_before_stays_and_its_pods_pass(self) -> None:
        lock = patch("Queue", "q1", {"spec": {"guarantee": {"policy": "Best-Effort", "resource": {"cpu": 4}}}}, at=2)
        outcome = play(
            node("n1", 6), node("n2", 1), queue("q1"), queue("q2"), reservation("r", 2, queue="q2", nodeName="n1"),
            lock, owned(pod("mine", 2, queue="q2", at=8)), until=10,
        )  # fmt: skip
        assert outcome.node("n1")["lockedBy"] == "q1"
        assert outcome.bound() == {"mine": (8, "n1")}

    def test_an_owners_own_reservation_costs_nothing_more(self) -> None:
        """n1 counts whole as q1's, and so does what it holds there for its own pods."""
        outcome = play(
            node("n1", 4), node("n2", 4), self.LOCKING, reservation("r", 2, queue="q1", at=2),
            owned(pod("mine", 2, queue="q1", at=4)), until=6,
        )  # fmt: skip
        assert outcome.reservation()["node"] == "n1"
        assert outcome.queue("q1")["allocated"] == {"cpu": "4"}
        assert outcome.bound() == {"mine": (4, "n1")}

    def test_a_guaranteed_lock_does_not_take_it(self) -> None:
        guarantee = {"policy": "Guaranteed", "percentage": {"value": 0.5}}
        late = queue("q1", guarantee=guarantee)
        late["metadata"]["annotations"] = {"sim.stromboli.io/at": "2s"}
        outcome = play(
            node("n1", 4), node("n2", 4), queue("q2"), reservation("r", 2, queue="q2", nodeName="n1"),
            pod("x", 4, on="n2", queue="q2", preemptable=False),
            late, until=20,
        )  # fmt: skip
        assert outcome.reservation()["phase"] == "Available"
