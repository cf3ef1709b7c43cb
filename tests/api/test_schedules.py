"""Schedules, compared with a plain search through the minutes."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from stromboli.api.schedules import SCHEDULE_PATTERN, TIME_ZONE_PATTERN, parse_schedule, time_zone

ROME, LORD_HOWE = "Europe/Rome", "Australia/Lord_Howe"  # the second puts its clocks forward by half an hour
LIMITS = {"minute": (0, 59), "hour": (0, 23), "day": (1, 31), "month": (1, 12), "weekday": (0, 6)}


def at(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


def times(schedule: str, zone: str, start: str, count: int) -> list[str]:
    parsed, time, found = parse_schedule(schedule, zone), at(start), list[str]()
    for _ in range(count):
        following = parsed.next(time)
        assert following is not None
        time = following
        found.append(datetime.fromtimestamp(time, UTC).strftime("%m-%d %H:%M"))
    return found


@pytest.mark.parametrize(
    ("schedule", "start", "expected"),
    [
        ("*/30 8-9 * * *", "2026-05-01T08:30", ["05-01 09:00", "05-01 09:30", "05-02 08:00"]),
        ("0 0 1 * mon", "2026-10-25T00:00", ["10-26 00:00", "11-01 00:00", "11-02 00:00"]),  # one of both is enough
        ("0 0 */2 * mon", "2026-10-25T00:00", ["10-26 00:00", "10-27 00:00", "10-29 00:00"]),  # a step is no star
        ("0 0 ? jan,Mar *", "2026-01-30T12:00", ["01-31 00:00", "03-01 00:00"]),
        ("5/25 0 * * *", "2026-01-01T00:05", ["01-01 00:30", "01-01 00:55", "01-02 00:05"]),
        ("@weekly", "2026-01-01T00:00", ["01-04 00:00", "01-11 00:00"]),
        ("@every 90m", "2026-01-01T00:00", ["01-01 01:30", "01-01 03:00"]),
        ("0 0 29 2 *", "2026-01-01T00:00", ["02-29 00:00"]),
    ],
)  # fmt: skip
def test_times(schedule: str, start: str, expected: list[str]) -> None:
    assert times(schedule, "", start, len(expected)) == expected


def test_where_clocks_are_put_forward_times_are_left_out() -> None:
    assert times("30 2 * * *", ROME, "2026-03-28T00:00", 2) == ["03-28 01:30", "03-30 00:30"]


def test_where_clocks_are_put_back_times_are_met_twice() -> None:
    assert times("30 2 * * *", ROME, "2026-10-24T12:00", 3) == ["10-25 00:30", "10-25 01:30", "10-26 01:30"]


def test_a_day_that_never_comes() -> None:
    schedule = parse_schedule("0 0 30 2 *")
    assert schedule.next(at("2026-01-01T00:00")) is None
    assert schedule.latest(0.0, at("2026-01-01T00:00")) is None


@pytest.mark.parametrize(
    ("schedule", "sentence"),
    [
        ("* * * *", "needs 5 fields (minute, hour, day, month, day of the week), not 4"),
        ("60 * * * *", "the minute must be from 0 to 59, not '60'"),
        ("* * * * 7", "the day of the week must be from 0 to 6, not '7'"),
        ("* 9-8 * * *", "the hour '9-8' ends before it begins"),
        ("*/0 * * * *", "the minute '*/0' needs a step such as /5"),
        ("* * * foo *", "the month 'foo' is not understood"),
        ("@o", "'@o' is not one of @annually, @daily, @hourly, @midnight, @monthly, @weekly, @yearly, @every 6h"),
        ("@every 5 minutes", "'5 minutes' is not a duration such as 90m or 1h30m"),
    ],
)  # fmt: skip
def test_what_is_not_understood(schedule: str, sentence: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(sentence)}$"):
        parse_schedule(schedule)


@pytest.mark.parametrize("zone", ["Local", "../etc/passwd", "/etc/localtime", "Europe/Atlantis", "-x", "a/./b"])
def test_time_zones_that_nobody_knows(zone: str) -> None:
    with pytest.raises(ValueError, match="time zone"):
        time_zone(zone)


def part(kind: str) -> st.SearchStrategy[str]:
    low, high = LIMITS[kind]
    number = st.integers(low, high)
    span = st.tuples(number, number).map(lambda two: f"{min(two)}-{max(two)}")
    return st.one_of(st.just("*"), number.map(str), span, st.integers(1, 9).map("*/{}".format))


SCHEDULES = st.tuples(*(st.lists(part(kind), min_size=1, max_size=2).map(",".join) for kind in LIMITS)).map(" ".join)


def means(expression: str, local: datetime) -> bool:
    """Whether the expression means this minute of a clock on the wall; by the words of the manual page of cron."""
    values = (local.minute, local.hour, local.day, local.month, (local.weekday() + 1) % 7)
    fields, holds = expression.split(), list[bool]()
    for field, value, (low, high) in zip(fields, values, LIMITS.values(), strict=True):
        of_field = False
        for one in field.split(","):
            extent, _, step = one.partition("/")
            first, last = (low, high) if extent == "*" else (int(extent.split("-")[0]), int(extent.split("-")[-1]))
            of_field |= first <= value <= last and (value - first) % int(step or 1) == 0
        holds.append(of_field)
    minute, hour, day, month, weekday = holds
    is_free = any({"*", "*/1"} & {*field.split(",")} for field in (fields[2], fields[4]))
    return minute and hour and month and (day and weekday if is_free else day or weekday)


@settings(max_examples=60, deadline=None)
@example("30 2 * * *", ROME, at("2026-03-28T00:00"))
@example("*/20 1-3 * * *", LORD_HOWE, at("2026-04-04T10:00"))
@given(SCHEDULES, st.sampled_from(["UTC", ROME, LORD_HOWE]), st.floats(at("2026-03-20T00:00"), at("2026-11-10T00:00")))
def test_every_minute_that_is_meant_is_found(expression: str, zone: str, start: float) -> None:
    schedule, local = parse_schedule(expression, zone), ZoneInfo(zone)
    minute = datetime.fromtimestamp(start // 60 * 60, UTC)
    meant = []
    for _ in range(3 * 24 * 60):
        minute += timedelta(minutes=1)
        if means(expression, minute.astimezone(local)):
            meant.append(minute.timestamp())
    end = minute.timestamp()
    found, time = list[float](), start
    while (following := schedule.next(time)) is not None and following <= end:
        found.append(following)
        time = following
    assert found == meant
    assert schedule.latest(start, end) == (meant[-1] if meant else None)
    for earlier, later in pairwise(meant[:5]):
        assert schedule.latest(start, later - 1) == earlier


@settings(max_examples=300)
@example("* * * * 7")
@example("@every 1h30m")
@example("  1 2 3 4 5 ")
@given(st.one_of(SCHEDULES, st.text("0123456789*/,-? @janMONdilyevrhms.", max_size=20)))
def test_the_pattern_of_definitions_refuses_what_is_not_understood(text: str) -> None:
    """It may let a range pass that ends before it begins."""
    matches = re.search(SCHEDULE_PATTERN, text) is not None
    error = ""
    try:
        parse_schedule(text)
    except ValueError as raised:
        error = str(raised)
    assert matches == (error == "") or (matches and "ends before it begins" in error)


def test_the_pattern_of_time_zones_lets_pass_all_there_are() -> None:
    for zone in ("UTC", ROME, LORD_HOWE, "America/Argentina/ComodRivadavia", "Etc/GMT+12"):
        assert re.search(TIME_ZONE_PATTERN, zone)
        time_zone(zone)
