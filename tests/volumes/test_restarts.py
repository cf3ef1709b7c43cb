"""A scheduler that starts while volumes are made goes on as the last one would have.

`play` runs a scene a second time with a restart of everything in every second, and fails if that changes anything.
"""

from __future__ import annotations

from volumes.volume_scenes import Document, claim, gang, node, play, pod, storage_class, with_claims


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
