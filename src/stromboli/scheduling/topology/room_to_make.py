"""Domains in which room could be made for a group, because pods there may leave: the least work first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from stromboli.cluster.topology import Closeness, Domain, Rows, Tree
from stromboli.scheduling.session import Session

from .closeness import allowed_tiers, home_domains, tree_for

ByKind = Sequence[tuple[Rows, int]]
"""For each kind of task: by row, how many of them have a place there; and how many are to be placed."""


def domains_to_clear(
    session: Session, closeness: Closeness, placed: Sequence[int], needed: int, *, most: ByKind, free: ByKind
) -> list[Domain]:
    """Those that would have room for so many tasks, if everybody left who may: by how many tasks have no room yet, then
    from the lowest tier, then by name. `placed`: the rows of members that have a place; `most`: places if everybody had
    left; `free`: those that there are."""
    tree = tree_for(session, closeness)
    found: list[tuple[tuple[int, int, int], Domain]] = []
    for tier, indices in _open_domains(session, tree, allowed_tiers(tree, closeness), placed):
        enough = _places(tree, tier, most) >= needed
        lacks = np.maximum(needed - _places(tree, tier, free), 0)
        open_ = [index for index in indices.tolist() if enough[index]]
        found += [((int(lacks[index]), tier, index), tree.domains[index]) for index in open_]
    return [domain for _, domain in sorted(found, key=lambda one: one[0])]


def _open_domains(
    session: Session, tree: Tree, tiers: Sequence[int], placed: Sequence[int]
) -> Iterator[tuple[int, Rows]]:
    """By tier, the indices of the domains in question: those with all placed members, and inside the domain that is
    looked at."""
    if placed:
        for domain in home_domains(tree, tiers, placed):
            yield domain.tier, np.array([domain.index], dtype=np.int64)
        return
    for tier in tiers:
        yield tier, tree.indices_in(tier, session.domain)


def _places(tree: Tree, tier: int, by_kind: ByKind) -> Rows:
    """By the index of a domain: how many of the tasks have a place there, at most."""
    places = np.zeros(len(tree.domains), dtype=np.int64)
    for by_row, number in by_kind:
        places += np.minimum(tree.sums(tier, by_row), number)
    return places
