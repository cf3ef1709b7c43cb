"""Only the first news of a departure that nobody arranged is news."""

from __future__ import annotations

from building import pod
from controllers.world import World
from stromboli.controllers.deletion_tracker import Departures


def test_the_second_time_is_no_news() -> None:
    leaving = World().add(pod("ns/p"))
    departures = Departures()
    assert departures.is_news(leaving)
    assert not departures.is_news(leaving)


def test_what_was_arranged_is_no_news() -> None:
    leaving = World().add(pod("ns/p"))
    departures = Departures()
    departures.expect(leaving)
    assert not departures.is_news(leaving)


def test_pods_are_remembered_for_as_long_as_they_are_there() -> None:
    world = World()
    first = world.add(pod("ns/p"))
    departures = Departures()
    departures.expect(first)
    departures.forget_gone(world)
    assert not departures.is_news(first)

    world.remove(first)
    second = world.add(pod("ns/p"))  # of the same name, but another pod
    departures.forget_gone(world)
    assert departures.is_news(second)
    assert departures.is_news(first)
