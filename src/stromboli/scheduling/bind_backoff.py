"""Retries a refused bind: later, and on another node if one fits.

`cluster.refused_bind` says when. Until then the task fits on no node, or not on those that were refused. Its job says
who refused what, and when the next attempt is made.
"""

from __future__ import annotations

import numpy as np

from stromboli.api.timestamps import format_timestamp
from stromboli.cluster import Job, JobKey, Status, Task, TaskKey

from .callbacks import NodeFilter, ReasonIds, Rows, Scope
from .explanation import Code
from .explanation.node_reasons import BIND_REFUSED
from .explanation.reasons import bind_refused
from .session import Session

FEATURE = "bind_backoff"
"""The name under which the feature registers its callbacks."""


def open_bind_backoff(session: Session) -> None:
    if not session.ledger.refused_binds:
        return

    def prepare(task: Task) -> NodeFilter | None:
        refused = task.refused
        if refused is None:
            return None
        reason = session.reason_id(BIND_REFUSED)
        verdicts = np.zeros(len(session.nodes), dtype=np.int32)
        if refused.until > session.now:
            verdicts[:] = reason
            session.due(refused.until)
        else:
            for node, until in refused.avoided(session.now).items():
                known = session.nodes.by_name.get(node)
                if known is not None:
                    verdicts[known.row] = reason
                    session.due(until)

        def judge(rows: Rows) -> ReasonIds:
            return verdicts[rows]

        return judge

    def key(task: Task) -> TaskKey | None:
        return None if task.refused is None else task.key

    with session.registering(FEATURE, tier=len(session.configuration.tiers)):
        session.add_filter(prepare, scope=Scope.STATIC, key=key)
        session.add_close(lambda: _say_refusals(session))


def _say_refusals(session: Session) -> None:
    jobs: dict[JobKey, tuple[Job, list[Task]]] = {}
    for _, task in sorted(session.ledger.refused_binds.items()):
        if task.job is not None and task.status is Status.PENDING:
            jobs.setdefault(task.job.key, (task.job, []))[1].append(task)
    for job, tasks in jobs.values():
        first = tasks[0]
        assert first.refused is not None
        known = first.refused
        retry = format_timestamp(known.until) if known.until > session.now else ""
        sentence = bind_refused(first.key, known.node, known.why, known.failures, len(tasks) - 1, retry)
        session.notes.of(job).said[Code.BIND_REFUSED] = sentence
