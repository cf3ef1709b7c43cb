"""The life of a Reservation: it gets a node, is used, and ends."""

from __future__ import annotations

import json
from pathlib import Path

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
    queue,
    reservation,
    run,
)
from starvation.scenes import restart
from stromboli.console.main import run as command


def _port(number: int) -> dict[str, int]:
    return {"containerPort": number, "hostPort": number}


class TestHolding:
    def test_others_do_not_fit_and_its_pod_does(self) -> None:
        """n1 has 4 CPUs, 2 of them held. A pod of 3 waits; one with the label of the Reservation takes the 2. What the
        queue has does not change by that."""
        scene = [node("n1", 4), reservation("r", 2), pod("other", 3, at=1), owned(pod("mine", 2, at=2))]
        outcome = play(scene, until=5)
        assert outcome.phases() == [(0, "Pending"), (0, "Available")]
        assert outcome.bound() == {"mine": (2, "n1")}
        assert outcome.reservation()["allocated"] == {"cpu": "2", "pods": "1"}
        assert outcome.reservation()["owners"] == ["default/mine"]
        assert (outcome.node()["used"], outcome.node()["held"]) == ({"cpu": "2"}, {"cpu": "0"})
        for second in range(6):
            assert play(scene, until=second).queue()["allocated"] == {"cpu": "2"}, second

    def test_partial_use(self) -> None:
        """8 CPUs, all held. Two pods of 4 fit; a third does not, and does not take anything from elsewhere."""
        outcome = play(node("n1", 8), node("n2", 2), reservation("r", 8), pods("p", 3, 4, app="r", at=1), until=4)
        assert outcome.bound() == {"p-00": (1, "n1"), "p-01": (1, "n1")}
        assert outcome.reservation()["allocated"] == {"cpu": "8", "pods": "1"}
        assert outcome.queue()["allocated"] == {"cpu": "8"}

    def test_nothing_is_added_up(self) -> None:
        """Two Reservations of 4 on a full node do not make room for 8, and neither do 4 and 2 idle CPUs for 6."""
        outcome = play(
            node("n1", 8), reservation("r", 4), reservation("s", 4, app="r"), owned(pod("big", 8, at=1)), until=3
        )  # fmt: skip
        assert outcome.bound() == {}
        outcome = play(node("n1", 6), reservation("r", 4), owned(pod("big", 6, at=1)), until=3)
        assert outcome.bound() == {}

    def test_the_pod_slot(self) -> None:
        """The node takes one pod, and the Reservation has that place."""
        outcome = play(node("n1", 8, pods=1), reservation("r", 2), pod("a", at=1), owned(pod("b", 1, at=1)), until=3)
        assert outcome.bound() == {"b": (1, "n1")}

    def test_a_resource_that_it_does_not_name_comes_from_the_node(self) -> None:
        scene = [node("n1", 4, memory="4Gi"), reservation("r", 2)]
        assert play(scene, owned(pod("a", 2, memory="4Gi", at=1)), until=3).bound() == {"a": (1, "n1")}
        assert play(scene, owned(pod("a", 2, memory="5Gi", at=1)), until=3).bound() == {}

    def test_of_several_the_one_with_the_least_left_over(self) -> None:
        outcome = play(
            node("n1", 4), node("n2", 2), node("n3", 3), reservation("r", 4, nodeName="n1"),
            reservation("s", 2, app="r", nodeName="n2"), reservation("t", 3, app="r", nodeName="n3"),
            pods("p", 2, 2, app="r", at=1), until=3,
        )  # fmt: skip
        assert [outcome.bound()[name][1] for name in ("p-00", "p-01")] == ["n2", "n3"]

    def test_equal_ones_by_age_and_then_by_name(self) -> None:
        two = [node("n1", 2), node("n2", 2), node("n3", 2), reservation("z", 2, app="r", nodeName="n3")]
        late = [reservation(name, 2, app="r", nodeName=where, at=1) for name, where in (("a", "n1"), ("b", "n2"))]
        outcome = play(two, late, pods("p", 3, 2, app="r", at=2), until=4)
        assert [outcome.bound()[f"p-0{number}"][1] for number in range(3)] == ["n3", "n1", "n2"]

    def test_predicates_are_checked(self) -> None:
        """The node is cordoned meanwhile: the ordinary way is open."""
        outcome = play(
            node("n1", 2), node("n2", 2), reservation("r", 2, nodeName="n1"),
            patch("Node", "n1", {"spec": {"unschedulable": True}}, at=1), owned(pod("p", 2, at=2)), until=4,
        )  # fmt: skip
        assert outcome.bound() == {"p": (2, "n2")}
        assert outcome.reservation()["phase"] == "Available"

    def test_host_ports(self) -> None:
        """Ports of a Reservation are open to its pods only."""
        port = {"containers": [{"name": "c", "ports": [_port(80), _port(81)], "resources": {"requests": {"cpu": 2}}}]}

        def with_port(document: dict[str, object]) -> dict[str, object]:
            document["spec"]["containers"][0]["ports"] = [_port(81)]  # type: ignore[index]
            return document

        scene = [node("n1", 8), reservation("r", 2, template=port)]
        stranger, mine = with_port(pod("stranger", at=1)), with_port(owned(pod("mine", at=2)))
        outcome = play(scene, stranger, mine, until=4)
        assert outcome.bound() == {"mine": (2, "n1")}
        # Its pod still has the port when the Reservation is gone.
        scene[1]["metadata"]["annotations"]["sim.stromboli.io/until"] = "3s"
        outcome = play(scene, stranger, mine, until=6)
        assert outcome.bound() == {"mine": (2, "n1")}

    def test_the_pod_dies_and_the_reservation_has_its_room_again(self) -> None:
        outcome = play(
            node("n1", 4), reservation("r", 4), owned(pod("a", 3, at=1, run=2)), pod("b", 2, at=2), until=6
        )  # fmt: skip
        assert outcome.bound() == {"a": (1, "n1")}
        assert outcome.reservation() == {
            "phase": "Available", "node": "n1", "allocatable": {"cpu": "4", "pods": "1"}, "allocated": {}, "owners": [],
            "reason": "", "message": "",
        }  # fmt: skip
        assert outcome.node()["held"] == {"cpu": "4"}

    def test_what_a_terminating_pod_leaves_is_not_promised_to_others(self) -> None:
        """Pod a has 3 seconds to go. Meanwhile neither b, which would fit, nor anybody else is promised its room."""
        outcome = play(
            node("n1", 4), reservation("r", 4), owned(pod("a", 4, at=1, until=3, grace=3)), pod("b", 2, at=4), until=9
        )  # fmt: skip
        assert outcome.bound() == {"a": (1, "n1")}
        assert outcome.pod("b")["reason"] != "WaitingForRelease"

    def test_a_pod_that_names_it_elsewhere_is_no_owner(self) -> None:
        stray = pod("p", 1, on="n2")
        stray["metadata"]["annotations"]["scheduling.stromboli.io/reservation"] = "r/anything"
        outcome = play(node("n1", 2), node("n2", 2), reservation("r", 2, nodeName="n1"), stray, until=2)
        assert outcome.reservation()["owners"] == []


