"""What a queue asks for, as a search for nodes sees it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .score import Amounts, Scores, Sums


@dataclass(frozen=True, slots=True)
class Demand:
    """Either so much of each resource (`count` is None), or so many nodes."""

    target: Scores  # by resource; 0: not asked for
    count: int | None = None
    most: Scores | None = None  # what the nodes may offer together: the queue's capability

    def is_met(self, sums: Sums) -> Scores:
        """By set: whether it is enough (and, of nodes, exactly the number)."""
        if self.count is not None:
            return np.asarray((sums.count == self.count) & self.is_allowed(sums))
        return np.asarray((sums.cover >= self.target[:, None]).all(axis=0))

    def part_of(self, sums: Sums) -> float:
        """For one set: how much of what is asked for it has, as the sum of parts."""
        if self.count is not None:
            return float(sums.count[0])
        asked = self.target > 0
        return round(float(np.minimum(sums.cover[asked, 0] / self.target[asked], 1.0).sum()), 9)

    def is_allowed(self, sums: Sums) -> Scores:
        """By set: whether the queue may have that much. Amounts were compared with the capability when the queue was
        validated; a whole node may always be larger than what is asked for."""
        if self.count is None or self.most is None:
            return np.ones(sums.count.shape, dtype=np.bool_)
        return np.asarray((sums.size <= self.most[:, None]).all(axis=0))

    def still_needed(self, sums: Sums, each: Sums) -> Scores:
        """For one set: how many nodes like each of these it would take to complete it. Infinite where a node has
        nothing of what is missing."""
        if self.count is not None:
            return np.full(each.count.shape, float(self.count) - float(sums.count[0]))
        missing = np.maximum(self.target - sums.cover[:, 0], 0)
        short = np.flatnonzero(missing > 0)
        cover: Amounts = each.cover[short]
        needed = np.full(cover.shape, np.inf)
        np.divide(missing[short][:, None], cover, out=needed, where=cover > 0)
        return np.ceil(needed.max(axis=0)) if len(short) else np.zeros(each.count.shape)
