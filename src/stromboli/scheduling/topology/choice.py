"""The domains for a group, in the order in which they are tried.

Those with room for all of its tasks come before those with room for as many as it needs. Then the lowest tier; those in
which its tasks have kept room, or others were evicted for them; those with room for most of its tasks; those that
plugins score best; and of equals the one that the group fills best, so that large domains stay whole. At last, by name.

A tree may have a thousand domains, and each of five hundred groups asks. So all domains of a tier are compared at once,
and those of higher tiers only if the lower ones do not do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from stromboli.cluster import Matrix, Task, Vector
from stromboli.cluster.topology import Closeness, Domain, Rows, Tree
from stromboli.scheduling.session import Session

from .closeness import allowed_tiers, home_domains, tree_for
from .room_in_domains import RoomInDomains


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is to be placed in one domain."""

    kinds: Sequence[tuple[Task, int]]  # the tasks that are alike, by their first one, and how many there are
    needed: int  # how many tasks must be placed together; with several kinds, which of them is open
    placed: Sequence[int] = ()  # the rows of members that have a place
    hinted: Sequence[int] = ()  # rows that are kept for members, or where others are evicted for them
    kept: Mapping[int, int] = field(default_factory=dict)  # by row: how many members have kept room there


def domains_to_try(
    session: Session,
    closeness: Closeness,
    wanted: Wanted,
    room: Matrix,
    *,
    ahead: bool = False,
    uncounted: bool = False,
) -> Iterator[Domain]:
    """`room`: on all nodes, for the tasks. `ahead`: as if terminating pods were gone. `uncounted`: also those that seem
    to have too little room, last. If a domain is looked at already, only what is inside it."""
    tree = tree_for(session, closeness)
    tiers = allowed_tiers(tree, closeness)
    if not tiers or not wanted.kinds:
        return
    counts = _Counts(session, tree, wanted, room, ahead=ahead)
    levels = list(_levels(tree, tiers, wanted, session.domain))
    for chosen in (counts.has_room_for_all, counts.has_enough):
        for level in levels:
            yield from level.of(counts.ranked(level.indices, chosen))
    if uncounted:
        for level in levels:
            yield from level.of(counts.ranked(level.indices, counts.has_too_little))


@dataclass(frozen=True, slots=True)
class _Level:
    """Domains that are compared with each other: their indices, and what to look at instead, if only a part of them is
    open."""

    tree: Tree
    indices: Rows
    outer: Domain | None

    def of(self, indices: Sequence[int]) -> Iterator[Domain]:
        for index in indices:
            domain = self.tree.domains[index]
            part = domain.rows if self.outer is None else domain.rows[self.outer.mask[domain.rows]]
            if len(part) == len(domain.rows):
                yield domain
            elif len(part):
                yield Domain(-1, domain.name, domain.tier, domain.tier_name, part, domain.parent, domain.size)


def _levels(tree: Tree, tiers: Sequence[int], wanted: Wanted, outer: Domain | None) -> Iterator[_Level]:
    if wanted.placed:
        for domain in home_domains(tree, tiers, wanted.placed):
            yield _Level(tree, np.array([domain.index], dtype=np.int64), outer)
        return
    for tier in tiers:
        yield _Level(tree, tree.indices_in(tier, outer), outer)


class _Counts:
    """How many of the tasks have room in which domain."""

    def __init__(self, session: Session, tree: Tree, wanted: Wanted, room: Matrix, *, ahead: bool) -> None:
        self._session = session
        self._tree = tree
        self._wanted = wanted
        self._room = room
        self._kinds = [
            (RoomInDomains(tree, session.placement.fitting(first, ahead=ahead), room, wanted.kept), number)
            for first, number in wanted.kinds
        ]
        self._total = sum(number for _, number in wanted.kinds)
        self._hinted = set(wanted.hinted)

    def has_room_for_all(self, indices: Rows) -> Rows:
        enough = np.ones(len(indices), dtype=np.bool_)
        for counted, number in self._kinds:
            enough &= counted.in_domains(indices) >= number
        found: Rows = indices[enough & self._covers_all(indices)]
        return found

    def has_enough(self, indices: Rows) -> Rows:
        rest: Rows = np.setdiff1d(indices, self.has_room_for_all(indices))
        found: Rows = rest[self._places(rest) >= self._wanted.needed]
        return found

    def has_too_little(self, indices: Rows) -> Rows:
        rest: Rows = np.setdiff1d(indices, self.has_room_for_all(indices))
        found: Rows = rest[self._places(rest) < self._wanted.needed]
        return found

    def _places(self, indices: Rows) -> Rows:
        """How many of the tasks have a place, at most."""
        places = np.zeros(len(indices), dtype=np.int64)
        for counted, number in self._kinds:
            places += np.minimum(counted.in_domains(indices), number)
        return places

    def _covers_all(self, indices: Rows) -> npt.NDArray[np.bool_]:
        """Whether all that is free there is as much as all tasks request: kinds share their room."""
        covers = np.ones(len(indices), dtype=np.bool_)
        if len(self._kinds) < 2 or self._wanted.kept or not len(indices):
            return covers
        whole: Vector = sum(
            (first.request * number for first, number in self._wanted.kinds), self._session.axis.zeros()
        )
        tier = self._tree.domains[int(indices[0])].tier
        for column in np.flatnonzero(whole).tolist():
            free = self._tree.sums(tier, np.maximum(self._room[:, column], 0))
            covers &= free[indices] >= whole[column]
        return covers

    def ranked(self, indices: Rows, chosen: Callable[[Rows], Rows]) -> list[int]:
        """Those of the domains that are chosen, the best first."""
        good = chosen(indices)
        far = np.zeros(len(good), dtype=np.bool_)
        if self._hinted:
            rows_of = [set(self._tree.domains[index].rows.tolist()) for index in good.tolist()]
            far = np.array([not self._hinted <= rows for rows in rows_of], dtype=np.bool_)
        left: Rows = sum((counted.in_domains(good) for counted, _ in self._kinds), np.zeros(len(good), dtype=np.int64))
        left = left - self._total
        # Where there is too little for all, that with most room comes first.
        without_place = np.maximum(-left, 0)
        scores = self._session.domain_scores(self._tree, good, self._wanted.kinds)
        in_order: list[int] = good[np.lexsort((good, left, -scores, without_place, far))].tolist()
        return in_order
