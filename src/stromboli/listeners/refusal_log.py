"""One line for each kind of refusal.

Whoever can connect can make a listener refuse requests, a hundred thousand of them. If each were a line, the log would
be the next thing to fill up. So the first of a kind is logged at once, and then their number, once a minute at most.
A line never holds what came with a request, so never a token.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable
from typing import Any, Final

from .memory import forget_frames

_EVERY: Final = 60.0  # seconds between two lines about the same kind

_logger = logging.getLogger("stromboli.listeners")


class RefusalLog:
    """`listener` is the name of the listener in the lines."""

    def __init__(self, listener: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._listener = listener
        self._clock = clock
        self._counts: Counter[str] = Counter()
        self._logged_at: dict[str, float] = {}

    def note(self, kind: str) -> None:
        """`kind` is one of our own sentences: there must not be many of them."""
        self._counts[kind] += 1
        now = self._clock()
        if kind in self._logged_at and now - self._logged_at[kind] < _EVERY:
            return
        self._logged_at[kind] = now
        fields = {"listener": self._listener, "why": kind, "count": self._counts.pop(kind)}
        _logger.warning("requests were refused", extra={"fields": fields})


class LibraryLog(logging.LoggerAdapter[logging.Logger]):
    """In place of the logger of a library for HTTP, which writes a traceback for each request it cannot read."""

    def __init__(self, refusals: RefusalLog) -> None:
        super().__init__(logging.getLogger("stromboli.listeners"))
        self._refusals = refusals

    def log(self, level: int, msg: object, *args: object, **kwargs: Any) -> None:
        error = kwargs.get("exc_info")
        if isinstance(error, Exception):
            forget_frames(error)
        if level < logging.WARNING:
            return
        # The name of its type: the text of an error quotes what was sent.
        self._refusals.note(f"cannot be read: {type(error).__name__}" if isinstance(error, Exception) else "other")
