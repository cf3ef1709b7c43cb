"""Virtual time, in whole microseconds since the start of the run.

A run adds up durations: a pod bound at 2.1 s that runs for 0.7 s ends at 2.8 s, and the cycle of that moment
must see it ended. With floats it would sometimes end a cycle late, so moments are integers, and become
seconds only where somebody else reads them: the report (from the start of the run) and the components (a wall
clock, which in a simulation begins at midnight of the first of January 2000, UTC).
"""

from __future__ import annotations

from typing import Final, NewType

from stromboli.api.timestamps import format_timestamp

Moment = NewType("Moment", int)

START: Final = Moment(0)
_PER_SECOND: Final = 1_000_000
_EPOCH: Final = 946_684_800  # 2000-01-01T00:00:00Z, in seconds since 1970


def moment(seconds: float) -> Moment:
    """So many seconds after the start; also used for lengths of time."""
    return Moment(round(seconds * _PER_SECOND))


def later(start: Moment, length: Moment) -> Moment:
    return Moment(start + length)


def seconds(at: Moment) -> float:
    """Seconds since the start of the run, as reports show them."""
    return at / _PER_SECOND


def clock(at: Moment) -> float:
    """What a component's clock shows: seconds since 1970."""
    return _EPOCH + at / _PER_SECOND


def from_clock(shown: float) -> Moment:
    """The moment at which a component's clock shows this. A float of that size is exact to a tenth of a
    microsecond, so rounding restores what `clock` was given."""
    return Moment(round((shown - _EPOCH) * _PER_SECOND))


def stamp(at: Moment) -> str:
    """The moment as objects carry it."""
    return format_timestamp(clock(at))


def first_tick(period: Moment, at: Moment) -> Moment:
    """The first multiple of the period that is not before the moment."""
    return Moment(-(-at // period) * period)
