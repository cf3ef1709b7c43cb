"""Overcommit: how many jobs the cluster as a whole admits.

If every job were admitted at once, the API server would fill with pods that cannot start. If only jobs were admitted
that fit now, resources would stay idle after each job that ends. So the cluster promises a little more than it has:
`overcommit-factor` times its capacity, minus what is used, minus what was promised already.

What a job could take from others does not keep it from being admitted: with the action reclaim, if its queue stays
within its deserved share; with the action preempt, what jobs of lower priority in its queue hold, pods above their
minimum included. A job that is not admitted could never reclaim or preempt anything.

Only sums count here. Whether the pods fit on nodes is decided by allocate.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Final

import numpy as np

from stromboli.cluster import PODS, Job, Matrix, QueueName, Vector
from stromboli.scheduling.callbacks import Refusal, Vote
from stromboli.scheduling.configuration.arguments import Arguments
from stromboli.scheduling.explanation import Code
from stromboli.scheduling.plugin import Plugin
from stromboli.scheduling.session import Session
from stromboli.scheduling.sharing import AdmissionPromises

_DEFAULT_FACTOR: Final = 1.2


class Overcommit(Plugin):
    name = "overcommit"

    def __init__(self, arguments: Arguments) -> None:
        given = arguments.number("overcommit-factor", _DEFAULT_FACTOR)
        if given < 1:  # would never fill the cluster, but existing files have such values
            given = _DEFAULT_FACTOR
        self._factor = Fraction(str(given))  # 1.2 exactly, not the nearest float
        self._factor_text = "" if given == 1 else f"{given:g}"

    def open(self, session: Session) -> None:
        self._session = session
        self._promises = session.state(AdmissionPromises)
        self._used = session.axis.zeros()
        self._rows = session.ledger.views.rows()
        self._columns = [(name, column) for name, column in session.axis.by_name() if column != PODS]
        nodes = session.nodes
        offered = nodes.allocatable - nodes.foreign
        self._promisable = self._times_factor(offered[nodes.takes_pods])
        self._ever = self._times_factor(offered)  # if all nodes took pods
        self._all = self._times_factor(nodes.allocatable)  # and no pods were outside of queues
        session.add_job_enqueueable(self._has_room, all_at_once=self._has_room_for_all)

    def _times_factor(self, offered: Matrix) -> list[int]:
        return [int(amount * self._factor) for amount in offered.sum(axis=0).tolist()]

    def _has_room(self, job: Job) -> Vote | Refusal:
        if job.min_resources is None:
            return Vote.PERMIT
        if self._may_reclaim(job) or self._is_guaranteed(job):
            return Vote.PERMIT
        answer = self._fits(job, job.min_resources, 0)
        credit = 0 if answer is Vote.PERMIT else self._session.admission_credit(job, None)
        return answer if isinstance(credit, int) else self._fits(job, job.min_resources, credit)

    def _fits(self, job: Job, wanted: Vector, credit: Vector | int) -> Vote | Refusal:
        """`credit`: what counts as used and is there for this job."""
        free = self._preemptable(job) + credit
        committed = (self._in_use() + self._promises.promised_everywhere() - free).tolist()
        minimum = wanted.tolist()
        for name, column in self._columns:
            need = minimum[column]
            left = self._promisable[column] - committed[column]
            if need > 0 and need > left:
                return Refusal(
                    Code.INSUFFICIENT_NODE,
                    resource=name,
                    need=need,
                    have=max(left, 0),
                    total=self._promisable[column],
                    kept=int(self._promises.promised_everywhere()[column]),
                    closed=max(self._ever[column] - self._promisable[column], 0),
                    outside=max(self._all[column] - self._ever[column], 0),
                    factor=self._factor_text,
                )
        return Vote.PERMIT

    def _has_room_for_all(self, minimums: Mapping[QueueName, list[int]]) -> bool:
        held = (self._in_use() + self._promises.promised_everywhere()).tolist()
        need = [sum(amounts) for amounts in zip(*minimums.values(), strict=True)]
        return not any(
            need[column] > 0 and held[column] + need[column] > self._promisable[column] for _, column in self._columns
        )

    def _may_reclaim(self, job: Job) -> bool:
        deserved = self._session.deserved.get(job.queue.name)
        return deserved is not None and self._session.has_action("reclaim") and self._stays_within(job, deserved)

    def _is_guaranteed(self, job: Job) -> bool:
        """Whether the job stays within what its queue is guaranteed: that is kept for it even if the cluster is
        full."""
        guarantee = self._session.books.guarantee(job.queue)
        return bool(guarantee.any()) and self._stays_within(job, guarantee)

    def _stays_within(self, job: Job, limits: Vector) -> bool:
        assert job.min_resources is not None
        need, most = job.min_resources.tolist(), limits.tolist()
        held = (job.queue.occupied + self._promises.promised(job.queue)).tolist()
        return all(held[column] + need[column] <= most[column] for _, column in self._columns if need[column] > 0)

    def _preemptable(self, job: Job) -> Vector | int:
        """What the job could take from others in its queue."""
        if not self._session.has_action("preempt"):
            return 0
        return self._promises.room_below(job, with_elastic=True)

    def _in_use(self) -> Vector:
        """What pods of queues use, and what is held, on nodes that take pods. Thousands of jobs may ask, so it is
        computed again only after a change."""
        if self._rows.changed():
            nodes = self._session.nodes
            used = (nodes.used - nodes.foreign)[nodes.takes_pods].sum(axis=0)
            self._used = np.asarray(used, dtype=np.int64)
        return self._used
