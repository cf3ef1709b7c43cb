"""One cycle's view of the cluster, and the rules it is decided by.

A session is opened on a snapshot: every configured plugin and every feature registers its callbacks. Then the actions
run, and the session is closed with a `Cycle` of decisions. It changes the ledger only, and only through statements, so
what was only tried leaves no trace.

Plugins, features and actions keep their own state for one session in classes of their own. `state` returns the one
instance of such a class, and creates it on first use:

    prices = session.state(Prices)  # calls Prices(session) once

`memory` is the same for what should be known in the next session, too, and could be forgotten at any time: a scheduler
that has just started must decide the same.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from stromboli.cluster import Job, Snapshot, Status, Task
from stromboli.cluster.topology import sub_groups

from .configuration import Configuration
from .explanation import Notes
from .framework import Framework
from .placement import Placement
from .statement import Statement
from .turns import Turns

State = TypeVar("State")
Memories = dict[Callable[[], Any], Any]


class Session(Framework):
    def __init__(
        self,
        snapshot: Snapshot,
        configuration: Configuration,
        now: float,
        memories: Memories | None = None,
        turns: Turns | None = None,
    ) -> None:
        """`memories`: what earlier sessions with this configuration on this cluster remembered."""
        super().__init__(snapshot, configuration, now, turns)
        self._memories: Memories = {} if memories is None else memories
        self.notes = Notes()
        self.placement = Placement(self)
        self._states: dict[Callable[[Session], Any], Any] = {}

    def state(self, kind: Callable[[Session], State]) -> State:
        """The session's one instance of this class; created on first use."""
        known: State | None = self._states.get(kind)
        if known is None:
            known = self._states[kind] = kind(self)
        return known

    def memory(self, kind: Callable[[], State]) -> State:
        """The one instance of this class for all sessions of a scheduler on a cluster."""
        known: State | None = self._memories.get(kind)
        if known is None:
            known = self._memories[kind] = kind()
        return known

    def statement(self) -> Statement:
        return Statement(self)

    def pending_tasks(self, job: Job) -> list[Task]:
        """Tasks of a job that wait for a node, in the order in which to place them; without gated ones."""
        waiting = [t for t in job.tasks.values() if t.status in _WAITING and not t.gated]
        if job.layout is not None and (refused := sub_groups(job).refused):
            waiting = [task for task in waiting if task.key not in refused]
        if len(waiting) > 1:
            waiting.sort(key=self._task_order())
            if job.roles_matter:
                return needed_first(job, waiting)
        return waiting

    def has_pending_tasks(self, job: Job) -> bool:
        """Whether there are `pending_tasks`."""
        refused = sub_groups(job).refused
        return any(t.status in _WAITING and not t.gated and t.key not in refused for t in job.tasks.values())

    def _task_order(self) -> Callable[[Task], tuple[Any, ...]]:
        """`task_key`, faster where one plugin has a say: a session sorts thousands of tasks."""
        calls = self.points.task_order.calls
        if len(calls) != 1:
            return self.task_key
        (call,) = calls
        return lambda task: (call(task), task.index, task.created, task.key)


_WAITING = frozenset({Status.PENDING, Status.RESERVED})


def needed_first(job: Job, waiting: list[Task]) -> list[Task]:
    """First the tasks that each role needs to reach its minimum, so that others do not take their room."""
    short = {role: least - job.role_occupied(role, with_pipelined=True) for role, least in job.role_minimums.items()}
    needed: list[Task] = []
    others: list[Task] = []
    for task in waiting:
        missing = short.get(task.role, 0)
        (needed if missing > 0 else others).append(task)
        short[task.role] = missing - 1
    return needed + others
