"""When a cycle is cut.

A cycle that takes very long is late for everything that has happened meanwhile. So it may be given a time. Each action
gets an equal part of it, and what earlier ones have left: one that searches for long must not keep the others from
running at all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence


class TimeLimit:
    """Says when each action has used up its time. To be made when the cycle begins."""

    def __init__(self, seconds: float, actions: Sequence[str], clock: Callable[[], float]) -> None:
        self._clock = clock
        began, part = clock(), seconds / max(len(actions), 1)
        self._ends = {action: began + (position + 1) * part for position, action in enumerate(actions)}

    def __call__(self, action: str, turns: int) -> bool:
        """Each action has one turn at least, so that every cycle gets on."""
        return turns == 0 or self._clock() < self._ends.get(action, 0.0)


class RecordedCuts:
    """Cuts where a recorded cycle was cut."""

    def __init__(self, cuts: Mapping[str, int]) -> None:
        self._cuts = cuts

    def __call__(self, action: str, turns: int) -> bool:
        return turns < self._cuts.get(action, turns + 1)
