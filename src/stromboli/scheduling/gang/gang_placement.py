"""Placing a gang, all or nothing.

`place_gang` places tasks of one job up to the point where the job can start. A job that is not ready gets tasks until
it is; one that is ready gets one more, so that jobs share what is left turn by turn.

Whether what was placed becomes true is up to those who try a job (`scheduling.attempt`).
"""

from __future__ import annotations

from collections import deque

from stromboli.cluster import Job, Status, Task
from stromboli.scheduling.session import Session
from stromboli.scheduling.statement import Statement

from .close_placement import place_close
from .kept_places import largest_first
from .task_placement import missing_tasks, place_on_open_nodes, set_order

_CONDITIONAL = Status.CONDITIONAL


def place_gang(
    session: Session,
    statement: Statement,
    job: Job,
    tasks: deque[Task],
    *,
    lending: bool = False,
    conditionally: bool = True,
) -> None:
    """Place tasks from the front of `tasks` until the job becomes ready, or, if it is, one task.

    Tasks taken off the deque were placed or failed; neither is tried again in this action. With `lending`, queues
    may go beyond what they deserve; `conditionally`, tasks may count on room that is lent to others.
    """
    place = place_on_open_nodes if job.layout is None else place_close
    place(session, statement, job, tasks, lending=lending, conditionally=conditionally)


def place_afresh(session: Session, job: Job, tasks: deque[Task], *, lending: bool) -> Statement:
    """`place_gang` in a statement of its own. A gang whose pods differ in size may find no places in its own order,
    because a small pod takes the room that only a large one needs: then the large ones choose first."""
    in_order, statement = list(tasks), session.statement()
    needs_all = len(in_order) > 1 and not session.job_ready(job) and missing_tasks(job) >= len(in_order)
    place_gang(session, statement, job, tasks, lending=lending)
    if not needs_all or _has_some_place(session, job):
        return statement
    by_size = largest_first(session, in_order)
    if by_size == in_order:
        return statement
    for order in (by_size, in_order):  # if that fails, too, everything is as it was
        statement.discard()
        statement = session.statement()
        set_order(tasks, order)
        place_gang(session, statement, job, tasks, lending=lending)
        if session.job_ready(job):
            break
    return statement


def _has_some_place(session: Session, job: Job) -> bool:
    """Whether the job can start, or waits for what it was promised."""
    return session.job_ready(job) or session.job_pipelined(job) or bool(job.counts[_CONDITIONAL])
