"""A line on standard error that says how far a long run is.

Most runs are over in a moment, and a line that flashes by helps nobody, so it appears after two seconds. It is written
to terminals only, and removed when the run ends. It reads the wall clock, which nothing else in a simulation does; no
result depends on it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, TextIO

from stromboli.api.quantity import format_duration

from .engine import Engine
from .virtual_time import Microseconds, to_seconds

DELAY: Final = 2.0  # seconds
_INTERVAL: Final = 0.25
_ERASE: Final = "\r\x1b[K"


@contextmanager
def progress_line(
    engine: Engine, stream: TextIO, *, enabled: bool = True, clock: Callable[[], float] = time.monotonic
) -> Iterator[None]:
    """Show the progress of the engine while the block runs."""
    if not enabled or not stream.isatty():
        yield
        return
    line = _ProgressLine(engine, stream, clock)
    engine.on_cycle = line.update
    try:
        yield
    finally:
        line.remove()


class _ProgressLine:
    def __init__(self, engine: Engine, stream: TextIO, clock: Callable[[], float]) -> None:
        self._engine = engine
        self._stream = stream
        self._clock = clock
        self._next = clock() + DELAY
        self._is_shown = False

    def update(self, at: Microseconds) -> None:
        now = self._clock()
        if now < self._next:
            return
        self._next = now + _INTERVAL
        self._is_shown = True
        events, waiting = len(self._engine.journal.events), len(self._engine.world.pending)
        text = f"{format_duration(round(to_seconds(at)))} simulated, {events} events, {waiting} pods waiting"
        self._stream.write(f"{_ERASE}{text}")
        self._stream.flush()

    def remove(self) -> None:
        if self._is_shown:
            self._stream.write(_ERASE)
            self._stream.flush()
