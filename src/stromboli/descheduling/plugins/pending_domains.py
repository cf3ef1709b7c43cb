"""Where room is made for a job that must be close together: in one domain, and for each sub-group in one inside it.

Domains are tried in order, those first in which the fewest pods have no room yet. The first is taken in which all have
a place, with moves or without.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, Protocol

import numpy as np

from stromboli.cluster import Job, Status, Task
from stromboli.cluster.topology import Closeness, Domain, SubGroup, sub_groups
from stromboli.scheduling.gang import (
    PLACED,
    WaitingTasks,
    missing_members,
    needed_groups,
    next_groups,
    waiting_members,
)
from stromboli.scheduling.session import Session
from stromboli.scheduling.topology import domains_to_clear

Mark = Any


class Plan(Protocol):
    """A plan that is being made."""

    def place(self, tasks: Sequence[Task]) -> bool:
        """Find a node for each of these tasks, in the domain that is looked at. If one has none, nothing is changed."""
        ...

    def so_far(self) -> Mark: ...

    def go_back(self, mark: Mark) -> None: ...


def place_in_domains(session: Session, job: Job, tasks: Sequence[Task], plan: Plan) -> bool:
    """Whether all of these have a place. Those of sub-groups get theirs sub-group by sub-group."""
    if not tasks:
        return False
    layout = job.layout
    if layout is None:
        return plan.place(tasks)

    def place() -> bool:
        return _place_sub_groups(session, job, tasks, plan) if layout.policies else plan.place(tasks)

    return _inside(session, layout.closeness, job.tasks.values(), tasks, place)


def rows_of_domains(session: Session, job: Job, tasks: Sequence[Task]) -> list[int]:
    """The nodes of all domains in which sub-groups could be. A pod that moves there takes room that the next sub-group
    may need."""
    rows: set[int] = set()
    line = WaitingTasks(job, tasks)
    for group in line.groups:
        closeness = group.policy.closeness
        if closeness is not None and closeness.hard:
            rows.update(
                row for one in _domains(session, closeness, group.tasks, line.of(group)) for row in one.rows.tolist()
            )
    return sorted(rows)


def tasks_that_must_start(session: Session, job: Job) -> list[Task]:
    """The tasks that have to start together, without those that request nothing. None if no sub-groups can be whole
    that it needs to reach its minimum."""
    tasks = [task for task in session.pending_tasks(job) if not task.best_effort]
    missing = max(1, job.min_available - job.ready_count)
    if job.layout is None or not job.layout.policies:
        return tasks[:missing]
    line = WaitingTasks(job, tasks)
    needed = needed_groups(job, line)
    found = [task for group in needed for task in _lacking(group, line)]
    loose = {task.key for task in sub_groups(job).loose}
    others = [task for task in tasks if task.key in loose]
    found += others[: max(0, missing - len(found))]
    for policy in job.layout.policies:
        for group in next_groups(job, policy, line):
            if len(found) < missing and group not in needed:
                found += _lacking(group, line)
    return found if len(found) + job.pending_best_effort >= missing else []


def _lacking(group: SubGroup, line: WaitingTasks) -> list[Task]:
    """The pods that make it whole."""
    return waiting_members(group, line)[: missing_members(group)]


def _place_sub_groups(session: Session, job: Job, tasks: Sequence[Task], plan: Plan) -> bool:
    """One after the other, in the domain that is tried first and does; then those in no sub-group."""
    line, before = WaitingTasks(job, tasks), plan.so_far()
    for group in [*line.groups, *([None] if line.of(None) else [])]:
        members = line.of(group)
        closeness = None if group is None else group.policy.closeness
        others = () if group is None else group.tasks
        if not _inside(session, closeness, others, members, partial(plan.place, members)):
            plan.go_back(before)
            return False
    return True


def _inside(
    session: Session,
    closeness: Closeness | None,
    group: Iterable[Task],
    tasks: Sequence[Task],
    place: Callable[[], bool],
) -> bool:
    """In the first domain in which that works. `group`: all tasks of the group."""
    if closeness is None or not closeness.hard:
        return place()
    for domain in _domains(session, closeness, group, tasks):
        with session.inside(domain):
            if place():
                return True
    return False


def _domains(session: Session, closeness: Closeness, group: Iterable[Task], tasks: Sequence[Task]) -> list[Domain]:
    placement, nodes = session.placement, session.nodes
    rows = [t.node.row for t in group if t.node is not None and (t.status in PLACED or t.status is Status.RESERVED)]
    fittings = [(placement.fitting(first), number) for first, number in placement.kinds(tasks)]
    empty, free = np.asarray(nodes.allocatable - nodes.held), placement.room_now(tasks[0].job)
    most = [(fitting.places_by_row(empty), number) for fitting, number in fittings]
    now = [(fitting.places_by_row(free), number) for fitting, number in fittings]
    return domains_to_clear(session, closeness, rows, len(tasks), most=most, free=now)
