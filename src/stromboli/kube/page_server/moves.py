"""The pods that the descheduler moves, with how full both nodes were before and after.

A group names its moves until the next plan replaces them. What a page has seen it keeps, up to `MOST`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from msgspec.structs import replace

from stromboli.api import MigrationInfo, PodGroup, key
from stromboli.api.timestamps import parse_timestamp
from stromboli.insight import Picture
from stromboli.page import Migration

MOST: Final = 1000
_ENDED: Final = ("Succeeded", "Failed")


class Moves:
    def __init__(self) -> None:
        self._moves: dict[str, Migration] = {}

    def see(self, groups: Iterable[PodGroup], picture: Picture, job_of: Callable[[str], str]) -> None:
        """`job_of`: the job of a group, both by name."""
        use = {node.name: round(node.use, 4) for node in picture.nodes}
        for group in groups:
            for move in group.spec.migration_info:
                self._note(group, move, use, job_of, picture.now)
        for name in list(self._moves)[: max(0, len(self._moves) - MOST)]:
            del self._moves[name]

    def _note(
        self, group: PodGroup, move: MigrationInfo, use: dict[str, float], job_of: Callable[[str], str], now: float
    ) -> None:
        name = f"{key(group)} {move.pod.name} {move.pod.uid} {move.reservation.name}"
        source, target = use.get(move.source_node, 0.0), use.get(move.target_node, 0.0)
        known = self._moves.get(name)
        if known is None:
            known = Migration(
                key=name, job=job_of(key(group)), pod=f"{group.metadata.namespace}/{move.pod.name}",
                source=move.source_node, target=move.target_node, phase="Planned", planned=now, source_before=source,
                target_before=target,
            )  # fmt: skip
        if known.ended is None:
            known = replace(known, source_after=source, target_after=target)
        self._moves[name] = _with_state(known, group, now)

    def all(self) -> list[Migration]:
        return list(self._moves.values())


def _with_state(move: Migration, group: PodGroup, now: float) -> Migration:
    state = group.status.migration_state
    if state is None or move.ended is not None:
        return move
    at = now if state.last_transition_time is None else parse_timestamp(state.last_transition_time)
    return replace(
        move, phase=state.phase or move.phase, reason=state.reason, message=state.message,
        ended=at if state.phase in _ENDED else None,
    )  # fmt: skip
