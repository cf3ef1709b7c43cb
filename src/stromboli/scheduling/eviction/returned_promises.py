"""Jobs that gave back what they were promised, and evict nobody until those who left for it are gone.

Pods were evicted for such a job in vain. If it looked for others at once, a node that comes and goes would cost one set
of victims after the other. So it waits until the room that it gave back is free: perhaps it fits then.

A condition of the PodGroup (or of the Reservation) says so, and until when at the latest: the time at which the last of
its victims has to be gone. So a restart changes nothing, and a victim that never goes stops nobody. Whoever writes such
a condition to a group of his own only makes his own job wait.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

import numpy as np

from stromboli.api import Condition, PodGroupCondition
from stromboli.api.timestamps import format_timestamp, parse_timestamp
from stromboli.cluster import Job, JobKey, Status, Task
from stromboli.scheduling.callbacks import GroupCondition
from stromboli.scheduling.explanation.gang_reasons import promise_returned
from stromboli.scheduling.session import Session

PROMISE: Final = "Promise"
"""The type of the condition."""
RETURNED: Final = "Returned"
"""Its reason."""

_USUAL_GRACE = 30.0  # seconds, as in Kubernetes
_TIME = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+Z")


class ReturnedPromises:
    def __init__(self, session: Session) -> None:
        self._session = session
        self._returned: dict[JobKey, float] = {}  # in this session, and when the last victim has to be gone

    def add(self, job: Job, nodes: set[str]) -> None:
        """A job gave back its room on these nodes. Those who leave a node that is lost make no room, so it does not
        wait for them."""
        table = self._session.nodes
        rows = [table.by_name[name] for name in nodes if name in table.by_name]
        leaving = [t for node in rows if node.ready for t in node.tasks.values() if t.status is Status.RELEASING]
        if leaving:
            self._returned[job.key] = max(self._gone_at(task) for task in leaving)

    def until(self, job: Job) -> float | None:
        """Until when a job evicts nobody; None if it may."""
        latest = self._returned.get(job.key)
        if latest is None:
            latest = _written(self._session, job)
        if latest is None or self._session.now > latest or not self._any_leaves(latest):
            return None
        self._session.due(latest)
        return latest

    def _any_leaves(self, latest: float) -> bool:
        """Whether somebody is still there who must have left by then. That may be others than those of the job: who
        left for whom is not written down."""
        table = self._session.nodes
        rows = np.flatnonzero(table.releasing.any(axis=1)).tolist()
        nodes = [table.nodes[row] for row in rows if table.nodes[row].ready]
        return any(
            task.status is Status.RELEASING and self._gone_at(task) <= latest
            for node in nodes
            for task in node.tasks.values()
        )

    def _gone_at(self, task: Task) -> float:
        written = task.pod.metadata.deletion_timestamp
        if written is not None:
            return parse_timestamp(written)
        grace = task.pod.spec.termination_grace_period_seconds  # the eviction is on its way
        return self._session.now + (_USUAL_GRACE if grace is None else grace)


def returned_conditions(session: Session, job: Job) -> Iterator[GroupCondition]:
    """The group's condition, while it evicts nobody."""
    until = session.state(ReturnedPromises).until(job)
    if until is not None:
        yield GroupCondition(PROMISE, RETURNED, promise_returned(format_timestamp(until)))


def _written(session: Session, job: Job) -> float | None:
    conditions: Iterable[PodGroupCondition | Condition]
    if job.stands_for:
        conditions = session.snapshot.reservations[job.stands_for].status.conditions
    else:
        assert job.object is not None
        conditions = job.object.status.conditions
    for condition in conditions:
        if condition.type == PROMISE and condition.reason == RETURNED and (found := _TIME.search(condition.message)):
            return parse_timestamp(found[0])
    return None
