"""Setting room aside for a job as a whole, in a statement that may be discarded.

Siblings that were given a place count as neighbours already. So two pods that may not be in one zone are never promised
the same zone, nor two that use one host port the same node. Pods without requests get no reservation, but need a slot.
"""

from __future__ import annotations

from dataclasses import dataclass

from stromboli.cluster import Job, Status
from stromboli.scheduling.gang import condition_ready
from stromboli.scheduling.session import Session
from stromboli.scheduling.statement import Statement

from .drained_queue import over_quota
from .node_choice import NodeChoice


@dataclass(slots=True)
class Attempt:
    statement: Statement
    complete: bool  # with what was set aside, the job can start
    found: int  # tasks that have or would get a place
    missing: int  # tasks that must start together and have none yet
    over_limit: int = 0  # for how many tasks only the limit on nodes stood in the way
    short: str = ""  # why the first task that found no node found none


def place_as_a_whole(session: Session, job: Job, statement: Statement, choice: NodeChoice) -> Attempt:
    attempt = Attempt(statement, False, 0, max(0, job.min_available - job.ready_count))
    without_requests = []
    for task in session.pending_tasks(job):
        if task.best_effort:
            without_requests.append(task)
            continue
        if condition_ready(job):
            break
        if task.status is Status.RESERVED:
            continue
        row, limited = choice.row_for(task)
        if row is None:
            attempt.over_limit += limited
            if not attempt.short and not limited:
                attempt.short = choice.why_not(task)
            continue
        statement.reserve(task, session.nodes.nodes[row])
        choice.take(row)
    attempt.found = job.counts[Status.RESERVED]
    attempt.complete = condition_ready(job)
    lacking = without_requests[: max(0, attempt.missing - attempt.found - job.waiting_count)]
    if attempt.complete and lacking and not choice.has_slots(lacking):
        attempt.complete, attempt.short = False, choice.why_not(lacking[0])
    if attempt.complete:
        reserved = [task.request for task in job.tasks.values() if task.status is Status.RESERVED]
        attempt.complete = over_quota(session, job, sum(reserved, start=session.axis.zeros())) is None
    return attempt
