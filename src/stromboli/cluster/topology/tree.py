"""Domains: sets of nodes that are close together, such as racks and blocks, in a tree.

A domain has a tier: the lower, the closer. The domains of one tier have no node in common, and each domain lies inside
one of a higher tier, or in none. A node need not be in any. Whether a tree is made from HyperNodes or from labels of
nodes, it is this one (`HyperNodes`, `labels`).

A tree belongs to one layout of rows: when nodes come or go, it is made anew.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

Rows = npt.NDArray[np.int64]
RowMask = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Domain:
    index: int  # in `Tree.domains`
    name: str
    tier: int
    tier_name: str  # "" if it has none
    rows: Rows  # ascending
    parent: int  # the index of the next domain above it, -1 if there is none
    size: int  # the number of all rows, inside it or not

    @cached_property
    def mask(self) -> RowMask:
        mask = np.zeros(self.size, dtype=np.bool_)
        mask[self.rows] = True
        return mask

    def __repr__(self) -> str:
        return f"<Domain {self.name} tier {self.tier}: {len(self.rows)} nodes>"


class Tree:
    def __init__(self, size: int, found: Iterable[tuple[str, int, str, Sequence[int]]]) -> None:
        """`size`: the number of rows. `found`: name, tier, name of the tier, and rows of each domain; those of one tier
        have no row in common, and of two domains of different tiers the higher has all rows of the lower, or none."""
        self.size = size
        ordered = sorted((one for one in found if len(one[3])), key=lambda one: (one[1], one[0]))
        self.tiers = tuple(sorted({tier for _, tier, _, _ in ordered}))
        self._of_row: dict[int, Rows] = {}
        placed: list[Rows] = [np.array(sorted(rows), dtype=np.int64) for _, _, _, rows in ordered]
        for index, (_, tier, _, _) in enumerate(ordered):
            of_row = self._of_row.get(tier)
            if of_row is None:
                of_row = self._of_row[tier] = np.full(size, -1, dtype=np.int64)
            of_row[placed[index]] = index
        self.domains = tuple(
            Domain(index, name, tier, tier_name, placed[index], self._above(int(placed[index][0]), tier), size)
            for index, (name, tier, tier_name, _) in enumerate(ordered)
        )
        tiers_of = np.array([domain.tier for domain in self.domains], dtype=np.int64)
        self._indices: dict[int, Rows] = {tier: np.flatnonzero(tiers_of == tier) for tier in self.tiers}
        # Nodes in no domain are counted after the last one, and left out.
        last = len(self.domains)
        self._counted_in = {tier: np.where(rows < 0, last, rows) for tier, rows in self._of_row.items()}
        self._parts: dict[int, list[Domain]] = {}
        for domain in self.domains:
            if domain.parent >= 0:
                self._parts.setdefault(domain.parent, []).append(domain)
        self.by_name = {domain.name: domain for domain in self.domains}

    def __bool__(self) -> bool:
        return bool(self.domains)

    def _above(self, row: int, tier: int) -> int:
        """The next domain above this tier that has the row; -1 if there is none."""
        return next((index for higher in self.tiers if higher > tier and (index := self.at(higher, row)) >= 0), -1)

    def at(self, tier: int, row: int) -> int:
        """The index of the domain of this tier that has the row; -1 if none has."""
        return int(self._of_row[tier][row])

    def of_rows(self, tier: int) -> Rows:
        """By row: the index of the domain of this tier; -1 if none has the row."""
        return self._of_row[tier]

    def sums(self, tier: int, by_row: Rows) -> Rows:
        """By the index of a domain of this tier: the sum over its nodes; 0 for domains of other tiers."""
        size = len(self.domains)
        found: Rows = np.bincount(self._counted_in[tier], weights=by_row, minlength=size + 1)[:size].astype(np.int64)
        return found

    def tiers_of(self, indices: Rows) -> list[int]:
        """The tiers from the lowest to the highest of these domains. Domains have their indices by tier."""
        if not len(indices):
            return []
        lowest, highest = (self.domains[int(index)].tier for index in (indices.min(), indices.max()))
        return [tier for tier in self.tiers if lowest <= tier <= highest]

    def indices_in(self, tier: int, outer: Domain | None) -> Rows:
        """The indices of the domains of this tier, in the order of their names. `outer`: only those that have a node of
        this one, which may be a domain of another tree."""
        if outer is None:
            return self._indices[tier]
        indices: Rows = np.unique(self._of_row[tier][outer.rows])
        return indices[indices >= 0]

    def tier_named(self, name: str) -> int | None:
        """The tier of this name; None if there is none. If several have it, the lowest."""
        return next((domain.tier for domain in self.domains if domain.tier_name == name), None)

    def parts_of(self, domain: Domain) -> list[Domain]:
        """The widest domains inside this one."""
        return self._parts.get(domain.index, [])

    def above(self, domain: Domain) -> list[Domain]:
        """The domains around this one, from the narrowest to the widest."""
        around: list[Domain] = []
        while domain.parent >= 0:
            domain = self.domains[domain.parent]
            around.append(domain)
        return around

    def around(self, rows: Iterable[int]) -> Domain | None:
        """The lowest domain that has all these rows; None if none has, or there are no rows."""
        wanted = np.array(sorted(set(rows)), dtype=np.int64)  # a hundred pods may be on a few nodes
        if not len(wanted):
            return None
        for tier in self.tiers:
            found = self._of_row[tier][wanted]
            if found[0] >= 0 and (found == found[0]).all():
                return self.domains[int(found[0])]
        return None


NO_TREE = Tree(0, ())
