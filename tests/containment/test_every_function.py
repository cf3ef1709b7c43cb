"""An error in any function that is handed one job leaves all other jobs as they were.

Places are found by running (see `fault_injection`). Every other job that starts both beside a healthy odd job and
without it must start in time beside one that fails. The suite tries a part of the places of each world, another part
for each; `python -m benchmarks.containment` tries all of them in all worlds.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import pytest

import stromboli.scheduling.features
from containment.contained_worlds import WORLDS, Played, World, is_odd_name, play
from containment.fault_injection import Place, found, raising
from stromboli.scheduling.registry import Registry

SLACK = 5  # seconds: whoever is charged wrongly is put aside for a second, and a failed cycle costs one
PARTS = 8


@cache
def places_of(make: Callable[[], World]) -> tuple[Place, ...]:
    places: dict[Place, None] = {}
    with found(places):
        play(make())
    return tuple(places)


@cache
def deadlines(make: Callable[[], World]) -> dict[str, float]:
    """By when each of the others must have started."""
    world = make()
    healthy, alone = play(world).others(), play(world.without_odd).others()
    return {name: max(at, alone[name]) + SLACK for name, at in healthy.items() if name in alone}


def late(make: Callable[[], World], played: Played) -> dict[str, float | None]:
    expected = deadlines(make)
    return {
        name: played.bound.get(name) for name, by in expected.items() if played.bound.get(name, by + 1) > by
    }  # fmt: skip


@pytest.mark.parametrize("make", WORLDS)
def test_others_start_all_the_same(make: Callable[[], World]) -> None:
    assert len(deadlines(make)) > 4, "there is nobody to compare"
    tried = 0
    for place in places_of(make)[WORLDS.index(make) :: PARTS]:
        with raising(place):
            played = play(make())
        assert played.errors, f"nothing went wrong in {place}"
        assert any(is_odd_name(ref.key) for ref in played.charged), f"{place}: charged to {played.charged}"
        late_ones = late(make, played)
        assert not late_ones, f"after errors in {place}, charged to {played.charged}: {late_ones}"
        tried += 1
    assert tried > 10


def test_every_action_and_feature_is_among_the_places() -> None:
    """An action or feature that no world reaches would never be tried."""
    files = {file for make in WORLDS for file, _, _ in places_of(make)}
    actions = {f"actions/{name}.py" for name in Registry(installed_actions=()).action_names()}
    assert actions <= files, actions - files
    features = {
        function.__module__.removeprefix("stromboli.scheduling.").partition(".")[0]
        for function in (*stromboli.scheduling.features.FEATURES, *stromboli.scheduling.features.PREPARATIONS)
    }
    reached = {file.partition("/")[0].removesuffix(".py") for file in files}
    assert features <= reached, features - reached
