"""Exponential backoff after failures: of one thing that is retried (`Backoff`), or of each item of a set, such as pods
to create or to evict (`ItemBackoff`).

A pod that a quota forbids is still forbidden a tenth of a second later. So an item that failed waits before the next
attempt, longer after each failure. When the server could not be reached the wait stays short, because nobody knows
when the server is back.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from random import Random
from typing import Final

from .errors import DISRUPTION_BUDGET, TOO_MANY_REQUESTS, Failure

MAX_DELAY: Final = 60.0  # seconds between two attempts that the server refuses
MAX_OUTAGE_DELAY: Final = 4.0  # seconds between two attempts that the server could not answer
EXPIRY: Final = 300.0  # seconds after which a failure is forgotten


class Backoff:
    """Delays that double up to a ceiling, each reduced at random by up to half.

    The jitter keeps a hundred clients that lost the same server from reconnecting in the same instant.
    """

    def __init__(self, first: float = 0.2, ceiling: float = 10.0, *, random: Random | None = None) -> None:
        self.first = first
        self.ceiling = ceiling
        self._random = random or Random()
        self._failures = 0

    def next(self) -> float:
        # The ceiling is reached long before 2^30, and the power must not grow without bound.
        longest = min(self.ceiling, self.first * 2.0 ** min(self._failures, 30))
        self._failures += 1
        return longest * self._random.uniform(0.5, 1.0)

    def reset(self) -> None:
        self._failures = 0


@dataclass(slots=True)
class _Entry:
    until: float
    backoff: Backoff


class ItemBackoff:
    def __init__(
        self, clock: Callable[[], float], *, max_delay: float = MAX_DELAY, random: Random | None = None
    ) -> None:
        """`max_delay` is the longest wait, in seconds, between two attempts that the server refuses."""
        self._clock = clock
        self._max_delay = max_delay
        self._random = random
        self._entries: dict[Hashable, _Entry] = {}

    def failed(self, item: Hashable, failure: Failure) -> None:
        ceiling = MAX_OUTAGE_DELAY if _is_transient(failure) else self._max_delay
        entry = self._entries.get(item)
        if entry is None or entry.backoff.ceiling != ceiling:
            entry = self._entries[item] = _Entry(0.0, Backoff(1.0, ceiling, random=self._random))
        entry.until = self._clock() + max(entry.backoff.next(), failure.retry_after or 0.0)

    def succeeded(self, item: Hashable) -> None:
        self._entries.pop(item, None)

    def is_waiting(self, item: Hashable) -> bool:
        entry = self._entries.get(item)
        return entry is not None and entry.until > self._clock()

    def next_retry(self) -> float | None:
        """When the first of the waiting items may be retried."""
        now = self._clock()
        self.prune()
        return min((entry.until for entry in self._entries.values() if entry.until > now), default=None)

    def prune(self) -> None:
        """Forget failures that are too old to matter."""
        oldest = self._clock() - EXPIRY
        for item in [item for item, entry in self._entries.items() if entry.until < oldest]:
            del self._entries[item]


def _is_transient(failure: Failure) -> bool:
    """Whether the server was unable to answer. An eviction that a disruption budget forbids was answered."""
    if failure.cause == DISRUPTION_BUDGET:
        return False
    return failure.status < 400 or failure.status >= 500 or failure.status == TOO_MANY_REQUESTS
