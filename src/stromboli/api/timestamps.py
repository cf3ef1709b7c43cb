"""Kubernetes timestamps as seconds, and back.

The program uses floats of seconds since the epoch, which can be compared and subtracted. Objects hold RFC 3339 text.
Whole seconds are written without a fraction, as the API server writes them.
"""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache


@lru_cache(maxsize=65536)
def parse_timestamp(text: str) -> float:
    """Seconds since the epoch; raises ValueError if the text is not an RFC 3339 time."""
    time = datetime.fromisoformat(text)
    if time.tzinfo is None:
        raise ValueError(f"{text!r} has no time zone; write it like 2030-01-31T12:00:00Z")
    return time.timestamp()


@lru_cache(maxsize=65536)  # waiting jobs show in every cycle since when they wait
def format_timestamp(seconds: float) -> str:
    time = datetime.fromtimestamp(seconds, tz=UTC)
    precision = "microseconds" if time.microsecond else "seconds"
    return time.isoformat(timespec=precision).replace("+00:00", "Z")
