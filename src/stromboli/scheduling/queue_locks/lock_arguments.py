"""The settings of locks, as the scheduler's configuration has them.

The controllers choose the nodes and the scheduler honours the choice. Both need to know whether the plugin is
configured at all, so both read the same file.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Final

from stromboli.scheduling.configuration import Arguments, Configuration

PLUGIN_NAMES: Final = ("node_reservation", "queue_reservation")
"""The plugin's name, and the alias under which existing files may know it."""

_DEFAULT_PERCENT: Final = 50.0
_DEFAULT_TIMEOUT: Final = 172_800.0  # the starvation threshold of the reserve action, in seconds


@dataclass(frozen=True, slots=True)
class LockRules:
    most_percent: Fraction  # of the nodes that count, for all queues together
    locks_bare: bool = False  # whether guarantees of amounts alone are locked, too
    timeout: float = _DEFAULT_TIMEOUT  # a set that has not drained at all for so long is chosen anew; 0: never
    topology_keys: tuple[str, ...] = ()  # labels of nodes that make domains, where there are no HyperNodes

    @classmethod
    def read(cls, arguments: Arguments, timeout: float = _DEFAULT_TIMEOUT) -> LockRules:
        percent = arguments.number("maxReservedPercent", _DEFAULT_PERCENT, minimum=0, maximum=100)
        locks_bare = arguments.boolean("lockBareGuarantees", False)
        return cls(Fraction(str(percent)), locks_bare, timeout)  # 12.5 exactly, not the nearest float

    def most_nodes(self, counted: int) -> int:
        """How many nodes all queues together may lock."""
        return math.ceil(counted * self.most_percent / 100)


def lock_rules(configuration: Configuration) -> LockRules | None:
    """None if the plugin is not configured: then no node is locked."""
    options = configuration.plugins(*PLUGIN_NAMES)
    if not options:
        return None
    rules = LockRules.read(options[0].arguments, _timeout(configuration))
    return replace(rules, topology_keys=configuration.topology_keys)


def _timeout(configuration: Configuration) -> float:
    """`reservationTimeout` of the reserve action: by default its threshold."""
    for action in configuration.actions:
        if action.name == "reserve":
            threshold = action.arguments.duration("starvingJobTimeThreshold", _DEFAULT_TIMEOUT, minimum=0)
            return action.arguments.duration("reservationTimeout", threshold, minimum=0)
    return _DEFAULT_TIMEOUT
