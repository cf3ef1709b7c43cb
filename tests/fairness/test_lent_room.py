"""Lent room is had back, in random clusters, and then nobody is evicted any more."""

from __future__ import annotations

import pytest

from fairness.lent_room import helpless, world

WORLDS = 40
BUSY = 40
"""Cycles in which everything may still move. At most 17 jobs of 6 pods, of two priorities, in four queues."""
QUIET = 12


@pytest.mark.parametrize("seed", range(WORLDS))
def test_lent_room_is_had_back_and_then_all_is_quiet(seed: int) -> None:
    check(seed)


def check(seed: int) -> int:
    """How many evictions there were."""
    made = world(seed)
    told = made.start()
    evictions = 0
    for wave in made.waves:
        told.add(wave)
        evictions += told.live(3, successors=True)
    evictions += told.live(BUSY, successors=True)
    assert told.live(QUIET, successors=True) == 0, f"world {seed} is still evicting"
    assert not helpless(made), f"world {seed}: these could start on lent room"
    return evictions
