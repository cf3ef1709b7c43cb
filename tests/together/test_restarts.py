"""Restarts of the scheduler in every second of random worlds change nothing: no bind, no eviction, no reservation."""

from __future__ import annotations

import pytest

from conservation import worlds as quiet
from starvation.scenes import restart
from together import worlds
from together.situations import Report, Situation, configuration
from volumes.test_worlds import world as volume_world

KINDS = ("Bound", "Finished", "Evicted", "Reserved", "Unreserved")


def fates(report: Report) -> list[tuple[float, str, str, str]]:
    found = [(e["t"], e["type"], e["object"], e["node"]) for e in report["events"] if e["type"] in KINDS]
    return sorted(found)


def assert_unchanged(story: Situation) -> None:
    restarts = [restart(second, "scheduler") for second in range(int(story.until) + 1)]
    assert fates(story.run(*restarts)) == fates(story.run())


@pytest.mark.parametrize("seed", range(1))
def test_busy_worlds(seed: int) -> None:
    assert_unchanged(worlds.world(seed).situation())


@pytest.mark.parametrize("first", range(0, 20, 10))
def test_worlds_that_come_to_rest(first: int) -> None:
    for seed in range(first, first + 10):
        assert_unchanged(quiet.world(seed).situation())


# Volumes take time and fail. In all of these a scheduler that had just started forgot that, and tried again at once.
@pytest.mark.parametrize("seed", [3, 9, 16, 20, 23, 36, 47, 55])
def test_worlds_with_volumes(seed: int) -> None:
    documents = [one for one in volume_world(seed) if one["kind"] != "Restart"]
    assert_unchanged(Situation(documents, configuration(), 40))
