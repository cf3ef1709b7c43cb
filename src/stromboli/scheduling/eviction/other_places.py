"""Where else the tasks of a gang could go, once everybody who was chosen has left.

Places for a gang are found task by task. A victim for the last task may leave room for two. Then the first task could
go there as well, and whoever was evicted for it could stay. Only room that is there anyway is looked for: mostly there
is none, and then nothing has to be tried.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np

from stromboli.cluster import Job, Node, Task, TaskKey, Vector
from stromboli.cluster.model import requests_by_row
from stromboli.scheduling.placement import Fitting
from stromboli.scheduling.session import Session
from stromboli.scheduling.statement import PIPELINE, Statement

from .plans import EvictionUnit


class OtherPlaces:
    """As of now, for one call of `moves`."""

    def __init__(self, session: Session, statement: Statement, claimant: Job) -> None:
        self._session = session
        self._room = session.placement.room_at_most(claimant)
        self._promised: dict[int, list[Task]] = {}  # by row: tasks of the claimant that could go elsewhere
        self._rows: dict[Hashable, list[int]] = {}  # by kind of task: where there is room for one more
        self._change: dict[int, Vector] = {}  # by row: what moves so far, and those who stay, add to the room
        promised = [operation.task for operation in statement.operations if operation.kind is PIPELINE]
        if claimant.layout is not None and claimant.layout.policies:
            return  # each of its sub-groups has a domain of its own
        if not any(self._rows_for(first) for first, _ in session.placement.kinds(promised)):
            return
        tied = {operation.task.key for operation in statement.operations if operation.kind.ties}
        for task in promised:
            if task.node is not None and task.key not in tied and self._rows_for(task):
                self._promised.setdefault(task.node.row, []).append(task)

    def moves(self, units: Sequence[EvictionUnit], most: int) -> tuple[list[EvictionUnit], dict[TaskKey, Node]]:
        """Which of these units could stay, in order and not more than `most`, if tasks that were promised their room go
        to other nodes; and where these go, by key."""
        staying: list[EvictionUnit] = []
        moves: dict[TaskKey, Node] = {}
        for unit in units if self._promised else ():
            if len(staying) == most:
                break
            found = self._moves_for(unit)
            if found is not None:
                staying.append(unit)
                moves |= found
        return staying, moves

    def _moves_for(self, unit: EvictionUnit) -> dict[TaskKey, Node] | None:
        took = requests_by_row(unit.tasks)
        going: list[Task] = []
        for row, amount in took.items():
            found = self._to_move(row, amount)
            if found is None:
                return None
            going += found
        change = {row: -amount for row, amount in took.items()}
        for task in going:
            assert task.node is not None
            change[task.node.row] = change[task.node.row] + task.request
        places = self._places(going, change)
        if not places:
            return None
        for row, amount in change.items():
            self._change[row] = self._change.get(row, 0) + amount
        for task in going:
            assert task.node is not None
            self._promised[task.node.row].remove(task)
        return places

    def _to_move(self, row: int, amount: Vector) -> list[Task] | None:
        """The last tasks that were promised room on a node, so many that this amount would be free without them."""
        free, found = self._session.nodes.future_idle_of(row) + self._change.get(row, 0), list[Task]()
        for task in reversed(self._promised.get(row, ())):
            if bool((free >= amount).all()):
                break
            free = free + task.request
            found.append(task)
        return found if bool((free >= amount).all()) else None

    def _places(self, tasks: list[Task], change: dict[int, Vector]) -> dict[TaskKey, Node] | None:
        """The first nodes by name with room for these tasks together. `change`: by row, what they leave, less who
        stays; what they take is subtracted."""
        places: dict[TaskKey, Node] = {}
        for task in tasks:
            for row in self._rows_for(task):
                room = self._room[row] + self._change.get(row, 0) + change.get(row, 0)
                if bool((room >= task.request).all()):
                    change[row] = change.get(row, 0) - task.request
                    places[task.key] = self._session.nodes.nodes[row]
                    break
            else:
                return None
        return places

    def _rows_for(self, task: Task) -> list[int]:
        key = self._session.placement.key(task)
        rows = self._rows.get(key)
        if rows is None:
            fitting: Fitting = self._session.placement.fitting(task, ahead=True)
            rows = self._rows[key] = np.flatnonzero(fitting.mask & fitting.has_room(self._room)).tolist()
        return rows
