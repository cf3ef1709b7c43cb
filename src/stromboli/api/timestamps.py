"""Kubernetes timestamps as seconds, and back.

Inside, a moment is a float of seconds since the epoch: it can be compared and subtracted. Objects carry RFC
3339 text. Whole seconds are written without a fraction, as the API server writes them.
"""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache


@lru_cache(maxsize=65536)
def parse_timestamp(text: str) -> float:
    """Seconds since the epoch; raises ValueError for what is no RFC 3339 time."""
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError(f"{text!r} has no time zone; write it like 2030-01-31T12:00:00Z")
    return moment.timestamp()


def format_timestamp(seconds: float) -> str:
    moment = datetime.fromtimestamp(seconds, tz=UTC)
    precision = "microseconds" if moment.microsecond else "seconds"
    return moment.isoformat(timespec=precision).replace("+00:00", "Z")
