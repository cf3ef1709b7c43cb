"""Events that are told in every cycle are written ever more rarely, and nothing is lost of their count."""

from __future__ import annotations

from live.pretend_api import PretendApi
from live.test_recording import Press, lines, tell, written


def test_what_is_told_all_the_time_is_written_ever_more_rarely() -> None:
    """Once a second for ten minutes. Five writes at first; then the count doubles from each to the next (10, 20, 40,
    80), until a minute is between them (140, 200, …, 560): 17 in all, instead of 600."""

    async def story(api: PretendApi, press: Press) -> None:
        for _ in range(600):
            press.tell("Could not be bound to n1: not today.")
            await written()
            press.now += 1
        assert api.count("create") + api.count("patch") == 17
        assert lines(api) == ["560× Could not be bound to n1: not today."]

    tell(story)


def test_after_a_silence_it_is_written_at_once_with_all_that_was_saved_up() -> None:
    async def story(api: PretendApi, press: Press) -> None:
        for _ in range(9):
            press.tell("No room.")
            await written()
        assert lines(api) == ["5× No room."]
        press.now += 5
        press.tell("No room.")
        await written()
        assert lines(api) == ["10× No room."]

    tell(story)
