"""How many tasks of one kind have room in each domain of a tree.

One pass over the nodes answers for all domains of a tier. So no domain is looked into that has too little room, and a
group that fits in none costs a count and nothing more.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

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
        self._by_tier: dict[int, Rows] = {}

    def in_domains(self, indices: Rows) -> Rows:
        """For domains of one tier, by their indices."""
        if not len(indices):
            return indices
        return self._of_tier(self._tree.domains[int(indices[0])].tier)[indices]

    def _of_tier(self, tier: int) -> Rows:
        """By the index of a domain; 0 for those of other tiers."""
        known = self._by_tier.get(tier)
        if known is None:
            known = self._by_tier[tier] = sums_by_domain(self._tree, tier, self._by_row)
        return known


def sums_by_domain(tree: Tree, tier: int, by_row: Rows) -> Rows:
    """By the index of a domain of this tier: the sum over its nodes."""
    index, size = tree.of_rows(tier), len(tree.domains)
    # Nodes in no domain are counted after the last one, and left out.
    sums: Rows = np.bincount(np.where(index < 0, size, index), weights=by_row, minlength=size + 1)[:size]
    return sums.astype(np.int64)
