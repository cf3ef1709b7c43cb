"""What is set aside: one job at a time, pod slots included, and in numbers that everybody can read."""

from __future__ import annotations

import pytest

from starvation.scenes import gang, node, pod
from together.situations import Situation, assert_restarts_change_nothing, situation, starts

EVERYWHERE = {"starvingJobTimeThreshold": 2, "reservedNodePercent": 100}

# `old` has the whole node. Its user deletes it at 6 s, and it takes 8 s to go. The node is set aside for `first` from 3
# s on, and promised to it from 6 s on; it starts at 14 s. `second` may have the node set aside from then on, not
# sooner.
PROMISED = situation(
    node("n1", 3), pod("old", 3, on="n1", grace=8, until=6), pod("first", 3, run=5), pod("second", 3, at=1, run=4),
    reserve=EVERYWHERE, until=20,
)  # fmt: skip

# A node with two pod slots. Pods that request nothing come every second and run for 2 s, so at most one slot is free at
# a time. The CPUs are idle. `pair` needs both slots; it has starved at 4 s, and then nobody else may take a slot.
# 1 + threshold 2 + longest run 2 + two cycles = 7.
SLOTS = situation(
    node("n1", 2, pods=2), [pod(f"nothing-{number:02}", 0, at=number, run=2) for number in range(30)],
    gang("pair", 1, 1, at=1, run=4), reserve=EVERYWHERE, until=20,
)  # fmt: skip

# n1 is set aside for `big` from 3 s on.
AMOUNTS = situation(node("n1", 4), pod("old", 2, on="n1", run=10), pod("big", 3, run=3), reserve=EVERYWHERE, until=5)


def test_a_node_is_set_aside_for_one_job_at_a_time() -> None:
    holders = {time: PROMISED.at(time)["nodes"]["n1"]["reservedFor"] for time in range(15)}
    assert {time: names for time, names in holders.items() if len(names) > 1} == {}
    assert starts(PROMISED.run()) == {"default/first": 14, "default/second": 19}


def test_pods_that_request_nothing_do_not_take_the_slots_of_a_holder() -> None:
    started = starts(SLOTS.run())
    assert "default/pair-0" in started
    assert started["default/pair-0"] == started["default/pair-1"] <= 7


def test_the_amount_shows_on_the_node_and_in_the_reservation() -> None:
    report = AMOUNTS.run()
    assert report["nodes"]["n1"]["reserved"]["cpu"] == "3"
    (reservation,) = report["reservations"].values()
    assert reservation["phase"] == "Waiting"
    assert reservation["allocatable"]["cpu"] == "3"


@pytest.mark.parametrize("story", [PROMISED, SLOTS, AMOUNTS], ids=["promised", "slots", "amounts"])
def test_restarts_change_nothing(story: Situation) -> None:
    assert_restarts_change_nothing(story)
