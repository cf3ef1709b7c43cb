"""Members of one gang may use the same Reservation: the one that fits nowhere else must find it."""

from __future__ import annotations

from reservations.reservation_scenes import Document, gang, node, owned, play, pod, priority_class, queue, reservation
from starvation.scenes import group


def _gang() -> list[Document]:
    """g-0 and g-1 of half a CPU, and g-2 of two: together they start, or not at all."""
    members = [pod(f"g-{n}", cpu, group="g", queue="team", at=2) for n, cpu in enumerate((0.5, 0.5, 2))]
    return [group("g", 3, queue="team", at=2), *(owned(one) for one in members)]


def test_the_largest_member_uses_the_reservation() -> None:
    # b has 1 CPU: enough for g-0 and g-1. What is held on a is enough for g-2 only if they leave it alone.
    outcome = play(queue("team"), node("a", 2), node("b", 1), reservation("r", 2, queue="team"), _gang(), until=6)
    assert outcome.bound() == {"g-0": (2, "b"), "g-1": (2, "b"), "g-2": (2, "a")}


def test_a_promise_beside_a_reservation_comes_true() -> None:
    # Node a has 3 CPUs: 2 are held, and lent leaves the third one 2 s after it is evicted. Meanwhile g-0 and g-1 are
    # promised its room, and g-2 what is held. All three have the same node. Each queue deserves 3 of the 6 CPUs.
    outcome = play(
        queue("team"), queue("other"), node("a", 3), node("b", 3), reservation("r", 2, queue="team"),
        pod("lent", 1, queue="other", on="a", grace=2), pod("own", 3, queue="other", on="b"), _gang(), until=10,
    )  # fmt: skip
    assert outcome.evictions() == [(2, "lent", "a")]
    assert outcome.bound() == dict.fromkeys(("g-0", "g-1", "g-2"), (4, "a"))


def test_who_uses_a_reservation_is_not_sent_elsewhere_to_spare_a_pod() -> None:
    # Of n1, 4 CPUs are held for g-0, and g-1 needs the other 4. So low goes. If g-0 were promised n2 instead, low could
    # stay beside g-1, but what is held on n1 would still be held. On n3, low-3 goes for g-2.
    head, uses, plain, third = gang("g", 4, 4, 4, priority="high", at=3)
    plain["spec"]["nodeSelector"] = {"only": "n1"}
    third["spec"]["nodeSelector"] = {"only": "n3"}
    outcome = play(
        priority_class("high", 100), node("n1", 8, labels={"only": "n1"}), pod("low", 4, on="n1"),
        reservation("r", 4, template={"priorityClassName": "high"}), node("n2", 4, at=2),
        node("n3", 4, labels={"only": "n3"}), pod("low-3", 4, on="n3"), head, owned(uses), plain, third, until=6,
    )  # fmt: skip
    assert outcome.evictions() == [(3, "low", "n1"), (3, "low-3", "n3")]
    assert outcome.bound() == {"g-0": (4, "n1"), "g-1": (4, "n1"), "g-2": (4, "n3")}
    assert outcome.reservation()["owners"] == ["default/g-0"]
