"""The domain that comes closest to having room for a group, and what it lacks.

Domains are counted as when the group is placed (`scheduling.topology`), with the amounts at the end of the cycle.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from stromboli.cluster import PODS, Task
from stromboli.cluster.topology import Closeness, Domain, Rows, Tree
from stromboli.scheduling.explanation.topology_reasons import Lack
from stromboli.scheduling.gang import EmptyNodes
from stromboli.scheduling.session import Session
from stromboli.scheduling.topology import RoomInDomains, allowed_tiers, home_domains, tree_for


@dataclass(frozen=True, slots=True)
class Closest:
    domain: Domain
    is_home: bool  # others of the group are there, and it may not leave


def closest_domain(
    session: Session, closeness: Closeness, tasks: Sequence[Task], needed: int, placed: Sequence[int]
) -> Closest | None:
    """Of equals the lowest tier, then by name. `tasks`: those that may be placed; `needed`: how many of them must be;
    `placed`: the rows of members that have a place. Inside the domain that is looked at, if one is."""
    tree = tree_for(session, closeness)
    tiers = allowed_tiers(tree, closeness)
    if placed:
        homes = home_domains(tree, tiers, placed)
        return Closest(homes[-1], is_home=True) if homes else None
    room = session.placement.room_now(tasks[0].job)
    kept = session.kept_rows(tasks)
    kinds = [
        (RoomInDomains(tree, session.placement.fitting(first), room, kept), number)
        for first, number in session.placement.kinds(tasks)
    ]
    best: tuple[int, Domain] | None = None
    for tier in tiers:
        indices = _open_domains(session, tree, tier)
        places = sum(np.minimum(counted.in_domains(indices), number) for counted, number in kinds)
        for index, most in zip(indices.tolist(), np.minimum(places, needed).tolist(), strict=True):
            if best is None or most > best[0]:
                best = (most, tree.domains[index])
    return None if best is None else Closest(best[1], is_home=False)


def _open_domains(session: Session, tree: Tree, tier: int) -> Rows:
    """Those of a tier that are inside the domain that is looked at."""
    indices = np.unique(tree.of_rows(tier))
    indices = indices[indices >= 0]
    outer = session.domain
    if outer is None:
        return indices
    return np.array([one for one in indices.tolist() if outer.mask[tree.domains[one].rows].all()], dtype=np.int64)


def lack_of(session: Session, domain: Domain, needed: Sequence[Task]) -> Lack | None:
    """Of which resource a domain lacks the largest part of what these tasks request together; None if it has enough of
    each, so that only the division among its nodes is in the way, or something else."""
    first = needed[0]
    whole = sum((task.request for task in needed), start=session.axis.zeros())
    with session.inside(domain):
        usable = session.placement.fitting(first).mask
    free = np.maximum(session.placement.room_now(first.job)[usable], 0).sum(axis=0)
    found = [
        (-(int(whole[column]) - int(free[column])) / int(whole[column]), name, column)
        for name, column in session.axis.by_name()
        if column != PODS and whole[column] > free[column]
    ]
    if not found:
        return None
    _, name, column = min(found)
    shown, _ = first.shape.shown(name, column)
    return Lack(shown, int(whole[column] - free[column]), int(whole[column]))


def most_when_empty(session: Session, closeness: Closeness, tasks: Sequence[Task], needed: int) -> int:
    """How many of these tasks the best domain would have room for if nothing ran there, as far as counting tells."""
    tree = tree_for(session, closeness)
    empty = session.state(EmptyNodes)
    kinds = [(empty.places_by_row(first), number) for first, number in session.placement.kinds(tasks)]
    most = 0
    for tier in allowed_tiers(tree, closeness):
        places = sum(np.minimum(tree.sums(tier, by_row), number) for by_row, number in kinds)
        most = max(most, int(np.max(places, initial=0)))
    return min(most, needed)
