"""When something happens again and again: cron expressions and intervals, in a time zone."""

from __future__ import annotations

from .schedule import SCHEDULE_PATTERN, TIME_ZONE_PATTERN, Schedule, parse_schedule, time_zone

__all__ = ["SCHEDULE_PATTERN", "TIME_ZONE_PATTERN", "Schedule", "parse_schedule", "time_zone"]
