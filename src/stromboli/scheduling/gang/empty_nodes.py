"""What a job would find if nothing else ran: gangs that cannot start then cannot start at all.

Only what is certain counts. A node is ruled out for reasons that do not go away by themselves: its labels, its taints,
its size. A node that is not ready or cordoned may come back, so it counts, also if Kubernetes has tainted it for that.
That pods may have to keep apart from each other is ignored.

Two places ask: what users read about a job that can never start, and admission, where such a job is promised nothing.
The answers follow from the nodes and the shape of a pod, so they are kept until a node changes. Thousands of jobs may
wait, and most have few shapes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from stromboli.api import names
from stromboli.cluster import OCCUPYING, PODS, UNOFFERED, Job, Ledger, Shape, Status, Task, Vector, View
from stromboli.scheduling.callbacks import Scope
from stromboli.scheduling.explanation import Code
from stromboli.scheduling.session import Session

_ALLOCATED = Status.ALLOCATED
_PENDING = Status.PENDING


class EmptyRoom(NamedTuple):
    """For pods of one shape."""

    usable: int  # nodes that no lasting reason rules out
    fit: int  # how many such pods have room on these together, if they are empty
    too_large: tuple[str, int, int] | None  # (resource, requested, most on a node), if no usable node has enough


class Shortfall(NamedTuple):
    """Pods of one kind, of which a gang needs more than fit."""

    room: EmptyRoom
    number: int  # so many are needed, with those that run


class _KnownRooms:
    """What is kept from one session to the next."""

    def __init__(self) -> None:
        self._nodes: View | None = None
        self._rooms: WeakKeyDictionary[Shape, EmptyRoom] = WeakKeyDictionary()

    def on(self, ledger: Ledger) -> WeakKeyDictionary[Shape, EmptyRoom]:
        if self._nodes is None:
            self._nodes = ledger.views.nodes()
        if self._nodes.changed():
            self._rooms.clear()
        return self._rooms


class EmptyNodes:
    def __init__(self, session: Session) -> None:
        self._session = session
        self._rooms = session.memory(_KnownRooms).on(session.ledger)

    def room(self, task: Task) -> EmptyRoom:
        known = self._rooms.get(task.shape)
        if known is None:
            known = self._rooms[task.shape] = self._look(task)
        return known

    def places_by_row(self, task: Task) -> npt.NDArray[np.int64]:
        """How many tasks like this one each node has room for, if it is empty."""
        usable, columns = ~self._ruled_out(task), np.flatnonzero(task.request)
        each = (self._session.nodes.allocatable[:, columns] // task.request[columns]).min(axis=1)
        places: npt.NDArray[np.int64] = np.where(usable, np.maximum(each, 0), 0).astype(np.int64)
        return places

    def is_hopeless(self, job: Job) -> bool:
        """Whether the pods of a job cannot reach its minimum on these nodes, even if they were empty. Of a job without
        pods nothing is known."""
        if len(job.tasks) == 1 and job.counts[_PENDING]:  # most jobs of a long line
            (task,) = job.tasks.values()
            return not task.gated and self.room(task).fit == 0
        tasks = self._session.pending_tasks(job)
        if not tasks:
            return False
        missing = missing_pods(job)
        return bool(self.shortfalls(job, tasks, missing)) or self.beyond_cluster(job, tasks, missing) is not None

    def shortfalls(self, job: Job, tasks: Sequence[Task], missing: int) -> list[Shortfall]:
        """The kinds of pods of which a job needs more than fit. `tasks`: all that may be placed, in order; `missing`:
        how many of them must be."""
        found = []
        for task, number in self._needed(job, tasks, missing):
            room, with_running = self.room(task), number + _running_alike(job, task)
            if room.fit == 0 or (job.min_available > 1 and missing > 1 and with_running > room.fit):
                found.append(Shortfall(room, with_running))
        return found

    def beyond_cluster(self, job: Job, tasks: Sequence[Task], missing: int) -> tuple[str, int, int] | None:
        """(resource, requested, what there is), if all nodes together have too little for the different kinds of pods
        that a job needs."""
        needed, whole = self._needed(job, tasks, missing), self._session.axis.zeros()
        if len(needed) < 2:
            return None  # they were counted node by node
        for task, number in needed:
            whole += task.request * number
        return first_beyond_cluster(self._session, job, whole)

    def _needed(self, job: Job, tasks: Sequence[Task], missing: int) -> list[tuple[Task, int]]:
        """The kinds of pods that a job cannot start without, by their first one, and how many of each."""
        kinds = self._session.placement.kinds
        if missing >= len(tasks):
            return kinds(tasks)
        alike = kinds(tasks)
        if len(alike) == 1:
            return [(tasks[0], missing)]
        needed: list[tuple[Task, int]] = []
        for role, least in job.role_minimums.items() if job.roles_matter else ():
            short = least - job.role_occupied(role)
            members = [task for task in tasks if task.role == role]
            if short > 0 and members and len(kinds(members)) == 1:
                needed.append((members[0], min(short, len(members))))
        return needed  # beyond the minimums of its roles, it may start with any of its pods

    def _look(self, task: Task) -> EmptyRoom:
        session, request = self._session, task.request
        usable = ~self._ruled_out(task)
        if not usable.any():
            return EmptyRoom(0, 0, None)
        offered, columns = session.nodes.allocatable[usable], np.flatnonzero(request)
        each = (offered[:, columns] // request[columns]).min(axis=1)
        most, names = offered.max(axis=0), session.axis.by_name()
        too_large = [
            (*task.shape.shown(name, column), int(most[column]))
            for name, column in names
            if column != PODS and request[column] > most[column]
        ]
        return EmptyRoom(int(usable.sum()), int(np.maximum(each, 0).sum()), min(too_large, default=None))

    def _ruled_out(self, task: Task) -> npt.NDArray[np.bool_]:
        """By row, whether there is a lasting reason. Filters with a key answer for a task, not for its shape; they are
        about volumes and neighbours, which come and go."""
        session = self._session
        out = np.zeros(len(session.nodes), dtype=np.bool_)
        for hook in session.filters:
            judge = hook.prepare(task) if hook.scope is Scope.STATIC and not hook.live and hook.key is None else None
            if judge is not None:
                answers = judge(session.placement.all_rows)
                out |= np.isin(answers, self._reasons(Code.PREDICATE_NODE_AFFINITY))
                # Of several taints, the filter names one; it may be any of them.
                tainted = np.isin(answers, self._reasons(Code.PREDICATE_TAINT_TOLERATION))
                out[[row for row in np.flatnonzero(tainted).tolist() if not self._is_away(row)]] = True
        return out

    def _reasons(self, code: str) -> list[int]:
        return [number for number, reason in enumerate(self._session.node_reasons, start=1) if reason.code == code]

    def _is_away(self, row: int) -> bool:
        """Whether Kubernetes has tainted a node, for a reason that may go away."""
        taints = self._session.nodes.nodes[row].object.spec.taints
        return any(taint.key.startswith(names.LIFECYCLE_TAINTS) for taint in taints)


def missing_pods(job: Job) -> int:
    """How many pods must get a node for the job to start, or to grow if it runs. What a job has tentatively does not
    count as started."""
    return max(1, job.min_available - (job.ready_count - job.counts[_ALLOCATED]))


def first_beyond_cluster(session: Session, job: Job, whole: Vector) -> tuple[str, int, int] | None:
    """(resource, requested, what there is) for the first resource of which the cluster has less than the job needs."""
    found = [
        (name, int(whole[column]), int(session.total[column]))
        for name, column in session.axis.by_name()
        if column not in (PODS, UNOFFERED) and whole[column] > session.total[column]
    ]
    if whole[UNOFFERED] and (first := job.first_unoffered) is not None:
        found.append((*first, 0))
    return min(found, default=None)


def _running_alike(job: Job, task: Task) -> int:
    """Pods of the gang that already have a node, and would need their room also on empty nodes."""
    if job.ready_count == 0:
        return 0
    return sum(other.true_status in OCCUPYING and other.shape is task.shape for other in job.tasks.values())
