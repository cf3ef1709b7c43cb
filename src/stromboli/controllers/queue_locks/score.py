"""How good a set of nodes is for a queue.

    0.4 · fit + 0.35 · mine + 0.15 / n + 0.1 · free

    fit    mean, over all resources that the set has, of min(1, target / sum); 0 for a resource that is not asked for.
           So waste counts in the set's own size, and a GPU node is no cheap CPU node.
    mine   mean, over the resources asked for, of what the queue itself uses there / sum
    free   the same of what is idle
    n      the number of nodes

Each part is between 0 and 1, so the result does not depend on units. All functions here score many sets at once: an
array has one row per resource and one column per set, because the searches try thousands of them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Amounts = npt.NDArray[np.float64]
"""One row per resource; one column per node, or per set of nodes."""
Scores = npt.NDArray[np.float64]
Rows = npt.NDArray[np.int64]

_DECIMALS = 9  # scores that differ by less are equal: then names decide, not the rounding of sums


@dataclass(frozen=True, slots=True)
class Nodes:
    """The nodes that a queue may lock, in the order of their names."""

    names: tuple[str, ...]
    sizes: Amounts  # what each offers
    covers: Amounts  # what each would give the queue once it has drained: sizes without what never leaves
    mine: Amounts  # what the queue itself uses there
    idle: Amounts

    def __len__(self) -> int:
        return len(self.names)


@dataclass(frozen=True, slots=True)
class Sums:
    """The sums over sets of nodes, and how many nodes they have."""

    size: Amounts
    cover: Amounts
    mine: Amounts
    idle: Amounts
    count: Scores

    def __add__(self, other: Sums) -> Sums:
        return Sums(
            self.size + other.size,
            self.cover + other.cover,
            self.mine + other.mine,
            self.idle + other.idle,
            self.count + other.count,
        )

    def __sub__(self, other: Sums) -> Sums:
        return Sums(
            self.size - other.size,
            self.cover - other.cover,
            self.mine - other.mine,
            self.idle - other.idle,
            self.count - other.count,
        )

    def times(self, factor: Scores) -> Sums:
        return Sums(
            self.size * factor, self.cover * factor, self.mine * factor, self.idle * factor, self.count * factor
        )


def sum_of(nodes: Nodes, rows: Rows | list[int]) -> Sums:
    """The sums over one set, as a single column."""
    chosen = np.asarray(rows, dtype=np.int64)
    parts = [part[:, chosen].sum(axis=1, keepdims=True) for part in (nodes.sizes, nodes.covers, nodes.mine, nodes.idle)]
    return Sums(parts[0], parts[1], parts[2], parts[3], np.array([float(len(chosen))]))


def each_of(nodes: Nodes, rows: Rows | None = None) -> Sums:
    """Every node as a set of its own."""
    if rows is None:
        return Sums(nodes.sizes, nodes.covers, nodes.mine, nodes.idle, np.ones(len(nodes)))
    return Sums(
        nodes.sizes[:, rows], nodes.covers[:, rows], nodes.mine[:, rows], nodes.idle[:, rows], np.ones(len(rows))
    )


def scores(sums: Sums, target: Scores) -> Scores:
    """The score of each set. `target`: by resource, 0 if it is not asked for."""
    asked = np.flatnonzero(target > 0)
    size = sums.size[asked]
    has = size > 0
    inverse = np.divide(1.0, size, out=np.zeros_like(size), where=has)
    kinds = (sums.size > 0).sum(axis=0)
    fit = np.minimum(1.0, target[asked][:, None] * inverse).sum(axis=0) / np.maximum(kinds, 1)
    number = max(len(asked), 1)
    mine = (sums.mine[asked] * inverse).sum(axis=0) / number
    free = (sums.idle[asked] * inverse).sum(axis=0) / number
    few = np.divide(1.0, sums.count, out=np.zeros_like(sums.count), where=sums.count > 0)
    result: Scores = np.round(0.4 * fit + 0.35 * mine + 0.15 * few + 0.1 * free, _DECIMALS)
    return result


def score_of(nodes: Nodes, rows: Rows | list[int], target: Scores) -> float:
    return float(scores(sum_of(nodes, rows), target)[0])
