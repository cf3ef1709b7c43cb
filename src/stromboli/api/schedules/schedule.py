"""Schedules of CronJobs, as Kubernetes understands them.

    */15 8-17 * * mon-fri    five fields: minute, hour, day of the month, month, day of the week
    @daily                   also @hourly, @midnight, @weekly, @monthly, @yearly, @annually
    @every 90m               from the last time on

If both a day of the month and a day of the week are given, one of them is enough. A time is a minute of the clock on
the wall: where clocks are put forward, times that do not exist are left out; where they are put back, times that exist
twice are met twice. This is how the controller of Kubernetes behaves, too.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, tzinfo
from functools import lru_cache
from typing import Final, Protocol
from zoneinfo import ZoneInfo

from .cron_fields import DAY, FIVE_FIELDS, HOUR, KINDS, MINUTE, MONTH, WEEKDAY, Field, parse_field

_YEARS: Final = 5
"""How far is looked: a day that does not come within it, such as 30 February, never comes."""
_NAMED: Final = {
    "@yearly": "0 0 1 1 *", "@annually": "0 0 1 1 *", "@monthly": "0 0 1 * *", "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *", "@midnight": "0 0 * * *", "@hourly": "0 * * * *",
}  # fmt: skip
_EVERY: Final = "@every "
_LONGEST: Final = 1000  # characters
_PART: Final = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)(h|ms|m|s)")
_UNITS: Final = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}
_ZONE: Final = re.compile(r"[A-Za-z0-9_+.-]{1,14}(/[A-Za-z0-9_+.-]{1,14})*")

SCHEDULE_PATTERN: Final = f"^({FIVE_FIELDS}|{'|'.join(_NAMED)}|{_EVERY}" + r"([0-9]{1,9}(\.[0-9]{1,9})?(h|ms|m|s))+)$"
TIME_ZONE_PATTERN: Final = rf"^{_ZONE.pattern}$"


class Schedule(Protocol):
    """Times are seconds since 1970. For an interval, `after` is where it begins."""

    def next(self, after: float) -> float | None:
        """The first time after this one; None if there is none."""
        ...

    def latest(self, after: float, until: float) -> float | None:
        """The last time after `after` and not after `until`; None if there is none."""
        ...


@lru_cache(maxsize=1024)
def parse_schedule(text: str, zone: str = "") -> Schedule:
    """Raises ValueError with a sentence that says what is wrong."""
    if len(text) > _LONGEST:
        raise ValueError(f"must be at most {_LONGEST} characters")
    if not text.isascii():
        raise ValueError("must have letters, digits and signs only")
    if text.startswith(_EVERY):
        return Interval(_seconds(text.removeprefix(_EVERY)))
    if text.startswith("@") and text not in _NAMED:
        raise ValueError(f"{text!r} is not one of {', '.join(sorted(_NAMED))}, @every 6h")
    words = _NAMED.get(text, text).split()
    if len(words) != len(KINDS):
        raise ValueError(f"needs 5 fields (minute, hour, day, month, day of the week), not {len(words)}")
    fields = {kind: parse_field(word, kind) for word, kind in zip(words, KINDS, strict=True)}
    return WallClock(
        minutes=tuple(sorted(fields[MINUTE].values)),
        hours=tuple(sorted(fields[HOUR].values)),
        days=fields[DAY],
        months=fields[MONTH],
        weekdays=fields[WEEKDAY],
        zone=time_zone(zone),
    )


@lru_cache(maxsize=1024)
def time_zone(name: str) -> tzinfo:
    """Raises ValueError for one that nobody knows. UTC without a name."""
    if not name:
        return UTC
    parts = name.split("/")
    if not _ZONE.fullmatch(name) or any(part in (".", "..") or part.startswith("-") for part in parts):
        raise ValueError(f"{name!r} is not the name of a time zone, such as Europe/Rome")
    if name.lower() == "local":
        raise ValueError("a time zone must be named, such as Europe/Rome: every process has another local time")
    try:
        return ZoneInfo(name)
    except (LookupError, OSError, ValueError):
        raise ValueError(f"there is no time zone {name!r}; use a name such as Europe/Rome") from None


@dataclass(frozen=True, slots=True)
class Interval:
    seconds: float

    def next(self, after: float) -> float | None:
        return float(int(after) + self.seconds)

    def latest(self, after: float, until: float) -> float | None:
        passed = int((until - int(after)) // self.seconds)
        return float(int(after) + passed * self.seconds) if passed > 0 else None


@dataclass(frozen=True, slots=True)
class WallClock:
    minutes: tuple[int, ...]
    hours: tuple[int, ...]
    days: Field
    months: Field
    weekdays: Field
    zone: tzinfo

    def next(self, after: float) -> float | None:
        for day in self._days_from(after, 1):
            times = self._times(day)
            place = bisect_right(times, after)
            if place < len(times):
                return times[place]
        return None

    def latest(self, after: float, until: float) -> float | None:
        for day in self._days_from(until, -1):
            times = self._times(day)
            place = bisect_right(times, until)
            if place:
                return times[place - 1] if times[place - 1] > after else None
        return None

    def _days_from(self, time: float, step: int) -> Iterator[date]:
        """Those that are meant, from the day of this time on. A day before it, too: where clocks are put back at
        midnight, its last hour comes again."""
        day = datetime.fromtimestamp(time, self.zone).date() - timedelta(days=step)
        for _ in range(_YEARS * 366):
            if self._means(day):
                yield day
            day += timedelta(days=step)

    def _means(self, day: date) -> bool:
        if day.month not in self.months:
            return False
        of_month, of_week = day.day in self.days, day.isoweekday() % 7 in self.weekdays
        if self.days.free or self.weekdays.free:
            return of_month and of_week
        return of_month or of_week

    def _times(self, day: date) -> tuple[float, ...]:
        return _times_of(day, self.hours, self.minutes, self.zone)


@lru_cache(maxsize=256)  # the controllers ask for the next time and for the last one, of the same days
def _times_of(day: date, hours: tuple[int, ...], minutes: tuple[int, ...], zone: tzinfo) -> tuple[float, ...]:
    found: set[float] = set()
    for hour in hours:
        for minute in minutes:
            for fold in (0, 1):
                local = datetime(day.year, day.month, day.day, hour, minute, tzinfo=zone, fold=fold)
                time = local.timestamp()
                if datetime.fromtimestamp(time, zone).replace(tzinfo=None) == local.replace(tzinfo=None, fold=0):
                    found.add(time)
    return tuple(sorted(found))


def _seconds(text: str) -> float:
    parts = _PART.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise ValueError(f"{text!r} is not a duration such as 90m or 1h30m")
    seconds = sum(float(number) * _UNITS[unit] for number, unit in parts)
    if seconds < 1:
        return 1.0
    return float(int(seconds))
