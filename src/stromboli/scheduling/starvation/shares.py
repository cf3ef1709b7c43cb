"""Rule 10. What shares say.

Nodes drain at the cost of others. A namespace at its part would be given nodes and lose them again as soon as they
drain, so before they are set aside the others are counted without what would have to drain.

A job that is larger than the pods that the other namespace waits with would never get its turn so: while the nodes
drain, the other has less and less. So what has drained for it still counts as the other's; and before, if its namespace
has less than the other, only what would make room for the job is compared. Services do not make room, and pods on nodes
that nobody else waits for need not: a single such pod would pass every large job over for ever.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from stromboli.cluster import SHARED, Job, Queue, Status, Task, Vector
from stromboli.scheduling.callbacks import NamespaceShares
from stromboli.scheduling.session import Session

from .drained_room import WAITS, DrainedRoom
from .holders import is_known_not_to_start, reserved_by_row, usable_rows, wanted
from .turn_length import turn_began


def above_deserved(session: Session, job: Job) -> bool:
    """Strictly more than the queue deserves, in something the job requests. A job that has reserved nodes does not lose
    them because others have nodes locked since then."""
    deserved = session.deserved.get(job.queue.name)
    if deserved is not None and job.counts[Status.RESERVED]:
        before = session.books.deserved_before(job.queue, turn_began(session, job))
        deserved = deserved if before is None else before
    if deserved is None:
        return False
    requested = wanted(job) > 0
    return bool(((job.queue.allocated > deserved) & requested & (session.divisible > 0)).any())


class NamespaceParts:
    """Which namespaces of a queue have more than their part: another one waits for the same nodes with less.

    There is one comparison (`_behind`). Who asks says when, as the amounts are those of that time:

    above_part                 for a job that holds nodes, or could start: now
    above_part_on              the same, for nodes from which pods would be moved
    above_part(to_drain=True)  before nodes are set aside: when what has to drain for the job has drained
    stays_above_part           the same, when all pods of its namespace that end have ended
    takes_part_of              the same, when another job of its namespace has started
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._waiting: dict[str, dict[str, dict[Hashable, Task]]] | None = None  # by queue, namespace, kind of task
        self._competing: dict[Hashable, bool] = {}
        self._usable: dict[tuple[str, str], npt.NDArray[np.bool_]] = {}  # by queue and namespace

    def above_part(self, job: Job, *, to_drain: bool = False) -> bool:
        """Whether another namespace waits with less for nodes that the job could use."""
        return any(self._competes(name, job) for name in self._behind(job, to_drain=to_drain))

    def above_part_on(self, job: Job, rows: npt.NDArray[np.bool_]) -> bool:
        """Whether another namespace waits with less for one of these nodes."""
        return any((self._usable_by(job.queue, name) & rows).any() for name in self._behind(job, to_drain=False))

    def stays_above_part(self, job: Job) -> bool:
        """Whether the namespace will be above its part for the job even when all its pods that end have ended."""
        if not self.others_wait(job):
            return False
        stays = self._session.state(DrainedRoom).stays_in_namespace(job)
        return any(self._competes(name, job) for name in self._behind(job, to_drain=True, stays=stays))

    def takes_part_of(self, job: Job, other: Job, request: Vector) -> bool:
        """Whether the namespace of both would be above its part for `job` if `other` started, and what `other` would
        use is of use to the namespace that is behind."""
        behind = self._behind(job, to_drain=True, more=request)
        return any(self._competes(name, job) and self._competes(name, other) for name in behind)

    def _behind(
        self, job: Job, *, to_drain: bool, stays: Vector | None = None, more: Vector | None = None
    ) -> Iterator[str]:
        """Namespaces of its queue that wait with less than the job's. `stays`: what that one will have left, if not
        what it has now; `more`: what it would get besides."""
        session, queue = self._session, job.queue
        shares, others = session.namespace_shares, self._others_waiting(job)
        if shares is None or not others:
            return
        more = session.axis.zeros() if more is None else more
        mine = _weighted(shares, job.namespace, (self._held(queue, job.namespace) if stays is None else stays) + more)
        # What has drained for the job already, or what has to drain for it at least.
        drains = self._beyond_idle(job) if to_drain else _drained_for(session, job)
        for namespace in others:
            held, is_larger, part = self._held(queue, namespace), self._is_larger(job, namespace), mine
            if not to_drain:
                theirs = held + drains if is_larger else held
            elif _weighted(shares, namespace, held - drains) >= mine:
                continue  # for speed: it has no less, whatever of that is on nodes that the job could use
            else:
                theirs = held - np.minimum(drains, self._held_on_nodes_of(job, namespace))
                if is_larger and mine < _weighted(shares, namespace, held):
                    makes_room = self._makes_room(job, namespace) if stays is None else session.axis.zeros()
                    part = _weighted(shares, job.namespace, makes_room + more)
            if _weighted(shares, namespace, theirs) < part:
                yield namespace

    def others_wait(self, job: Job) -> bool:
        """Whether other namespaces of its queue wait for anything. They are the same all through a session."""
        return bool(self._others_waiting(job))

    def _others_waiting(self, job: Job) -> list[str]:
        """Other namespaces of its queue in which something waits."""
        return sorted(namespace for namespace in self._waiting_in(job.queue) if namespace != job.namespace)

    def _is_larger(self, job: Job, namespace: str) -> bool:
        """Whether pods that a namespace waits with fit where the job does not."""
        request = wanted(job)
        return any(bool((task.request < request).any()) for task in self._waiting_in(job.queue)[namespace].values())

    def _makes_room(self, job: Job, namespace: str) -> Vector:
        """What other jobs of the job's own namespace have that would make room for it, and that another namespace
        could use: nobody has to leave what nobody else waits for."""
        own = [other for other in job.queue.jobs.values() if other.namespace == job.namespace and other is not job]
        tasks = [task for other in own if other.priority <= job.priority for task in other.tasks.values() if task.ends]
        return self._sum_on(self._usable_by(job.queue, namespace), tasks)

    def _held_on_nodes_of(self, job: Job, namespace: str) -> Vector:
        """What a namespace of the job's queue has on nodes that the job could use."""
        theirs = [other for other in job.queue.jobs.values() if other.namespace == namespace]
        rows = usable_rows(self._session, self._session.pending_tasks(job))
        return self._sum_on(rows, (task for other in theirs for task in other.tasks.values()))

    def _sum_on(self, rows: npt.NDArray[np.bool_], tasks: Iterable[Task]) -> Vector:
        """What these tasks use on these nodes."""
        used = (t.request for t in tasks if t.node is not None and t.status in SHARED and rows[t.node.row])
        return sum(used, start=self._session.axis.zeros())

    def _competes(self, namespace: str, job: Job) -> bool:
        """Whether a namespace of the job's queue waits for nodes that the job could use."""
        tasks = self._session.pending_tasks(job)
        signature = self._session.placement.signature
        kind = job.queue.name, namespace, job.namespace, frozenset(signature(task) for task in tasks)
        known = self._competing.get(kind)
        if known is None:
            theirs = self._usable_by(job.queue, namespace)
            known = self._competing[kind] = bool((usable_rows(self._session, tasks) & theirs).any())
        return known

    def _usable_by(self, queue: Queue, namespace: str) -> npt.NDArray[np.bool_]:
        """Nodes that waiting tasks of a namespace could use."""
        known = self._usable.get((queue.name, namespace))
        if known is None:
            known = usable_rows(self._session, self._waiting_in(queue)[namespace].values())
            self._usable[queue.name, namespace] = known
        return known

    def _beyond_idle(self, job: Job) -> Vector:
        """What has to drain for a job at least: it gets the emptiest of its nodes, as few as can hold it."""
        session, request = self._session, wanted(job)
        nodes = session.nodes
        rows = np.flatnonzero(usable_rows(session, session.pending_tasks(job)))
        columns = np.flatnonzero(request > 0)
        idle, offered = np.maximum(nodes.idle[rows], 0), nodes.allocatable[rows]
        emptiness = (idle[:, columns] / np.maximum(offered[:, columns], 1)).min(axis=1, initial=1.0)
        order = np.argsort(-emptiness, kind="stable")
        suffice = (offered[order].cumsum(axis=0)[:, columns] >= request[columns]).all(axis=1)
        few = order[: int(suffice.argmax()) + 1] if suffice.any() else order
        return np.asarray(np.maximum(request - idle[few].sum(axis=0), 0))

    def _held(self, queue: Queue, namespace: str) -> Vector:
        held = queue.by_namespace.get(namespace)
        return self._session.axis.zeros() if held is None else held

    def _waiting_in(self, queue: Queue) -> dict[str, dict[Hashable, Task]]:
        if self._waiting is None:
            self._waiting = {}
            for job in _waiting_jobs(self._session):
                tasks = _without_kept_places(self._session, job)
                if tasks:
                    kinds = self._waiting.setdefault(job.queue.name, {}).setdefault(job.namespace, {})
                    for task in tasks:
                        kinds.setdefault(self._session.placement.signature(task), task)
        return self._waiting.get(queue.name, {})


