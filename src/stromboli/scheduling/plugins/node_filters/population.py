"""How many pods of a kind are on each node, for the rules between pods, and kept up to date during a cycle.

Rules between pods ("not where another pod of my service is") depend on tasks on all nodes, and every placement may
change the answer. Counting fifty thousand tasks again after each placement would take too long. So each question is a
`Tally`: a count by row, computed once. The ledger's log of changed rows says which rows must be counted again, so a
placement, an eviction or an undo costs as much as the tasks of one node. Rows are compared with what was counted there
before, so the counts are exact in any order of changes and undos.

A task counts on a node if it runs there or was placed there (allocated or pipelined). A terminating pod counts until it
is gone. Those who look ahead (`Session.horizon`) see other neighbours: a task that waits for resources of terminating
pods starts only when they are gone; the tasks of a gang that is planned as a whole are neighbours on their reserved and
conditional places, which otherwise do not count; and on a node that has drained, only pods that never end are left.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from enum import Enum
from typing import Any, Final, TypeVar

import numpy as np
import numpy.typing as npt

from stromboli.cluster import JointView, Status, Task, TaskKey, View
from stromboli.scheduling.callbacks import Horizon, Rows
from stromboli.scheduling.session import Session

from .node_facts import LabelColumn, Mask
from .reach import ByReach, Reach

Counts = npt.NDArray[np.float64]
_Number = TypeVar("_Number", bound=np.generic)

_STAYS = frozenset({Status.PIPELINED, Status.ALLOCATED, Status.BINDING, Status.BOUND, Status.RUNNING, Status.UNKNOWN})


class Stay(Enum):
    """How a task is on its node."""

    STAYS = "it runs there or was placed there"
    LEAVES = "it is terminating"
    PLANNED = "it has a reserved or conditional place there"


_STAY: dict[Status, Stay] = dict.fromkeys(_STAYS, Stay.STAYS) | {
    Status.RELEASING: Stay.LEAVES, Status.RESERVED: Stay.PLANNED, Status.CONDITIONAL: Stay.PLANNED
}  # fmt: skip


def is_there(session: Session, task: Task) -> bool:
    """Whether this task counts on its node."""
    match _STAY.get(task.status):
        case Stay.STAYS:
            return session.horizon < Horizon.DRAINED or not task.ends or task.job is session.drained_for is not None
        case Stay.LEAVES:
            return session.horizon is Horizon.NOW
        case Stay.PLANNED:
            return session.horizon >= Horizon.PLANNED
        case _:
            return False


class Tally:
    """The number of tasks of one kind on each row."""

    def __init__(self, session: Session, selects: Callable[[Task], bool], *, with_leaving: bool) -> None:
        self._changes = 0
        self.selects = selects
        self._session = session
        self._with_leaving = with_leaving
        self._counts: dict[Stay, Counts] = {stay: np.zeros(len(session.nodes), dtype=np.float64) for stay in Stay}
        self._ending: Counts = np.zeros(len(session.nodes), dtype=np.float64)  # of those that stay

    def count(self, task: Task, row: int, stay: Stay, change: int) -> None:
        if (self._with_leaving or stay is not Stay.LEAVES) and self.selects(task):
            self._counts[stay][row] += change
            if stay is Stay.STAYS and task.ends:
                self._ending[row] += change
            self._changes += 1

    def view(self) -> View:
        """Of the counts, for whoever keeps an answer about them."""
        return View(lambda: self._changes)

    def by_domain(self, column: LabelColumn, among: Mask | None = None, *, with_ending: bool = False) -> Counts:
        """Sums over nodes with the same value of a label, indexed by code. Nodes without the label are in no domain,
        so the entry of code 0 is always 0. `with_ending`: count those that will have drained, too."""
        counts = self._neighbours(with_ending=with_ending)
        if among is not None:
            counts = counts * among
        sums = np.bincount(column.codes, weights=counts, minlength=column.width).astype(np.float64, copy=False)
        sums[0] = 0.0
        return sums

    def _neighbours(self, *, with_ending: bool) -> Counts:
        horizon, counts = self._session.horizon, self._counts[Stay.STAYS]
        if horizon is Horizon.NOW:
            return counts + self._counts[Stay.LEAVES]
        if horizon is Horizon.RELEASED:
            return counts
        counts = counts + self._counts[Stay.PLANNED]
        if horizon is Horizon.DRAINED and not with_ending:
            counts -= self._ending
            own = self._session.drained_for
            for task in own.tasks.values() if own is not None else ():
                if task.node is not None and task.ends and task.status in _STAYS and self.selects(task):
                    counts[task.node.row] += 1
        return counts


_Neighbours = dict[TaskKey, Task]
_NAMESPACE: Final = ""
"""In the place of a label."""


def _value(task: Task, label: str) -> str | None:
    return task.namespace if label == _NAMESPACE else task.pod.metadata.labels.get(label)


class Population:
    """The tasks on all nodes, and the tallies over them. Costs nothing until the first tally is used."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._ledger = session.ledger
        self._nodes = session.nodes.nodes
        self._marks: Callable[[Task], Iterable[Hashable]] = lambda task: ()
        self._tallies: dict[Hashable, Tally] = {}
        self._by_reach = ByReach[Tally]()  # the same
        self._carried: dict[Hashable, Tally] = {}
        # The tasks on each row as they were counted.
        self._staying: list[_Neighbours] = []  # empty until the first use
        # Only rows that have such tasks, now or before.
        self._others: dict[Stay, dict[int, _Neighbours]] = {Stay.LEAVES: {}, Stay.PLANNED: {}}
        # label or namespace -> value -> tasks that are or were on a node: tasks are only added, never removed.
        self._index: dict[str, dict[str, dict[TaskKey, Task]]] = {}
        self._rows = session.ledger.views.rows()

    def mark_by(self, marks: Callable[[Task], Iterable[Hashable]]) -> None:
        """Also count tasks by marks, such as their anti-affinity terms. Must be called before the first tally."""
        self._marks = marks

    def tally(
        self, key: Hashable, selects: Callable[[Task], bool], reach: Reach, *, with_leaving: bool = True
    ) -> Tally:
        """The tally of the tasks that `selects` accepts, all of which are in its reach. Equal keys must stand for equal
        functions."""
        tally = self._tallies.get(key)
        if tally is None:
            self.refresh()
            tally = self._tallies[key] = Tally(self._session, selects, with_leaving=with_leaving)
            self._by_reach.add(tally, reach)
            for task in self._candidates(reach):
                node = task.node
                if node is None:
                    continue
                if task.key in self._staying[node.row]:
                    tally.count(task, node.row, Stay.STAYS, +1)
                for stay, by_row in self._others.items():
                    if task.key in by_row.get(node.row, ()):
                        tally.count(task, node.row, stay, +1)
        return tally

    def carrying(self, mark: Hashable) -> Tally:
        """The tally of the tasks that have a mark. Like the others, it is up to date after `refresh`."""
        tally = self._carried.get(mark)
        if tally is None:
            tally = self._carried[mark] = Tally(self._session, lambda task: True, with_leaving=True)
        return tally

    def following(
        self, tallies: Iterable[Tally], everywhere: Callable[[], npt.NDArray[_Number]]
    ) -> Callable[[Rows], npt.NDArray[_Number]]:
        """A function of rows, computed for all rows again only after one of the tallies has changed. It must be used
        always with the same `Session.horizon`."""
        view = JointView(*[tally.view() for tally in tallies])
        answers: npt.NDArray[Any] = np.zeros(0)

        def about(rows: Rows) -> npt.NDArray[_Number]:
            nonlocal answers
            self.refresh()
            if view.changed():
                answers = everywhere()
            return answers[rows]

        return about

    def refresh(self) -> None:
        """Bring every tally up to date with the ledger."""
        changed: Iterable[int] = dict.fromkeys(self._rows.news())
        if len(self._staying) != len(self._nodes):
            self._staying = [{} for _ in self._nodes]
            changed = range(len(self._nodes))
        for row in changed:
            self._recount(row)

    def _recount(self, row: int) -> None:
        tasks = self._nodes[row].tasks
        staying = {key: task for key, task in tasks.items() if task.status in _STAYS}
        before, self._staying[row] = self._staying[row], staying
        self._compare(row, before, staying, Stay.STAYS)
        for stay, by_row in self._others.items():
            some = len(staying) < len(tasks)
            others = {key: task for key, task in tasks.items() if _STAY.get(task.status) is stay} if some else {}
            if others or row in by_row:
                before, by_row[row] = by_row.get(row, {}), others
                self._compare(row, before, others, stay)

    def _compare(self, row: int, before: _Neighbours, after: _Neighbours, stay: Stay) -> None:
        for key, task in before.items():
            if key not in after:
                self._count(task, row, stay, -1)
        for key, task in after.items():
            if key not in before:
                self._count(task, row, stay, +1)
                self._enter(key, task)

    def _count(self, task: Task, row: int, stay: Stay, change: int) -> None:
        for tally in self._by_reach.about(task):
            tally.count(task, row, stay, change)
        if task.shape.has_pod_terms:
            for mark in self._marks(task):
                self.carrying(mark).count(task, row, stay, change)

    def _enter(self, key: TaskKey, task: Task) -> None:
        for label, values in self._index.items():
            value = _value(task, label)
            if value is not None:
                values.setdefault(value, {})[key] = task

    def _candidates(self, reach: Reach) -> Iterable[Task]:
        namespaces, clue = reach
        if clue is None:
            if namespaces is None:
                return [task for neighbours in self._all_tasks() for task in neighbours.values()]
            clue = (_NAMESPACE, namespaces)
        label, values = clue
        if values is not None and not values:
            return []
        index = self._index.get(label)
        if index is None:
            index = self._index[label] = {}
            for neighbours in self._all_tasks():
                for key, task in neighbours.items():
                    value = _value(task, label)
                    if value is not None:
                        index.setdefault(value, {})[key] = task
        wanted = index if values is None else dict.fromkeys(values)
        return [task for value in wanted for task in index.get(value, {}).values()]

    def _all_tasks(self) -> Iterable[_Neighbours]:
        return (*self._staying, *(tasks for by_row in self._others.values() for tasks in by_row.values()))
