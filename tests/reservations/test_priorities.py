"""Reservations whose template names a PriorityClass: they preempt, and only pods of that priority use them."""

from __future__ import annotations

import pytest

from fairness.scenes import replica_set
from reservations.reservation_scenes import (
    Document,
    gang,
    node,
    owned,
    play,
    pod,
    pods,
    priority_class,
    queue,
    reservation,
    restart,
    run,
)
from stromboli.errors import UserError

HIGH = priority_class("high", 100)
LOW = priority_class("low", -5)


def urgent(name: str = "r", cpu: float = 4, *, of: str = "high", **options: object) -> Document:
    template: Document = {"priorityClassName": of, **options.pop("template", {})}  # type: ignore[dict-item]
    return reservation(name, cpu, template=template, **options)


class TestItPreempts:
    def test_as_a_pod_of_its_priority_would(self) -> None:
        """n1 has 8 CPUs: low pods use 8, and 4 of them have to go, which takes 3 s. The node stands in the status
        meanwhile, and a stranger of no priority does not get there."""
        scene = [
            HIGH, node("n1", 8), *pods("low", 8, on="n1", grace=3), urgent("r", 4, at=1), pod("stranger", 4, at=2),
        ]  # fmt: skip
        waiting = play(scene, until=3)
        assert (waiting.reservation()["phase"], waiting.reservation()["node"]) == ("Pending", "n1")
        outcome = play(scene, until=6)
        assert [when for when, _, _ in outcome.evictions()] == [1, 1, 1, 1]
        assert outcome.phases() == [(1, "Pending"), (4, "Available")]
        assert outcome.reservation()["node"] == "n1"
        assert outcome.bound() == {}

    def test_the_smallest_set_and_only_lower_ones(self) -> None:
        """A pod of equal priority and a pod of 1 stay; one pod of 3 is enough."""
        outcome = play(
            HIGH, node("n1", 8), pod("same", 4, on="n1", priority="high"), pod("small", 1, on="n1"),
            pod("large", 3, on="n1"), urgent("r", 3, at=1), until=5,
        )  # fmt: skip
        assert [who for _, who, _ in outcome.evictions()] == ["large"]
        assert outcome.reservation()["phase"] == "Available"

    def test_nobody_of_another_queue(self) -> None:
        """q2 has all 8 CPUs, and q1 deserves 4. A pod of q1 would reclaim them; a Reservation does not."""
        scene = [HIGH, node("n1", 8), queue("q1"), queue("q2"), *pods("b", 8, queue="q2")]
        outcome = play(scene, urgent("r", 4, queue="q1", at=1), until=5)
        assert outcome.evictions() == []
        assert outcome.reservation()["phase"] == "Pending"

    def test_without_a_queue_it_preempts_in_default(self) -> None:
        scene = [HIGH, node("n1", 4), node("n2", 4), queue("q2"), *pods("b", 4, queue="q2", on="n1")]
        outcome = play(scene, pods("a", 4, on="n2"), urgent("r", 4, at=1), until=5)
        assert {where for _, _, where in outcome.evictions()} == {"n2"}

    def borrowed(self, *more: Document) -> list[Document]:
        """8 CPUs; each of two queues deserves 4. q1 has borrowed and runs 6, q2 wants 8 and can have no more than its
        2. Who is evicted comes back."""
        return [
            HIGH, node("n1", 8), queue("q1", reclaimable=False, deserved={"cpu": 4}), queue("q2", deserved={"cpu": 4}),
            replica_set("default/a", 6, queue="q1"), *pods("b", 2, queue="q2", on="n1", preemptable=False),
            *pods("c", 6, queue="q2", at=1, selector={"no": "where"}), *more,
        ]  # fmt: skip

    @pytest.mark.parametrize("grace", [0, 3])
    @pytest.mark.parametrize("sharing", ["proportion", "capacity"])
    def test_in_a_queue_that_has_borrowed_one_for_another(self, sharing: str, grace: float) -> None:
        """For a Reservation of 2, two pods go, and q1 has 6 as before. To bring q1 down to the 4 that it deserves, two
        more would have to go, and they would be back a second later."""
        scene = self.borrowed(urgent("r", 2, queue="q1", at=3))
        scene[4]["spec"]["template"]["metadata"]["annotations"]["sim.stromboli.io/grace"] = f"{grace}s"
        outcome = run(scene, until=30, sharing=sharing)
        restarts = [restart(second, "scheduler") for second in range(31)]
        assert run(scene, restarts, until=30, sharing=sharing).text == outcome.text
        assert [when for when, _, _ in outcome.evictions()] == [3, 3]
        assert outcome.phases() == [(3, "Pending"), (3 + max(grace, 1), "Available")]
        assert outcome.queue("q1")["allocated"] == {"cpu": "6"}

    @pytest.mark.parametrize("sharing", ["proportion", "capacity"])
    def test_what_goes_beyond_that_must_be_within_what_the_queue_deserves(self, sharing: str) -> None:
        """2 of 10 CPUs are idle. With one pod that goes they would be enough for a Reservation of 3, but then q1 would
        have 8, two more than before, and a Reservation borrows nothing. So three go."""
        scene = self.borrowed(urgent("r", 3, queue="q1", at=3))
        scene[1] = node("n1", 10)
        until_two = pod("idle", 2, queue="q2", on="n1", until=2, preemptable=False)
        assert len(play([*scene, until_two], until=8, sharing=sharing).evictions()) == 3

    @pytest.mark.parametrize("sharing", ["proportion", "capacity"])
    def test_nobody_goes_if_that_does_not_make_room(self, sharing: str) -> None:
        """Of q1's 6 pods, 4 have its priority. Two that go are not enough for a Reservation of 3."""
        scene = self.borrowed(urgent("r", 3, queue="q1", at=3))
        scene[4] = replica_set("default/a", 4, queue="q1", priority="high")
        outcome = play([*scene, *pods("low", 2, queue="q1", on="n1")], until=8, sharing=sharing)
        assert outcome.evictions() == []
        assert outcome.reservation()["phase"] == "Pending"
        assert outcome.reservation()["reason"] == "QueueOverDeserved"

    def test_no_more_than_deserved_from_idle_room_either(self) -> None:
        """With the plugin capacity, pods borrow idle room; a Reservation does not."""
        scene = [node("n1", 8), queue("q1", deserved={"cpu": 4}), reservation("r", 5, queue="q1")]
        assert play(scene, until=3, sharing="capacity").reservation()["phase"] == "Pending"

    def test_other_reservations_of_lower_priority_give_way_first(self) -> None:
        outcome = play(
            HIGH, node("n1", 8), reservation("old", 4), *pods("low", 4, on="n1"), urgent("r", 4, at=2), until=6
        )  # fmt: skip
        assert outcome.evictions() == []
        assert outcome.phases("old")[-1] == (2, "Pending")
        assert outcome.phases("r")[-1] == (3, "Available")

    def test_only_those_that_are_in_its_way(self) -> None:
        """The queue deserves all 12 CPUs. One of its Reservations is on n1, where low pods have to go as well, and one
        on n2, where it is in nobody's way."""
        outcome = play(
            HIGH, node("n1", 8), node("n2", 4), reservation("near", 2, nodeName="n1"),
            reservation("far", 3, nodeName="n2"), *pods("low", 6, on="n1"), urgent("r", 6, at=2), until=6,
        )  # fmt: skip
        assert len(outcome.evictions()) == 4
        assert outcome.reservation("near")["phase"] == "Pending"
        assert outcome.phases("far") == [(0, "Pending"), (0, "Available")]

    def test_it_waits_for_pods_that_are_leaving_anyway(self) -> None:
        """A pod of 4 is deleted at 2 and is gone at 5. Nobody else has to go, and a stranger of no priority that comes
        meanwhile does not get the room, which a pod of equal priority would."""
        scene = [
            HIGH, node("n1", 8), pod("leaving", 4, on="n1", until=2, grace=3), *pods("low", 4, on="n1"),
            urgent("r", 4, at=3), pod("stranger", 4, at=4),
        ]  # fmt: skip
        outcome = play(scene, until=7)
        assert outcome.evictions() == []
        assert outcome.phases()[-1] == (5, "Available")
        assert outcome.bound() == {}

    def test_a_fifo_queue_goes_on_behind_it(self) -> None:
        """It needs more than there is, so nothing is evicted for it, and the queue does not stop."""
        outcome = play(
            HIGH, node("n1", 4), queue("q", dequeueStrategy="fifo"), urgent("r", 8, queue="q"),
            pod("low", 4, queue="q", on="n1", run=5), pod("next", 4, queue="q", at=1), until=7,
        )  # fmt: skip
        assert outcome.evictions() == []
        assert outcome.bound()["next"] == (5, "n1")


