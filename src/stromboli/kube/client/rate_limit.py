"""Token bucket for requests per second, and exponential backoff after failures."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from random import Random


class TokenBucket:
    """Allows `burst` requests at once and `rate` per second in the long run, first come first served.

    A caller that finds too few tokens leaves a debt and sleeps until it is paid. So later callers wait longer, and no
    caller has to be woken.
    """

    def __init__(self, rate: float, burst: int, *, clock: Callable[[], float] = time.monotonic) -> None:
        if rate <= 0 or burst < 1:
            raise ValueError(f"a rate limit needs a rate above 0 and a burst of at least 1, not {rate} and {burst}")
        self.rate = rate
        self.burst = burst
        self._clock = clock
        self._tokens = float(burst)
        self._counted_at = clock()

    async def take(self, count: int = 1) -> None:
        now = self._clock()
        self._tokens = min(float(self.burst), self._tokens + (now - self._counted_at) * self.rate) - count
        self._counted_at = now
        if self._tokens < 0:
            try:
                await asyncio.sleep(-self._tokens / self.rate)
            except asyncio.CancelledError:
                self._tokens += count
                raise


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
