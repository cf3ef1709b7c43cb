"""What can be evicted together, and a plan of evictions on one node."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

from stromboli.cluster import Node, Task
from stromboli.cluster.topology import SubGroup


class Way(IntEnum):
    """How the units of a plan were chosen. What a gang may lose one by one is known only when it has lost some, so the
    other ways are tried where the first did not work, the better plan first."""

    IN_ORDER = 0  # the least valuable first
    ABOVE_MINIMUM = 1  # no more of a gang than it has above its minimum; of what is left, what helps most
    WHOLE_GANGS = 2  # gangs that would lose more than that go as a whole


@dataclass(slots=True, eq=False)
class EvictionUnit:
    """What can only go together. `here`: those of its tasks that are on the node in question. `harm`: units with less
    harm go first. `was_ready`: whether their job had all it needs before evictions began, so that it would be a pity
    about what is left of it."""

    tasks: list[Task]
    here: list[Task]
    harm: tuple[Any, bool, int]  # the rank of the most valuable task, `whole`, how many
    whole: bool
    was_ready: bool = False
    sub_group: SubGroup | None = None  # that they are, if their gang can go on without it


@dataclass(slots=True)
class EvictionPlan:
    key: Any  # of several plans the one with the smallest key is best
    node: Node
    units: list[EvictionUnit]  # least valuable first
    needed: list[EvictionUnit]  # those of them that suffice, by arithmetic
    sure: bool = False  # no other verdict of the plugins would make it better
    partial: bool = False  # nobody was asked but those that are needed; if these are not enough, others may be
    way: Way = Way.IN_ORDER
    others: list[EvictionPlan] = field(default_factory=list)  # other ways on the same node, if this one does not work

    def is_done_by(self, gone: list[EvictionUnit]) -> bool:
        """Whether those went that were planned, and nobody else."""
        return len(gone) == len(self.needed) and all(unit in self.needed for unit in gone)
