"""What can be evicted together, and a plan of evictions on one node."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from stromboli.cluster import Node, Task


@dataclass(slots=True, eq=False)
class EvictionUnit:
    """What can only go together. `here`: those of its tasks that are on the node in question. `was_ready`: whether
    their job had all it needs, so that it would be a pity about what is left of it."""

    tasks: list[Task]
    here: list[Task]
    rank: Any
    whole: bool
    was_ready: bool

    @property
    def harm(self) -> Any:
        """Units with less harm go first."""
        return (self.rank, self.whole, len(self.tasks))


@dataclass(slots=True)
class EvictionPlan:
    key: Any  # of several plans the one with the smallest key is best
    node: Node
    units: list[EvictionUnit]  # least valuable first
    needed: list[EvictionUnit]  # those of them that suffice, by arithmetic
    sure: bool = False  # no other verdict of the plugins would make it better
