"""How many nodes rejected a task, and why."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Histogram:
    nodes: int  # the number of all nodes
    counts: dict[tuple[str, str], int]  # by (code, text)
