"""How many tasks of one kind have room in each domain of a tree.

One pass over the nodes answers for all domains of a tier. So no domain is looked into that has too little room, and a
group that fits in none costs a count and nothing more.
"""

from __future__ import annotations

from collections.abc import Mapping

from stromboli.cluster import Matrix
from stromboli.cluster.topology import Rows, Tree
from stromboli.scheduling.placement import Fitting


class RoomInDomains:
    """`kept`: by row, how many of the tasks have room there that is kept for them and counts as used."""

    def __init__(self, tree: Tree, fitting: Fitting, room: Matrix, kept: Mapping[int, int]) -> None:
        self._tree = tree
        self._by_row = fitting.places_by_row(room)
        for row, pods in kept.items():
            self._by_row[row] += pods

    def in_domains(self, indices: Rows) -> Rows:
        """For domains of one tier, by their indices."""
        if not len(indices):
            return indices
        return self._tree.sums(self._tree.domains[int(indices[0])].tier, self._by_row)[indices]