class TestItDoesNot:
    SCENE = (HIGH, LOW, node("n1", 4), pod("low", 4, on="n1", priority="low"))

    @pytest.mark.parametrize(
        ("classes", "document"),
        [
            ((), reservation("r", 4, at=1)),
            ((), reservation("r", 4, at=1, template={"priority": 100})),
            ((priority_class("usual", 50, globalDefault=True),), reservation("r", 4, at=1)),
            ((priority_class("meek", 50, preemptionPolicy="Never"),), urgent("r", 4, of="meek", at=1)),
            ((), urgent("r", 4, at=1, template={"preemptionPolicy": "Never"})),
            ((), urgent("r", 4, of="unknown", at=1)),
        ],
        ids=["no class", "only a number", "a global default", "a class that never preempts", "never", "no such class"],
    )
    def test_without_a_class_of_its_own(self, classes: tuple[Document, ...], document: Document) -> None:
        outcome = play(*self.SCENE, *classes, document, until=4)
        assert outcome.evictions() == []
        assert (outcome.reservation()["phase"], outcome.reservation()["node"]) == ("Pending", "")

    def test_a_class_that_does_not_exist_is_a_warning(self) -> None:
        """Once; and when it exists, the Reservation preempts."""
        late = priority_class("later", 50)
        late["metadata"]["annotations"] = {"sim.stromboli.io/at": "3s"}
        outcome = play(*self.SCENE, urgent("r", 4, of="later", at=1), late, until=6)
        warnings = [(e["t"], e["message"]) for e in outcome.report["events"] if e["reason"] == "NoPriorityClass"]
        said = "PriorityClass later does not exist; the Reservation has priority 0 until it is created."
        assert warnings == [(1, said)]
        assert outcome.evictions() == [(3, "low", "n1")]

    def test_the_warning_is_not_lost_when_a_node_is_added_with_it(self) -> None:
        """A pod that runs on a node from the start is checked against its node; that used to swallow the warning."""
        outcome = play(*self.SCENE, urgent("r", 4, of="unknown"), until=2)
        assert [e["t"] for e in outcome.report["events"] if e["reason"] == "NoPriorityClass"] == [0]

    def test_that_of_a_migration(self) -> None:
        """The template has the class of the pod that leaves."""
        old = pod("old", 2, on="n2", priority="high")
        old["metadata"]["uid"] = "u1"
        replaced = {"namespace": "default", "name": "old", "uid": "u1"}
        outcome = play(
            HIGH, node("n1", 4), node("n2", 2), old, pod("low", 4, on="n1"),
            urgent("r", 2, replaces=replaced, nodeName="n1", at=1), until=4,
        )  # fmt: skip
        assert outcome.evictions() == []

    def test_without_the_action(self) -> None:
        outcome = play(*self.SCENE, urgent("r", 4, at=1), until=4, leave_out=["preempt"])
        assert outcome.evictions() == []


