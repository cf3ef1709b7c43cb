"""How late the event loop is: what nobody may make it wait for.

Leadership is renewed, probes are answered and watches are read on one loop. Whatever holds it up (a big object decoded
in one go, a cycle that did not go to its thread) delays all of these, and cannot be seen from outside. So a task sleeps
for ten milliseconds, over and over, and looks at how much later than asked it woke up.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable


class LoopLag:
    """`worst`: the longest that the loop kept somebody waiting within the last minute, in seconds."""

    def __init__(
        self, *, every: float = 0.01, window: float = 60.0, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._every = every
        self._window = window
        self._clock = clock
        # (when, how late), ever less late: what came before something worse will never be the worst again.
        self._peaks: deque[tuple[float, float]] = deque()

    async def run(self) -> None:
        while True:
            asked = self._clock()
            await asyncio.sleep(self._every)
            self.note(self._clock() - asked - self._every)

    def note(self, late: float) -> None:
        now = self._clock()
        while self._peaks and self._peaks[-1][1] <= late:
            self._peaks.pop()
        self._peaks.append((now, late))
        while self._peaks[0][0] <= now - self._window:
            self._peaks.popleft()

    @property
    def worst(self) -> float:
        since = self._clock() - self._window
        # NB: metrics are read in another thread, so this looks at a copy and changes nothing.
        return next((max(late, 0.0) for when, late in tuple(self._peaks) if when > since), 0.0)
