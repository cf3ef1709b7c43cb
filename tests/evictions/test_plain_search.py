"""The fast search for victims decides what the plain one decides, cycle by cycle, on clusters of all sorts."""

from __future__ import annotations

import pytest

from evictions.crowded_clusters import CONFIGURATIONS, crowded
from evictions.plain_search import PlainSearch
from properties.random_clusters import World
from stromboli.scheduling.actions import preempt, reclaim
from stromboli.scheduling.cycle import Scheduler
from stromboli.scheduling.decisions import Decision, Evict
from stromboli.scheduling.registry import Registry

CYCLES = 3
SEEDS_PER_TEST = 20


def scheduler(text: str) -> Scheduler:
    registry = Registry(installed_plugins=(), installed_actions=())
    return Scheduler(registry.load(text), registry)


def decisions(seed: int, text: str) -> list[list[Decision]]:
    """What is decided in some cycles, with time for what was evicted to leave and to come back."""
    world = World(crowded(seed), grace=2, replaces=seed % 2 == 0)
    deciding = scheduler(text)
    made = []
    for _ in range(CYCLES):
        made.append(world.cycle(deciding))
        world.cluster.validate()
        world.carry_out(made[-1])
    return made


@pytest.mark.parametrize("first", range(0, 60, SEEDS_PER_TEST))
@pytest.mark.parametrize("configuration", CONFIGURATIONS)
def test_both_searches_decide_alike(configuration: str, first: int, monkeypatch: pytest.MonkeyPatch) -> None:
    text = CONFIGURATIONS[configuration]
    seeds = range(first, first + SEEDS_PER_TEST)
    fast = {seed: decisions(seed, text) for seed in seeds}
    monkeypatch.setattr(preempt, "VictimSearch", PlainSearch)
    monkeypatch.setattr(reclaim, "VictimSearch", PlainSearch)
    for seed in seeds:
        assert fast[seed] == decisions(seed, text), f"seed {seed}"
    evictions = sum(isinstance(made, Evict) for story in fast.values() for cycle in story for made in cycle)
    assert evictions, "nothing was evicted, so nothing was compared"
