"""Rule 8. Who may use a reserved node.

With `scope: node` a node with reserved room takes no new pods of other jobs, with `scope: amount` only what is set
aside is kept from them.

A gang that lacks pods and has others on such a node would never leave before it has all of them, and the two would wait
for each other. So it may be completed there, also from what queue and namespace keep for the holder, unless the
holder's priority is higher.
"""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np

from stromboli.cluster import PODS, Job, JobKey, Matrix, Status, Task
from stromboli.scheduling.callbacks import NodeFilter, ReasonIds, Rows, Scope
from stromboli.scheduling.explanation.display_names import display_name
from stromboli.scheduling.explanation.node_reasons import reserved_for
from stromboli.scheduling.gang import is_half_gang, reserved_tasks
from stromboli.scheduling.session import Session

from .holders import holders, reserved_rows
from .reserve_arguments import Starvation

_ON_NODES = frozenset({Status.BINDING, Status.BOUND, Status.RUNNING})


def close_reserved_nodes(session: Session) -> None:
    """Nodes with reserved room take no new pods of others, but for pods that ask for nothing, and for pods that were
    promised their place there before: somebody was evicted for them.

    The answer is worked out anew whenever anything about reservations changes, once for all who hold nothing, and costs
    nothing while there are none: who has which nodes is part of what makes tasks alike. Attempts that are undone leave
    it as it was, so what was found out before them still holds.
    """
    at_open = session.state(Starvation).reserved_at_open
    holders_at_open = {task.job.key for task in at_open if task.job is not None}
    closed = _ClosedRows(session)

    def prepare(task: Task) -> NodeFilter | None:
        if task.best_effort or not (session.ledger.reserved_tasks or at_open):
            return None
        verdicts = closed.refusals
        own = own_rows(task.job) + rows_to_complete(session, task.job)
        if (promised := session.nodes.by_name.get(task.nominated)) is not None:
            own.append(promised.row)
        if own:
            verdicts = verdicts.copy()
            verdicts[own] = 0

        def judge(rows: Rows) -> ReasonIds:
            return verdicts[rows]

        return judge

    def own_rows(job: Job | None) -> list[int]:
        if not is_holder(job):
            return []
        assert job is not None
        return [row for row, jobs in reserved_rows(session).items() if job.key in jobs]

    def is_holder(job: Job | None) -> bool:
        return job is not None and (job.counts[Status.RESERVED] > 0 or job.key in holders_at_open)

    def key(task: Task) -> tuple[int, JobKey | None, str]:
        if not session.ledger.reserved_tasks and not at_open:  # all nodes are open, whoever comes
            return (closed.layout, None, "")
        job = task.job
        own = job.key if job is not None and (is_holder(job) or rows_to_complete(session, job)) else None
        return (closed.layout, own, task.nominated)

    session.add_filter(prepare, scope=Scope.STATIC, depends_on=key, live=lambda: closed.layout)


def rows_to_complete(session: Session, job: Job | None) -> list[int]:
    """Nodes that are set aside for others, and on which this job may be completed."""
    if job is None or not session.ledger.reserved_tasks or not is_half_gang(job):
        return []
    own, priorities = _own_rows(job), {key: holder.priority for key, holder in holders(session).items()}
    return [
        row
        for row, keys in sorted(reserved_rows(session).items())
        if row in own and all(priorities[key] <= job.priority for key in keys)
    ]


def waits_for(session: Session, holder: Job, job: Job) -> bool:
    """Whether a holder waits until pods of this job leave its nodes, and the job lacks others."""
    if holder.priority > job.priority or not is_half_gang(job):
        return False
    own = _own_rows(job)
    return any(row in own and holder.key in keys for row, keys in reserved_rows(session).items())


def _own_rows(job: Job) -> set[int]:
    return {task.node.row for task in job.tasks.values() if task.node is not None and task.status in _ON_NODES}


class _ClosedRows:
    """Whose the nodes with reserved room are, and what jobs that hold nothing are told about them. Read again when
    reservations change."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._reserved = session.ledger.views.reserved()
        self._layout = 0
        self._layouts: dict[Hashable, int] = {}  # by who owns what
        self._refusals: dict[int, ReasonIds] = {}  # by layout

    @property
    def layout(self) -> int:
        """Of who owns what. It is the same again when a trial was undone."""
        if self._reserved.changed():
            rows = reserved_rows(self._session)
            owners = frozenset([(row, frozenset(jobs)) for row, jobs in rows.items()])
            self._layout = self._layouts.setdefault(owners, len(self._layouts))
        return self._layout

    @property
    def refusals(self) -> ReasonIds:
        """By row."""
        layout = self.layout
        known = self._refusals.get(layout)
        if known is None:
            session = self._session
            known = self._refusals[layout] = np.zeros(len(session.nodes), dtype=np.int32)
            names = {key: display_name(job) for key, job in holders(session).items()}
            for row, jobs in reserved_rows(session).items():
                known[row] = session.reason_id(reserved_for(names[key] for key in jobs))
        return known


def room_for_others(session: Session, room: Matrix, job: Job | None, *, only_pods: bool) -> Matrix:
    """`room` less what is set aside for jobs other than this one. `only_pods`: nodes are closed as a whole to all but
    pods without requests; those may not use up the number of pods that the node takes."""
    if not session.ledger.reserved_tasks:
        return room
    reserved = session.nodes.reserved.copy()
    if job is not None and job.counts[Status.RESERVED]:
        for task in reserved_tasks(job):
            if task.node is not None:
                reserved[task.node.row] -= task.request
    reserved[rows_to_complete(session, job)] = 0
    if only_pods:
        number = reserved[:, PODS].copy()
        reserved[:] = 0
        reserved[:, PODS] = number
    return room - np.minimum(np.maximum(room, 0), reserved)
