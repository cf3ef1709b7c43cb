"""How many nodes turned a task away, and why."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Histogram:
    nodes: int  # all that were looked at
    counts: dict[tuple[str, str], int]  # by (code, text)
