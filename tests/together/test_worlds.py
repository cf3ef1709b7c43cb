"""Random worlds in which everything is on at once, judged by properties. `benchmarks/together.py` runs more."""

from __future__ import annotations

from collections import Counter

import pytest

from together.checker import judge
from together.worlds import long_world, world

WORLDS = 50
LONG_WORLDS = 40
PARTS = 10  # so that several processes share them


@pytest.mark.parametrize("part", range(PARTS))
def test_a_random_world_keeps_the_promises(part: int) -> None:
    judged: Counter[str] = Counter()
    for seed in range(part, WORLDS, PARTS):
        verdict = judge(world(seed))
        judged += verdict.judged
        assert verdict.findings == [], f"python benchmarks/together.py --seed {seed} --worlds 1 --write FOLDER"
    # A check that looks at nothing proves nothing.
    assert {"starts", "order", "stop"} <= set(judged)


@pytest.mark.parametrize("part", range(PARTS))
def test_a_random_world_with_long_runs_keeps_the_promises(part: int) -> None:
    judged: Counter[str] = Counter()
    for seed in range(part, LONG_WORLDS, PARTS):
        verdict = judge(long_world(seed))
        judged += verdict.judged
        assert verdict.findings == [], f"python benchmarks/together.py --seed {seed} --worlds 1 --write FOLDER"
    assert {"starts", "order", "stop"} <= set(judged)


# Turns as long as the timeout, whoever waits (10, 71); a job of higher priority was not admitted while one of lower
# priority had nodes (1017); namespaces with a gang each, one of which waits for a pod that never ends (73, 1147); a
# namespace whose gang waits for its own small pods to end, while another one uses what later ones leave (41011).
@pytest.mark.parametrize("seed", [10, 71, 73, 1017, 1147, 41011])
def test_a_world_with_long_runs_that_once_broke_a_promise_keeps_it(seed: int) -> None:
    assert judge(long_world(seed)).findings == []


# A holder that never drains kept its queue's quota (66); a namespace at its part was given nodes (93); a job took back
# reserved nodes that it could not use (214), or that reclaim would not clear for it (541); two namespaces were each
# passed over because of the other (827).
@pytest.mark.parametrize("seed", [66, 93, 214, 541, 827])
def test_a_world_that_once_broke_a_promise_keeps_it(seed: int) -> None:
    assert judge(world(seed)).findings == []


def test_worlds_are_always_the_same() -> None:
    assert world(7) == world(7)
    assert world(7) != world(8)
    assert long_world(7) == long_world(7)
