"""Token bucket for requests per second."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable


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
