"""The fittings of a session, and how much room there is.

Tasks are of the same kind if they have the same shape and the same keys of filters and scores (`depends_on` at
registration): namespace and labels where inter-pod terms matter, what is reserved for a job, and so on.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Sequence
from itertools import groupby, takewhile
from typing import Any

import numpy as np

from stromboli.cluster import Job, Matrix, Shape, Task, TaskKey, Vector
from stromboli.scheduling.callbacks import FilterHook, Horizon, KeyOfTask, KeysOfTasks, Rows, ScoreHook
from stromboli.scheduling.framework import Framework

from .fitting import Fitting
from .kernel_choice import choose_kernels


class Placement:
    """The fittings of a session."""

    def __init__(self, session: Framework) -> None:
        self.session = session
        self.kernels: Any = choose_kernels(len(session.nodes))
        self.all_rows: Rows = np.arange(len(session.nodes), dtype=np.int64)
        self._fittings: dict[Hashable, Fitting] = {}
        # By shape: the keys that its tasks have, those of many tasks, and the whole key if there are none.
        self._keys: dict[int, tuple[list[KeyOfTask], list[KeysOfTasks], tuple[Hashable, ...]]] = {}
        self._live_keys: list[tuple[str, KeyOfTask]] = []  # with their owner
        self._known_keys: dict[TaskKey, tuple[Hashable, ...]] = {}
        self._future: Matrix | None = None
        self._rows = session.ledger.views.rows()

    def key(self, task: Task, *, without: Collection[str] = ()) -> Hashable:
        """Tasks with equal keys get the same answers from every filter and score, except those of some features."""
        known = self.signature(task)
        if not self._live_keys:
            return known
        return (known, *[of(task) for feature, of in self._live_keys if feature not in without])

    def signature(self, task: Task) -> tuple[Hashable, ...]:
        """The part of the key that does not change during a session."""
        of_shape = self._keys.get(task.shape.id)
        if of_shape is None:
            self.session.tasks_told_apart = True
            of_shape = self._keys[task.shape.id] = (*self._keys_of(task.shape), (task.shape.id,))
            self._live_keys = [(h.owner, h.key) for h in self.session.filters if h.live and h.key is not None]
        keys, _, without_keys = of_shape
        if not keys:
            return without_keys
        known = self._known_keys.get(task.key)
        if known is None:
            known = self._known_keys[task.key] = (task.shape.id, *[of(task) for of in keys])
        return known

    def is_keyed(self, task: Task) -> bool:
        """Whether anything but its shape makes it different from other tasks, as far as that does not change during a
        session."""
        return len(self.signature(task)) > 1

    def _keys_of(self, shape: Shape) -> tuple[list[KeyOfTask], list[KeysOfTasks]]:
        each: list[KeyOfTask] = []
        of_many: list[KeysOfTasks] = []
        filters = [hook for hook in self.session.filters if not hook.live]
        hooks: list[FilterHook | ScoreHook] = [*filters, *self.session.scores]
        for hook in hooks:
            if hook.key is not None and hook.key not in each and (hook.keyed is None or hook.keyed(shape)):
                each.append(hook.key)
                of_many.append(hook.keys or _one_by_one(hook.key))
        return each, of_many

    def alike_at_front(self, tasks: list[Task]) -> list[Task]:
        """Of tasks of one job and one shape, those at the front with the key of the first. Only the first may have a
        nominated node."""
        if self._are_alike(tasks):
            return tasks
        known = self.signature(tasks[0])
        return list(takewhile(lambda task: self.signature(task) == known, tasks))

    def _are_alike(self, tasks: Sequence[Task]) -> bool:
        """`all_alike` for tasks of one shape; those after the first have no nominated node."""
        if len(tasks) == 1:
            return True
        self.signature(tasks[0])
        return all(len(of_many(tasks)) == 1 for of_many in self._keys[tasks[0].shape.id][1])

    def all_alike(self, tasks: Sequence[Task]) -> bool:
        """Whether the keys of these tasks of one job are equal."""
        if any(task.nominated for task in tasks):
            return len({self.key(task) for task in tasks}) == 1
        shape = tasks[0].shape
        return all(task.shape is shape for task in tasks) and self._are_alike(tasks)

    def constant_keys(self, tasks: Sequence[Task], *, roles: bool) -> Hashable:
        """Equal for two lists of tasks if they have the same keys, and where `roles` matter the same roles, in the same
        order, apart from `live_key`."""
        runs = groupby(tasks, key=lambda task: (task.role if roles else "", self.signature(task)))
        return tuple([(key, len(list(alike))) for key, alike in runs])

    @property
    def live_owners(self) -> tuple[str, ...]:
        """The plugins and features that close nodes to some tasks during a session, and may open them again."""
        return tuple(sorted({hook.owner for hook in self.session.filters if hook.live}))

    def live_key(self, task: Task, without: Collection[str] = ()) -> Hashable:
        """The part of the key that may change during a session. It is the same for all tasks of a job that were
        promised no node. `without`: ignore the live filters of these plugins and features."""
        return tuple([of(task) for feature, of in self._live_keys if feature not in without])

    def kinds(self, tasks: Sequence[Task]) -> list[tuple[Task, int]]:
        """The first task of each kind among tasks of one job that wait, and how many there are of it."""
        if self.all_alike(tasks):
            return [(tasks[0], len(tasks))]
        kinds: dict[Hashable, list[Task]] = {}
        for task in tasks:
            kinds.setdefault(self.key(task), []).append(task)
        return [(alike[0], len(alike)) for alike in kinds.values()]

    def fitting(
        self, task: Task, *, ahead: bool = False, horizon: Horizon | None = None, without: tuple[str, ...] = ()
    ) -> Fitting:
        """Up to date with the ledger. `ahead`: as if terminating pods were gone; `horizon`: looking further ahead.
        `without`: ignore the live filters of these plugins and features."""
        if horizon is None:
            horizon = Horizon.RELEASED if ahead else Horizon.NOW
        elif horizon > Horizon.RELEASED:
            near = self.fitting(task, ahead=True, without=without)
            if not near.depends_on_neighbours:
                return near  # looking further ahead would show the same
        drained_for = task.job if horizon is Horizon.DRAINED and task.job is not None and task.job.ready_count else None
        whose = None if drained_for is None else drained_for.key
        key = (self.key(task, without=without), horizon, whose, without)
        fitting = self._fittings.get(key)
        if fitting is None:
            filters = [hook for hook in self.session.filters if not (hook.live and hook.owner in without)]
            fitting = self._fittings[key] = Fitting(
                self.session, self.kernels, self.all_rows, task, filters, horizon=horizon, drained_for=drained_for
            )
        fitting.refresh()
        return fitting

    def room_now(self, job: Job | None = None, *, without: str = "") -> Matrix:
        """What is idle and not promised, minus what features keep from this job. A promise may use idle room and the
        room of terminating pods together; then its idle part is not free either. `without`: ignore this feature."""
        future = self.future_room()
        room = self.session.nodes.idle if future is None else np.minimum(self.session.nodes.idle, future)
        return self._open_to(room, job, without)

    def room_now_on(self, row: int) -> Vector:
        nodes = self.session.nodes
        return np.asarray(np.minimum(nodes.idle[row], nodes.future_idle_of(row)))

    def room_later(self, job: Job | None = None) -> Matrix | None:
        """What this job could use once terminating pods are gone; None if that is what is idle now."""
        future = self.future_room()
        return None if future is None else self._open_to(future, job)

    def room_of_all(self) -> Matrix:
        """What is idle, or will be once terminating pods are gone and all promises are kept."""
        future = self.future_room()
        return self.session.nodes.idle if future is None else future

    def room_at_most(self, job: Job | None = None) -> Matrix:
        """`room_of_all`, less what features keep from this job."""
        return self._open_to(self.room_of_all(), job)

    def _open_to(self, room: Matrix, job: Job | None, without: str = "") -> Matrix:
        for hook in self.session.points.room.hooks:
            if hook.plugin != without:
                room = hook.call(room, job)
        return room

    def future_room(self) -> Matrix | None:
        """What will be free once terminating pods are gone and all promises are kept; None if there are neither: then
        it is what is idle now."""
        if self._rows.changed():
            nodes = self.session.nodes
            self._future = nodes.future_idle if self.session.ledger.in_transit else None
        return self._future


def _one_by_one(key: KeyOfTask) -> KeysOfTasks:
    return lambda tasks: {key(task) for task in tasks}
