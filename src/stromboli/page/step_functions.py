"""Values over time, thinned to what a picture can show.

Everything that a picture shows over time is a step function: it changes at events and is constant in between. Up to
`MOST_POINTS` steps are kept as they are. More are replaced by the mean over equal intervals, weighted by time, so that
the area under the curve (the work that was done) stays the same. Sampling single instants would miss short peaks or
exaggerate them.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from typing import Final

MOST_POINTS: Final = 400
_DIGITS: Final = 6


class StepFunction:
    """The sum of amounts that come and go."""

    def __init__(self) -> None:
        self._changes: dict[float, int] = {}

    def add(self, amount: int, start: float, end: float) -> None:
        """Add an amount from `start` to `end`. Nothing can be seen of one that ends when it starts."""
        if end > start:
            self._changes[start] = self._changes.get(start, 0) + amount
            self._changes[end] = self._changes.get(end, 0) - amount

    def times(self) -> set[float]:
        return {time for time, change in self._changes.items() if change}

    def values(self, times: Sequence[float]) -> list[float]:
        """The value at each of the times, which must be sorted."""
        changes = sorted(self._changes.items())
        found, value, position = [], 0, 0
        for time in times:
            while position < len(changes) and changes[position][0] <= time:
                value += changes[position][1]
                position += 1
            found.append(float(value))
        return found


def thinned(
    times: Sequence[float], values: Mapping[str, Sequence[float]], end: float, most: int = MOST_POINTS
) -> tuple[list[float], dict[str, list[float]]]:
    """The same functions with at most so many steps. `end` is where the last value ends."""
    if len(times) <= most:
        return list(times), {name: [round(value, _DIGITS) for value in column] for name, column in values.items()}
    width = (end - times[0]) / most
    edges = [times[0] + width * number for number in range(most)]
    return (
        [round(edge, 3) for edge in edges],
        {name: _means(times, column, [*edges, end]) for name, column in values.items()},
    )


def _means(times: Sequence[float], values: Sequence[float], edges: Sequence[float]) -> list[float]:
    """The mean between each edge and the next, from the area under the curve up to each edge."""
    area = [0.0]
    for position in range(1, len(times)):
        area.append(area[-1] + values[position - 1] * (times[position] - times[position - 1]))

    def until(time: float) -> float:
        position = bisect_right(times, time) - 1
        return area[position] + values[position] * (time - times[position])

    sums = [until(edge) for edge in edges]
    return [
        round((after - before) / (right - left), _DIGITS)
        for before, after, left, right in zip(sums, sums[1:], edges, edges[1:], strict=False)
    ]
