"""Behind the rules: which jobs hold reserved room, where, and who comes first among them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import numpy.typing as npt

from stromboli.api.timestamps import parse_timestamp
from stromboli.cluster import Job, JobKey, Node, Status, Task, Vector
from stromboli.cluster.model import requests_by_row
from stromboli.scheduling.callbacks import Horizon
from stromboli.scheduling.explanation import waiting_since
from stromboli.scheduling.gang import reserved_tasks
from stromboli.scheduling.operations.set_aside import give_up
from stromboli.scheduling.session import Session

from .drained_room import WAITS, DrainedRoom
from .reserve_arguments import Starvation

FEATURE = "starvation"
"""The name under which the feature registers its callbacks."""

STARVING = "Starving"
"""The condition of a group that has waited too long: what is done about it."""

TURN = "StarvingTurn"
"""The condition of a group that nodes are reserved for: since when."""

RESERVED = "Reserved"
BACK_IN_LINE = "BackInLine"
CANNOT_START = "CannotStart"
"""Reasons of the first one: nodes are set aside; the job gave its place to another and waits for its next turn; or it
could not start on empty nodes either."""

_PROMISED = frozenset({Status.PIPELINED, Status.ALLOCATED, Status.CONDITIONAL})


def held_places(session: Session) -> Iterator[tuple[Task, Node]]:
    """Every task that room is set aside for, and where; also while it is promised a place and not bound yet, or could
    start elsewhere if lent room were given back."""
    for task in session.ledger.reserved_tasks.values():
        if task.node is not None:
            yield task, task.node
    for task in session.state(Starvation).reserved_at_open:
        if task.status in _PROMISED and task.true_status is Status.RESERVED and task.true_node is not None:
            yield task, task.true_node


def holders(session: Session) -> dict[JobKey, Job]:
    """Jobs that room is set aside for, by key."""
    jobs = {task.job.key: task.job for task, _ in held_places(session) if task.job is not None}
    # Also those whose node is gone: their reservations have to be released.
    jobs |= {task.job.key: task.job for task in session.ledger.reserved_tasks.values() if task.job is not None}
    return dict(sorted(jobs.items()))


def reserved_rows(session: Session) -> dict[int, set[JobKey]]:
    """Rows with reserved room, and the jobs it is for."""
    rows: dict[int, set[JobKey]] = {}
    for task, node in held_places(session):
        if task.job is not None:
            rows.setdefault(node.row, set()).add(task.job.key)
    return rows


def counted_rows(session: Session) -> int:
    """How many nodes with reserved room count against the limit. A node that is locked for a queue does not: nobody but
    that queue loses anything."""
    return sum(session.nodes.nodes[row].lock is None for row in reserved_rows(session))


def rank(session: Session, job: Job) -> tuple[int, float, JobKey]:
    """Who may hold reservations first: by priority, then who waits longest (since its last turn)."""
    return (-job.priority, in_line_since(session, job), job.key)


def in_line_since(session: Session, job: Job) -> float:
    """When a job took its place in the line. One that had its turn in vain went to the end of it."""
    if job.key in session.state(Starvation).gave_up_place:
        return session.now
    stamp = condition_time(job, STARVING, BACK_IN_LINE)
    return waiting_since(session, job) if stamp is None else stamp


def condition_time(job: Job, kind: str, reason: str) -> float | None:
    """Since when the group's condition says that."""
    assert job.object is not None
    for condition in job.object.status.conditions:
        if condition.type == kind and condition.reason == reason and condition.last_transition_time is not None:
            return parse_timestamp(condition.last_transition_time)
    return None


def is_known_not_to_start(job: Job) -> bool:
    """Whether the last cycle found that the job could not start on empty nodes either."""
    return condition_time(job, STARVING, CANNOT_START) is not None


def one_then_several(jobs: Sequence[Job]) -> Iterator[Sequence[Job]]:
    """Who could give way together: each of them alone, then the first two, the first three, and so on."""
    yield from ([job] for job in jobs)
    yield from (jobs[:count] for count in range(2, len(jobs) + 1))


def release(session: Session, job: Job, why: str) -> None:
    statement = session.statement()
    for task in reserved_tasks(job):
        give_up(statement, task, why)
    statement.commit()


def reserved_by_row(job: Job) -> dict[int, Vector]:
    """What is set aside for a job, by the row of the node."""
    return requests_by_row(reserved_tasks(job))


def usable_rows(session: Session, tasks: Iterable[Task]) -> npt.NDArray[np.bool_]:
    """Nodes on which one of these tasks could run if all that may drain had drained."""
    rows = np.zeros(len(session.nodes), dtype=np.bool_)
    kinds = {session.placement.signature(task): task for task in tasks if not task.best_effort}
    for task in kinds.values():
        mask = session.placement.fitting(task, horizon=Horizon.DRAINED, without=(FEATURE,)).mask
        room = session.nodes.allocatable if task.job is None else session.state(DrainedRoom).of(task.job)
        rows |= mask & session.nodes.schedulable & (room >= task.request).all(axis=1)
    return rows


def wanted(job: Job) -> Vector:
    """What the waiting tasks of a job request."""
    total = np.zeros_like(job.allocated)
    for task in job.tasks.values():
        if task.status in WAITS:
            total += task.request
    return total
