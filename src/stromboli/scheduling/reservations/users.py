"""Pods that fit a Reservation are placed before all others.

The resources are theirs already, so whether their queue has used up what it deserves, whose turn it is, and what a fifo
queue stops at does not matter. A gang whose members find too little this way is left to the ordered walk, where the
others get their places, and these theirs.

A gang that must be close together is tried in one domain after the other: where its pods are, or else where it has
Reservations. One with sub-groups is left to the ordered walk until it runs; then each sub-group gets back what it has
lost, all of it.
"""

from __future__ import annotations

from collections.abc import Iterator

from stromboli.cluster import Job, Status, Task
from stromboli.cluster.topology import Domain, SubGroup, sub_groups
from stromboli.scheduling.gang import (
    WaitingTasks,
    by_choices,
    complete_with_best_effort,
    home_domain,
    is_eligible,
    missing_members,
    placed_rows,
)
from stromboli.scheduling.session import Session
from stromboli.scheduling.topology import allowed_tiers, home_domains, tree_for

from .matches import Matches
from .room import ReservedRoom


def place_users(session: Session) -> None:
    if not session.points.kept_place or not session.state(Matches):
        return
    room = session.state(ReservedRoom)
    found = [(job, tasks) for job in session.jobs if job.counts[Status.PENDING] and (tasks := _candidates(room, job))]
    candidates = {job.key: tasks for job, tasks in found}
    for job in session.turns.each(sorted([job for job, _ in found], key=session.job_key)):
        if is_eligible(session, job):
            _place(session, room, job, candidates[job.key])


def _candidates(room: ReservedRoom, job: Job) -> list[tuple[int, Task]]:
    """With the number of their choices; without those for which pods were evicted elsewhere: they keep what they were
    promised. None if the rest of the gang needs other nodes."""
    if not room.may_use_any(job) or _missing(job) > room.slots_for_alike(job):
        return []
    refused, tasks = sub_groups(job).refused, job.tasks.values()
    return room.find(
        [t for t in tasks if t.status is Status.PENDING and not t.gated and not t.nominated and t.key not in refused]
    )


def _place(session: Session, room: ReservedRoom, job: Job, tasks: list[tuple[int, Task]]) -> None:
    missing = _missing(job)
    if missing > len(tasks) or missing > room.slots([task for _, task in tasks]):
        return  # the rest of the gang needs other nodes
    if job.layout is not None and job.layout.policies:
        if session.job_ready(job) and placed_rows(job.tasks.values()):
            _place_by_sub_group(session, room, job, tasks)
        return
    for domain in _domains(session, room, job, tasks):
        with session.inside(domain):
            if _place_here(session, room, job, tasks):
                return


def _domains(session: Session, room: ReservedRoom, job: Job, tasks: list[tuple[int, Task]]) -> Iterator[Domain | None]:
    """Where a job may be, the lowest tier first; None for all nodes."""
    closeness = None if job.layout is None else job.layout.closeness
    if closeness is None or not closeness.hard:
        yield None
        return
    tree = tree_for(session, closeness)
    tiers, placed = allowed_tiers(tree, closeness), placed_rows(job.tasks.values())
    if placed:
        yield from home_domains(tree, tiers, placed)
        return
    kept = room.rows([task for _, task in tasks])
    for tier in tiers:
        for index in sorted({tree.at(tier, row) for row in kept} - {-1}):
            yield tree.domains[index]


def _place_by_sub_group(session: Session, room: ReservedRoom, job: Job, tasks: list[tuple[int, Task]]) -> None:
    """A job that runs goes on where its pods are. Where a whole sub-group would be, the ordered walk finds out."""
    line, choices = WaitingTasks(job, [task for _, task in tasks]), {found[1].key: found for found in tasks}
    for group in (*line.groups, None):
        waiting = [choices[task.key] for task in line.of(group)]
        if waiting and (group is None or placed_rows(group.tasks)):
            with session.inside(home_domain(session, waiting[0][1])):
                _place_here(session, room, job, waiting, group)


def _place_here(
    session: Session, room: ReservedRoom, job: Job, tasks: list[tuple[int, Task]], group: SubGroup | None = None
) -> bool:
    """`group`: the sub-group that must be whole then, if it is about one."""
    statement = session.statement()
    waiting = by_choices(session, sorted(tasks, key=lambda found: session.task_key(found[1])))
    while waiting:
        placed = room.place_many(statement, waiting) or int(room.place(statement, waiting[0], False))
        waiting = waiting[max(placed, 1) :]
    is_whole = group is None or not missing_members(group)
    is_enough = statement.operations and is_whole and session.job_ready(job)
    if is_enough and complete_with_best_effort(session, statement, job):
        statement.commit()
        return True
    statement.discard()
    return False


def _missing(job: Job) -> int:
    return job.min_available - job.ready_count - job.pending_best_effort
