"""Random worlds, judged by a checker that does not share a line with the worker or the scheduler."""

from __future__ import annotations

import pytest

from queue_locks.lock_scenes import run
from queue_locks.lock_worlds import UNTIL, Checker, cordoned_in, world
from starvation.scenes import restart


@pytest.mark.parametrize("seed", range(30))
def test_no_promise_is_broken(seed: int) -> None:
    documents, percent = world(seed)
    outcome = run(documents, until=UNTIL, locks={"maxReservedPercent": percent})
    checker = Checker(documents, outcome, percent)
    checker.cordoned = cordoned_in(documents)
    checker.check()


@pytest.mark.parametrize("seed", range(0, 30, 3))
def test_equal_input_gives_equal_bytes_also_across_restarts(seed: int) -> None:
    documents, percent = world(seed)
    outcome = run(documents, until=UNTIL, locks={"maxReservedPercent": percent})
    restarts = [restart(second) for second in range(UNTIL + 1)]
    assert run(documents[::-1], restarts, until=UNTIL, locks={"maxReservedPercent": percent}).text == outcome.text
