"""The life of a Reservation: it gets a node, is used, and ends."""

from __future__ import annotations

from reservations.reservation_scenes import node, owned, play, pod, reservation


def test_others_do_not_fit_and_its_pod_does() -> None:
    """n1 has 4 CPUs, 2 of them held. A pod of 3 waits, one with the label of the Reservation takes the 2."""
    outcome = play(
        node("n1", 4), reservation("r", 2), pod("other", 3, at=1), owned(pod("mine", 2, at=2)), until=5
    )  # fmt: skip
    assert outcome.phases() == [(0, "Pending"), (0, "Available")]
    assert outcome.bound() == {"mine": (2, "n1")}
    assert outcome.reservation()["allocated"] == {"cpu": "2", "pods": "1"}
    assert outcome.reservation()["owners"] == ["default/mine"]
    assert outcome.node()["used"] == {"cpu": "2"}
    assert outcome.node()["held"] == {"cpu": "0"}
    assert outcome.queue()["allocated"] == {"cpu": "2"}
