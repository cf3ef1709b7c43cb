"""Small random worlds of groups that must be close together, judged by a checker that tries all ways to place them."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from topology.close_checker import judge
from topology.close_draw import draw

SEEDS = range(32)
PARTS = 4  # so that several processes share them
LOOKED_AT = {
    "hard starts", "sub-groups started", "choices of a tier", "evictions", "evictions of members", "waiting groups",
    "waiting groups that may preempt",
}  # fmt: skip


@pytest.mark.parametrize("part", range(PARTS))
def test_a_world_of_close_groups_keeps_all_rules(part: int, tmp_path: Path) -> None:
    for seed in SEEDS[part::PARTS]:
        world = draw(seed)
        assert judge(world, world.run(tmp_path)).findings == [], f"seed {seed}"


def test_a_process_that_starts_anew_in_every_second_keeps_them_too(tmp_path: Path) -> None:
    judged: Counter[str] = Counter()
    for seed in range(101, 116):
        world = draw(seed)
        found = judge(world, world.run(tmp_path, restarts="all"))
        judged += found.judged
        assert found.findings == [], f"seed {seed}"
    # A check that looks at nothing proves nothing.
    assert set(judged) >= LOOKED_AT


def test_worlds_are_always_the_same() -> None:
    assert draw(7) == draw(7)
    assert draw(7) != draw(8)
