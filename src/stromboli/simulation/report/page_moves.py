"""The pods that the descheduler moved in a run, with how full both nodes were before and after."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from stromboli.page import Amounts, Migration, NodeRow, Span
from stromboli.simulation.journal import Event

from .page_jobs import JobNames

_PHASES = {
    "MigrationPlanned": "Planned", "MigrationStarted": "Running", "MigrationSucceeded": "Succeeded",
    "MigrationFailed": "Failed",
}  # fmt: skip
_ENDED = ("Succeeded", "Failed")


def migrations(
    events: Iterable[Event], names: JobNames, spans: Sequence[Span], nodes: Iterable[NodeRow], end: float
) -> list[Migration]:
    """From the events about each move. `end` is the end of the run."""
    use = _Use(spans, nodes)
    moves: list[Migration] = []
    latest: dict[str, int] = {}  # the position of a pod's last move
    for event in events:
        phase = _PHASES.get(event.type)
        if phase == "Planned":
            latest[event.object] = len(moves)
            source = use.node_of(event.object, event.t)
            moves.append(
                Migration(
                    key=str(len(moves)), job=names.of_pod(event.object, event.t), pod=event.object, source=source,
                    target=event.node, phase=phase, reason=event.reason, message=event.message, planned=event.t,
                    source_before=use.part(source, event.t), target_before=use.part(event.node, event.t),
                )
            )  # fmt: skip
        elif phase is not None and event.object in latest:
            position = latest[event.object]
            moves[position] = _advanced(moves[position], phase, event)
    return [_with_after(move, use, end) for move in moves]


def _advanced(move: Migration, phase: str, event: Event) -> Migration:
    failed = {"reason": event.reason, "message": event.message} if phase == "Failed" else {}
    return replace(move, phase=phase, ended=event.t if phase in _ENDED else None, **failed)


def _with_after(move: Migration, use: _Use, end: float) -> Migration:
    at = end if move.ended is None else move.ended
    return replace(move, source_after=use.part(move.source, at), target_after=use.part(move.target, at))


class _Use:
    """How full nodes were at a time."""

    def __init__(self, spans: Sequence[Span], nodes: Iterable[NodeRow]) -> None:
        self._allocatable = {node.name: node.allocatable for node in nodes}
        self._of_node: dict[str, list[Span]] = defaultdict(list)
        self._of_pod: dict[str, list[Span]] = defaultdict(list)
        for span in spans:
            self._of_node[span.node].append(span)
            self._of_pod[span.pod].append(span)

    def node_of(self, pod: str, at: float) -> str:
        found = [span.node for span in self._of_pod[pod] if span.start <= at]
        return found[-1] if found else ""

    def part(self, node: str, at: float) -> float:
        offered = self._allocatable.get(node, {})
        used: Amounts = {}
        for span in self._of_node[node]:
            if span.start <= at and (span.end is None or span.end > at):
                for name, amount in span.amounts.items():
                    used[name] = used.get(name, 0) + amount
        parts = [amount / offered[name] for name, amount in used.items() if offered.get(name)]
        return round(max(parts, default=0.0), 4)
