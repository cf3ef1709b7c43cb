"""Inside a domain that is wider than a group needs: which of its parts are filled first.

A group that fits in no rack is placed in a block. There it should take whole racks, not a few nodes of each: its pods
are closer together then, and fewer racks are broken for the next group. So the parts are put in order: one that has
room for all that is left, the tightest of these; otherwise the one with most room. The same goes for the parts of a
part.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from stromboli.cluster.topology import Domain, Rows, Tree
from stromboli.scheduling.callbacks import Scores

_STEP: Final = 1e9  # more than all scores of nodes together
MOST_PARTS: Final = 256  # of more, the order is that of scores


def fill_order(tree: Tree, domain: Domain, places: Rows, total: int) -> Scores | None:
    """By row, what is added to the score of a node; None if the domain has no parts. `places`: by row, how many of
    `total` tasks have room."""
    if domain.index < 0 or not tree.parts_of(domain):
        return None
    ranks: list[Rows] = []
    _fill(tree, domain, places, total, ranks)
    order: Scores = np.zeros(tree.size, dtype=np.float64)
    for rank, rows in enumerate(ranks):
        order[rows] = -_STEP * (rank + 1)
    return order


def _fill(tree: Tree, domain: Domain, places: Rows, total: int, ranks: list[Rows]) -> None:
    """Append the rows of the domain in the order in which they are filled."""
    parts = tree.parts_of(domain)
    if not parts or len(parts) > MOST_PARTS or total <= 0:
        ranks.append(domain.rows)
        return
    room = [int(places[part.rows].sum()) for part in parts]
    open_ = sorted(range(len(parts)), key=lambda number: parts[number].name)
    left = total
    while open_ and left > 0:
        enough = [number for number in open_ if room[number] >= left]
        best = min(enough, key=lambda number: room[number]) if enough else max(open_, key=lambda number: room[number])
        open_.remove(best)
        _fill(tree, parts[best], places, min(left, room[best]), ranks)
        left -= room[best]
    rest = [parts[number].rows for number in open_]
    inside = np.concatenate([part.rows for part in parts])
    others = domain.rows[~np.isin(domain.rows, inside)]
    ranks.append(np.concatenate([*rest, others]))
