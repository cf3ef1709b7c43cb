"""A line on standard error that says how far a long run is.

Most runs are over in a moment, and a line that flashes by helps nobody, so it appears after half a second. It is
written by a thread of its own, because a step may take long by itself: a large file that is read, a first cycle with
thousands of jobs. The thread only reads numbers; no result depends on it. It writes to terminals only, and the line is
removed at the end.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Event, Thread
from types import TracebackType
from typing import Final, Self, TextIO

from stromboli.api.quantity import format_duration
from stromboli.grammar import plural

from .engine import Engine
from .virtual_time import to_seconds

DELAY: Final = 0.5  # seconds
_INTERVAL: Final = 0.25
_ERASE: Final = "\r\x1b[K"


class ProgressLine:
    """Runs inside `with`. `show` says what the line is about from then on."""

    def __init__(
        self, stream: TextIO, *, enabled: bool = True, delay: float = DELAY, interval: float = _INTERVAL
    ) -> None:
        self._stream = stream
        self._delay = delay
        self._interval = interval
        self._text: Callable[[], str] = lambda: ""
        self._over = Event()
        self._thread = Thread(target=self._run, daemon=True) if enabled and stream.isatty() else None

    def show(self, text: Callable[[], str]) -> None:
        """`text` is called by the thread, again and again; it must only read."""
        self._text = text

    def __enter__(self) -> Self:
        if self._thread is not None:
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        is_shown = False
        wait = self._delay
        while not self._over.wait(wait):
            wait = self._interval
            self._stream.write(f"{_ERASE}{self._text()}")
            self._stream.flush()
            is_shown = True
        if is_shown:
            self._stream.write(_ERASE)
            self._stream.flush()


class ReadDocuments:
    """Counts the documents of a scenario while they are read."""

    def __init__(self) -> None:
        self._file = ""
        self._documents = 0

    def count(self, file: str) -> None:
        if file != self._file:
            self._file, self._documents = file, 0
        self._documents += 1

    def text(self) -> str:
        return f"reading {self._file}: {self._documents} documents" if self._file else "reading"


def simulated(engine: Engine) -> str:
    """How far a run is."""
    events, waiting = len(engine.journal.events), len(engine.world.pending)
    simulated = format_duration(round(to_seconds(engine.now)))
    return f"{simulated} simulated, {plural(events, 'event')}, {plural(waiting, 'pod')} waiting"
