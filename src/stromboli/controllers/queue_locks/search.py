"""Finding the set of nodes with the best score.

All combinations of up to 12 nodes are tried. Beyond that the search is greedy. It repeatedly adds the node that would
give the best set if the rest were made of nodes like it. While much is missing it adds many at once: half of what is
still needed. Then it drops nodes that are not needed, and exchanges single nodes while that helps. A search may have to
keep nodes that are locked already.

Of thousands of nodes only the most promising ones are searched: the best by themselves, and some of each size, because
the last node of a set should be no larger than needed.

A set that is not enough is still returned: as many nodes as there are, or as may be locked.
"""

from __future__ import annotations

import numpy as np

from .demand import Demand
from .score import Nodes, Rows, Scores, Sums, each_of, score_of, scores, sum_of
from .whole_domains import WITHIN, Domains, broken, least_broken

EXACT_UP_TO = 12
_THOROUGH_UP_TO = 12  # nodes: with so few, the greedy search starts from each of them and tries more exchanges
_FEW = 48  # nodes: with so few it starts from the best ones, one after the other
_STARTS = 4
_MOST_PAIRS = 2_000  # pairs of a chosen and another node that are tried for one exchange
_MOST_EXCHANGES = 12
_MOST_EXCHANGES_OF_MANY = 4
_PROMISING = 96  # nodes to search of many, beside twice as many as are needed
_OF_EACH_SIZE = 4


def set_in_domains(nodes: Nodes, demand: Demand, domains: Domains, *, most: int) -> list[int]:
    """The best set, or one that is nearly as good and breaks fewer of these domains (`whole_domains`)."""
    if len(nodes) <= EXACT_UP_TO:
        found = exact_set(nodes, demand, most=most, domains=domains)
        if found is not None:
            return found

    def best_of(rows: Rows) -> list[int]:
        return [int(rows[row]) for row in best_set(_part(nodes, rows), demand, most=most)]

    return least_broken(nodes, demand, domains, best_set(nodes, demand, most=most), best_of)


def best_set(nodes: Nodes, demand: Demand, *, most: int, keep: list[int] | None = None) -> list[int]:
    """The rows of at most `most` nodes, sorted. `keep`: rows that must be among them, unless they are not needed."""
    if len(nodes) <= EXACT_UP_TO:
        found = exact_set(nodes, demand, most=most, keep=keep)
        if found is not None:
            return found
    rows = _promising(nodes, demand, keep or [])
    if rows is not None:
        kept = np.searchsorted(rows, np.array(keep or [], dtype=np.int64)).tolist()
        part = _part(nodes, rows)
        found = greedy_set(part, demand, most=most, keep=kept)
        if bool(demand.is_met(sum_of(part, found))[0]):
            return [int(rows[row]) for row in found]
    return greedy_set(nodes, demand, most=most, keep=keep)


def _promising(nodes: Nodes, demand: Demand, keep: list[int]) -> Rows | None:
    """The rows worth a search, sorted; None if there are so few nodes that all are."""
    if len(nodes) <= 2 * _PROMISING:
        return None
    order, needed = _by_promise(nodes, demand)
    enough = int(needed[order[0]]) if np.isfinite(needed[order[0]]) else 0
    chosen = order[: _PROMISING + 2 * enough]
    # One number for each size, so that equal sizes are found by sorting. Two sizes that happen to agree do no harm.
    size = np.round(nodes.sizes.T @ np.sqrt(np.arange(2.0, 2.0 + len(nodes.sizes))), 3)
    by_size = order[np.argsort(size[order], kind="stable")]
    starts = np.flatnonzero(np.diff(size[by_size], prepend=np.nan) != 0)
    if len(starts) <= _PROMISING:
        ends = np.append(starts[1:], len(by_size))
        of_each = [by_size[start : min(end, start + _OF_EACH_SIZE)] for start, end in zip(starts, ends, strict=True)]
        chosen = np.concatenate([chosen, *of_each])
    return np.unique(np.concatenate([chosen, np.array(keep, dtype=np.int64)]))


