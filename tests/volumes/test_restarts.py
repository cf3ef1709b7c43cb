"""A scheduler that starts while volumes are made goes on as the last one would have.

`play` runs a scene a second time with a restart of everything in every second, and fails if that changes anything.
"""

from __future__ import annotations

import json

from reservations.reservation_scenes import owned, reservation
from reservations.reservation_scenes import play as play_reserved
from volumes.volume_scenes import Document, claim, gang, node, patch, play, pod, storage_class, with_claims


def quick_and_slow(slow: float = 4) -> list[Document]:
    return [storage_class("quick"), storage_class("slow", takes=slow)]


def test_a_gang_starts_when_enough_of_its_pods_have_their_volumes() -> None:
    # Two of three must start together. The third one's volume takes longer, and keeps nobody waiting.
    head, first, second, third = gang("training", 1, 1, 1, least=2)
    outcome = play(
        node("n1", 4), node("n2", 4), quick_and_slow(), claim("a", of="quick"), claim("b", of="slow"),
        head, with_claims(first, "a"), second, with_claims(third, "b"), until=8,
    )  # fmt: skip
    assert outcome.started == {"training-0": 1.0, "training-1": 1.0, "training-2": 4.0}


def test_a_gang_of_which_all_are_needed_waits_for_the_last_volume() -> None:
    head, first, second = gang("training", 1, 1)
    outcome = play(
        node("n1", 4), quick_and_slow(), claim("a", of="quick"), claim("b", of="slow"),
        head, with_claims(first, "a"), with_claims(second, "b"), until=8,
    )  # fmt: skip
    assert outcome.started == {"training-0": 4.0, "training-1": 4.0}


def test_others_see_a_bind_that_waits_and_not_a_pending_pod() -> None:
    # The pod that waits for its volume has one of two CPUs. In each second another pod comes and finds the other one.
    small = [pod(f"small-{second}", 1, at=second, run=1) for second in range(8)]
    outcome = play(
        node("n1", 2), quick_and_slow(), claim("a", of="slow"), with_claims(pod("large", 1), "a"), small, until=8
    )
    assert outcome.started["large"] == 4.0
    assert [outcome.started[f"small-{second}"] for second in range(8)] == [float(second) for second in range(8)]


def test_a_gang_that_loses_a_node_meanwhile_is_placed_anew() -> None:
    # It waits on n1 and n2 with one pod each; n2 is lost at 2 s. What is left of it is not enough, so it gives all back
    # and begins again on the nodes that there are.
    head, first, second = gang("training", 3, 3)
    outcome = play(
        node("n1", 4), node("n2", 4, until=2), node("n3", 4, at=2), quick_and_slow(), claim("a", of="slow"),
        claim("b", of="slow"), head, with_claims(first, "a"), with_claims(second, "b"), until=12,
    )  # fmt: skip
    assert set(outcome.started) == {"training-0", "training-1"}
    assert {outcome.nodes[name] for name in outcome.started} == {"n1", "n3"}


def test_a_pause_after_volumes_that_could_not_be_made_is_not_forgotten() -> None:
    # The provisioner fails on n0 after 2 s. The pod pauses, and the next attempt is on n1.
    outcome = play(
        node("n0", 4), node("n1", 2), storage_class("slow", takes=2, fails="n0"), claim("a", of="slow"),
        with_claims(pod("p", 1), "a"), until=12,
    )  # fmt: skip
    assert outcome.nodes == {"p": "n1"}
    assert 4.0 < outcome.started["p"] < 10.0


def test_a_gang_gives_its_places_back_when_one_of_its_volumes_cannot_be_made() -> None:
    head, first, second = gang("training", 1, 1)
    outcome = play(
        node("n0", 1), node("n1", 2), quick_and_slow(), storage_class("picky", takes=2, fails="n0"),
        claim("a", of="picky"), claim("b", of="quick"), head, with_claims(first, "a"), with_claims(second, "b"),
        until=20,
    )  # fmt: skip
    assert set(outcome.started) <= {"training-0", "training-1"}


def test_two_volumes_of_a_pod_that_cannot_be_made_are_one_failed_attempt() -> None:
    # Otherwise the pause after a restart would be twice as long.
    outcome = play(
        node("n0", 4), storage_class("slow", takes=2, fails="2"), claim("a", of="slow"), claim("b", of="slow"),
        with_claims(pod("p", 1), "a", "b"), until=30,
    )  # fmt: skip
    assert [when for when, _ in outcome.gave_back()][:1] == [2.0]
    assert outcome.nodes == {"p": "n0"}


def test_pods_that_share_a_claim_remember_the_nodes_that_they_had_themselves() -> None:
    # The volume is made for the node of the first pod. What was refused to the second one is its own place.
    head, first, second = gang("training", 2, 2)
    outcome = play(
        [node(f"n{number}", 2) for number in range(4)], storage_class("slow", takes=2, fails="2"),
        claim("a", of="slow", mode="ReadWriteMany"), head, with_claims(first, "a"), with_claims(second, "a"), until=40,
    )  # fmt: skip
    assert len(outcome.gave_back()) == 4
    assert set(outcome.started) == {"training-0", "training-1"}


