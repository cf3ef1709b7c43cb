"""When runs of the descheduler are due: every so many seconds, or by a cron expression.

The time of a run follows from the schedule and the clock alone, so a restart changes nothing: runs by interval are at
multiples of the interval since `origin`, never at the origin itself.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import UTC, datetime

from cronsim import CronSim, CronSimError

from stromboli.errors import UserError


class CronError(UserError, ValueError):
    """A cron expression that cannot be used."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """`interval` in seconds, or a cron expression in UTC; with neither, runs are made only when somebody asks."""

    interval: float = 0.0
    cron: str = ""

    def __post_init__(self) -> None:
        if self.cron:
            try:
                CronSim(self.cron, datetime(2030, 1, 1, tzinfo=UTC))
            except CronSimError as error:
                raise CronError(f'"{self.cron}" is not a cron expression: {error}') from None

    def next_after(self, moment: float, *, origin: float = 0.0) -> float | None:
        """The first run after this time."""
        if self.cron:
            try:
                return next(CronSim(self.cron, datetime.fromtimestamp(moment, UTC))).timestamp()
            except StopIteration:  # such as the 30th of February
                return None
        if not self.interval:
            return None
        rounds = math.floor((moment - origin) / self.interval + 1e-9) + 1
        return origin + max(1, rounds) * self.interval
