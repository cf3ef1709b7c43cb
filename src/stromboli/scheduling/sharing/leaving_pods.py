"""Pods that terminate: they still use their nodes, so they count wherever something is to start.

What a terminating pod leaves is promised at once, and whoever chooses victims counts it as gone. But if its queue could
start as much again before it is gone, the queue would use more than its capability for as long as pods take to
terminate. The same holds for what others are guaranteed, and for the order of namespaces.

Two do not count. On a node that is not ready nobody reports that a pod is gone, so it counts until the time when it
should be. And a pod that is being moved is charged once: with the place of its successor.
"""

from __future__ import annotations

from stromboli.api.reservations import AVAILABLE, SUCCEEDED
from stromboli.api.timestamps import parse_timestamp
from stromboli.cluster import Queue, Status, Task, Vector
from stromboli.scheduling.session import Session


class LeavingPods:
    def __init__(self, session: Session) -> None:
        self._session = session
        self._releasing = session.ledger.releasing
        self._nothing = session.axis.zeros()
        self._excused: dict[tuple[str, str], Vector] = {}  # by queue and namespace
        if self._releasing:
            moved = _moved(session)
            for task in self._releasing.values():
                if task.job is not None and (task.uid in moved or _is_lost(session, task)):
                    key = (task.job.queue.name, task.job.namespace)
                    self._excused[key] = self._excused.get(key, self._nothing) + task.request

        self.use = QueueUse(session, self)

    def everywhere(self, column: int) -> int:
        """What terminating pods of all queues use of one resource."""
        return sum(int(self.of(queue)[column]) for queue in self._session.queues.values() if queue.leaving_in)

    def of(self, queue: Queue) -> Vector:
        """What terminating pods of a queue use."""
        return sum((self.inside(queue, namespace) for namespace in queue.leaving_in), start=self._nothing)

    def promised(self, queue: Queue) -> Vector:
        """What tasks of a queue are promised that wait for pods to leave. It counts in the queue's allocation, and so
        do the pods: where something is to start, only one of the two is there."""
        waiting = [
            task.request
            for task in self._session.ledger.tentative.values()
            if task.status is Status.PIPELINED and task.job is not None and task.job.queue is queue
        ]
        return sum(waiting, start=self._nothing)

    def inside(self, queue: Queue, namespace: str) -> Vector:
        """The same, of one namespace in it."""
        leaving = queue.leaving_in.get(namespace)
        if leaving is None:
            return self._nothing
        excused = self._excused.get((queue.name, namespace))
        return leaving if excused is None else leaving - excused


class QueueUse:
    """What queues have, together with their pods that terminate. The sum of all is kept, and what changed since the
    last look is added."""

    def __init__(self, session: Session, leaving: LeavingPods) -> None:
        self._queues = session.queues
        self._leaving = leaving
        self._changed = session.ledger.views.queues()
        self._known: dict[str, list[int]] = {}
        self._all: list[int] = session.axis.zeros().tolist()

    def of(self, queue: Queue) -> list[int]:
        self._catch_up()
        return self._known[queue.name]

    def of_all(self) -> list[int]:
        self._catch_up()
        return self._all

    def _catch_up(self) -> None:
        is_new, changed = self._changed.is_new, self._changed.news()
        for queue in self._queues.values() if is_new else dict.fromkeys(changed):
            if queue.name in self._queues:
                has: list[int] = (queue.allocated + self._leaving.of(queue)).tolist()
                before = self._known.get(queue.name) or [0] * len(has)
                self._all = [total + now - then for total, now, then in zip(self._all, has, before, strict=True)]
                self._known[queue.name] = has


def _moved(session: Session) -> set[str]:
    """The uids of pods whose successors have a place that counts."""
    return {
        reservation.spec.replaces.uid
        for reservation in session.snapshot.reservations.values()
        if reservation.spec.replaces is not None and reservation.status.phase in (AVAILABLE, SUCCEEDED)
    }


def _is_lost(session: Session, task: Task) -> bool:
    """Whether the pod should be gone by now, and nobody can tell."""
    deadline = task.pod.metadata.deletion_timestamp
    if task.node is None or task.node.ready or deadline is None:
        return False
    until = parse_timestamp(deadline)
    if session.now < until:
        session.due(until)
        return False
    return True
