"""Gangs that count on BestEffort tasks.

A BestEffort task asks for nothing, so a gang is called ready while such tasks are still pending: there is always
room for them. Almost always: a node takes only so many pods, and a selector or taint may shut a pod out. So before a
gang is started that counts on BestEffort tasks to reach its minimum, those it counts on are placed with it, in the
same statement; if they cannot be, the gang does not start. Nor does a sub-group start in part for that.
"""

from __future__ import annotations

from stromboli.cluster import Job, Task
from stromboli.cluster.topology import SubGroup, sub_groups
from stromboli.scheduling.session import Session
from stromboli.scheduling.statement import Statement

from .home_domain import home_domain
from .readiness import complete
from .sub_group_line import WaitingTasks, missing_members, waiting_members


def complete_with_best_effort(session: Session, statement: Statement, job: Job) -> bool:
    """True if the job reaches its minimum without counting on tasks that have no node. Without a plugin that says when
    a job is ready there are no gangs, and every job is complete."""
    if not session.points.job_ready:
        return True
    if job.ready_count >= job.min_available and not _is_role_short(job):
        return True
    begun = set[SubGroup]()
    for task, group in _those_that_start(session, job):
        if not _place(session, statement, task):
            session.notes.of(job).blocked = task
            return False
        begun |= {group} if group is not None else set()
        if _is_complete(job, begun):
            return True
    return _is_complete(job, begun)


def _is_role_short(job: Job) -> bool:
    return job.roles_matter and any(
        job.role_occupied(role) - job.role_pending_best_effort.get(role, 0) < minimum
        for role, minimum in job.role_minimums.items()
    )


def _is_complete(job: Job, begun: set[SubGroup]) -> bool:
    """`begun`: sub-groups that must be whole as well."""
    return complete(job) and not any(map(missing_members, begun))


def _those_that_start(session: Session, job: Job) -> list[tuple[Task, SubGroup | None]]:
    """BestEffort tasks with their sub-groups, without those of which others have no place either."""
    tasks = [task for task in session.pending_tasks(job) if task.best_effort]
    line, of_task = WaitingTasks(job, tasks), sub_groups(job).of_task
    found = [(task, of_task.get(task.key)) for task in tasks]
    return [
        (task, group)
        for task, group in found
        if group is None or missing_members(group) <= len(waiting_members(group, line))
    ]


def _place(session: Session, statement: Statement, task: Task) -> bool:
    fitting = session.placement.fitting(task)
    with session.inside(home_domain(session, task)):
        rows = fitting.choose(task, 1, session.placement.room_now())
    return bool(rows) and statement.allocate(task, session.nodes.nodes[rows[0]])
