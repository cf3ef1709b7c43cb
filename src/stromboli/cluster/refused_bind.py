"""When a bind that the API server refused is tried again.

An admission policy, a webhook or a quota that refuses a bind refuses it a moment later as well. So the pod pauses,
longer after each refusal, and the node is avoided for longer than that: the next attempt is on another node if one
fits.
Pods that were refused together spread out, or each of their attempts would hold up the binds of others.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final
from zlib import crc32

FIRST_PAUSE: Final = 1.0  # seconds; doubles with each refusal
LONGEST_PAUSE: Final = 60.0
NODE_FACTOR: Final = 6.0  # a node is avoided for so many times the pause, so that two others can be tried before it
LONGEST_AVOIDED: Final = 120.0


@dataclass(slots=True)
class RefusedBind:
    """The binds of a task that were refused so far. Forgotten when it is bound."""

    node: str = ""  # of the last one
    why: str = ""
    failures: int = 0
    until: float = 0.0  # no attempt on any node before this time
    by_node: dict[str, tuple[int, float]] = field(default_factory=dict)  # refusals, and until when it is avoided

    def add(self, task: str, node: str, why: str, at: float) -> None:
        self.node, self.why = node, why
        self.failures += 1
        number = self.by_node.get(node, (0, 0.0))[0] + 1
        self.until = at + _pause(task, self.failures)
        self.by_node[node] = (number, at + min(LONGEST_AVOIDED, NODE_FACTOR * _pause(task, number)))

    def avoided(self, now: float) -> dict[str, float]:
        """Nodes that must not be tried yet, and until when."""
        return {node: until for node, (_, until) in sorted(self.by_node.items()) if until > now}


def _pause(task: str, failures: int) -> float:
    spread = 1.0 + crc32(task.encode()) % 1000 / 2000  # not random: a replay must come to the same times
    return min(LONGEST_PAUSE, FIRST_PAUSE * 2.0 ** min(failures - 1, 30)) * spread