class TestWhileVictimsLeave:
    """Whatever happens meanwhile: nobody is evicted twice for it, and the room is not kept for nobody. `play` restarts
    everything in every second, and checks that this changes nothing."""

    SCENE = (HIGH, node("n1", 4), pod("low", 4, on="n1", grace=5))

    def test_nothing(self) -> None:
        outcome = play(*self.SCENE, urgent("r", 4, at=1), until=8)
        assert outcome.evictions() == [(1, "low", "n1")]
        assert outcome.phases() == [(1, "Pending"), (6, "Available")]

    @pytest.mark.parametrize("ends", [{"ttl": "3s"}, {"until": 4}])
    def test_it_ends(self, ends: Document) -> None:
        """The room is for whoever comes."""
        outcome = play(*self.SCENE, urgent("r", 4, at=1, **ends), pod("next", 4, at=2), until=8)
        assert outcome.evictions() == [(1, "low", "n1")]
        assert outcome.bound() == {"next": (6, "n1")}
        if "ttl" in ends:
            assert (outcome.reservation()["phase"], outcome.reservation()["node"]) == ("Expired", "")

    def test_the_node_is_lost(self) -> None:
        """It evicts on the other node, once the first is gone."""
        scene = [
            HIGH, LOW, node("n1", 4, until=3), node("n2", 4), pod("low", 4, on="n1", grace=5, priority="low"),
            pod("mid", 4, on="n2"),
        ]  # fmt: skip
        outcome = play(scene, urgent("r", 4, at=1), until=9)
        preempted = [e for e in outcome.report["events"] if e["type"] == "Evicted" and e["reason"] == "Preempted"]
        assert [(e["t"], e["node"]) for e in preempted] == [(1, "n1"), (3, "n2")]
        assert outcome.reservation()["node"] == "n2"
        assert outcome.reservation()["phase"] == "Available"

    def test_its_queue_deserves_less(self) -> None:
        """At 3 another queue comes and wants all: q1 deserves 2 of 4 now. What was begun is finished, and then
        reclaimed: the Reservation gives way before any pod."""
        scene = [
            HIGH, node("n1", 4), queue("q1"), queue("q2"), pod("low", 4, queue="q1", on="n1", grace=5),
            urgent("r", 4, queue="q1", at=1),
        ]  # fmt: skip
        outcome = play(scene, pods("b", 4, queue="q2", at=3), until=20)
        assert outcome.evictions() == [(1, "low", "n1")]
        assert outcome.phases() == [(1, "Pending"), (6, "Available"), (7, "Pending")]
        assert outcome.running_by("queue")["q2"] >= 2

    def test_a_higher_pod_comes(self) -> None:
        """It goes before the Reservation, in the room that is being made, and evicts nobody else."""
        scene = [*self.SCENE, priority_class("higher", 200), urgent("r", 4, at=1)]
        outcome = play(scene, pod("boss", 4, at=3, priority="higher"), until=9)
        assert outcome.evictions() == [(1, "low", "n1")]
        assert outcome.reservation()["phase"] in ("Pending", "Available")

    def test_two_of_them(self) -> None:
        """Each has its own room."""
        scene = [HIGH, node("n1", 4), node("n2", 4), *pods("low", 2, 4, grace=3)]
        outcome = play(scene, urgent("r", 4, at=1), urgent("s", 4, at=1), until=8)
        assert len(outcome.evictions()) == 2
        assert {outcome.reservation(name)["node"] for name in "rs"} == {"n1", "n2"}

    def test_the_class_is_deleted(self) -> None:
        """What was begun is finished: the pod is leaving already."""
        gone = {**HIGH, "metadata": {**HIGH["metadata"], "annotations": {"sim.stromboli.io/until": "3s"}}}
        outcome = play(gone, *self.SCENE[1:], urgent("r", 4, at=1), until=8)
        assert outcome.evictions() == [(1, "low", "n1")]
        assert outcome.reservation()["phase"] == "Available"


