"""Gangs that lack pods and can never be completed where they are: they are sent away whole, and start anew elsewhere.

A hard group, or sub-group, goes on in the domain of its pods. After a node of that domain is lost, the domain may be
too small for it even when everybody else has left, and to wait there is in vain. Once it has waited for
`gangDeadlockTimeout`, its pods are evicted, if another domain could hold it: of a sub-group its own pods, if that is
enough, otherwise all pods of the gang. Plugins that protect pods are asked about each of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from stromboli.cluster import Job, Task
from stromboli.cluster.topology import sub_groups
from stromboli.scheduling.attempt import FailedAttempts
from stromboli.scheduling.explanation import topology_reasons, waiting_since
from stromboli.scheduling.explanation.display_names import display_name
from stromboli.scheduling.gang import HalfGangs, missing_members
from stromboli.scheduling.session import Session
from stromboli.scheduling.starvation import Feasibility

from .deadlock import EVICTABLE, ON_NODES, is_stuck

OUTGROWN = "DomainOutgrown"


def leave_outgrown_domains(session: Session, halves: Sequence[Job], timeout: float) -> None:
    """`halves`: gangs that lacked pods when the session began."""
    for job in halves:
        if not _is_in_vain(session, job):
            continue
        due = waiting_since(session, job) + timeout
        if session.now <= due:
            session.due(due)
        elif leaving := leaving_pods(session, job):
            statement = session.statement()
            for task in leaving:
                statement.evict(task, reason=OUTGROWN, message=topology_reasons.outgrown(display_name(job)))
            statement.commit()


def leaving_pods(session: Session, job: Job) -> Sequence[Task]:
    """The pods without which the gang could start; none if nothing would help it, or it can be completed."""
    if not _is_in_vain(session, job):
        return ()
    return session.state(FailedAttempts).once(OUTGROWN, job, lambda: _that_are_enough(session, job)) or ()


def _is_in_vain(session: Session, job: Job) -> bool:
    """Whether it lacks pods, and the domains of those that it has could not hold it."""
    if job.layout is None or job.key in session.state(HalfGangs).first or not is_stuck(session, job):
        return False
    asked = (job.layout.closeness, *(policy.closeness for policy in job.layout.policies))
    return any(closeness is not None and closeness.hard for closeness in asked)


def _that_are_enough(session: Session, job: Job) -> Sequence[Task] | None:
    """Without them it could start anew, if everybody else had left who may."""
    feasible = Feasibility(session)
    return next((t for t in _units(job) if _may_go(session, job, t) and feasible.could_start_anew(job, t)), None)


def _units(job: Job) -> Iterator[list[Task]]:
    """What could be sent away: one sub-group that lacks pods, or all."""
    if not job.goes_whole:
        for group in sub_groups(job).all:
            if missing_members(group) and any(task.status in ON_NODES for task in group.tasks):
                yield [task for task in group.tasks if task.status in ON_NODES]
    yield [task for _, task in sorted(job.tasks.items()) if task.status in ON_NODES]


def _may_go(session: Session, job: Job, tasks: Sequence[Task]) -> bool:
    waiting = session.pending_tasks(job)
    return bool(waiting) and all(
        task.status in EVICTABLE and not session.protected("reclaimable", waiting[0], task, whole=True)
        for task in tasks
    )
