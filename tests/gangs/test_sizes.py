"""Gangs whose pods differ in size start wherever there is room for all of them, in whatever order they are named."""

from __future__ import annotations

from itertools import permutations

import pytest

from starvation.scenes import group, node, pod, queue
from together.situations import situation, starts


@pytest.mark.parametrize("sizes", sorted(set(permutations((2, 0.5, 2)))))
def test_a_small_pod_does_not_take_the_room_of_a_large_one(sizes: tuple[float, ...]) -> None:
    # n1 has 4 CPUs free, which both large pods need, and scores best; n2 has 1 free, enough for the small one.
    members = [pod(f"g-{n}", size, group="g", queue="q") for n, size in enumerate(sizes)]
    used = pod("other", 3, queue="q", on="n2")
    report = situation(
        queue("q"), node("n1", 4), node("n2", 4), used, group("g", 3, queue="q"), *members, until=5
    ).run()
    assert sorted(name for name in starts(report) if "g-" in name) == ["default/g-0", "default/g-1", "default/g-2"]


def test_what_does_not_fit_in_any_order_starts_nothing() -> None:
    members = [pod(f"g-{n}", size, group="g", queue="q") for n, size in enumerate((2, 1.5, 2))]
    used = pod("other", 3, queue="q", on="n2")
    report = situation(
        queue("q"), node("n1", 4), node("n2", 4), used, group("g", 3, queue="q"), *members, until=5
    ).run()
    assert not [name for name in starts(report) if "g-" in name]
    assert report["pods"]["default/g-0"]["reason"] == "GangShort"