def _drained_for(session: Session, job: Job) -> Vector:
    """What is idle on nodes that are set aside for a job, up to what is set aside. Others would use it."""
    idle, aside = session.nodes.idle, reserved_by_row(job)
    drained = [np.minimum(np.maximum(idle[row], 0), amount) for row, amount in aside.items()]
    return sum(drained, start=session.axis.zeros())


def _waiting_jobs(session: Session) -> Iterator[Job]:
    """Jobs that wait for nodes, and could start."""
    enqueues = session.has_action("enqueue")
    for job in session.waiting:
        waits = job.queue.open and not (enqueues and job.phase == "Pending")
        if waits and not is_known_not_to_start(job):
            yield job


def _without_kept_places(session: Session, job: Job) -> list[Task]:
    """Tasks of a job that wait for nodes. One that has a Reservation to use waits for nobody, such as the successor of
    a pod that is moved: the job that it made room for must not lose its node because of it."""
    tasks = [task for task in job.tasks.values() if task.status in WAITS and not task.gated and not task.best_effort]
    kept = session.with_kept_places(tasks)
    if not kept:
        return tasks
    # Alike tasks have the same choices: as many of them as there are choices have a place.
    served = {task.key for _, task in kept[: min(number for number, _ in kept)]}
    return [task for task in tasks if task.key not in served]


def _weighted(shares: NamespaceShares, namespace: str, held: Vector) -> Fraction:
    return Fraction(shares.share(np.maximum(held, 0)), shares.weight(namespace))
