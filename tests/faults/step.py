"""One thing that happens in a world: when, what, and to whom."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

BEGIN: Final = 4.0  # seconds: by then there is a leader
CALMS: Final = (32.0, 42.0, 60.0)  # one of these is when the last fault ends
LONGEST: Final = max(CALMS)
REPLICAS: Final = tuple(f"{kind}-{letter}" for kind in ("scheduler", "controllers", "descheduler") for letter in "ab")


@dataclass(frozen=True)
class Step:
    at: float
    do: str
    arguments: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.at:.2f} {self.do} {json.dumps(self.arguments, sort_keys=True)}"


def when(dice: Random, calm: float) -> float:
    return round(dice.uniform(BEGIN, calm - 3), 2)
