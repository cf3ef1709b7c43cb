"""Room set aside for jobs that have starved.

A job too big for the holes that small jobs leave would wait for ever. Once it has waited longer than a threshold, the
reserve action chooses nodes for it and sets room aside there: the nodes take no new pods of others and drain as their
pods finish, until the job fits. This module has the rules that hold all cycle long: who is starving, whom a node with
reserved room is closed to, and when a reservation is given up.

What is remembered is in objects: the Reservation in phase Waiting, and the group's condition `Waiting`, whose time says
since when. A scheduler that starts anew decides as the old one would have.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from stromboli.api.timestamps import parse_timestamp
from stromboli.api.waiting_reservations import node_set_aside
from stromboli.cluster import Job, JobKey, Matrix, Status, Task, TaskKey, Vector
from stromboli.scheduling.callbacks import FilterHook, NodeFilter, ReasonIds, Rows, Scope
from stromboli.scheduling.configuration.arguments import Arguments
from stromboli.scheduling.decisions import Unreserve
from stromboli.scheduling.explanation.reasons import Code, reserved_for

if TYPE_CHECKING:
    from stromboli.scheduling.session import Session

WAITING = "Waiting"
"""The condition of a group that waits: its time is when the group last stopped being ready or promised a place."""

STARVING = "Starving"
"""The condition of a group that has waited too long: what is done about it."""

DEFAULT_THRESHOLD = 172_800.0  # two days, in seconds


@dataclass(frozen=True, slots=True)
class ReserveRules:
    """The arguments of the reserve action."""

    threshold: float = DEFAULT_THRESHOLD
    percent: float = 50.0
    scope: str = "node"
    clock: str = "waiting"
    yields: bool = True
    max_holders: int = 4
    timeout: float = 0.0

    @classmethod
    def read(cls, arguments: Arguments) -> ReserveRules:
        return cls(
            threshold=arguments.duration("starvingJobTimeThreshold", DEFAULT_THRESHOLD, minimum=0),
            percent=arguments.number("reservedNodePercent", 50.0, minimum=0, maximum=100),
            scope=arguments.text("scope", "node", choices=("node", "amount")),
            clock=arguments.text("starvationClock", "waiting", choices=("waiting", "creation")),
            yields=arguments.boolean("yieldToHigherPriority", True),
            max_holders=arguments.integer("maxHolders", 4, minimum=0),
            timeout=arguments.duration("reservationTimeout", 0.0, minimum=0),
        )

    @property
    def sets_aside(self) -> bool:
        """Whether anything may be set aside at all."""
        return self.percent > 0 and self.max_holders > 0

    def most_nodes(self, session: Session) -> int:
        """How many nodes may have reserved room at a time."""
        nodes = session.nodes
        return math.ceil(int((nodes.ready & nodes.schedulable).sum()) * self.percent / 100)


# -- the clock ------------------------------------------------------------------------------------------------------


def waiting_since(session: Session, job: Job) -> float:
    """When a job began to wait. One that never started has waited since it was made."""
    assert job.object is not None
    had_a_place = False
    for condition in job.object.status.conditions:
        if condition.type == WAITING and condition.status == "True" and condition.last_transition_time is not None:
            return parse_timestamp(condition.last_transition_time)
        had_a_place = had_a_place or condition.type in ("Scheduled", WAITING)
    return session.now if had_a_place else job.created


def starved_since(session: Session, job: Job, rules: ReserveRules) -> float:
    """What the threshold is counted from."""
    return job.created if rules.clock == "creation" else waiting_since(session, job)


def has_starved(session: Session, job: Job, rules: ReserveRules) -> bool:
    """Whether a job has waited longer than the threshold; if not, the scheduler looks again when it has."""
    due = starved_since(session, job, rules) + rules.threshold
    if session.now <= due:
        session.due(due)
        return False
    return True


# -- who holds what -------------------------------------------------------------------------------------------------


def holders(session: Session) -> dict[JobKey, Job]:
    """Jobs that room is set aside for, by key."""
    jobs = {task.job.key: task.job for task in session.ledger.reserved_tasks.values() if task.job is not None}
    return dict(sorted(jobs.items()))


def reserved_tasks(job: Job) -> list[Task]:
    if not job.counts[Status.RESERVED]:
        return []
    return sorted((t for t in job.tasks.values() if t.status is Status.RESERVED), key=lambda task: task.key)


def condition_ready(job: Job) -> bool:
    """Whether a job could start if it had all that is set aside for it."""
    if not job.is_condition_ready:
        return False
    return not job.roles_matter or all(role_counted(job, role) >= least for role, least in job.role_minimums.items())


def role_counted(job: Job, role: str) -> int:
    """Tasks of a role that have a place of any kind, also one that is only set aside."""
    counts = job.role_counts.get(role)
    held = 0 if counts is None else counts[Status.CONDITIONAL] + counts[Status.RESERVED]
    return job.role_occupied(role, with_pipelined=True) + held


def reserved_rows(session: Session) -> dict[int, set[JobKey]]:
    """Rows with reserved room, and the jobs it is for."""
    rows: dict[int, set[JobKey]] = {}
    for task in session.ledger.reserved_tasks.values():
        if task.node is not None and task.job is not None:
            rows.setdefault(task.node.row, set()).add(task.job.key)
    return rows


def room_for_others(session: Session, room: Matrix, job: Job | None) -> Matrix:
    """`room` less what is set aside for jobs other than this one; for reservations that close only an amount."""
    reserved = session.nodes.reserved
    if job is not None and job.counts[Status.RESERVED]:
        reserved = reserved.copy()
        for task in reserved_tasks(job):
            if task.node is not None:
                reserved[task.node.row] -= task.request
    return room - np.minimum(np.maximum(room, 0), reserved)


# -- closed nodes ---------------------------------------------------------------------------------------------------


def closing_filter(session: Session) -> FilterHook:
    """Nodes with reserved room take no new pods of others, but for pods that ask for nothing, and for pods that were
    promised their place there before: somebody was evicted for them.

    The answer is worked out anew whenever anything about reservations changes, once for all who hold nothing, and costs
    nothing while there are none: the state of reservations is part of what makes tasks alike.
    """
    known_at = -1
    to_strangers: ReasonIds = np.zeros(0, dtype=np.int32)

    def refusals() -> ReasonIds:
        nonlocal known_at, to_strangers
        if known_at != session.ledger.reserved_epoch:
            known_at = session.ledger.reserved_epoch
            to_strangers = np.zeros(len(session.nodes), dtype=np.int32)
            for row, jobs in reserved_rows(session).items():
                to_strangers[row] = session.node_reason(
                    Code.NODE_RESOURCE_RESERVED, reserved_for(sorted(jobs)), resolvable=False
                )
        return to_strangers

    def prepare(task: Task) -> NodeFilter | None:
        if task.best_effort or not session.ledger.reserved_tasks:
            return None
        verdicts = refusals()
        own = [] if task.job is None else [t.node.row for t in reserved_tasks(task.job) if t.node is not None]
        if (promised := session.nodes.by_name.get(task.nominated)) is not None:
            own.append(promised.row)
        if own:
            verdicts = verdicts.copy()
            verdicts[own] = 0

        def judge(rows: Rows) -> ReasonIds:
            return verdicts[rows]

        return judge

    def key(task: Task) -> tuple[int, JobKey | None, str]:
        holds = task.job is not None and task.job.counts[Status.RESERVED] > 0
        own = task.job.key if holds and task.job is not None else None
        return (session.ledger.reserved_epoch, own, task.nominated)

    return FilterHook(prepare, Scope.STATIC, key, live=True)


# -- giving up ------------------------------------------------------------------------------------------------------


def give_up_reservations(session: Session) -> None:
    """Release what has lost its reason, before anything else happens in a session."""
    _forget_strangers(session)
    rules = session.reserve_rules
    for job in holders(session).values():
        if job.object is None:
            release(session, job, "its PodGroup was deleted")
    kept = 0
    for job in sorted(holders(session).values(), key=lambda job: rank(session, job)):
        why = "the reserve action is not configured" if rules is None else _lost_reason(session, job, rules)
        if why is None and rules is not None and kept >= rules.max_holders:
            why = "too many jobs hold reservations"
        if why is None:
            kept += 1
        else:
            release(session, job, why)
    if rules is not None:
        most = rules.most_nodes(session)
        for job in sorted(holders(session).values(), key=lambda job: rank(session, job), reverse=True):
            if len(reserved_rows(session)) <= most:
                break
            release(session, job, "fewer nodes may be reserved now")


def rank(session: Session, job: Job) -> tuple[int, float, JobKey]:
    """Who may hold reservations first: by priority, then who waits longest."""
    return (-job.priority, waiting_since(session, job), job.key)


def release(session: Session, job: Job, why: str) -> None:
    statement = session.statement()
    for task in reserved_tasks(job):
        statement.release(task, why)
    statement.commit()


def _lost_reason(session: Session, job: Job, rules: ReserveRules) -> str | None:
    if not job.queue.open:
        return f"queue {job.queue.name} is not open"
    if job.ready_count >= job.min_available:
        return "the job has all the nodes it needs"
    if session.job_valid(job) is not None:
        return "the job has too few pods"
    if job.phase == "Pending" and session.has_action("enqueue"):
        return "the job is no longer admitted"
    if above_deserved(session, job):
        return f"queue {job.queue.name} has more than its deserved share"
    for task in reserved_tasks(job):
        node = task.node
        if node is None:
            return "a node was deleted"
        if not node.ready or not node.schedulable:
            return f"node {node.name} is cordoned or not ready"
        if not session.placement.fitting(task, ahead=True, nothing_reserved=True).mask[node.row]:
            return f"node {node.name} no longer matches the pod"
        if bool((session.nodes.allocatable[node.row] < task.request).any()):
            return f"node {node.name} is now too small"
    if rules.timeout:
        due = _reserved_since(session, job) + rules.timeout
        if session.now > due:
            return "the reservation timed out"
        session.due(due)
    return None


def above_deserved(session: Session, job: Job) -> bool:
    """Strictly more than the queue deserves, in something the job asks for."""
    deserved = session.deserved.get(job.queue.name)
    if deserved is None:
        return False
    asked = wanted(job) > 0
    return bool(((job.queue.allocated > deserved) & asked & (session.total > 0)).any())


def wanted(job: Job) -> Vector:
    """What the waiting tasks of a job ask for."""
    total = np.zeros_like(job.allocated)
    for task in job.tasks.values():
        if task.status in (Status.PENDING, Status.RESERVED, Status.CONDITIONAL):
            total += task.request
    return total


def _reserved_since(session: Session, job: Job) -> float:
    stamps = []
    for task in reserved_tasks(job):
        known = session.snapshot.reservation_of(task.key)
        if known is not None and known.metadata.creation_timestamp is not None:
            stamps.append(parse_timestamp(known.metadata.creation_timestamp))
    return min(stamps, default=session.now)


def _forget_strangers(session: Session) -> None:
    """Reservations whose pod is gone, or no longer waits."""
    for name, task_key in sorted(session.snapshot.waiting_reservations()):
        if TaskKey(task_key) not in session.ledger.reserved_tasks:
            node = node_set_aside(session.snapshot.reservations[name])
            session.cycle.decisions.append(Unreserve(TaskKey(task_key), node, name, "its pod is no longer waiting"))
