"""Not to try again at once what has just failed.

A pod that a quota forbids will be forbidden in a tenth of a second, too. So what fails has to wait, longer each time;
what a server that cannot be reached has refused, never for long: nobody knows when it is back.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Final

from stromboli.kube.client.errors import DISRUPTION_BUDGET, TOO_MANY_REQUESTS, Failure
from stromboli.kube.client.rate_limit import Backoff

LONGEST: Final = 60.0  # seconds between two tries of what the server refuses
LONGEST_OUTAGE: Final = 4.0  # of what it could not answer
FORGOTTEN_AFTER: Final = 300.0  # seconds after which a failure says nothing any more


@dataclass(slots=True)
class _Setback:
    until: float
    backoff: Backoff


class Setbacks:
    def __init__(self, clock: Callable[[], float], *, longest: float = LONGEST) -> None:
        """`longest` is how many seconds to wait at most between two tries of what the server refuses."""
        self._clock = clock
        self._longest = longest
        self._known: dict[Hashable, _Setback] = {}

    def failed(self, what: Hashable, failure: Failure) -> None:
        ceiling = LONGEST_OUTAGE if _passes(failure) else self._longest
        known = self._known.get(what)
        if known is None or known.backoff.ceiling != ceiling:
            known = self._known[what] = _Setback(0.0, Backoff(1.0, ceiling))
        known.until = self._clock() + max(known.backoff.next(), failure.retry_after or 0.0)

    def succeeded(self, what: Hashable) -> None:
        self._known.pop(what, None)

    def waits(self, what: Hashable) -> bool:
        known = self._known.get(what)
        return known is not None and known.until > self._clock()

    def next_due(self) -> float | None:
        """When the next of those that wait may be tried again."""
        now = self._clock()
        self.forget_old()
        return min((known.until for known in self._known.values() if known.until > now), default=None)

    def forget_old(self) -> None:
        long_ago = self._clock() - FORGOTTEN_AFTER
        for what in [what for what, known in self._known.items() if known.until < long_ago]:
            del self._known[what]


def _passes(failure: Failure) -> bool:
    """Whether the server was merely unable to answer. A budget in the way of an eviction is an answer."""
    if failure.cause == DISRUPTION_BUDGET:
        return False
    return failure.status < 400 or failure.status >= 500 or failure.status == TOO_MANY_REQUESTS
