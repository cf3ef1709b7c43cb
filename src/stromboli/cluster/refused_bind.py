"""The binds of a task that the API server refused, or for which no volumes could be made.

`scheduling.bind_backoff` decides when they are tried again.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class RefusedBind:
    """All refusals since the task began to wait. Forgotten when it is bound."""

    node: str = ""  # of the last one
    why: str = ""
    at: float = 0.0
    failures: int = 0
    by_volumes: bool = False  # the last one: its volumes could not be made there
    by_node: dict[str, tuple[int, float]] = field(default_factory=dict)  # how many, and when the last one was
    # Nodes that refused more often than this are avoided until no other node takes the task; then it is raised.
    tolerated: int = 0
    # As computed by `bind_backoff` after the last refusal: hundreds of tasks are looked at in every cycle.
    next_attempt: float | None = field(default=None, compare=False)

    def add(self, node: str, why: str, at: float, *, by_volumes: bool = False) -> None:
        self.node, self.why, self.at, self.by_volumes = node, why, at, by_volumes
        self.failures += 1
        self.next_attempt = None
        self.by_node[node] = (self.by_node.get(node, (0, 0.0))[0] + 1, at)
