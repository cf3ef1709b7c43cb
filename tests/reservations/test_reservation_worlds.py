"""Random worlds, judged by a checker that does not share a line with the scheduler or the controllers."""

from __future__ import annotations

import json

import pytest

from reservations.reservation_scenes import run
from reservations.reservation_worlds import UNTIL, judge, restarts, world
from starvation.scenes import restart


@pytest.mark.parametrize("seed", range(40))
def test_nothing_is_counted_twice_and_no_node_is_overfull(seed: int) -> None:
    checker = judge([*world(seed), *restarts(seed)])
    assert checker.wrong == []


# In 9053 and 9061, the pods of a Reservation end just before the scheduler is killed.
@pytest.mark.parametrize("seed", [*range(40, 80), 9053, 9061])
def test_a_scheduler_that_is_killed_while_it_writes(seed: int) -> None:
    """Of some cycles only a part of the decisions is carried out, and the next scheduler knows only the objects."""
    checker = judge([*world(seed), *restarts(seed)], kills=seed)
    assert checker.wrong == []


def test_the_worlds_have_something_to_check() -> None:
    seen = [judge(world(seed)).seen for seed in range(30)]
    least = {"held": 150, "used": 40, "users": 15, "movements": 5, "preemptions": 5, "waits": 5}
    for what, number in least.items():
        assert sum(one.get(what, 0) for one in seen) >= number, what


@pytest.mark.parametrize("seed", range(0, 40, 4))
def test_equal_input_gives_equal_bytes_also_across_restarts(seed: int) -> None:
    documents = world(seed)
    outcome = run(documents, until=UNTIL)
    every_second = [restart(second) for second in range(UNTIL + 1)]
    again = run(json.loads(json.dumps(documents[::-1])), every_second, until=UNTIL)
    assert again.text == outcome.text
