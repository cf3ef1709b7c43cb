"""The binds of a task that the API server refused, or for which no volumes could be made.

`scheduling.bind_backoff` decides when they are tried again. A condition of the pod records them, so that a scheduler
that has just started does not try at once what was refused a moment ago.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final

from stromboli.api.timestamps import format_timestamp, parse_timestamp

REFUSED_CONDITION: Final = "scheduling.stromboli.io/Refused"
"""The type of the condition."""

_MOST_NODES: Final = 50  # in the record: those that refused last
_BY_NODE: Final = re.compile(r"by (\S+) (\d+) times, last at (\S+)(?=[,;])")
_REST: Final = re.compile(r"; (\d+) tolerated\. Why: (.*)", re.DOTALL)


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

    @property
    def record(self) -> str:
        """For the pod's condition; the node of the last refusal comes first."""
        last = sorted(self.by_node.items(), key=lambda entry: (entry[0] != self.node, -entry[1][1], entry[0]))
        nodes = [f"by {node} {times} times, last at {format_timestamp(at)}" for node, (times, at) in last[:_MOST_NODES]]
        what = "Its volumes" if self.by_volumes else "Its binds"
        return f"{what} were refused {', '.join(nodes)}; {self.tolerated} tolerated. Why: {self.why}"


def read_refusals(record: str) -> RefusedBind | None:
    """From the record of an earlier scheduler; None if it is not one."""
    rest = _REST.search(record)
    found = [] if rest is None else _BY_NODE.findall(record, 0, rest.start() + 1)  # not in what the server said
    if not found or rest is None:
        return None
    try:
        by_node = {node: (int(times), parse_timestamp(at)) for node, times, at in found}
    except ValueError:
        return None
    node = found[0][0]
    return RefusedBind(
        node, rest[2], by_node[node][1], sum(times for times, _ in by_node.values()), record.startswith("Its volumes"),
        by_node, int(rest[1]),
    )  # fmt: skip