def test_who_waits_for_its_volume_gives_its_place_back_when_the_others_of_its_gang_are_lost() -> None:
    # Two of three must run. The third one waits on n0 when the node of the others is lost.
    head, first, second, third = gang("training", 1, 1, 1, least=2)
    outcome = play(
        node("n0", 1), node("n1", 2, until=3), quick_and_slow(slow=8), claim("a", of="slow"),
        head, with_claims(first, "a"), second, third, until=12,
    )  # fmt: skip
    assert set(outcome.started) == {"training-1", "training-2"}
    assert outcome.gave_back() == [(3.0, "training-0")]


def test_a_pod_that_uses_a_reservation_while_it_waits_goes_on_using_it() -> None:
    # The node has 3 CPUs, of which the Reservation keeps 2 for the pod. The third one is there for others meanwhile.
    others = [pod(f"other-{second}", 1, at=second, run=1) for second in range(2, 8)]
    outcome = play_reserved(
        node("n0", 3), reservation("kept", 2), quick_and_slow(), claim("a", of="slow"),
        with_claims(owned(pod("p", 2, at=2), "kept"), "a"), others, until=10,
    )  # fmt: skip
    assert outcome.started["p"] == 6.0
    assert [outcome.started[f"other-{second}"] for second in range(2, 8)] == [float(n) for n in range(2, 8)]
    assert json.loads(outcome.text)["reservations"]["kept"]["owners"] == ["default/p"]


def test_pods_beside_the_reservation_of_others_are_held_again() -> None:
    # One of two suffices to start. At 2 s the volume of the first one fails; the second one keeps its place.
    head, first, second = gang("training", 1, 1, least=1)
    outcome = play_reserved(
        node("n0", 4), reservation("kept", 1), quick_and_slow(5), storage_class("broken", takes=2, fails="always"),
        claim("a", of="broken"), claim("b", of="slow"), head, with_claims(first, "a"), with_claims(second, "b"),
        until=8,
    )  # fmt: skip
    assert outcome.warnings("VolumesNotReady") == [(2.0, "training-0")]
    assert outcome.started == {"training-1": 5.0}


def test_a_reservation_holds_only_what_pods_that_wait_leave_of_a_smaller_node() -> None:
    # From 2 s on the node has 3 CPUs. The pod has 2 of them, so 1 is left of the 2 that the Reservation was given.
    outcome = play_reserved(
        node("n0", 4), reservation("kept", 2), quick_and_slow(5), claim("a", of="slow"), with_claims(pod("p", 2), "a"),
        patch("Node", "n0", {"status": {"allocatable": {"cpu": 3}}}, at=2), until=7,
    )  # fmt: skip
    assert outcome.started == {"p": 5.0}
    assert outcome.warnings("VolumesNotReady") == []


def test_what_reservations_hold_on_a_cordoned_node_is_divided_after_a_restart() -> None:
    # The pod gives its place up in the second of the cordon. What the Reservation holds there counts for its queue, and
    # what the pod leaves there is nobody's: 1 CPU remains to be divided.
    outcome = play_reserved(
        node("n0", 8), reservation("kept", 1), quick_and_slow(5), claim("a", of="slow"), with_claims(pod("p", 1), "a"),
        patch("Node", "n0", {"spec": {"unschedulable": True}}, at=3), until=3,
    )  # fmt: skip
    assert outcome.warnings("VolumesNotReady") == [(3.0, "p")]
    assert outcome.report["queues"]["default"]["deserved"] == {"cpu": "1"}


def test_room_that_was_lent_to_a_pod_while_it_waits_is_still_lent() -> None:
    # The gang of two needs 2 CPUs each and finds one place. The small pod is lent that, and its volume takes 6 s.
    head, first, second = gang("training", 2, 2)
    outcome = play(
        node("n0", 2), node("n1", 2), quick_and_slow(slow=6), claim("a", of="slow"), pod("long", 2, run=9),
        head, first, second, with_claims(pod("small", 1, at=1, run=2), "a"), until=20,
        backfill={"backfillNonBestEffort": True, "mode": "wait"},
    )  # fmt: skip
    assert outcome.started["small"] == 7.0
    assert json.loads(outcome.text)["pods"]["default/small"]["backfill"] is True
    assert outcome.started["training-0"] == outcome.started["training-1"] == 9.0


def test_a_provisioner_that_gave_up_at_once_is_not_forgotten() -> None:
    # It fails in the second in which the node is selected, so a scheduler that starts in the next one sees a claim
    # without a selected node.
    outcome = play(
        node("n0", 4), storage_class(takes=0, fails="1"), claim("a"), with_claims(pod("p", 1), "a"), until=12
    )
    assert outcome.gave_back() == [(1.0, "p")]
    assert outcome.started == {"p": 10.0}


def test_a_node_on_which_a_provisioner_gave_up_at_once_is_avoided() -> None:
    head, first, second = gang("training", 2, 2)
    outcome = play(
        [node(f"n{number}", 4 - number) for number in range(3)], storage_class(takes=0, fails="n0"), claim("a"),
        claim("b"), head, with_claims(first, "a"), with_claims(second, "b"), until=40,
    )  # fmt: skip
    assert (1.0, "training-0") in outcome.gave_back()
    assert outcome.nodes["training-0"] == "n1"