def _by_promise(nodes: Nodes, demand: Demand) -> tuple[Rows, Scores]:
    """The rows, the best first, by the score of a set that is made of nodes like it alone; and how many those are."""
    each = each_of(nodes)
    needed = demand.still_needed(sum_of(nodes, []), each)
    possible = np.isfinite(needed)
    marks = np.where(possible, scores(each.times(np.where(possible, needed, 1.0)), demand.target), -1.0)
    return np.argsort(-marks, kind="stable"), needed


def _part(nodes: Nodes, rows: Rows) -> Nodes:
    names = tuple(nodes.names[row] for row in rows)
    return Nodes(names, nodes.sizes[:, rows], nodes.covers[:, rows], nodes.mine[:, rows], nodes.idle[:, rows])


# -- all combinations -----------------------------------------------------------------------------------------------


def exact_set(
    nodes: Nodes, demand: Demand, *, most: int, keep: list[int] | None = None, domains: Domains | None = None
) -> list[int] | None:
    """The best of all combinations that are enough; None if none is. `domains`: of those that are nearly as good, one
    that breaks the fewest."""
    number = len(nodes)
    # The first node is the highest bit. So of equally good sets with equally many nodes the one with the largest number
    # has the first names.
    masks = np.arange(1 << number, dtype=np.int64)
    for row in keep or ():
        masks = masks[(masks >> (number - 1 - row)) & 1 == 1]
    member = ((masks[None, :] >> np.arange(number - 1, -1, -1)[:, None]) & 1).astype(np.float64)
    count = member.sum(axis=0)
    sums = Sums(nodes.sizes @ member, nodes.covers @ member, nodes.mine @ member, nodes.idle @ member, count)
    possible = np.flatnonzero((count <= most) & demand.is_met(sums))
    if not len(possible):
        return None
    marks = np.where(count[possible] > 0, scores(sums, demand.target)[possible], 1.0)
    breaks = np.zeros(len(possible))
    if domains is not None and len(domains):
        good = marks * WITHIN >= marks.max()
        possible, marks = possible[good], marks[good]
        breaks = broken(domains, member[:, possible])
    best = possible[np.lexsort((-masks[possible], count[possible], -marks, breaks))[0]]
    return [row for row in range(number) if member[row, best]]


# -- greedy ---------------------------------------------------------------------------------------------------------


def greedy_set(nodes: Nodes, demand: Demand, *, most: int, keep: list[int] | None = None) -> list[int]:
    """A good set. If it wastes a resource that is not asked for, nodes without that resource are tried alone: a single
    GPU node spoils the score of a set of CPU nodes, so exchanging them one by one leads nowhere."""
    found = _greedy(nodes, demand, most=most, keep=keep)
    kinds = (nodes.sizes > 0).sum(axis=0)
    if keep or not found or int(kinds[found].max()) == int(kinds.min()):
        return found
    best, mark = found, score_of(nodes, found, demand.target)
    for number in np.unique(kinds[kinds < kinds[found].max()]).tolist():
        rows = np.flatnonzero(kinds <= number)
        part = _part(nodes, rows)
        if demand.count is None and not bool(demand.is_met(sum_of(part, list(range(len(part)))))[0]):
            continue
        other = _greedy(part, demand, most=most)
        if bool(demand.is_met(sum_of(part, other))[0]) and score_of(part, other, demand.target) > mark:
            best, mark = [int(rows[row]) for row in other], score_of(part, other, demand.target)
    return best


