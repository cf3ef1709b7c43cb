"""Moves in random worlds, with each component away now and then, and with restarts in every second."""

from __future__ import annotations

import os
from random import Random

import pytest

from descheduling.crashes import Crash
from descheduling.move_worlds import check, outages, random_world, restarts_in_every_second

WORLDS = int(os.environ.get("STROMBOLI_MOVE_WORLDS", "60"))


@pytest.mark.parametrize("seed", range(WORLDS))
def test_outages(seed: int) -> None:
    world = random_world(seed)
    check(world, world.scene(*outages(seed)).outcome)


@pytest.mark.parametrize("seed", range(WORLDS // 2))
def test_restarts_in_every_second_change_nothing(seed: int) -> None:
    """The controllers are an exception: with them restarts the pretended ReplicaSet controller, which counts the time
    until it replaces a pod."""
    world = random_world(seed)
    plain = world.scene().outcome
    check(world, plain)
    restarted = world.scene(*restarts_in_every_second("scheduler", "descheduler")).outcome
    assert restarted.report["events"] == plain.report["events"]
    check(world, world.scene(*restarts_in_every_second("controllers")).outcome)


@pytest.mark.parametrize("seed", range(WORLDS))
def test_crashes_between_two_writes(seed: int) -> None:
    """The next descheduler starts up to four seconds later; one of the other components may be away as well."""
    world, random = random_world(seed), Random(seed)
    with pytest.MonkeyPatch.context() as context:
        crash = Crash(context)
        assert world.scene().outcome
    if crash.count:
        with pytest.MonkeyPatch.context() as context:
            Crash(context, random.randint(1, crash.count), away=random.randint(0, 16) / 4)
            others = [one for one in outages(seed) if one["component"] != "descheduler" and random.random() < 0.3]
            outcome = world.scene(*others).outcome
        check(world, outcome, crashed=True)


def test_enough_of_these_worlds_have_moves() -> None:
    moves = [random_world(seed).scene(*outages(seed)).outcome.moves for seed in range(60)]
    assert sum(each["succeeded"] for each in moves) > 40
    assert sum(each["failed"] for each in moves) > 0
