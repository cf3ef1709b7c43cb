"""Virtual time, in whole microseconds since the start of the run.

A run adds up durations: a pod bound at 2.1 s that runs for 0.7 s ends at 2.8 s, and the cycle at 2.8 s must see that it
has ended. With floats it would sometimes end one cycle late, so times are integers. They become seconds only for
others: for the report (since the start of the run) and for the components (a wall clock, which starts at
2000-01-01T00:00:00Z in a simulation).
"""

from __future__ import annotations

from typing import Final, NewType

from stromboli.api.timestamps import format_timestamp

Microseconds = NewType("Microseconds", int)
"""A time since the start of the run, or a duration."""

START: Final = Microseconds(0)
_PER_SECOND: Final = 1_000_000
_EPOCH: Final = 946_684_800  # 2000-01-01T00:00:00Z, in seconds since 1970


def microseconds(seconds: float) -> Microseconds:
    return Microseconds(round(seconds * _PER_SECOND))


def later(start: Microseconds, duration: Microseconds) -> Microseconds:
    return Microseconds(start + duration)


def to_seconds(at: Microseconds) -> float:
    """Seconds since the start of the run, as reports show them."""
    return at / _PER_SECOND


def wall_clock(at: Microseconds) -> float:
    """The time as components see it: seconds since 1970."""
    return _EPOCH + at / _PER_SECOND


def from_wall_clock(seconds: float) -> Microseconds:
    """The inverse of `wall_clock`. A float of that size is exact to a tenth of a microsecond, so rounding restores the
    original value."""
    return Microseconds(round((seconds - _EPOCH) * _PER_SECOND))


def timestamp(at: Microseconds) -> str:
    """The time as objects hold it."""
    return format_timestamp(wall_clock(at))


def next_multiple(period: Microseconds, at: Microseconds) -> Microseconds:
    """The first multiple of the period that is not before `at`."""
    return Microseconds(-(-at // period) * period)
