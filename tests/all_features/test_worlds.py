"""Random worlds with all features in one, judged by the checker of each. `benchmarks/all_features.py` runs more."""

from __future__ import annotations

from collections import Counter

import pytest

from all_features.generator.draw import draw
from all_features.judge import judge

SEEDS = range(20)
PARTS = 10  # so that several processes share them


def test_a_volume_is_awaited_since_its_last_attempt_began() -> None:
    """After an attempt has failed, a node is selected ahead for a shared claim, and pods get their places at once."""
    assert judge(draw(30261), 30261).findings == []


@pytest.mark.parametrize("part", range(PARTS))
def test_a_random_world_keeps_all_rules(part: int) -> None:
    judged: Counter[str] = Counter()
    for seed in SEEDS[part::PARTS]:
        verdict = judge(draw(seed), seed)
        judged += verdict.judged
        assert verdict.findings == [], f"python benchmarks/all_features.py --seed {seed} --worlds 1"
    # A check that looks at nothing proves nothing.
    assert {"ledger: binds", "gangs: starts", "books: sums", "repetition: restarts"} <= set(judged)


def test_worlds_are_always_the_same() -> None:
    assert draw(7) == draw(7)
    assert draw(7) != draw(8)
