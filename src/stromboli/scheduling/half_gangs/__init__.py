"""Gangs that have some of their pods on nodes and lack others: they go first, and cannot wait for each other for ever.

`gang.half_gangs` says which gangs these are. Here it is decided which of them go before gangs that hold nothing, when a
session is opened: those that could start if they had the cluster to themselves. `deadlock` sends one of them away if
they hold what each other needs.
"""

from stromboli.cluster import Job
from stromboli.scheduling.gang import HalfGangs, is_half_gang
from stromboli.scheduling.session import Session
from stromboli.scheduling.starvation import Feasibility

from .deadlock import REASON, foreseen_deadlock, resolve_deadlock
from .deadlock_timeout import deadlock_timeout, read_deadlock_timeout

__all__ = ["REASON", "deadlock_timeout", "foreseen_deadlock", "open_half_gangs", "read_deadlock_timeout"]


def open_half_gangs(session: Session) -> None:
    halves = [job for job in session.waiting if is_half_gang(job)]
    if not halves:
        return
    session.state(HalfGangs).first = frozenset(job.key for job in halves if _could_start(session, job))
    timeout = deadlock_timeout(session.configuration)
    if timeout and len(halves) > 1:
        with session.registering("half_gangs"):
            session.points.close.add(lambda: resolve_deadlock(session, halves, timeout))


def _could_start(session: Session, job: Job) -> bool:
    return session.job_valid(job) is None and session.state(Feasibility).could_be_completed(job)
