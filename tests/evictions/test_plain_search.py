"""The fast search for victims decides what the plain one decides, cycle by cycle, on clusters of all sorts."""

from __future__ import annotations

import pytest

from evictions.crowded_clusters import CONFIGURATIONS, decisions
from evictions.plain_search import PlainSearch
from stromboli.scheduling.actions import preempt, reclaim
from stromboli.scheduling.decisions import Evict

CYCLES = 3
SEEDS_PER_TEST = 20


@pytest.mark.parametrize("first", range(0, 60, SEEDS_PER_TEST))
@pytest.mark.parametrize("configuration", CONFIGURATIONS)
def test_both_searches_decide_alike(configuration: str, first: int, monkeypatch: pytest.MonkeyPatch) -> None:
    text = CONFIGURATIONS[configuration]
    seeds = range(first, first + SEEDS_PER_TEST)
    fast = {seed: decisions(seed, text, cycles=CYCLES) for seed in seeds}
    monkeypatch.setattr(preempt, "VictimSearch", PlainSearch)
    monkeypatch.setattr(reclaim, "VictimSearch", PlainSearch)
    for seed in seeds:
        assert fast[seed] == decisions(seed, text, cycles=CYCLES), f"seed {seed}"
    evictions = sum(isinstance(made, Evict) for story in fast.values() for cycle in story for made in cycle)
    assert evictions, "nothing was evicted, so nothing was compared"
