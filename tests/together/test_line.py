"""The line of starving jobs: who waits in it keeps others only from what it could use itself."""

from __future__ import annotations

import pytest

from starvation.scenes import Document, node, pod, stream
from together.situations import Situation, assert_restarts_change_nothing, situation, starts

A, B = {"pool": "a"}, {"pool": "b"}
EVERYWHERE = {"starvingJobTimeThreshold": 2, "reservedNodePercent": 100}


def pool_b() -> list[Document]:
    """A node of two CPUs. One-CPU pods of 3 s arrive every 1.5 s, so from 2 s on it is full and never empty.

    `wide` needs both CPUs. It comes at 2 s and has waited for more than 2 s at 5 s; the last who runs then ends 3 s
    later at the latest.
    """
    small = stream("small", every=1.5, run=3, end=29, selector=B)
    return [node("nb", 2, labels=B), *small, pod("wide", 2, selector=B, at=2, run=5)]


# The node of pool a has a service that never ends. `first` has the node set aside from 3 s on and never starts;
# `second` needs the same node and is the first in line. Neither can use pool b. wide: 2 + threshold 2 + longest run 3 +
# two cycles = 9.
BEHIND_ONE_WHO_WAITS = situation(
    node("na", 2, labels=A), pod("service", 1, on="na"),
    pod("first", 2, selector=A, run=5), pod("second", 2, selector=A, at=1, run=5), pool_b(),
    reserve=EVERYWHERE, until=14,
)  # fmt: skip

# Four nodes like that, and four jobs for which they are set aside at 3 s: all the places there are. Nothing drains for
# the length of the threshold, so one of them gives its place up at 6 s at the latest.
# wide: 6 + longest run 3 + two cycles = 11.
BEHIND_FOUR_WHO_HOLD = situation(
    [node(f"na{number}", 2, labels=A) for number in range(4)],
    [pod(f"service-{number}", 1, on=f"na{number}") for number in range(4)],
    [pod(f"stuck-{number}", 2, selector=A, run=5) for number in range(4)], pool_b(),
    reserve=EVERYWHERE, until=14,
)  # fmt: skip

# (the situation, when wide starts at the latest)
LATEST = {"behind one who waits": (BEHIND_ONE_WHO_WAITS, 9), "behind four who hold": (BEHIND_FOUR_WHO_HOLD, 11)}


@pytest.mark.parametrize(("story", "latest"), LATEST.values(), ids=LATEST.keys())
def test_a_starving_job_for_another_pool_is_served(story: Situation, latest: float) -> None:
    started = starts(story.run())
    assert "default/wide" in started
    assert started["default/wide"] <= latest


@pytest.mark.parametrize("story", [story for story, _ in LATEST.values()], ids=LATEST.keys())
def test_restarts_change_nothing(story: Situation) -> None:
    assert_restarts_change_nothing(story)