def _greedy(nodes: Nodes, demand: Demand, *, most: int, keep: list[int] | None = None) -> list[int]:
    kept = list(keep or ())
    starts: list[list[int]] = [kept]
    if not kept and len(nodes) <= _FEW:
        first = np.arange(len(nodes)) if len(nodes) <= _THOROUGH_UP_TO else _by_promise(nodes, demand)[0][:_STARTS]
        starts += [[int(row)] for row in first]
    starts = [start for start in starts if len(start) <= most]
    found = _best_of(nodes, demand, starts, kept, most)
    if demand.count is None and (found is None or not bool(demand.is_met(sum_of(nodes, found))[0])):
        # The best nodes are too small for so few of them. The largest ones may do.
        found = _best_of(nodes, demand, starts, kept, most, fewest=True)
    return found or []


def _best_of(
    nodes: Nodes, demand: Demand, starts: list[list[int]], kept: list[int], most: int, *, fewest: bool = False
) -> list[int] | None:
    """The best of the sets that are found from these starts. If none is enough: the one that has most of what is
    asked for, with as few nodes as possible."""
    best: tuple[tuple[float, float, float], list[int]] | None = None
    for start in starts:
        grown = _grown(nodes, demand, start, most, fewest=fewest)
        rows = _exchanged(nodes, demand, pruned(nodes, demand, grown), kept, most)
        sums, mark = sum_of(nodes, rows), score_of(nodes, rows, demand.target)
        met = bool(demand.is_met(sums)[0])
        key = (np.inf, mark, -len(rows)) if met else (demand.part_of(sums), -len(rows), mark)
        if best is None or key > best[0]:
            best = (key, rows)
    return None if best is None else best[1]


def _grown(nodes: Nodes, demand: Demand, start: list[int], most: int, *, fewest: bool = False) -> list[int]:
    """`fewest`: whatever the score, by what brings most of what is missing."""
    chosen = list(start)
    free = np.ones(len(nodes), dtype=np.bool_)
    free[chosen] = False
    sums = sum_of(nodes, chosen)
    while len(chosen) < most and not bool(demand.is_met(sums)[0]):
        rows = np.flatnonzero(free)
        if fewest:
            added = _largest(demand, sums, each_of(nodes, rows), rows)
        else:
            added = _next(nodes, demand, sums, rows, most - len(chosen))
        if not added:
            break
        chosen += added
        free[added] = False
        sums = sums + sum_of(nodes, added)
    return sorted(chosen)


