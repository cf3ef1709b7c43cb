"""Gangs that have some of their pods on nodes and lack others: they go first, and cannot wait for each other for ever.

`gang.half_gangs` says which gangs these are. Here it is decided which of them go before gangs that hold nothing, when a
session is opened: those that could start if they had the cluster to themselves. `deadlock` sends one of them away if
they hold what each other needs, and `outgrown_domain` one that cannot be completed in the domain that it is bound to.
"""

from stromboli.cluster import Job
from stromboli.scheduling.gang import HalfGangs, is_half_gang
from stromboli.scheduling.session import Session
from stromboli.scheduling.starvation import Feasibility

from .deadlock import REASON, foreseen_deadlock, resolve_deadlock
from .deadlock_timeout import deadlock_timeout, read_deadlock_timeout
from .outgrown_domain import OUTGROWN, leave_outgrown_domains, leaving_pods

__all__ = [
    "OUTGROWN",
    "REASON",
    "deadlock_timeout",
    "foreseen_deadlock",
    "leaving_pods",
    "open_half_gangs",
    "read_deadlock_timeout",
]


def open_half_gangs(session: Session) -> None:
    halves = [job for job in session.waiting if is_half_gang(job)]
    if not halves:
        return
    session.state(HalfGangs).first = frozenset(job.key for job in halves if _could_start(session, job))
    timeout = deadlock_timeout(session.configuration)
    if not timeout:
        return
    with session.registering("half_gangs"):
        if len(halves) > 1:
            session.points.close.add(lambda: resolve_deadlock(session, halves, timeout))
        session.points.close.add(lambda: leave_outgrown_domains(session, halves, timeout))


def _could_start(session: Session, job: Job) -> bool:
    return session.job_valid(job) is None and session.state(Feasibility).could_be_completed(job)
