"""Jobs of one pod, placed without what only gangs need.

There may be thousands of them, mostly alike, and for each the way of a gang costs several times more than to choose its
node. So their nodes are chosen for several at once, and as long as nothing else changes in between, each gets the next
one: that is what it would get if it were alone.

Only what succeeds is decided here. A job that finds an obstacle goes the way of all others, which also explains it.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final

from stromboli.cluster import Job, Status, Task
from stromboli.scheduling.decisions import Bind
from stromboli.scheduling.session import Session

MOST_AT_ONCE: Final = 256
_PENDING: Final = Status.PENDING  # a member of an enumeration takes long to find


class SmallJobs:
    def __init__(self, session: Session) -> None:
        self._session = session
        # Nodes for tasks with this key, the next one last; as of this length of the ledger's log.
        self._rows: list[int] = []
        self._key: Hashable = None
        self._at = -1
        self._at_once = 1

    def place(self, job: Job) -> bool:
        """Whether the job was placed."""
        if len(job.tasks) != 1:
            return False
        (task,) = job.tasks.values()
        if not _is_small(job, task) or not self._is_allowed(job, task):
            return False
        row = self._next_row(job, task)
        if row is None:
            return False
        session = self._session
        if session.notes.known(job) is not None:
            session.notes.attempt(job)
        node, ledger = session.nodes.nodes[row], session.ledger
        ledger.bind(task, node)
        self._at = len(ledger.log)
        if task.uses:
            ledger.set_use(task, "")
        session.cycle.decisions.append(Bind(task.key, node.name, job.key, task.backfill))
        return True

    def _is_allowed(self, job: Job, task: Task) -> bool:
        session = self._session
        if not session.may_batch(job, placing=True) or session.books.own_rows(task) is not None:
            return False
        return session.allocatable(job.queue, task.shape.request, job=job) is None and bool(session.startable(task))

    def _next_row(self, job: Job, task: Task) -> int | None:
        """A node with idle resources that nothing is kept from this job on."""
        placement, nodes = self._session.placement, self._session.nodes
        if placement.room_now(job) is not nodes.idle:
            return None
        key = placement.key(task)
        if not self._rows or key != self._key or self._at != len(self._session.ledger.log):
            # The more have been alike so far, the more will be.
            self._at_once = min(2 * self._at_once, MOST_AT_ONCE) if key == self._key and not self._rows else 1
            self._key = key
            fitting = placement.fitting(task)
            chooses_once = not fitting.alone and not fitting.known_to_fail
            self._rows = fitting.choose(task, self._at_once, nodes.idle)[::-1] if chooses_once else []
        return self._rows.pop() if self._rows else None


def _is_small(job: Job, task: Task) -> bool:
    if job.min_available > 1 or job.stands_for or job.layout is not None:
        return False
    return task.status is _PENDING and not (task.gated or task.nominated or task.shape.best_effort)
