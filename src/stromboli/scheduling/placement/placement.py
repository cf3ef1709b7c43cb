"""What is known about where tasks fit, for the length of a session; and how much room there is.

"Kind of task" is the shape, plus whatever else a filter or score says its answer depends on (`key` at registration):
the namespace and labels where inter-pod terms matter, what is reserved for a job, and so on.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np

from stromboli.cluster import Job, Matrix, Task, TaskKey, Vector
from stromboli.scheduling.callbacks import KeyOfTask, Rows
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
        self._keys: list[KeyOfTask] | None = None
        self._live_keys: list[tuple[str, KeyOfTask]] = []  # with their owner
        self._known_keys: dict[TaskKey, tuple[Hashable, ...]] = {}
        self._future: Matrix | None = None
        self._future_at = -1

    def key(self, task: Task) -> Hashable:
        """Tasks with equal keys are judged alike by every filter and score."""
        known = self._lasting_key(task)
        return (known, *[of(task) for _, of in self._live_keys]) if self._live_keys else known

    def _key_without(self, task: Task, owner: str) -> Hashable:
        known = self._lasting_key(task)
        return (known, *[of(task) for feature, of in self._live_keys if feature != owner])

    def _lasting_key(self, task: Task) -> tuple[Hashable, ...]:
        """The part of the key that stays the same all session long."""
        if self._keys is None:
            lasting = [hook.key for hook in self.session.filters if not hook.live]
            lasting += [hook.key for hook in self.session.scores]
            self._keys = [key for key in lasting if key is not None]
            self._live_keys = [(h.owner, h.key) for h in self.session.filters if h.live and h.key is not None]
        known = self._known_keys.get(task.key)
        if known is None:
            known = self._known_keys[task.key] = (task.shape.id, *[of(task) for of in self._keys])
        return known

    def fitting(self, task: Task, *, ahead: bool = False, without: str = "") -> Fitting:
        """Up to date with the ledger as it stands; `ahead`: as if leaving pods were gone already; `without`: as if this
        feature closed no node, for itself."""
        key = (self._key_without(task, without) if without else self.key(task), ahead, without)
        fitting = self._fittings.get(key)
        if fitting is None:
            filters = [hook for hook in self.session.filters if not (hook.live and hook.owner == without)]
            fitting = Fitting(self.session, self.kernels, self.all_rows, task, filters, ahead=ahead)
            self._fittings[key] = fitting
        fitting.refresh()
        return fitting

    def room_now(self, job: Job | None = None, *, without: str = "") -> Matrix:
        """What is idle and promised to nobody (else than this job), less what features keep it from. A promise may
        count on idle room and on leaving pods together: then the idle part is taken as well. `without`: a feature
        that keeps nothing from itself."""
        future = self.future_room()
        room = self.session.nodes.idle if future is None else np.minimum(self.session.nodes.idle, future)
        return self._open_to(room, job, without)

    def room_now_on(self, row: int) -> Vector:
        nodes = self.session.nodes
        return np.asarray(np.minimum(nodes.idle[row], nodes.future_idle_of(row)))

    def room_later(self, job: Job | None = None) -> Matrix | None:
        """What this job may count on once leaving pods are gone; None if nobody is leaving."""
        future = self.future_room()
        return None if future is None else self._open_to(future, job)

    def _open_to(self, room: Matrix, job: Job | None, without: str = "") -> Matrix:
        for hook in self.session.hooks("room"):
            if hook.plugin != without:
                room = hook.call(room, job)
        return room

    def future_room(self) -> Matrix | None:
        """What will be free once everything on its way out is gone and all promises are kept; None if nothing is
        on its way out and nothing is promised: then it is what is idle."""
        log = len(self.session.ledger.log)
        if self._future_at != log:
            self._future_at = log
            nodes = self.session.nodes
            self._future = nodes.future_idle if self.session.ledger.in_transit else None
        return self._future
