"""Events that are told in every cycle are written ever more rarely, and nothing is lost of their count."""

from __future__ import annotations

from live.fake_api import FakeApi
from live.test_event_recorder import RecorderHarness, lines, play, written


def test_what_is_told_all_the_time_is_written_ever_more_rarely() -> None:
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


def test_after_a_silence_it_is_written_at_once_with_all_that_was_saved_up() -> None:
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
