"""One pod as large as the node, among six small ones; round by round, and with small ones that never stop coming."""

from __future__ import annotations

import pytest

from starvation.scenes import node, pod, restart, scene, stream
from starvation.stories import STORIES

WITH = STORIES["pod-4"]
WITHOUT = WITH.but(reserve=None)


def numbers(names: set[str]) -> set[int]:
    return {int(name.removeprefix("pod-")) for name in names}


@pytest.mark.parametrize(
    ("round", "without", "with_reserve"),
    [
        (0, set(), set()),
        (1, {1, 2, 3}, {1, 2, 3}),
        (2, {1, 2, 3}, {1, 2, 3}),
        (3, {2, 3, 5}, {2, 3, 5}),  # 1 has ended; 4 has waited three seconds now, one more than the threshold
        (4, {5, 6, 7}, {5}),  # 2 and 3 have ended: two CPUs are kept for 4
        (5, {5, 6, 7}, {5}),
        (6, {4}, {4}),
    ],
)
def test_who_runs_in_each_round(round: int, without: set[int], with_reserve: set[int]) -> None:
    assert numbers(WITHOUT.at(round).running) == without
    assert numbers(WITH.at(round).running) == with_reserve


def test_the_node_is_set_aside_in_the_round_in_which_the_pod_has_starved() -> None:
    # It waits from T0, the threshold is 2 s, and more than that has passed at T3, not yet at T2.
    outcome = WITH.run()
    assert outcome.happened("Reserved")[0] == (3.0, "pod-4")
    assert outcome.happened("Unreserved") == [(6.0, "pod-4")]
    assert WITH.at(2).reserved == {}
    assert WITH.at(3).reserved == {"n1": ["pod-4"]}
    assert WITH.at(6).reserved == {"n1": ["pod-6"]}  # which has starved meanwhile, and is next


def test_the_small_ones_that_waited_run_when_the_large_one_has_ended() -> None:
    assert WITH.but(until=16).run().started["pod-6"] == 16


def test_a_scheduler_that_starts_anew_in_round_five_keeps_to_it() -> None:
    for component in ("scheduler", "controllers", "all"):
        started = WITH.run(restart(5, component)).started
        assert started["pod-4"] == 6
        assert {"pod-6", "pod-7"} & started.keys() == set()


def test_small_pods_without_end_starve_it_for_ever() -> None:
    # Three CPUs, and one pod of one CPU for three seconds comes each second: there is never more than one CPU free.
    endless = scene(node("n1", 3), stream("s", every=1, run=3, end=1000), pod("big", 3, at=2, run=3), until=1000)
    assert "big" not in endless.run().started


def test_small_pods_without_end_do_not_starve_it_where_nodes_are_set_aside() -> None:
    # It has starved in the first cycle more than four seconds after 4, at 9; the longest remaining run then is 3 s.
    outcome = STORIES["X1"].run()
    assert outcome.happened("Reserved")[0] == (9.0, "big")
    assert outcome.started["big"] <= 9 + 3
    # Without, not in fifty rounds.
    without = scene(node("n1", 3), stream("s", every=1, run=3, end=50), pod("big", 3, at=4, run=3), until=50).run()
    assert "big" not in without.started


@pytest.mark.parametrize("threshold", [0, 3, 10])
@pytest.mark.parametrize("run", [2, 5])
def test_the_wait_is_bounded_by_what_is_set(threshold: int, run: int) -> None:
    endless = scene(
        node("n1", 3), node("n2", 3), stream("s", every=run / 6, run=run, end=40), pod("big", 3, at=6, run=3),
        reserve={"starvingJobTimeThreshold": threshold}, until=40,
    )  # fmt: skip
    assert endless.run().started["big"] <= 6 + threshold + run + 2
    assert "big" not in endless.but(reserve=None).run().started
