"""Rule 5. Which nodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np

from stromboli.cluster import PODS, Job, Matrix, Status, Task
from stromboli.cluster.model import requests_by_row
from stromboli.cluster.topology import Domain
from stromboli.scheduling.callbacks import Horizon
from stromboli.scheduling.explanation.node_reasons import TOO_MANY_PODS, insufficient
from stromboli.scheduling.explanation.reasons import node_counts
from stromboli.scheduling.explanation.topology_reasons import domain_name
from stromboli.scheduling.placement import Fitting
from stromboli.scheduling.session import Session

from .drained_room import DrainedRoom
from .holders import FEATURE
from .node_index import NodeOrder, NodeOwners


@dataclass(frozen=True, slots=True)
class _Kind:
    task: Task  # one of them
    fits: np.ndarray  # by row: whether one more has room there, and may be there whatever its neighbours
    best_last: list[int]  # those rows in order
    minds_neighbours: bool


class NodeChoice:
    """Nodes for the tasks of one job. What is reserved on a node, together with what the job itself uses there, never
    exceeds what the node will have; nodes the job has already come first, as they count only once against the limit.

    While a job is served, its nodes only fill up. So what fits a kind of task is worked out once, and afterwards only
    the node that was taken last is looked at again."""

    def __init__(
        self,
        session: Session,
        job: Job,
        order: NodeOrder,
        owners: NodeOwners,
        most: int,
        closed: np.ndarray | None = None,
        *,
        horizon: Horizon = Horizon.PLANNED,
    ) -> None:
        """`most`: how many nodes may be set aside in all; `closed`: rows that are kept for jobs before this one;
        `horizon`: which neighbours the tasks will have."""
        self._session = session
        self._horizon = horizon
        self._room = session.state(DrainedRoom).of(job)
        self._order = order
        self._left = most - len(owners)
        self._mine = owners.rows_of(job)
        self._open = owners.open_to(job)
        if closed is not None:
            self._open &= ~closed | owners.is_of(job)
        self._locked = {node.row for node in session.ledger.locked.values() if not node.is_closed_to(job.queue)}
        # What running tasks of the job use, by row.
        self._own_use = requests_by_row(task for task in job.tasks.values() if task.status is not Status.RESERVED)
        # Others count on room there, and may start before the job.
        self._counted_on = (session.nodes.conditional != 0).any(axis=1)
        self._kinds: dict[tuple[Hashable, str, Domain | None], _Kind] = {}
        self.minds_neighbours = False  # whether some task has rules about its neighbours

    def row_for(self, task: Task) -> tuple[int | None, bool]:
        """The node to set room aside on; or None, and whether only the limit on nodes stood in the way."""
        kind = self._kind(task)
        fits, best_last = kind.fits, kind.best_last
        if kind.minds_neighbours:
            self.minds_neighbours = True
            return self._row_beside_others(task, fits & self._fitting(task).mask)
        mine = [row for row in self._mine if fits[row]]
        if mine:
            places = self._order.of(task)[1]
            return min(mine, key=lambda row: int(places[row])), False
        while best_last and not fits[best_last[-1]]:
            best_last.pop()
        if not best_last:
            return None, False
        best = best_last[-1]
        return (best, False) if self._left > 0 or best in self._locked else (None, True)

    def _row_beside_others(self, task: Task, fits: np.ndarray) -> tuple[int | None, bool]:
        """The same for a task that minds its neighbours: siblings that were given a place may open nodes and close
        them."""
        possible = self._in_order(task, fits)
        mine = [row for row in possible if row in self._mine]
        if mine or not possible:
            return (mine[0], False) if mine else (None, False)
        best = possible[0]
        return (best, False) if self._left > 0 or best in self._locked else (None, True)

    def _fitting(self, task: Task) -> Fitting:
        return self._session.placement.fitting(task, horizon=self._horizon, without=(FEATURE,))

    def why_not(self, task: Task) -> str:
        """Why a task finds no node, as a sentence; in the domain that is looked at, if one is."""
        session, fitting, room = self._session, self._fitting(task), self._left_over()
        domain = session.domain
        found = fitting.reasons if domain is None else fitting.reasons[domain.rows]
        ids, numbers = np.unique(found[found > 0], return_counts=True)
        counts: Counter[str] = Counter()
        for reason_id, number in zip(ids.tolist(), numbers.tolist(), strict=True):
            counts[session.node_reasons[reason_id - 1].text] += number
        left = fitting.mask.copy()
        for name, column in session.axis.by_name():
            requested = int(task.request[column])
            short = left & (room[:, column] < requested)
            if requested and short.any():
                most = int(room[short, column].max())
                pair = TOO_MANY_PODS if column == PODS else insufficient(*task.shape.shown(name, column), most)
                counts[pair[1]] = int(short.sum())
                left &= ~short
        nodes, name = (len(left), "") if domain is None else (len(domain.rows), domain_name(domain))
        return node_counts(nodes, int(left.sum()), counts.items(), domain=name)

    def has_slots(self, tasks: Sequence[Task]) -> bool:
        """Whether nodes take so many more pods, each of which requests nothing."""
        left = self._left_over()[:, PODS] * self._session.nodes.schedulable
        signature = self._session.placement.signature
        kinds = Counter(signature(task) for task in tasks)
        examples = {signature(task): task for task in tasks}
        return all(
            int(left[self._fitting(examples[kind]).mask].clip(min=0).sum()) >= number for kind, number in kinds.items()
        )

    def _left_over(self) -> Matrix:
        """What is left for the job on each node."""
        left = self._room - self._session.nodes.reserved
        for row, used in self._own_use.items():
            left[row] -= used
        return np.asarray(left)

    def mark(self) -> tuple[list[int], int]:
        """What `go_back` needs when all that was set aside since is given up."""
        return (list(self._mine), self._left)

    def go_back(self, mark: tuple[list[int], int]) -> None:
        mine, self._left = mark
        self._mine = list(mine)
        self._kinds.clear()

    def take(self, row: int) -> None:
        """Room was set aside on this node."""
        if row not in self._mine:
            self._mine.append(row)
            self._left -= row not in self._locked
        for kind in self._kinds.values():
            kind.fits[row] = kind.fits[row] and self._has_room(kind.task, row)

    def _kind(self, task: Task) -> _Kind:
        # Not the shape: pods of one shape may have claims whose volumes are in different places.
        key = (self._session.placement.key(task, without=(FEATURE,)), task.role, self._session.domain)
        known = self._kinds.get(key)
        if known is None:
            nodes = self._session.nodes
            fits = nodes.schedulable & self._open & (self._room - nodes.reserved >= task.request).all(axis=1)
            fitting = self._fitting(task)
            if not fitting.depends_on_neighbours:
                fits &= fitting.mask
            for row in self._own_use:
                fits[row] = fits[row] and self._has_room(task, row)
            best_last = self._in_order(task, fits)[::-1]
            known = _Kind(task, fits, best_last, fitting.depends_on_neighbours)
            self._kinds[key] = known
        return known

    def _in_order(self, task: Task, fits: np.ndarray) -> list[int]:
        """Those rows, the best first; nodes on which others count last."""
        order = self._order.of(task)[0]
        order = order[fits[order]]
        last = self._counted_on[order]
        rows: list[int] = [*order[~last].tolist(), *order[last].tolist()]
        if self._locked:
            rows.sort(key=lambda row: row not in self._locked)
        return rows

    def _has_room(self, task: Task, row: int) -> bool:
        left = self._room[row] - self._session.nodes.reserved[row] - self._own_use.get(row, 0)
        return bool((left >= task.request).all())
