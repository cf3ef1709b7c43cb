"""What can be evicted together, and a plan of evictions on one node."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from stromboli.cluster import Node, Task


@dataclass(slots=True)
class EvictionUnit:
    """What can only go together. `here`: those of its tasks that are on the node in question. `was_ready`: whether
    their job had all it needs, so that it would be a pity about what is left of it."""

    tasks: list[Task]
    here: list[Task]
    rank: Any
    whole: bool
    was_ready: bool


@dataclass(slots=True)
class EvictionPlan:
    key: Any
    node: Node
    units: list[EvictionUnit]  # least valuable first
