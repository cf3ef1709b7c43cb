"""The fittings of a session, and how much room there is.

Tasks are of the same kind if they have the same shape and the same keys of filters and scores (`key` at registration):
namespace and labels where inter-pod terms matter, what is reserved for a job, and so on.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Sequence
from itertools import groupby
from typing import Any

import numpy as np

from stromboli.cluster import Job, Matrix, Shape, Task, TaskKey, Vector
from stromboli.scheduling.callbacks import FilterHook, Horizon, KeyOfTask, Rows, ScoreHook
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
        # By shape: the keys that its tasks have, and the whole key if there are none.
        self._keys: dict[int, tuple[list[KeyOfTask], tuple[Hashable, ...]]] = {}
        self._live_keys: list[tuple[str, KeyOfTask]] = []  # with their owner
        self._known_keys: dict[TaskKey, tuple[Hashable, ...]] = {}
        self._future: Matrix | None = None
        self._future_at = -1

    def key(self, task: Task) -> Hashable:
        """Tasks with equal keys get the same answers from every filter and score."""
        known = self._constant_key(task)
        return (known, *[of(task) for _, of in self._live_keys]) if self._live_keys else known

    def _key_without(self, task: Task, owners: Collection[str]) -> Hashable:
        known = self._constant_key(task)
        return (known, *[of(task) for feature, of in self._live_keys if feature not in owners])

    def _constant_key(self, task: Task) -> tuple[Hashable, ...]:
        """The part of the key that does not change during a session."""
        of_shape = self._keys.get(task.shape.id)
        if of_shape is None:
            of_shape = self._keys[task.shape.id] = (self._keys_of(task.shape), (task.shape.id,))
            self._live_keys = [(h.owner, h.key) for h in self.session.filters if h.live and h.key is not None]
        keys, without_keys = of_shape
        if not keys:
            return without_keys
        known = self._known_keys.get(task.key)
        if known is None:
            known = self._known_keys[task.key] = (task.shape.id, *[of(task) for of in keys])
        return known

    def _keys_of(self, shape: Shape) -> list[KeyOfTask]:
        filters = [hook for hook in self.session.filters if not hook.live]
        hooks: list[FilterHook | ScoreHook] = [*filters, *self.session.scores]
        return [
            hook.key for hook in hooks if hook.key is not None and (hook.keyed is None or hook.keyed(shape))
        ]  # fmt: skip

    def like(self, one: Task) -> Callable[[Task], bool]:
        """Whether the keys of other tasks of its job are equal to that of this one. None has a nominated node."""
        shape, known = one.shape, self._constant_key(one)
        keys = self._keys[shape.id][0]
        if not keys:
            return lambda other: other.shape is shape
        if len(keys) == 1:
            of, value = keys[0], known[1]
            return lambda other: other.shape is shape and of(other) == value
        return lambda other: other.shape is shape and self._constant_key(other) == known

    def all_alike(self, tasks: Sequence[Task]) -> bool:
        """Whether the keys of these tasks of one job are equal."""
        if any(task.nominated for task in tasks):
            return len({self.key(task) for task in tasks}) == 1
        return all(map(self.like(tasks[0]), tasks))

    def constant_keys(self, tasks: Sequence[Task]) -> Hashable:
        """Equal for two lists of tasks if they have the same roles and the same keys in the same order, apart from
        `live_key`."""
        runs = groupby(tasks, key=lambda task: (task.role, self._constant_key(task)))
        return tuple([(key, len(list(alike))) for key, alike in runs])

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
        key = (self._key_without(task, without) if without else self.key(task), horizon, whose, without)
        fitting = self._fittings.get(key)
        if fitting is None:
            filters = [hook for hook in self.session.filters if not (hook.live and hook.owner in without)]
            fitting = Fitting(
                self.session, self.kernels, self.all_rows, task, filters, horizon=horizon, drained_for=drained_for
            )
            self._fittings[key] = fitting
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
        for hook in self.session.hooks("room"):
            if hook.plugin != without:
                room = hook.call(room, job)
        return room

    def future_room(self) -> Matrix | None:
        """What will be free once terminating pods are gone and all promises are kept; None if there are neither: then
        it is what is idle now."""
        log = len(self.session.ledger.log)
        if self._future_at != log:
            self._future_at = log
            nodes = self.session.nodes
            self._future = nodes.future_idle if self.session.ledger.in_transit else None
        return self._future
