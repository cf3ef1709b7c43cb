"""Where a task fits, and which node is best.

A `Fitting` is one kind of task on all nodes: which filter rejects which node, and the score of each node. It is built
once per kind and session. The ledger has a log of changed rows, and a fitting remembers how far it has read the log, so
an update costs only what changed since the last one.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import ge
from typing import Any

import numpy as np

from stromboli.cluster import PODS, Job, LogView, Matrix, Shape, Task, Vector
from stromboli.scheduling.callbacks import (
    FilterHook,
    Horizon,
    NodeFilter,
    NodeScore,
    ReasonIds,
    RemainingCount,
    Rows,
    Scope,
    Scores,
)
from stromboli.scheduling.explanation.node_reasons import NOT_READY
from stromboli.scheduling.framework import Framework

from .kernel_choice import BIG_CLUSTER

GPU = "nvidia.com/gpu"
FEW_CHANGES = 64  # up to so many, changed nodes are looked at one by one


class Fitting:
    """One kind of task on all nodes. `reasons` and `score` are by row."""

    def __init__(
        self,
        session: Framework,
        kernels: Any,
        all_rows: Rows,
        task: Task,
        filters: Sequence[FilterHook],
        *,
        horizon: Horizon,
        drained_for: Job | None = None,
    ) -> None:
        self.session = session
        self._kernels = kernels
        self._all_rows = all_rows
        self._horizon = horizon
        self._is_near = horizon is Horizon.RELEASED
        self._drained_for = drained_for
        self._look_ahead()
        self.request: Vector = task.request
        self.columns = np.flatnonzero(self.request)
        # The same as lists: with few columns, arithmetic on lists takes less time than on arrays.
        self._column_list: list[int] = self.columns.tolist()
        self.wanted: list[int] = self.request[self.columns].tolist()
        self._amounts: dict[int, list[int]] = {}  # requests of other shapes
        size = len(session.nodes)
        self._score: Scores = np.zeros(size, dtype=np.float64)
        self._base: Scores = np.zeros(size, dtype=np.float64)
        self._no_times = np.zeros(size, dtype=np.int64)
        self._terms = self._score_terms()
        self._filters: list[tuple[NodeFilter, Scope]] = []
        self._remaining: list[tuple[RemainingCount, Rows]] = []  # with what each node takes at least
        self._judged = False  # whether the filters were asked since the start, so that they may have rejected nodes
        self._uncounted = False  # whether a placement may change a filter in a way that no count covers
        self._scores: list[tuple[NodeScore, Scope]] = []
        self._static: ReasonIds = np.zeros(size, dtype=np.int32)
        self._static[~session.nodes.ready] = session.reason_id(NOT_READY)
        for hook in filters:
            judge = hook.prepare(task)
            if judge is None:
                continue
            if hook.scope is Scope.STATIC:
                _fill(self._static, all_rows, judge)
            else:
                self._filters.append((judge, hook.scope))
                remaining = None if hook.remaining is None else hook.remaining(task)
                if remaining is None:
                    self._uncounted = True
                else:
                    self._remaining.append((remaining, np.zeros(size, dtype=np.int64)))
        self._static_score: Scores = np.zeros(size, dtype=np.float64)
        for score_hook in session.scores:
            rate = score_hook.prepare(task)
            if rate is None:
                continue
            if score_hook.scope is Scope.STATIC:
                self._static_score += rate(all_rows)
            else:
                self._scores.append((rate, score_hook.scope))
        self.reasons: ReasonIds = self._static.copy()
        self._mask = self.reasons == 0
        self._filters_everywhere = any(scope is Scope.CLUSTER for _, scope in self._filters)
        self._scores_everywhere = any(scope is Scope.CLUSTER for _, scope in self._scores)
        self._changes_everywhere = self._filters_everywhere or self._scores_everywhere
        # The rows that changed since the filters, scores, ranks and counts were brought up to date.
        views = session.ledger.views
        self._to_filter, self._to_score, self._to_rank, self._to_bound = (views.rows() for _ in range(4))
        self._tree: Any = None
        # How many of these tasks an empty node has room for, and at least one; and whether no count was ever less.
        self._enough: Rows | None = None
        self._ample = True
        self._counted = -1  # so many have room in this
        self._counted_in: Matrix | None = None
        self._since_counted = views.rows()
        self.refresh()
        # Of what was freed, and which rows changed, since no room was found.
        self._has_failed = False
        self._freed, self._since_failed = views.freed(), views.rows()

    @property
    def mask(self) -> Any:
        """By row: whether no filter rejects it, and it is in the domain that is looked at, if one is."""
        domain = self.session.domain
        return self._mask if domain is None else self._mask & domain.mask

    def is_open(self, row: int) -> bool:
        """`mask` of one row."""
        domain = self.session.domain
        return bool(self._mask[row]) and (domain is None or bool(domain.mask[row]))

    @property
    def depends_on_neighbours(self) -> bool:
        """Whether the tasks on nodes decide which nodes can run the task, beyond the room that they use."""
        return bool(self._filters)

    @property
    def alone(self) -> bool:
        """Whether tasks must be placed one by one, because a placement may change a filter or score in a way that the
        kernels do not compute."""
        return bool(self._uncounted or self._scores or self.session.points.best_node)

    @property
    def counts_tasks(self) -> bool:
        """Whether nodes take only so many of these tasks, whatever room they have."""
        return bool(self._remaining)

    def _score_terms(self) -> tuple[Any, ...]:
        session = self.session
        weights = session.resource_score
        axis = session.axis
        balanced = [axis.index["cpu"], axis.index["memory"]]
        gpu = axis.index.get(GPU)
        if gpu is not None and self.request[gpu] > 0:
            balanced.append(gpu)
        pack: dict[int, float] = {}
        for name, weight in sorted(weights.pack_weights):
            column = axis.index.get(name)
            if column is not None and self.request[column] > 0:
                pack[column] = weight
        return (
            float(weights.least), float(weights.most), float(weights.balanced), float(weights.pack),
            np.array(balanced, dtype=np.int64),
            np.array(list(pack), dtype=np.int64),
            np.array(list(pack.values()), dtype=np.float64),
        )  # fmt: skip

    # -- updates ------------------------------------------------------------------------------------------------

    def _look_ahead(self) -> None:
        self.session.horizon, self.session.drained_for = self._horizon, self._drained_for

    def refresh(self) -> None:
        """Update the results of the filters."""
        if not self._filters:
            return
        rows = self._news(self._to_filter, everywhere=self._filters_everywhere)
        if rows is None:
            return
        self._look_ahead()
        clear = not self._uncounted and self._take_more(rows)
        if self._judged or not clear:
            self._judged = True
            self._judge(rows)

    def _judge(self, rows: Rows) -> None:
        reasons = self._static[rows]
        for judge, _ in self._filters:
            open_ = np.flatnonzero(reasons == 0)
            if len(open_):
                reasons[open_] = judge(rows[open_])
        self.reasons[rows] = reasons
        self._mask[rows] = reasons == 0

    def _take_more(self, rows: Rows) -> bool:
        """Whether it is clear without the filters that they reject none of these nodes, the last that changed."""
        self._to_bound.renew()
        if self._enough is None:
            self._enough = np.maximum(self._fit_in(self.session.nodes.allocatable), 1)
        clear = True
        for remaining, bounds in self._remaining:
            bounds[rows] = at_least = remaining.at_least(rows)
            if not self._ample or not (at_least >= self._enough[rows]).all():
                self._ample = False
                clear = clear and bool((at_least > 0).all())
        return clear

    @property
    def score(self) -> Scores:
        """By row, up to date."""
        rows = self._news(self._to_score, everywhere=self._scores_everywhere)
        if rows is not None:
            self._look_ahead()
            base = self._static_score[rows]
            for rate, _ in self._scores:
                base = base + rate(rows)
            self._base[rows] = base
            nodes = self.session.nodes
            self._kernels.score_rows(
                rows, self._no_times, self.request, nodes.used, nodes.allocatable, self._base, self._score,
                *self._terms,
            )  # fmt: skip
        return self._score

    def _news(self, view: LogView[int], *, everywhere: bool = False) -> Rows | None:
        """The rows to look at again; None if nothing has changed."""
        is_new, changed = view.is_new, view.news()
        if not changed and not is_new:
            return None
        if everywhere or is_new or len(changed) >= len(self._mask):
            return self._all_rows
        return np.array(sorted(set(changed)), dtype=np.int64)

    # -- choosing -----------------------------------------------------------------------------------------------

    def choose(self, task: Task, count: int, room: Matrix) -> list[int]:
        """Rows for up to `count` tasks like this one, placed one after the other in `room`; fewer if there is not
        enough. If `alone`, call it for one task at a time."""
        if self.session.points.best_node:
            return self._ask_best_node(task, room)
        if self.session.domain is not None:
            return self._choose_inside(self.session.domain.rows, count, room)
        if len(self._mask) < BIG_CLUSTER and not (self._mask & self.has_room(room)).any():
            return []  # with few nodes this check is cheaper than scores that are not needed
        out = np.empty(count, dtype=np.int64)
        nodes = self.session.nodes
        limited = self._within_counts(count, room)
        amounts = (limited, self.request, self.columns)
        usage = (nodes.used, nodes.allocatable, self._base)
        if limited is nodes.idle and self._kernels.RANKS and not self._changes_everywhere:
            score = self.score
            tree = self._ranked(score)
            times = self._no_times
            placed = self._kernels.place_ranked(
                count, tree, times, self._mask, *amounts, score, *usage, *self._terms, out
            )
        else:
            score = self.score.copy()
            placed = self._kernels.place(count, self._mask.copy(), *amounts, score, *usage, *self._terms, out)
        rows: list[int] = out[:placed].tolist()
        return rows

    def _choose_inside(self, rows: Rows, count: int, room: Matrix) -> list[int]:
        """The same among these rows, which cost as much as they are many."""
        mask = self._mask[rows]
        if not mask.any():
            return []
        nodes, score = self.session.nodes, self.score[rows]
        base, order = self._base[rows], self.session.fill_order
        if order is not None:
            score += order[rows]
            base += order[rows]
        out = np.empty(count, dtype=np.int64)
        placed = self._kernels.place(
            count, mask, self._within_counts(count, room)[rows], self.request, self.columns, score,
            nodes.used[rows], nodes.allocatable[rows], base, *self._terms, out,
        )  # fmt: skip
        chosen: list[int] = rows[out[:placed]].tolist()
        return chosen

    def _within_counts(self, count: int, room: Matrix) -> Matrix:
        """The room, with no more pods on each node than it takes of these tasks. `count`: that are to be placed."""
        if not self._remaining:
            return room
        self._look_ahead()
        changed = self._news(self._to_bound)
        if changed is not None:
            self._take_more(changed)
        if self._ample:
            return room
        limited, possible = room, np.minimum(self._fit_in(room), count)
        for remaining, at_least in self._remaining:
            short = np.flatnonzero(self._mask & (at_least < possible))
            if len(short):
                limited = limited.copy() if limited is room else limited
                limited[short, PODS] = np.minimum(limited[short, PODS], remaining.exactly(short))
        return limited

    def _fit_in(self, room: Matrix) -> Rows:
        """By row, how many such tasks fit in this room."""
        fit: Rows = (room[:, self.columns] // self.request[self.columns]).min(axis=1)
        return fit

    def places_by_row(self, room: Matrix) -> Rows:
        """How many such tasks have room on each node, whatever domain is looked at."""
        return np.where(self._mask, np.maximum(self._fit_in(room), 0), 0)

    def places_at_most(self, room: Matrix) -> int:
        """A bound of how many such tasks have room together, whatever tasks are placed first."""
        if self._since_counted.changed() or self._counted_in is not room:
            self._counted_in = room
            self._counted = int(np.maximum(self._fit_in(room[self._static == 0]), 0).sum())
        return self._counted

    def rows_with_room(self, room: Matrix) -> list[int]:
        """Where such a task would have room, whatever tasks are placed first."""
        rows: list[int] = np.flatnonzero((self._static == 0) & self.has_room(room)).tolist()
        return rows

    def _ranked(self, score: Scores) -> Any:
        """The tree of `place_ranked`, up to date; for idle room, which is the same for all jobs."""
        if self._tree is None:
            self._tree = np.full(2 << max(len(self._mask) - 1, 1).bit_length(), -1, dtype=np.int64)
        rows = self._news(self._to_rank)
        if rows is not None:
            idle = self.session.nodes.idle
            self._kernels.rank_rows(rows, self._tree, self._mask, idle, self.request, self.columns, score)
        return self._tree

    def _ask_best_node(self, task: Task, room: Matrix) -> list[int]:
        rows = np.flatnonzero(self.mask & self.has_room(room))
        if len(rows) == 0:
            return []
        scores = self.score[rows]
        for choose in self.session.points.best_node.calls:
            row = choose(task, rows, scores)
            if row is not None:
                return [int(row)]
        return [int(rows[np.argmax(scores)])]

    def takes(self, row: int, room: Vector) -> bool:
        """Whether the task fits on this node, in this much room."""
        columns = self.columns
        return self.is_open(row) and bool((room[columns] >= self.request[columns]).all())

    def takes_later(self, row: int) -> bool:
        """Whether the task fits on this node once those who are leaving have left and all promises are kept."""
        return self.is_open(row) and all(map(ge, self.room_later(row), self.wanted))

    def amounts(self, shape: Shape) -> list[int]:
        """What a task of any shape requests of those resources that these tasks request."""
        known = self._amounts.get(shape.id)
        if known is None:
            known = self._amounts[shape.id] = shape.request[self.columns].tolist()
        return known

    def room_later(self, row: int) -> list[int]:
        """What will be free on a node of those resources that these tasks request."""
        return self.session.nodes.future_amounts(row, self._column_list)

    def room_idle(self, row: int) -> list[int]:
        """What is idle on a node of those resources."""
        idle = self.session.nodes.idle[row].tolist()
        return [idle[column] for column in self._column_list]

    def has_room(self, room: Matrix) -> Any:
        """By row: whether `room` covers the request."""
        return (room[:, self.columns] >= self.request[self.columns][None, :]).all(axis=1)

    @property
    def looks_elsewhere(self) -> bool:
        """Whether a filter depends on tasks on other nodes, such as inter-pod affinity: then a change on one node may
        make another one possible."""
        return self._filters_everywhere

    def mark_failed(self) -> None:
        """No room was found on any node. What was looked for in a domain alone says nothing about the others."""
        if self.session.domain is not None:
            return
        self._has_failed = True
        self._freed.renew()
        self._since_failed.renew()

    @property
    def known_to_fail(self) -> bool:
        """No room was found before, and none was freed since where the task could use it."""
        if not self._has_failed or self._filters_everywhere:
            return False
        if self._freed.is_current:
            return True
        changed = self._since_failed.unread()
        if not self._is_near or len(changed) > FEW_CHANGES or any(map(self.takes_later, set(changed))):
            return False
        self.mark_failed()
        return True


def _fill(reasons: ReasonIds, rows: Rows, judge: NodeFilter) -> None:
    """Apply a filter to the rows that no filter has rejected yet."""
    open_ = rows[reasons == 0]
    if len(open_):
        reasons[open_] = judge(open_)
