"""A job placed as a whole on what the chosen nodes will be, in a statement that may be discarded.

Siblings that were given a place count as neighbours already. So two pods that may not be in one zone are never promised
the same zone, nor two that use one host port the same node. Pods without requests get no reservation, but need a slot.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from stromboli.cluster import Job, Status, Task
from stromboli.cluster.topology import Domain, SubGroup, sub_groups
from stromboli.scheduling.explanation.topology_reasons import no_domain
from stromboli.scheduling.gang import (
    WaitingTasks,
    condition_ready,
    missing_members,
    needed_groups,
    next_groups,
    waiting_members,
)
from stromboli.scheduling.operations.set_aside import set_aside
from stromboli.scheduling.session import Session
from stromboli.scheduling.statement import Statement

from ..drained_room import over_quota
from ..node_choice import NodeChoice
from .close_nodes import domains_for


@dataclass(slots=True)
class Attempt:
    statement: Statement
    complete: bool  # with what was set aside, the job can start
    found: int  # tasks that have or would get a place
    missing: int  # tasks that must start together and have none yet
    over_limit: int = 0  # for how many tasks only the limit on nodes stood in the way
    short: str = ""  # why the first task that found no node found none
    domain: Domain | None = None  # that it is in, if the job must be in one


def place_as_a_whole(session: Session, job: Job, statement: Statement, choice: NodeChoice) -> Attempt:
    """A hard group gets all nodes in one domain."""
    missing = max(0, job.min_available - job.ready_count)
    closeness = None if job.layout is None else job.layout.closeness
    if closeness is None or not closeness.hard:
        return _place_here(session, job, statement, choice, missing)
    tasks = [task for task in session.pending_tasks(job) if not task.best_effort]
    domains = domains_for(session, job, closeness, list(job.tasks.values()), tasks, min(missing, len(tasks)))
    before, mark = len(statement), choice.mark()
    best = Attempt(statement, False, 0, missing, short=no_domain(closeness) if not domains else "")
    for domain in domains:
        with session.inside(domain):
            attempt = _place_here(session, job, statement, choice, missing)
        attempt.domain = domain
        if attempt.complete:
            return attempt
        statement.discard(down_to=before)
        choice.go_back(mark)
        if not best.found or attempt.found > best.found:
            best = attempt
    return best


def _place_here(session: Session, job: Job, statement: Statement, choice: NodeChoice, missing: int) -> Attempt:
    attempt = Attempt(statement, False, 0, missing)
    tasks = session.pending_tasks(job)
    if job.layout is not None and job.layout.policies:
        tasks = _place_sub_groups(session, job, statement, choice, tasks)
    _place_each(session, job, statement, choice, [task for task in tasks if not task.best_effort], attempt)
    attempt.found = job.counts[Status.RESERVED]
    attempt.complete = condition_ready(job)
    without_requests = [task for task in tasks if task.best_effort]
    lacking = without_requests[: max(0, attempt.missing - attempt.found - job.waiting_count)]
    if attempt.complete and lacking and not choice.has_slots(lacking):
        attempt.complete, attempt.short = False, choice.why_not(lacking[0])
    if attempt.complete:
        reserved = [task.request for task in job.tasks.values() if task.status is Status.RESERVED]
        attempt.complete = over_quota(session, job, sum(reserved, start=session.axis.zeros())) is None
    return attempt


def _place_each(
    session: Session, job: Job, statement: Statement, choice: NodeChoice, tasks: Sequence[Task], attempt: Attempt
) -> None:
    for task in tasks:
        if condition_ready(job):
            return
        if task.status is Status.RESERVED:
            continue
        row, limited = choice.row_for(task)
        if row is None:
            attempt.over_limit += limited
            if not attempt.short and not limited:
                attempt.short = choice.why_not(task)
            continue
        set_aside(statement, task, session.nodes.nodes[row])
        choice.take(row)


def _place_sub_groups(
    session: Session, job: Job, statement: Statement, choice: NodeChoice, tasks: Sequence[Task]
) -> list[Task]:
    """As many sub-groups as the job needs. Returns its tasks that are in none."""
    assert job.layout is not None
    line = WaitingTasks(job, tasks)
    for group in needed_groups(job, line):
        _place_sub_group(session, job, statement, choice, group, line)
    for policy in job.layout.policies:
        for group in next_groups(job, policy, line):
            if condition_ready(job):
                break
            _place_sub_group(session, job, statement, choice, group, line)
    loose = set(sub_groups(job).loose)
    return [task for task in tasks if task in loose]


def _place_sub_group(
    session: Session, job: Job, statement: Statement, choice: NodeChoice, group: SubGroup, line: WaitingTasks
) -> bool:
    """All of a sub-group or nothing; in one domain, if it is hard."""
    waiting = [task for task in waiting_members(group, line) if task.status is Status.PENDING]
    tasks = waiting[: missing_members(group)]
    closeness = group.policy.closeness
    domains: list[Domain | None] = [session.domain]
    if closeness is not None and closeness.hard:
        domains = [*domains_for(session, job, closeness, group.tasks, tasks, len(tasks))]
    before, mark = len(statement), choice.mark()
    for domain in domains:
        with session.inside(domain):
            if _all_have_a_node(session, statement, choice, tasks):
                return True
        statement.discard(down_to=before)
        choice.go_back(mark)
    return False


def _all_have_a_node(session: Session, statement: Statement, choice: NodeChoice, tasks: Sequence[Task]) -> bool:
    for task in tasks:
        if task.status is Status.RESERVED:
            continue
        row, _ = choice.row_for(task)
        if row is None:
            return False
        set_aside(statement, task, session.nodes.nodes[row])
        choice.take(row)
    return True
