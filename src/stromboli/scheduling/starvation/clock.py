"""Which jobs have starved, and how long those with reserved nodes may keep them if nothing drains.

A job has starved when it has waited longer than the threshold. Then it has *turns*: a turn begins when nodes are
reserved for it, and ends when it starts, or when nothing has drained on the nodes for so long that the next job in line
may have them. Nobody knows how long pods run. A turn that is too short is in vain, and what has drained is lost to
others; if every turn were, the job would wait for ever. A turn that is too long keeps others waiting. So a job may keep
nodes that do not drain for as long as it had waited when the turn began: its turns double, and one of them is long
enough. `reservationTimeout` is the shortest turn, and 32 times that the longest, because some pods never end.

A long turn makes sense only if pods end within its length. A pod that has to leave and has already run for longer shows
that they do not, so then the shortest turn has to do. Otherwise a job that waits for a pod that never ends would have
longer and longer turns, at the cost of all others in line.

When a turn began is in a condition of the PodGroup, so a restart changes nothing.
"""

from __future__ import annotations

import math
from typing import Final

from stromboli.api.timestamps import parse_timestamp
from stromboli.cluster import OCCUPYING, Job, Status, Task
from stromboli.scheduling.explanation import waiting_counts, waiting_since
from stromboli.scheduling.gang import reserved_tasks
from stromboli.scheduling.session import Session

from .drained_room import DrainedRoom
from .holders import RESERVED, STARVING, TURN, condition_time, reserved_by_row
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
        # A job that had a place waits "since now" until a condition says so. That is no time to wait for, and nor is
        # that of a clock which stands still: it would never come.
        runs = rules.clock == "creation" or waiting_counts(job)
        if runs and (since < session.now or since == job.created):
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
    length = _turn_length(session, job, rules)
    return length if session.now <= _in_vain_from(session, job, length) else rules.timeout


def _turn_length(session: Session, job: Job, rules: ReserveRules) -> float:
    waited = turn_began(session, job) - starved_since(session, job, rules)
    return min(max(rules.timeout, waited), _LONGEST_TURN * rules.timeout)


def is_stuck(session: Session, job: Job) -> bool:
    """Whether nothing has drained on the nodes of a holder for as long as it may keep them. The time of the group's
    condition is when something drained last."""
    starvation = session.state(Starvation)
    rules, since = starvation.rules, condition_time(job, STARVING, RESERVED)
    if rules is None or not rules.timeout or since is None or not job.counts[Status.RESERVED]:
        return False
    known = job.key, session.ledger.reserved_epoch
    if known not in starvation.stuck:
        due = since + rules.timeout
        if session.now > due:
            length = _turn_length(session, job, rules)
            due = max(due, min(since + length, _in_vain_from(session, job, length)))
        starvation.stuck[known] = session.now > due
        if session.now <= due:
            session.due(due)
    return starvation.stuck[known]


def _in_vain_from(session: Session, job: Job, length: float) -> float:
    """From when on pods that have to leave will have run for longer than `length`, if none ends before."""
    drained, first = session.state(DrainedRoom).of(job), math.inf
    for row, amount in reserved_by_row(job).items():
        node = session.nodes.nodes[row]
        running = [task for task in node.tasks.values() if task.status in OCCUPYING]
        spare = drained[row] - amount - sum(task.request for task in running if task.job is job)
        oldest = sorted(
            (start, task.key) for task in running if task.job is not job and (start := _start(task)) is not None
        )
        for start, key in oldest:
            spare = spare - node.tasks[key].request
            if bool((spare < 0)[amount > 0].any()):
                first = min(first, start + length)
                break
    return first


def _start(task: Task) -> float | None:
    """Since when a pod runs that is taken to end some day."""
    started = task.pod.status.start_time
    return parse_timestamp(started) if started is not None and task.ends else None