class TestOnce:
    def test_one_pod_and_the_rest_is_free(self) -> None:
        outcome = play(
            node("n1", 4), reservation("r", 4, allocateOnce=True), owned(pod("a", 1, at=1)), pod("b", 3, at=1), until=3
        )  # fmt: skip
        assert outcome.phases() == [(0, "Pending"), (0, "Available"), (1, "Succeeded")]
        assert outcome.bound() == {"a": (1, "n1"), "b": (1, "n1")}
        assert outcome.queue()["allocated"] == {"cpu": "4"}

    def test_it_stays_so_when_the_pod_dies(self) -> None:
        outcome = play(
            node("n1", 4), reservation("r", 4, allocateOnce=True, ttl="6s"), owned(pod("a", 1, at=1, run=1)), until=9
        )  # fmt: skip
        assert outcome.phases()[-1] == (1, "Succeeded")
        assert outcome.node()["held"] == {"cpu": "0"}


class TestEnds:
    def test_expiry(self) -> None:
        """The pod runs on; what is left is free at once."""
        outcome = play(
            node("n1", 4), reservation("r", 4, ttl="3s"), owned(pod("a", 1, at=1)), pod("b", 3, at=2), until=6
        )  # fmt: skip
        assert outcome.phases() == [(0, "Pending"), (0, "Available"), (3, "Expired")]
        assert outcome.bound() == {"a": (1, "n1"), "b": (3, "n1")}
        assert outcome.pod("a")["phase"] == "Running"
        assert outcome.queue()["allocated"] == {"cpu": "4"}

    def test_a_waiting_one_expires(self) -> None:
        outcome = play(node("n1", 1), reservation("r", 4, ttl="3s"), until=5)
        assert outcome.phases() == [(0, "Pending"), (3, "Expired")]

    @pytest.mark.parametrize(("cpu", "phases"), [(2, ["Pending", "Available", "Expired"]), (8, ["Pending", "Expired"])])
    def test_between_two_cycles(self, cpu: float, phases: list[str]) -> None:
        """Its time is over after 2.5 seconds: the cycle at 3 seconds finds it expired, and its resources free."""
        outcome = play(node("n1", 2), reservation("r", cpu, ttl="2500ms"), until=6)
        assert [which for _, which in outcome.phases()] == phases
        assert outcome.phases()[-1] == (3, "Expired")
        waiting = play(node("n1", 2), reservation("r", 2, ttl="2500ms"), pod("p", 2, at=1), until=6)
        assert waiting.bound() == {"p": (3, "n1")}

    @pytest.mark.parametrize("restarts", [[], [restart(second, "scheduler") for second in range(12)]])
    def test_late_controllers(self, restarts: list[Document]) -> None:
        """r and s hold 4 of 8 CPUs each. r expires at 5 seconds, while the controllers are away until 9. The scheduler
        gives what r held to the first pod. What s holds stays: the second pod does not get it, and the controllers
        leave it alone when they are back."""
        away = {**restart(3, "controllers"), "for": "6s"}
        first, second = gang("first", 4, at=6), gang("second", 4, at=7)
        held = [reservation("r", 4, ttl="5s"), reservation("s", 4, nodeName="n1", at=1)]
        outcome = run(node("n1", 8), held, away, first, second, restarts, until=12)
        assert outcome.bound() == {"first-0": (6, "n1")}
        assert outcome.phases("r")[-1] == (9, "Expired")
        assert outcome.phases("s") == [(1, "Pending"), (1, "Available")]
        assert outcome.node()["held"] == {"cpu": "4"}

    @pytest.mark.parametrize(
        "restarts", [[], [restart(second, "scheduler") for second in range(6)]], ids=["once", "restarted"]
    )
    def test_on_a_cordoned_node_while_controllers_are_away(self, restarts: list[Document]) -> None:
        """What it leaves there is nobody's at once, so in the second in which it expires the queue deserves n2 only."""
        away, cordon = {**restart(3, "controllers"), "for": "6s"}, {"spec": {"unschedulable": True}}
        outcome = run(
            node("n1", 8), node("n2", 2), reservation("r", 4, ttl="5s", nodeName="n1"),
            patch("Node", "n1", cordon, at=2), away, gang("first", 8, at=3), restarts, until=5,
        )  # fmt: skip
        assert outcome.queue()["deserved"] == {"cpu": "2"}

    def test_never(self) -> None:
        outcome = play(node("n1", 4), reservation("r", 4, ttl="0"), until=200_000, restarts=[1, 100_000])
        assert outcome.reservation()["phase"] == "Available"

    def test_a_day_by_default_and_a_day_until_it_is_deleted(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        scene = [node("n1", 4), reservation("r", 4)]
        assert play(scene, until=86_399, restarts=[5]).reservation()["phase"] == "Available"
        assert play(scene, until=86_400, restarts=[5]).phases()[-1] == (86_400, "Expired")
        for later in (2 * 86_400 - 1, 2 * 86_400):  # in the output, it stays
            assert play(scene, until=later, restarts=[5, 100_000]).reservation()["phase"] == "Expired"
        file = tmp_path / "scene.yaml"
        file.write_text("\n---\n".join(json.dumps(document) for document in scene), encoding="utf-8")
        for time, said in (("47h59m59s", "Expired"), ("48h", "No Reservations.")):
            assert command(["reservations", "--scenario", str(file), "--at", time]) == 0
            assert said in capsys.readouterr().out

    def test_its_time_can_be_changed(self) -> None:
        outcome = play(node("n1", 4), reservation("r", 4), patch("Reservation", "r", {"spec": {"ttl": "4s"}}, at=2))
        assert outcome.phases()[-1] == (4, "Expired")

    def test_a_queue_is_shown_only_if_it_names_one(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        """One without a queue serves pods of all queues."""
        file = tmp_path / "scene.yaml"
        scene = [node("n1", 4), queue("q"), reservation("any", 1), reservation("own", 1, queue="q")]
        file.write_text("\n---\n".join(json.dumps(document) for document in scene), encoding="utf-8")
        assert command(["reservations", "--scenario", str(file), "--at", "1s", "-o", "json"]) == 0
        assert {one["name"]: one["queue"] for one in json.loads(capsys.readouterr().out)} == {"any": "", "own": "q"}

    def test_deletion(self) -> None:
        others = [owned(pod("a", 1, at=1)), pod("b", 3, at=2)]
        outcome = play(node("n1", 4), reservation("r", 4, until=3), others, until=5)
        assert outcome.bound() == {"a": (1, "n1"), "b": (3, "n1")}

    def test_falls_back_to_normal_scheduling_when_it_has_expired(self) -> None:
        """X12: the room is free when the pod comes, or taken by somebody else; then the pod waits like any other."""
        scene = [node("n1", 2), node("n2", 2), reservation("r", 2, nodeName="n1", ttl="2s", allocateOnce=True)]
        assert play(scene, owned(pod("p", 2, at=3)), until=5).bound()["p"] == (3, "n1")
        outcome = play(scene, pod("a", 2, at=2), owned(pod("p", 2, at=3)), until=5)
        assert outcome.bound() == {"a": (2, "n1"), "p": (3, "n2")}


class TestNodes:
    def test_its_node_is_deleted_and_it_finds_another(self) -> None:
        outcome = play(node("n1", 4, until=2), node("n2", 4, at=1), reservation("r", 4), until=4)
        assert outcome.phases() == [(0, "Pending"), (0, "Available"), (2, "Pending"), (2, "Available")]
        assert outcome.reservation()["node"] == "n2"

    def test_it_fails_if_it_was_used_or_named_its_node(self) -> None:
        outcome = play(
            node("n1", 4, until=3), node("n2", 4, at=1), reservation("r", 4), owned(pod("a", 1, at=1)), until=5
        )  # fmt: skip
        assert outcome.phases()[-1] == (3, "Failed")
        outcome = play(node("n1", 4, until=3), node("n2", 4), reservation("r", 4, nodeName="n1"), until=5)
        assert outcome.phases()[-1] == (3, "Failed")

    def test_the_node_shrinks(self) -> None:
        """4 CPUs, of which 1 is used. With 2 CPUs left, the Reservation holds 1. Nothing is taken from the pod."""
        smaller = patch("Node", "n1", {"status": {"allocatable": {"cpu": 2}}}, at=2)
        outcome = play(node("n1", 4), reservation("r", 4), owned(pod("a", 1, at=1)), smaller, until=4)
        assert (outcome.node()["used"], outcome.node()["held"]) == ({"cpu": "1"}, {"cpu": "1"})
        assert outcome.reservation()["allocatable"]["cpu"] == "2"
        assert outcome.pod("a")["phase"] == "Running"

    def test_an_unused_one_leaves_a_node_that_shrinks(self) -> None:
        smaller = patch("Node", "n1", {"status": {"allocatable": {"cpu": 2}}}, at=2)
        outcome = play(node("n1", 4), node("n2", 4, at=1), reservation("r", 4), smaller, until=4)
        assert outcome.reservation()["node"] == "n2"
        assert outcome.node("n1")["held"] == {"cpu": "0"}

    def test_the_last_user_leaves_a_node_that_shrank(self) -> None:
        """4 CPUs are held and used when the node shrinks from 8 to 6; others use 4. The pod ends at 4 seconds. Now
        nobody uses the Reservation, and there are only 2 left for it: it looks for another node."""
        shrinks = patch("Node", "n1", {"status": {"allocatable": {"cpu": 6}}}, at=3)
        outcome = play(
            node("n1", 8), pod("old", 4, on="n1"), reservation("r", 4), owned(pod("p", 4, at=1, run=3)), shrinks,
            node("n2", 4, at=6), until=7,
        )  # fmt: skip
        assert outcome.phases() == [(0, "Pending"), (0, "Available"), (4, "Pending"), (6, "Available")]
        assert outcome.reservation()["node"] == "n2"

    def test_a_pod_is_put_there_by_hand(self) -> None:
        outcome = play(node("n1", 4), reservation("r", 4, nodeName="n1"), pod("x", 3, on="n1", at=2), until=4)
        assert (outcome.node()["used"], outcome.node()["held"]) == ({"cpu": "3"}, {"cpu": "1"})


class TestWaiting:
    def test_selectors_and_taints(self) -> None:
        nodes = [node("n1", 4), node("n2", 4, labels={"zone": "b"})]
        outcome = play(nodes, reservation("r", 4, template={"nodeSelector": {"zone": "b"}}), until=2)
        assert outcome.reservation()["node"] == "n2"
        tainted = {**node("n1", 4), "spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]}}
        outcome = play(tainted, reservation("r", 4), until=2)
        assert outcome.reservation()["phase"] == "Pending"
        tolerated = {"tolerations": [{"key": "a", "operator": "Exists"}]}
        assert play(tainted, reservation("r", 4, template=tolerated), until=2).reservation()["node"] == "n1"

    def test_it_says_why(self) -> None:
        outcome = play(node("n1", 3), reservation("r", 4), until=2)
        [event] = [e for e in outcome.report["events"] if e["object"] == "r"]
        assert event["type"] == "ReservationPending"

    def test_pods_of_equal_priority_go_first(self) -> None:
        outcome = play(node("n1", 4, at=2), reservation("r", 4), pod("p", 4, at=1), until=4)
        assert outcome.bound() == {"p": (2, "n1")}
        assert outcome.reservation()["phase"] == "Pending"

    def test_it_goes_before_pods_of_lower_priority(self) -> None:
        high = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 5}
        outcome = play(
            high, node("n1", 4, at=2), reservation("r", 4, template={"priorityClassName": "high"}), pod("p", 4, at=1),
            until=4,
        )  # fmt: skip
        assert outcome.phases()[-1] == (2, "Available")
        assert outcome.bound() == {}

    def test_without_the_plugin_it_waits(self) -> None:
        outcome = play(node("n1", 4), reservation("r", 4), pod("p", 4, at=1), until=3, without_plugins=["reservation"])
        assert outcome.bound() == {"p": (1, "n1")}
        assert outcome.reservation()["phase"] == "Pending"

    def test_a_queue_that_does_not_exist_yet(self) -> None:
        late = {**queue("q"), "metadata": {"name": "q", "annotations": {"sim.stromboli.io/at": "2s"}}}
        outcome = play(node("n1", 4), late, reservation("r", 4, queue="q"), until=4)
        assert outcome.phases() == [(0, "Pending"), (2, "Available")]


def test_the_pods_of_a_job() -> None:
    """Found by their controller."""
    owner = {"controller": {"kind": "Job", "name": "j"}}
    outcome = play(node("n1", 4), reservation("r", 4, owners=[owner]), pod("x", 1, at=1), job("j", 4, at=2), until=5)
    assert outcome.running_by("node") == {"n1": 4}
    assert outcome.reservation()["owners"] == [f"default/j-main-{number}" for number in range(4)]


def test_what_a_pod_leaves_of_a_reservation_for_one_goes_to_another_at_once() -> None:
    """The pod takes 1 of 4 CPUs at 2, and a Reservation of 3 that waits gets the rest in the same cycle."""
    outcome = play(
        node("n1", 4), reservation("r", 4, allocateOnce=True), reservation("s", 3, at=1), owned(pod("p", 1, at=2)),
        until=4,
    )  # fmt: skip
    assert outcome.phases("s") == [(1, "Pending"), (2, "Available")]
    assert outcome.node()["held"] == {"cpu": "3"}
    assert outcome.queue()["allocated"] == {"cpu": "4"}


@pytest.mark.parametrize(
    "change", [{"unschedulable": True}, {"taints": [{"key": "k", "effect": "NoSchedule"}]}], ids=["cordoned", "tainted"]
)
@pytest.mark.parametrize("once", [False, True])
def test_its_node_takes_no_more_pods(change: Document, once: bool) -> None:
    """Two pods that start together may use it, and its node is closed before they come. They wait, and a job
    beside them starts."""
    outcome = play(
        node("n1", 4), node("n2", 2), reservation("r", 4, template={"nodeName": "n1"}, allocateOnce=once),
        patch("Node", "n1", {"spec": change}, at=1), *(owned(one) for one in gang("g", 3, 3, at=2)), pod("x", 1, at=2),
        until=4,
    )  # fmt: skip
    assert outcome.bound() == {"x": (2, "n2")}
    assert outcome.pod("g-0")["reason"] == "InsufficientNode", outcome.pod("g-0")["message"]
