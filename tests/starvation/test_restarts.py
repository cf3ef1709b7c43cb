"""Nothing is in memory alone: whenever all components start anew, everything goes on as it would have."""

from __future__ import annotations

import pytest

from starvation.scenes import restart
from starvation.stories import STORIES


@pytest.mark.parametrize("name", STORIES)
def test_a_restart_at_any_second_changes_nothing(name: str) -> None:
    story = STORIES[name]
    undisturbed = story.run().text
    for second in range(int(story.until) + 1):
        assert story.run(restart(second)).text == undisturbed, f"after a restart at {second}"


def test_restarts_all_the_time_change_nothing() -> None:
    for name in ("X9, waiting", "X15", "RS3", "short work on reserved room"):
        story = STORIES[name]
        restarts = [restart(second) for second in range(int(story.until) + 1)]
        assert story.run(*restarts).text == story.run().text, name