def _next(nodes: Nodes, demand: Demand, sums: Sums, rows: Rows, most: int) -> list[int]:
    """The nodes to add: those that would make the best set if all the rest were like them."""
    each = each_of(nodes, rows)
    needed = demand.still_needed(sums, each)
    if demand.count is None and not bool(np.isfinite(needed).any()):
        return _largest(demand, sums, each, rows)  # no node has something of everything that is missing
    allowed = np.isfinite(needed) & demand.is_allowed(sums + each)
    rows, needed = rows[allowed], needed[allowed]
    if not len(rows):
        return []
    hypothetical = sums + each_of(nodes, rows).times(needed)
    marks = scores(hypothetical, demand.target)
    first = int(np.argmax(marks))
    batch = min(int(needed[first]) // 2, most)
    if batch <= 1 or demand.most is not None:
        return [int(rows[first])]
    order = np.argsort(-marks, kind="stable")[:batch]
    return [int(row) for row in rows[order]]


def _largest(demand: Demand, sums: Sums, each: Sums, rows: Rows) -> list[int]:
    """The node that brings the most of what is missing."""
    missing = np.maximum(demand.target - sums.cover[:, 0], 0)
    share = each.cover * np.divide(1.0, missing, out=np.zeros_like(missing), where=missing > 0)[:, None]
    gain = np.minimum(share, 1.0).sum(axis=0)
    best = int(np.argmax(np.round(gain, 9))) if len(rows) else 0
    return [int(rows[best])] if len(rows) and gain[best] > 0 else []


def pruned(nodes: Nodes, demand: Demand, rows: list[int]) -> list[int]:
    """Without the nodes that are not needed; of several, the one whose loss gives the best score goes first."""
    chosen = np.array(sorted(rows), dtype=np.int64)
    while len(chosen) and demand.count is None:
        without = sum_of(nodes, chosen) - each_of(nodes, chosen)
        needless = np.flatnonzero(demand.is_met(without))
        if not len(needless):
            break
        # Of equal ones the last name goes.
        marks = scores(without, demand.target)[needless]
        gone = int(needless[len(marks) - 1 - int(np.argmax(marks[::-1]))])
        chosen = np.delete(chosen, gone)
    return [int(row) for row in chosen]


def _exchanged(nodes: Nodes, demand: Demand, rows: list[int], kept: list[int], most: int) -> list[int]:
    """Exchange single nodes while that makes the set better."""
    chosen = sorted(rows)
    movable = [row for row in chosen if row not in set(kept)]
    if not movable or not bool(demand.is_met(sum_of(nodes, chosen))[0]):
        return chosen
    for _ in range(_MOST_EXCHANGES if len(nodes) <= _THOROUGH_UP_TO else _MOST_EXCHANGES_OF_MANY):
        better = _best_exchange(nodes, demand, chosen, kept)
        if better is None and len(nodes) <= _THOROUGH_UP_TO:
            better = _best_replacement(nodes, demand, chosen, kept, most)
        if better is None:
            break
        chosen = pruned(nodes, demand, better)
    return chosen


def _best_replacement(nodes: Nodes, demand: Demand, chosen: list[int], kept: list[int], most: int) -> list[int] | None:
    """One more node in the place of all that it makes needless, or several smaller ones in the place of one; None if
    that makes nothing better."""
    best, mark = None, score_of(nodes, chosen, demand.target)
    others = [row for row in range(len(nodes)) if row not in chosen]
    tries = [pruned(nodes, demand, [*chosen, row]) for row in others]
    for gone in chosen:
        if gone not in kept:
            rest = [row for row in chosen if row != gone]
            closed = _without(nodes, gone)
            tries.append(pruned(nodes, demand, _grown(closed, demand, rest, most)))
    for rows in tries:
        if len(rows) <= most and set(kept) <= set(rows) and bool(demand.is_met(sum_of(nodes, rows))[0]):
            found = score_of(nodes, rows, demand.target)
            if found > mark:
                best, mark = rows, found
    return best


def _without(nodes: Nodes, row: int) -> Nodes:
    """As if one node had nothing to give."""
    covers = nodes.covers.copy()
    covers[:, row] = 0
    return Nodes(nodes.names, nodes.sizes, covers, nodes.mine, nodes.idle)


def _best_exchange(nodes: Nodes, demand: Demand, chosen: list[int], kept: list[int]) -> list[int] | None:
    """The set after the best exchange of one node; None if none makes it better."""
    total = sum_of(nodes, chosen)
    now = float(scores(total, demand.target)[0])
    others = np.setdiff1d(np.arange(len(nodes), dtype=np.int64), np.array(chosen, dtype=np.int64))
    leaving = np.array([row for row in chosen if row not in set(kept)], dtype=np.int64)
    if not len(others) or not len(leaving):
        return None
    if len(leaving) * len(others) > _MOST_PAIRS:
        # Too many pairs: only the node that fits worst leaves.
        marks = scores(total - each_of(nodes, leaving), demand.target)
        leaving = leaving[[int(np.argmax(marks))]]
    coming = each_of(nodes, others)
    best: tuple[float, int, int] | None = None
    for row in leaving.tolist():
        after = total - sum_of(nodes, [row]) + coming
        marks = np.where(demand.is_met(after), scores(after, demand.target), -1.0)
        other = int(np.argmax(marks))
        if marks[other] > now and (best is None or marks[other] > best[0]):
            best = (float(marks[other]), row, int(others[other]))
    if best is None:
        return None
    return sorted([row for row in chosen if row != best[1]] + [best[2]])
