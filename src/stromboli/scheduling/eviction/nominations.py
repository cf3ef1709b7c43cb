"""Promises kept from one cycle to the next.

When pods are evicted for a task, the task is nominated to their node, and the nomination outlives the session (it is
written to the pod). Until the task is placed, every session begins by promising it that room again, so that neither
the evicted pods' successors nor anybody else takes it, and nobody is evicted a second time for the same task.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stromboli.cluster import Job, JobKey
from stromboli.scheduling.statement import Statement

if TYPE_CHECKING:
    from stromboli.scheduling.session import Session


def honour_nominations(session: Session) -> dict[JobKey, Statement]:
    """Pipeline nominated tasks onto their nodes; a nomination that cannot come true any more is withdrawn.
    Returns the statements that keep the room, one per job, neither committed nor discarded."""
    promised: dict[JobKey, Statement] = {}
    jobs: dict[JobKey, Job] = {}
    for task in session.ledger.nominated.values():
        if task.job is not None:
            jobs[task.job.key] = task.job
    for job in sorted(jobs.values(), key=session.job_key):
        statement = session.statement()
        if hold(session, statement, job):
            promised[job.key] = statement
    return promised


def hold(session: Session, statement: Statement, job: Job) -> bool:
    """Promise the nominated tasks of a job their rooms; False if none of them can have it."""
    for task in session.pending_tasks(job):
        if not task.nominated:
            continue
        node = session.nodes.by_name.get(task.nominated)
        possible = (
            node is not None
            and job.queue.open
            and session.placement.fitting(task, ahead=True).takes(
                node.row, session.nodes.future_idle_of(node.row)
            )
        )
        if not possible or node is None or not statement.pipeline(task, node):
            session.ledger.nominate(task, "")
    return bool(statement.operations)
