"""Measures how late the event loop runs.

The lease is renewed, probes are answered and watches are read on one event loop. Whatever blocks it (a big object that
is decoded in one go, a cycle outside its thread) delays all of these and cannot be seen from outside. So a task sleeps
for ten milliseconds, again and again, and measures how much too late it wakes up.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable


class LoopLag:
    """`worst` is the longest delay of the event loop within the last minute, in seconds."""

    def __init__(
        self, *, every: float = 0.01, window: float = 60.0, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._every = every
        self._window = window
        self._clock = clock
        # (when, how late), in descending order: a smaller delay before a larger one can never be the worst.
        self._peaks: deque[tuple[float, float]] = deque()

    async def run(self) -> None:
        while True:
            slept_at = self._clock()
            await asyncio.sleep(self._every)
            self.record(self._clock() - slept_at - self._every)

    def record(self, late: float) -> None:
        now = self._clock()
        while self._peaks and self._peaks[-1][1] <= late:
            self._peaks.pop()
        self._peaks.append((now, late))
        while self._peaks[0][0] <= now - self._window:
            self._peaks.popleft()

    @property
    def worst(self) -> float:
        since = self._clock() - self._window
        # Metrics are read in another thread, so this reads a copy and changes nothing.
        return next((max(late, 0.0) for when, late in tuple(self._peaks) if when > since), 0.0)
