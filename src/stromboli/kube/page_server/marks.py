"""Since when nodes are kept for somebody: reserved for a job, locked for a queue, or held by a Reservation."""

from __future__ import annotations

from typing import Final, Literal

from stromboli.insight import Picture
from stromboli.page import Mark

MOST_ENDED: Final = 5_000
Kind = Literal["reserved", "locked", "held"]


class Marks:
    def __init__(self) -> None:
        self._open: dict[tuple[str, Kind, str], Mark] = {}  # by node, kind and owner
        self._ended: list[Mark] = []
        self._count = 0

    def see(self, picture: Picture) -> None:
        present: set[tuple[str, Kind, str]] = set()
        for node in picture.nodes:
            present |= {(node.name, "reserved", owner) for owner in node.reserved_for}
            if node.locked_by:
                present.add((node.name, "locked", node.locked_by))
            if any(node.held.values()):
                present.add((node.name, "held", "Reservations"))
        for which in sorted(present - self._open.keys()):
            self._count += 1
            node_name, kind, owner = which
            self._open[which] = Mark(key=str(self._count), node=node_name, kind=kind, owner=owner, start=picture.now)
        for which in sorted(self._open.keys() - present):
            was = self._open.pop(which)
            self._ended.append(
                Mark(key=was.key, node=was.node, kind=was.kind, owner=was.owner, start=was.start, end=picture.now)
            )
        del self._ended[:-MOST_ENDED]

    def all(self) -> list[Mark]:
        return [*self._ended, *self._open.values()]
