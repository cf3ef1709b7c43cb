"""When a container that has ended is started again, and after which pause: the rules of kubelets.

The first restart is at once. The pauses after that are 10 s, 20 s, 40 s and so on, up to five minutes; a container that
has run for ten minutes begins anew.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

FIRST_PAUSE: Final = 10.0
LONGEST_PAUSE: Final = 300.0
FORGOTTEN_AFTER: Final = 600.0  # seconds


def is_restarted(policy: str, exit_code: int) -> bool:
    return policy == "Always" or (policy == "OnFailure" and exit_code != 0)


@dataclass(slots=True)
class Pauses:
    """Of one container."""

    first: float = FIRST_PAUSE
    _next: float = 0.0

    def next(self, ran_seconds: float) -> float:
        """How long to wait after a run of this length."""
        if ran_seconds >= FORGOTTEN_AFTER:
            self._next = 0.0
        pause = self._next
        self._next = min(2 * pause, LONGEST_PAUSE) if pause else self.first
        return pause
