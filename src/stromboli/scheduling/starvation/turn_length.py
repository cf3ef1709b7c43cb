"""Rule 7. How long nodes are kept.

A turn that is too short is in vain, and what has drained is lost to others; if every turn were, the job would wait for
ever. A turn that is too long keeps others waiting. Nobody knows how long pods run, so turns double, and one of them is
long enough. A pod that has to leave and has already run for longer than the turn shows that a long one makes no sense:
a job that waits for a pod that never ends would have longer and longer turns, at the cost of all others in line.
"""

from __future__ import annotations

import math
from typing import Final

from stromboli.api.timestamps import parse_timestamp
from stromboli.cluster import OCCUPYING, Job, Status, Task
from stromboli.scheduling.gang import reserved_tasks
from stromboli.scheduling.session import Session

from .clock import starved_since
from .drained_room import DrainedRoom
from .holders import RESERVED, STARVING, TURN, condition_time, reserved_by_row
from .reserve_arguments import ReserveRules, Starvation

_LONGEST_TURN: Final = 32  # times reservationTimeout


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
    if starvation.reserved.changed():
        starvation.stuck.clear()
    if job.key not in starvation.stuck:
        due = since + rules.timeout
        if session.now > due:
            length = _turn_length(session, job, rules)
            due = max(due, min(since + length, _in_vain_from(session, job, length)))
        starvation.stuck[job.key] = session.now > due
        if session.now <= due:
            session.due(due)
    return starvation.stuck[job.key]


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
