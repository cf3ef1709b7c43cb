"""In which order the nodes are tried that pods of one source may go to.

The order follows from how much is requested on each node, so a move changes it for one node only. Everything is worked
out once per source and then updated, because a large cluster has thousands of moves in one plan.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from stromboli.cluster import PODS, Task
from stromboli.descheduling.run import Run

MANY_TRIES = 8  # after so many nodes in vain, all others are tried at once


class TargetOrder:
    """`columns`: of the resource that decides; `limits`: low, defragment and protection in percent of it;
    `protection`: columns and percent of all protected resources."""

    def __init__(
        self,
        run: Run,
        source: int,
        columns: Sequence[int],
        limits: tuple[float, float, float],
        protection: Mapping[tuple[int, ...], float],
        *,
        strict: bool,
    ) -> None:
        self._run = run
        self._table = run.view.nodes
        self._columns = list(columns)
        self._limits = limits
        self._strict = strict
        self._source = source
        self._protection = protection
        self._source_use = self._use_of(source)
        self.rank = self._ranks()
        self.rank[~run.open_targets] = np.inf
        self.rank[self._table.idle[:, PODS] <= 0] = np.inf  # packed nodes are first in order, and take nobody
        self.rank[source] = np.inf

    def _use_of(self, row: int) -> float:
        offered = int(self._table.allocatable[row, self._columns].sum())
        return 100.0 * int(self._table.used[row, self._columns].sum()) / offered if offered else np.nan

    def _ranks(self) -> npt.NDArray[np.float64]:
        """By row: smaller is better; infinite for nodes that are no targets. Tiers first, then the most used."""
        offered = self._table.allocatable[:, self._columns].sum(axis=1)
        used = self._table.used[:, self._columns].sum(axis=1)
        low, middle, high = self._limits
        with np.errstate(divide="ignore", invalid="ignore"):
            use = np.where(offered > 0, 100.0 * used / offered, np.nan)
            rank = np.where((use > middle) & (use < high), 1000.0 - use, np.inf)
            if not self._strict:
                later = np.arange(len(use)) > self._source
                more = (use > self._source_use) | ((use == self._source_use) & later)
                rank = np.where((use >= low) & (use <= middle), 2000.0 - use, rank)
                rank = np.where((use < low) & more, 3000.0 - use, rank)
        return np.asarray(rank)

    def moved_to(self, row: int) -> None:
        """A task went there: it is used more now. It never falls behind the nodes of its tier again."""
        use = self._use_of(row)
        low, middle, high = self._limits
        if self._table.idle[row, PODS] <= 0 or use >= high:
            self.rank[row] = np.inf
        elif use > middle:
            self.rank[row] = 1000.0 - use
        elif self._strict:
            self.rank[row] = np.inf
        else:
            self.rank[row] = (2000.0 if use >= low else 3000.0) - use

    def find(self, task: Task, *, by: str) -> bool:
        """Move a task to the first node in order that takes it."""
        run, view = self._run, self._run.view
        fitting = view.session.placement.fitting(task)
        room = view.session.placement.room_now(task.job)
        left = self.rank.copy()
        for tries in range(len(left)):
            row = int(np.argmin(left))
            if left[row] == np.inf:
                return False
            left[row] = np.inf
            if (
                fitting.takes(row, room[row])
                and self._stays_protected(row, task)
                and run.try_move(task, view.nodes.nodes[row], by=by)
            ):
                self.moved_to(row)
                return True
            if tries == MANY_TRIES:
                left[~(view.rows_for(task) & self._all_protected(task))] = np.inf
        return False

    def _all_protected(self, task: Task) -> npt.NDArray[np.bool_]:
        """By row: whether the node stays within all protection thresholds with this task."""
        fine = np.ones(len(self._table), dtype=np.bool_)
        for columns, percent in self._protection.items():
            chosen = list(columns)
            used = self._table.used[:, chosen].sum(axis=1) + int(task.request[chosen].sum())
            fine &= used * 100.0 <= percent * self._table.allocatable[:, chosen].sum(axis=1)
        return fine

    def _stays_protected(self, row: int, task: Task) -> bool:
        for columns, percent in self._protection.items():
            chosen = list(columns)
            used = int(self._table.used[row, chosen].sum()) + int(task.request[chosen].sum())
            if used * 100.0 > percent * int(self._table.allocatable[row, chosen].sum()):
                return False
        return True
