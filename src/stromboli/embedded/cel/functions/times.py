"""Timestamps and durations."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from typing import Any, Final
from zoneinfo import ZoneInfo

from stromboli.embedded.cel.values import Budget, CelError, Duration, Timestamp, checked_int, no_such_overload

from .function import Function, Functions, want

_SECOND: Final = 10**9
_UNITS: Final = {"ns": 1, "us": 10**3, "µs": 10**3, "ms": 10**6, "s": _SECOND, "m": 60 * _SECOND, "h": 3600 * _SECOND}
_PART: Final = re.compile(r"([0-9]{1,20})(?:\.([0-9]{0,20}))?(ns|us|µs|ms|s|m|h)|\.([0-9]{1,20})(ns|us|µs|ms|s|m|h)")
_TIME: Final = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[Tt](\d\d):(\d\d):(\d\d)(?:\.(\d{1,9})\d*)?([Zz]|[+-]\d\d:\d\d)", re.ASCII
)
_OFFSET: Final = re.compile(r"([+-]?)(\d\d):(\d\d)", re.ASCII)
_ZONE: Final = 50  # steps to look for a zone in the files of the system
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def duration(budget: Budget, value: Any) -> Duration:
    """From Go's notation, such as 1h30m or -1.5s."""
    if isinstance(value, Duration):
        return value
    want(str, value)
    budget.take(len(value))
    rest, sign = (value[1:], -1) if value.startswith("-") else (value.removeprefix("+"), 1)
    total, at = 0, 0
    while at < len(rest) and (found := _PART.match(rest, at)):
        whole, part, unit = (found[1], found[2] or "", found[3]) if found[3] else ("0", found[4], found[5])
        total += int(whole) * _UNITS[unit] + (int(part) * _UNITS[unit] // 10 ** len(part) if part else 0)
        at = found.end()
    if rest == "0":
        return Duration(0)
    if at < len(rest) or not rest:
        raise CelError(f"type conversion error from 'string' to 'google.protobuf.Duration': {value[:50]!r}")
    return Duration(checked_int(sign * total))


def shown_duration(value: Duration) -> str:
    whole, part = divmod(abs(value.nanoseconds), _SECOND)
    digits = f".{part:09d}".rstrip("0").rstrip(".")
    return f"{'-' if value.nanoseconds < 0 else ''}{whole}{digits}s"


def timestamp(budget: Budget, value: Any) -> Timestamp:
    if isinstance(value, Timestamp):
        return value
    if type(value) is int:
        return Timestamp(checked_int(value * _SECOND))
    want(str, value)
    budget.take(len(value))
    found = _TIME.fullmatch(value)
    try:
        if found is not None:
            zone = UTC if found[8] in "Zz" else _offset(found[8])
            moment = datetime(*(int(found[part]) for part in range(1, 7)), tzinfo=zone)  # type: ignore[misc,arg-type]
            seconds = (moment - _EPOCH) // timedelta(seconds=1)
            return Timestamp(seconds * _SECOND + int((found[7] or "0").ljust(9, "0")))
    except ValueError:
        pass
    raise CelError(f"type conversion error from 'string' to 'google.protobuf.Timestamp': {value[:50]!r}")


def shown_timestamp(value: Timestamp) -> str:
    moment, part = _moment(value, UTC), value.nanoseconds % _SECOND
    digits = f".{part:09d}".rstrip("0").rstrip(".")
    return f"{moment:%Y-%m-%dT%H:%M:%S}{digits}Z"


def _offset(text: str) -> tzinfo:
    found = _OFFSET.fullmatch(text)
    if found is None:
        raise ValueError(text)
    minutes = int(found[2]) * 60 + int(found[3])
    return timezone(timedelta(minutes=-minutes if found[1] == "-" else minutes))


def _zone(name: str) -> tzinfo:
    try:
        return _offset(name) if _OFFSET.fullmatch(name) else ZoneInfo(name)
    except (ValueError, OSError, KeyError):  # ZoneInfoNotFoundError is a KeyError
        raise CelError(f"unknown time zone {name[:50]}") from None


def _moment(value: Timestamp, zone: tzinfo) -> datetime:
    try:
        return (_EPOCH + timedelta(seconds=value.nanoseconds // _SECOND)).astimezone(zone)
    except OverflowError:
        raise CelError("timestamp overflow") from None


def _getter(of_time: Callable[[datetime], int], unit: int = 0) -> Function:
    """Of a timestamp; with a unit, also of a duration: how often that fits."""

    def body(budget: Budget, value: Any, zone: Any = None) -> int:
        if isinstance(value, Duration) and unit and zone is None:
            whole = abs(value.nanoseconds) // unit
            return whole if value.nanoseconds >= 0 else -whole
        if not isinstance(value, Timestamp) or not isinstance(zone, str | None):
            raise no_such_overload(value, *([] if zone is None else [zone]))
        if zone is None:
            return of_time(_moment(value, UTC))
        budget.take(_ZONE)
        return of_time(_moment(value, _zone(zone)))

    return Function(body, (0, 1))


def _milliseconds(budget: Budget, value: Any, zone: Any = None) -> int:
    if isinstance(value, Duration):
        return (abs(value.nanoseconds) // 10**6) * (1 if value.nanoseconds >= 0 else -1)
    want(Timestamp, value)
    return int(value.nanoseconds % _SECOND // 10**6)


def moment_of(text: str) -> Timestamp:
    """Raises CelError."""
    return timestamp(Budget(len(text)), text)


def span_of(text: str) -> Duration:
    """Raises CelError."""
    return duration(Budget(len(text)), text)


FUNCTIONS: Final[Functions] = {
    ("duration", False): Function(duration, (1,)),
    ("timestamp", False): Function(timestamp, (1,)),
    ("getFullYear", True): _getter(lambda moment: moment.year),
    ("getMonth", True): _getter(lambda moment: moment.month - 1),
    ("getDate", True): _getter(lambda moment: moment.day),
    ("getDayOfMonth", True): _getter(lambda moment: moment.day - 1),
    ("getDayOfWeek", True): _getter(lambda moment: moment.isoweekday() % 7),
    ("getDayOfYear", True): _getter(lambda moment: moment.timetuple().tm_yday - 1),
    ("getHours", True): _getter(lambda moment: moment.hour, 3600 * _SECOND),
    ("getMinutes", True): _getter(lambda moment: moment.minute, 60 * _SECOND),
    ("getSeconds", True): _getter(lambda moment: moment.second, _SECOND),
    ("getMilliseconds", True): Function(_milliseconds, (0, 1)),
}
