"""Locks on whole domains of the topology, where that costs little.

A rack with one locked node is no rack any more for a group that needs all of it. So among the sets whose score is
within a tenth of the best one, that which breaks the fewest domains is taken. A domain is broken if the set has some of
its nodes that the queue could lock, but not all.

Of few nodes all sets are known. Of many, the candidates are the best sets inside single domains, the smallest that are
enough first, and inside such domains together if none is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from .demand import Demand
from .score import Nodes, Rows, Scores, score_of, sum_of

WITHIN: Final = 1.1
"""A set is good enough if the best score is at most so many times its own."""

_MOST_DOMAINS: Final = 8  # of each tier that are looked into

Domains = npt.NDArray[np.bool_]
"""One row per domain, those of lower tiers first; one column per node that the queue may lock."""


def broken(domains: Domains, members: npt.NDArray[np.float64]) -> Scores:
    """How many domains each set breaks. `members`: one row per node, one column per set; 1 for those in it."""
    inside = domains.astype(np.float64) @ members
    size = domains.sum(axis=1)[:, None]
    found: Scores = ((inside > 0) & (inside < size)).sum(axis=0).astype(np.float64)
    return found


def least_broken(
    nodes: Nodes,
    demand: Demand,
    domains: Domains,
    best: list[int],
    best_of: Callable[[Rows], list[int]],
) -> list[int]:
    """`best`: the set with the best score. `best_of`: the best set of these nodes alone, by their rows."""
    if not best or not len(domains) or not bool(demand.is_met(sum_of(nodes, best))[0]):
        return best
    least, mark = _key(nodes, demand, domains, best), score_of(nodes, best, demand.target)
    enough = mark / WITHIN
    for rows in _parts(nodes, demand, domains):
        found = best_of(rows)
        if not bool(demand.is_met(sum_of(nodes, found))[0]):
            continue
        if score_of(nodes, found, demand.target) >= enough and (key := _key(nodes, demand, domains, found)) < least:
            best, least = found, key
    return best


def _key(nodes: Nodes, demand: Demand, domains: Domains, rows: list[int]) -> tuple[int, float]:
    inside = domains[:, rows].sum(axis=1)
    breaks = int(((inside > 0) & (inside < domains.sum(axis=1))).sum())
    return breaks, -score_of(nodes, rows, demand.target)


def _parts(nodes: Nodes, demand: Demand, domains: Domains) -> list[Rows]:
    """Sets of nodes to look into: single domains that are enough; and domains that are enough only together, the
    largest first."""
    rows = [np.flatnonzero(domain) for domain in domains]
    sufficient = [one for one in rows if _is_enough(nodes, demand, one)]
    sufficient.sort(key=len)
    return [*sufficient[:_MOST_DOMAINS], *_together(nodes, demand, [one for one in rows if len(one)])]


def _together(nodes: Nodes, demand: Demand, rows: Sequence[Rows]) -> list[Rows]:
    found: list[Rows] = []
    chosen = np.array([], dtype=np.int64)
    for one in sorted(rows, key=len, reverse=True):
        if _is_enough(nodes, demand, one) or np.isin(one, chosen).any():
            continue
        chosen = np.union1d(chosen, one)
        if _is_enough(nodes, demand, chosen):
            found.append(chosen)
            break
    return found


def _is_enough(nodes: Nodes, demand: Demand, rows: Rows) -> bool:
    if demand.count is not None:
        return len(rows) >= demand.count
    return bool(demand.is_met(sum_of(nodes, rows))[0])
