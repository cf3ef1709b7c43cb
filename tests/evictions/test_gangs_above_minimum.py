"""A gang loses what it has above its minimum one by one, and the rest only together with all of it."""

from __future__ import annotations

import pytest

from starvation.scenes import Document, gang, node, pod, priority_class, queue
from volumes.volume_scenes import play

CLASSES = [priority_class("low", 1), priority_class("high", 100)]


@pytest.mark.parametrize(
    ("cpus", "least", "requested", "evicted"),
    [
        ([3, 1], 1, 3, ["v-0"]),  # the small one alone is not enough, and both may not go: the minimum is one
        ([1, 3], 1, 3, ["v-1"]),
        ([2, 2], 1, 2, ["v-1"]),
        ([2, 2], 1, 4, ["v-0", "v-1"]),  # more than one only as a whole
        ([1, 1, 1], 2, 1, ["v-2"]),
        ([1, 1, 1], 2, 3, ["v-0", "v-1", "v-2"]),
        ([1, 1, 1], 2, 2, ["v-0", "v-1", "v-2"]),
        ([1, 1, 1], 0, 2, ["v-1", "v-2"]),
        ([1, 2, 1, 1], 3, 2, ["v-1"]),  # one may go, and the last is too small
        ([1, 2, 3, 1, 1], 3, 4, ["v-2", "v-4"]),
    ],
)
def test_a_pod_preempts_members_of_a_gang(cpus: list[float], least: int, requested: int, evicted: list[str]) -> None:
    victims = gang("v", *cpus, least=least, priority="low", on="n")
    outcome = play(CLASSES, node("n", sum(cpus)), victims, pod("x", requested, priority="high", at=2), until=8)
    assert sorted(name for _, name in outcome.happened("Evicted")) == evicted
    assert outcome.started["x"] > 2


def test_other_nodes_are_better_than_a_whole_gang() -> None:
    parts: list[Document] = [
        node("n", 4), *gang("v", 2, 2, least=1, priority="low", on="n"),
        node("o", 4), *[pod(f"s{number}", 1, priority="low", on="o") for number in range(4)],
    ]  # fmt: skip
    outcome = play(CLASSES, parts, pod("x", 4, priority="high", at=2), until=8)
    # Two victims by number, but they cannot go without what is left of their gang: that makes no difference here.
    assert sorted(name for _, name in outcome.happened("Evicted")) == ["v-0", "v-1"]
    parts[1:4] = gang("v", 2, 2, 1, 1, 1, least=4, priority="low", on="n")[:3]
    elsewhere = [*gang("v", 2, 2, 1, 1, 1, least=4, priority="low", on="m")[3:], node("m", 3)]
    outcome = play(CLASSES, parts, elsewhere, pod("x", 4, priority="high", at=2), until=8)
    # The whole gang would be five.
    assert sorted(name for _, name in outcome.happened("Evicted")) == ["s0", "s1", "s2", "s3"]


def test_a_queue_reclaims_from_a_gang_above_its_minimum() -> None:
    outcome = play(
        CLASSES, queue("a"), queue("b"), node("n", 4),
        gang("v", 3, 1, least=1, queue="a", on="n"), pod("x", 2, queue="b", at=2), until=8,
    )  # fmt: skip
    assert [name for _, name in outcome.happened("Evicted")] == ["v-0"]
    assert "x" in outcome.started