class TestItsUsers:
    SCENE = (HIGH, priority_class("higher", 200), node("n1", 4))

    @pytest.mark.parametrize(("priority", "uses"), [("", False), ("high", True), ("higher", True)])
    def test_have_at_least_its_priority(self, priority: str, uses: bool) -> None:
        mine = owned(pod("p", 4, at=2, priority=priority))
        outcome = play(*self.SCENE, urgent("r", 4), mine, until=5)
        assert (outcome.bound() == {"p": (2, "n1")}) is uses
        if not uses:
            clause = "it is for pods of priority 100 or higher, and the pod has 0."
            assert clause in outcome.pod("p")["message"]

    def test_a_gang_by_the_class_of_its_group(self) -> None:
        members = gang("g", 2, 2, at=1, priority="high")
        outcome = play(*self.SCENE, urgent("r", 4), members[0], *map(owned, members[1:]), until=4)
        assert {when for when, _ in outcome.bound().values()} == {1}

    def test_a_pod_of_a_group_without_a_class_by_its_own(self) -> None:
        members = gang("g", 2, 2, at=1)
        for one in members[1:]:
            one["spec"]["priorityClassName"] = "high"
        outcome = play(*self.SCENE, urgent("r", 4), members[0], *map(owned, members[1:]), until=4)
        assert {when for when, _ in outcome.bound().values()} == {1}

    def test_each_pod_of_a_group_by_its_own(self) -> None:
        """Of two pods that start together one may use the Reservation, and the other finds idle room."""
        members = gang("g", 2, 2, at=1)
        members[1]["spec"]["priorityClassName"] = "high"
        outcome = play(
            *self.SCENE, node("n2", 2), urgent("r", 2, nodeName="n1"), pod("old", 2, on="n1"), members[0],
            *map(owned, members[1:]), until=4,
        )  # fmt: skip
        assert outcome.bound() == {"g-0": (1, "n1"), "g-1": (1, "n2")}

    def test_an_annotation_is_no_priority(self) -> None:
        mine = owned(pod("p", 4, at=2))
        mine["metadata"]["annotations"]["volcano.sh/task-priority"] = "1000"
        assert play(*self.SCENE, urgent("r", 4), mine, until=5).bound() == {}

    def test_a_global_default_does_not_close_it(self) -> None:
        """Pods of a lower class may use a Reservation that names none."""
        usual = priority_class("usual", 50, globalDefault=True)
        mine = owned(pod("p", 4, at=2, priority="low"))
        assert play(LOW, usual, node("n1", 4), reservation("r", 4), mine, until=5).bound() == {"p": (2, "n1")}

    def test_of_other_queues(self) -> None:
        mine = owned(pod("p", 4, at=2, priority="high", queue="team"))
        outcome = play(*self.SCENE, queue("team"), urgent("r", 4), mine, until=5)
        assert outcome.bound() == {"p": (2, "n1")}


@pytest.mark.parametrize(
    ("template", "field"),
    [
        ({"priorityClassName": "system-cluster-critical"}, "spec.template.spec.priorityClassName"),
        ({"priorityClassName": "system-mine"}, "spec.template.spec.priorityClassName"),
        ({"priority": 2_000_000_000}, "spec.template.spec.priority"),
    ],
)
def test_classes_of_the_system_are_refused(template: Document, field: str) -> None:
    with pytest.raises(UserError, match=field):
        run(node("n1", 4), reservation("r", 1, template=template))
