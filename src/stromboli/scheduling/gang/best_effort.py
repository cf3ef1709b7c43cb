"""Gangs that count on BestEffort tasks.

A BestEffort task asks for nothing, so a gang is called ready while such tasks are still pending: there is always
room for them. Almost always: a node takes only so many pods, and a selector or taint may shut a pod out. So before a
gang is started that counts on BestEffort tasks to reach its minimum, those it counts on are placed with it, in the
same statement; if they cannot be, the gang does not start.
"""

from __future__ import annotations

from stromboli.cluster import Job
from stromboli.scheduling.session import Session
from stromboli.scheduling.statement import Statement

from .home_domain import home_domain
from .readiness import complete


def complete_with_best_effort(session: Session, statement: Statement, job: Job) -> bool:
    """True if the job reaches its minimum without counting on tasks that have no node. Without a plugin that says when
    a job is ready there are no gangs, and every job is complete."""
    if not session.points.job_ready:
        return True
    roles_short = job.roles_matter and any(
        job.role_occupied(role) - job.role_pending_best_effort.get(role, 0) < minimum
        for role, minimum in job.role_minimums.items()
    )
    if job.ready_count >= job.min_available and not roles_short:
        return True
    for task in session.pending_tasks(job):
        if not task.best_effort:
            continue
        fitting = session.placement.fitting(task)
        with session.inside(home_domain(session, task)):
            rows = fitting.choose(task, 1, session.placement.room_now())
        if not rows or not statement.allocate(task, session.nodes.nodes[rows[0]]):
            session.notes.of(job).blocked = task
            return False
        if complete(job):
            return True
    return complete(job)
