"""Events that every cycle repeats are written at growing intervals, with the right count."""

from __future__ import annotations

from live.fake_api import FakeApi
from live.test_event_recorder import RecorderHarness, lines, play, written


def test_a_frequent_event_is_written_at_growing_intervals() -> None:
    """Once a second for ten minutes. Five writes at first; then the count doubles from each to the next (10, 20, 40,
    80), until a minute is between them (140, 200, …, 560): 17 in all, instead of 600."""

    async def story(api: FakeApi, harness: RecorderHarness) -> None:
        for _ in range(600):
            harness.record("Could not be bound to n1: not today.")
            await written()
            harness.now += 1
        assert api.count("create") + api.count("patch") == 17
        assert lines(api) == ["560× Could not be bound to n1: not today."]

    play(story)


def test_after_a_pause_it_is_written_at_once_with_the_whole_count() -> None:
    async def story(api: FakeApi, harness: RecorderHarness) -> None:
        for _ in range(9):
            harness.record("No room.")
            await written()
        assert lines(api) == ["5× No room."]
        harness.now += 5
        harness.record("No room.")
        await written()
        assert lines(api) == ["10× No room."]

    play(story)
