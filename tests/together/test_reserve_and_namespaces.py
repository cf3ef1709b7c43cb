"""Setting nodes aside does not change what the weights of namespaces say."""

from __future__ import annotations

from typing import Any

import pytest

from starvation.scenes import node, pod
from together.situations import (
    Situation,
    assert_restarts_change_nothing,
    happened,
    in_namespace,
    situation,
    weighted,
)  # fmt: skip

THRESHOLD = {"starvingJobTimeThreshold": 2}


def two_backlogs(**options: Any) -> Situation:
    """Eight nodes of one CPU; two namespaces of weights 1 and 7 with forty jobs of 10 s each.

    All of them starve. In every turn of 10 s one job of the small namespace starts, and seven of the large one: then
    both have 1/8 of the cluster by weight.
    """
    return situation(
        weighted("large", 7), weighted("a-small", 1), [node(f"n{number}", 1) for number in range(8)],
        in_namespace("a-small", [pod(f"job-{number:02}", 1, run=10) for number in range(40)]),
        in_namespace("large", [pod(f"job-{number:02}", 1, run=10) for number in range(40)]),
        until=39, **options,
    )  # fmt: skip


STORIES = {
    "half of the nodes": two_backlogs(reserve=THRESHOLD),
    "all nodes": two_backlogs(reserve={**THRESHOLD, "reservedNodePercent": 100, "maxHolders": 8}),
}
WITHOUT = two_backlogs(leave_out=("reserve",))


def starts_in_turns(story: Situation) -> list[tuple[int, int]]:
    """How many jobs of (a-small, large) started in each 10 s."""
    bound = [(int(time // 10), pod.partition("/")[0]) for time, pod in happened(story.run(), "Bound")]
    return [(bound.count((turn, "a-small")), bound.count((turn, "large"))) for turn in range(4)]


@pytest.mark.parametrize("story", STORIES.values(), ids=STORIES.keys())
def test_starts_follow_the_weights(story: Situation) -> None:
    assert starts_in_turns(story) == [(1, 7)] * 4


def test_starts_follow_the_weights_without_reserve() -> None:
    assert starts_in_turns(WITHOUT) == [(1, 7)] * 4


@pytest.mark.parametrize("story", STORIES.values(), ids=STORIES.keys())
def test_restarts_change_nothing(story: Situation) -> None:
    assert_restarts_change_nothing(story, until=12)
