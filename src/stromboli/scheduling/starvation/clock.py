"""Which jobs have starved, and how long those with reserved nodes may keep them if nothing drains.

A job has starved when it has waited longer than the threshold. Then it has *turns*: a turn begins when nodes are
reserved for it, and ends when it starts, or when nothing has drained on the nodes for so long that the next job in line
may have them. Nobody knows how long pods run. A turn that is too short is in vain, and what has drained is lost to
others; if every turn were, the job would wait for ever. A turn that is too long keeps others waiting. So a job may keep
nodes that do not drain for as long as it had waited when the turn began: its turns double, and one of them is long
enough. `reservationTimeout` is the shortest turn, and 32 times that the longest, because some pods never end.

When a turn began is in a condition of the PodGroup, so a restart changes nothing.
"""

from __future__ import annotations

from typing import Final

from stromboli.cluster import Job, Status
from stromboli.scheduling.explanation import waiting_since
from stromboli.scheduling.gang import reserved_tasks
from stromboli.scheduling.session import Session

from .holders import RESERVED, STARVING, TURN, condition_time
from .rules import ReserveRules, Starvation

_LONGEST_TURN: Final = 32  # times reservationTimeout


def starved_since(session: Session, job: Job, rules: ReserveRules) -> float:
    """What the threshold is counted from."""
    return job.created if rules.clock == "creation" else waiting_since(session, job)


def has_starved(session: Session, job: Job, rules: ReserveRules) -> bool:
    """Whether a job has waited longer than the threshold; if not, the scheduler looks again when it has. Nothing is set
    aside for a Reservation that waits for a node, so it never starves."""
    if job.stands_for:
        return False
    since = starved_since(session, job, rules)
    due = since + rules.threshold
    if session.now <= due:
        # A job that had a place waits "since now" until a condition says so. That is no time to wait for.
        if since < session.now or since == job.created:
            session.due(due)
        return False
    return True


def turn_began(session: Session, job: Job) -> float:
    """When the nodes that a job holds now were reserved for it. Other nodes than before are a new turn."""
    recorded = condition_time(job, TURN, RESERVED)
    before = session.state(Starvation).nodes_at_open.get(job.key, ())
    goes_on = all(task.node is None or task.node.name in before for task in reserved_tasks(job))
    return recorded if recorded is not None and goes_on else session.now


def longest_hold(session: Session, job: Job, rules: ReserveRules) -> float:
    """How long a job with reserved nodes keeps them if nothing drains there; 0: for ever."""
    waited = turn_began(session, job) - starved_since(session, job, rules)
    return min(max(rules.timeout, waited), _LONGEST_TURN * rules.timeout)


def is_stuck(session: Session, job: Job) -> bool:
    """Whether nothing has drained on the nodes of a holder for as long as it may keep them. The time of the group's
    condition is when something drained last."""
    rules = session.state(Starvation).rules
    since = condition_time(job, STARVING, RESERVED)
    if rules is None or not rules.timeout or since is None or not job.counts[Status.RESERVED]:
        return False
    due = since + longest_hold(session, job, rules)
    if session.now <= due:
        session.due(due)
        return False
    return True
