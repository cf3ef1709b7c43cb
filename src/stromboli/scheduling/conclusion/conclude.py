"""Records the outcome of each job.

PodGroups get their phase, counts and conditions, waiting pods their reason, queues what they have allocated. Only
changes become decisions, so in a quiet cluster nothing is written.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from stromboli.api import PodGroupCondition
from stromboli.api.quantity import amounts
from stromboli.api.timestamps import format_timestamp, parse_timestamp
from stromboli.api.upstream import UpstreamGroup
from stromboli.cluster import Job, JobKey, Status, Task, TaskKey, group_status
from stromboli.cluster.object_fields import WAITING_CONDITION, WAITING_STOPPED, waiting_record
from stromboli.cluster.queue_index import with_queues_below
from stromboli.scheduling.decisions import Evict, Explanation, Notice, PatchGroup, PatchPod, PatchQueue
from stromboli.scheduling.explanation import (
    Code,
    gang_reasons,
    reasons,
    upstream_conditions,
    waiting_counts,
    waiting_since,
)
from stromboli.scheduling.explanation.conditions import SCHEDULED, UNSCHEDULABLE
from stromboli.scheduling.gang import holds_nodes, reached_minimum
from stromboli.scheduling.reservations import still_waits
from stromboli.scheduling.session import Session

from .close_fit import unclear
from .explainer import Explainer
from .held_binds import HeldBinds
from .last_conclusion import LastConclusion
from .namespace_standings import Standings
from .scattered_groups import REASON as SEVERAL_DOMAINS
from .scattered_groups import SCATTERED, TreesSeen, may_be_scattered, scattered

_WAITS = frozenset({Status.PENDING, Status.PIPELINED, Status.CONDITIONAL, Status.RESERVED, Status.ALLOCATED})
"""Statuses of tasks that are not bound at the end of a cycle."""

# Looked up once: members of an enumeration take long to find, and there may be thousands of jobs.
_ALLOCATED = Status.ALLOCATED
_BINDING = Status.BINDING
_BOUND = Status.BOUND
_FAILED = Status.FAILED
_RELEASING = Status.RELEASING
_RUNNING = Status.RUNNING
_SUCCEEDED = Status.SUCCEEDED


def conclude(session: Session) -> None:
    last = session.memory(LastConclusion)
    if not last.repeat(session):
        _conclude_jobs(session)
        last.record(session)
    _conclude_queues(session)
    for warning in session.snapshot.take_warnings():
        reason, message = reasons.object_warning(warning.kind, warning.value)
        session.cycle.decisions.append(Notice(warning.kind, warning.key, reason, message, warning=True))


def _conclude_jobs(session: Session) -> None:
    jobs = [job for job in session.ledger.active_jobs() if job.object is not None and job.queue.object is not None]
    jobs.sort(key=lambda job: job.key)
    explanations = session.cycle.reasons = _explain(session, jobs)
    session.cycle.asks_again = session.asks_every_task and bool(explanations)
    changed, moved = session.ledger.changed_jobs, session.memory(TreesSeen).renew(session)
    for job in session.turns.each(jobs):
        explanation = explanations.get(job.key)
        assert job.object is not None
        is_due = job.key in changed or not job.shows_what_was_said or may_be_scattered(job, moved)
        if explanation is not None or is_due:
            _conclude_job(session, job, explanation)
    session.ledger.all_recorded()
    for job in session.turns.each(session.snapshot.stand_ins):
        explanation = explanations.get(job.key)
        if explanation is not None:
            _conclude_stand_in(session, job, explanation)


def _conclude_stand_in(session: Session, job: Job, explanation: Explanation) -> None:
    nominated = next(iter(job.tasks.values())).nominated
    also = session.points.stand_in_conditions.of(job)
    decision = still_waits(session, job.stands_for, explanation.code, explanation.message, nominated, also)
    if decision is not None:
        session.cycle.decisions.append(decision)


def _conclude_queues(session: Session) -> None:
    allocated = with_queues_below(session.queues.values(), lambda queue: queue.allocated)
    for queue in session.turns.each(session.queues.values()):
        has = session.amounts(allocated[queue.name])
        assert queue.object is not None
        if has != {name: n for name, n in amounts(queue.object.status.allocated).items() if n}:
            session.cycle.decisions.append(PatchQueue(queue.name, has))
    offered = session.total > 0
    for name, deserved in session.deserved.items():
        session.cycle.deserved[name] = session.amounts(np.where(offered, deserved, 0))  # none of what is gone


def _explain(session: Session, jobs: Sequence[Job]) -> dict[JobKey, Explanation]:
    """Of all jobs that wait. Before the phase of any job changes: what was promised at admission depends on it."""
    explainer = Explainer(session)
    waiting = [job for job in jobs if _waits(job) or _is_kept_out(session, job)]
    waiting += [job for job in session.snapshot.stand_ins if _waits(job)]
    if session.turns.not_reached:
        _note_not_reached(session, waiting)
    findings = {job.key: (job, explainer.find(job)) for job in session.turns.each(waiting)}
    room = [job for job, finding in findings.values() if finding.is_room]
    standings = Standings(session, room)
    found = {key: finding.explain(standings.ahead_of(job)) for key, (job, finding) in findings.items()}
    if session.points.remark:
        for job in session.turns.each([job for job, _ in findings.values()]):
            found[job.key] = _with_remarks(session, job, found[job.key])
    return found


def _with_remarks(session: Session, job: Job, why: Explanation) -> Explanation:
    said = " ".join(filter(None, (remark(job) for remark in session.points.remark.calls)))
    return Explanation(why.code, f"{why.message} {said}") if said else why


def _note_not_reached(session: Session, waiting: Sequence[Job]) -> None:
    """Of jobs that had no turn when room was given out, and have none of other kinds of help either."""
    missed = session.turns.not_reached
    without_turn = {*missed.get("enqueue", ()), *missed.get("allocate", ())}
    for job in waiting:
        if job.key in without_turn:
            session.notes.of(job).said[Code.NOT_REACHED] = reasons.not_reached()


def _waits(job: Job) -> bool:
    return bool(job.pending_count or job.waiting_count or job.counts[_ALLOCATED] or job.held)


def _is_kept_out(session: Session, job: Job) -> bool:
    return job.phase == "Pending" and session.notes.refused(job)


def _conclude_job(session: Session, job: Job, explanation: Explanation | None) -> None:
    """`explanation`: why it waits, if it does."""
    waits = unschedulable = False
    if explanation is not None:
        waits = _waits(job)
        unschedulable = _is_kept_out(session, job) or (waits and _started(job) < job.min_available)
        _explain_tasks(session, job, explanation)
    phase = _phase(job, unschedulable)
    if not waits and _has_lost_pods(job) and (refusal := session.job_valid(job)) is not None:
        # Nothing is left to place, so no action gave a reason. A controller may be about to create the missing pod.
        unschedulable, explanation = True, Explanation(refusal.code, reasons.refused(refusal))
    session.ledger.set_phase(job, phase)
    why = explanation if unschedulable else None
    evicted = _evicted_whole(session, job)
    conditions = upstream_conditions.of_job(job, _conditions(session, job, why), session.now, why, evicted)
    group = job.object
    assert group is not None
    running, succeeded, failed = _counts(job)
    said = (phase, running, succeeded, failed, conditions)
    # What explains a job in this cycle may not do so in the next.
    job.said = said if explanation is None else None
    if said != group_status(group):
        if session.ledger.refused_binds and _is_retried(job):
            job.said = None
        else:
            session.cycle.decisions.append(PatchGroup(job.key, phase, conditions, running, succeeded, failed))


def _counts(job: Job) -> tuple[int, int, int]:
    """Groups of scheduling.k8s.io have no fields for them."""
    if isinstance(job.object, UpstreamGroup):
        return 0, 0, 0
    return job.counts[_RUNNING], job.counts[_SUCCEEDED], job.counts[_FAILED]


def _evicted_whole(session: Session, job: Job) -> str:
    """The sentence for its pods if the last of them was evicted in this cycle, or in one before and the group does not
    say it yet: its status takes a while to be written. Only for groups that can say so."""
    group = job.object
    if not isinstance(group, UpstreamGroup):
        return ""
    if job.ready_count or upstream_conditions.says_evicted(group, job.evicted_whole):
        job.evicted_whole = ""
    if job.counts[_RELEASING] and not job.ready_count:
        evictions = (one for one in session.cycle.decisions if isinstance(one, Evict))
        job.evicted_whole = next((one.message for one in evictions if one.task in job.tasks), job.evicted_whole)
    return job.evicted_whole


def _conditions(session: Session, job: Job, unschedulable: Explanation | None) -> tuple[PodGroupCondition, ...]:
    """`unschedulable`: why, if it is."""
    found = _conditions_of_pods(session, job, unschedulable)
    if job.layout is None:
        return found
    apart = scattered(session, job)
    also = [_condition(session, job, SCATTERED, SEVERAL_DOMAINS, apart)] if apart else []
    return (*(one for one in found if one.type != SCATTERED), *also)


def _conditions_of_pods(session: Session, job: Job, unschedulable: Explanation | None) -> tuple[PodGroupCondition, ...]:
    if unschedulable is not None:
        return _conditions_of_waiting(session, job, unschedulable)
    if job.tasks and job.ready_count - job.held >= max(1, job.min_available):
        return (_condition(session, job, SCHEDULED, "TasksReady", gang_reasons.scheduled(job.min_available)),)
    assert job.object is not None
    conditions = job.object.status.conditions
    if waiting_record(job.object) is not None:  # nothing is left to place, such as when all pods were deleted
        return tuple(_clock(session, job) if one.type == WAITING_CONDITION else one for one in conditions)
    return tuple(conditions)


def _is_retried(job: Job) -> bool:
    """Whether a bind is sent again that was refused before. Most likely it is refused again, so what it would change is
    not true before it is answered."""
    return bool(job.counts[_BINDING]) and any(
        task.refused is not None and task.status is _BINDING for task in job.tasks.values()
    )


def _started(job: Job) -> int:
    """Tasks that have a node for good. Tentative places do not count, nor do those that wait for volumes."""
    return job.ready_count - job.counts[_ALLOCATED] - job.held


@lru_cache(maxsize=1)
def _stamp(now: float) -> str:
    return format_timestamp(now)


def _conditions_of_waiting(session: Session, job: Job, explanation: Explanation) -> tuple[PodGroupCondition, ...]:
    """Why it waits; since when; and what features do about it."""
    message = explanation.message
    if job.tasks:
        missing = max(0, job.min_available - _started(job))
        wanted = max(len(job.tasks), job.min_available)  # some of them may not exist yet
        message = gang_reasons.gang_unschedulable(missing, wanted, message)
    conditions = [_condition(session, job, UNSCHEDULABLE, "NotEnoughResources", message)]
    conditions.append(_clock(session, job))
    if _was_scheduled(job):
        reached = reached_minimum(job)
        if reached < job.min_available:
            reason, lacks = "MinimumRaised", gang_reasons.minimum_raised(reached, job.min_available)
        else:
            reason, lacks = "LostPods", gang_reasons.lost_pods(reached)
        conditions.append(_condition(session, job, SCHEDULED, reason, lacks, status="False"))
    conditions += [_condition(session, job, *told) for told in session.points.group_conditions.of(job)]
    return tuple(conditions)


def _clock(session: Session, job: Job) -> PodGroupCondition:
    """Since when it waits, or how long it had waited when the clock stopped (see `object_fields.waiting_record`)."""
    since = waiting_since(session, job)
    if job.is_pipelined and (job.waiting_count or job.held):
        return _condition(session, job, WAITING_CONDITION, "Promised", "", since, status="False")
    if waiting_counts(job):
        return _condition(session, job, WAITING_CONDITION, "NotReady", "", since)
    return _condition(
        session, job, WAITING_CONDITION, WAITING_STOPPED, gang_reasons.waiting_not_counted(), status="False",
        transition_id=format_timestamp(since),
    )  # fmt: skip


def _was_scheduled(job: Job) -> bool:
    """Whether the pods that are left are of a gang that was complete once."""
    assert job.object is not None
    return holds_nodes(job) and any(condition.type == SCHEDULED for condition in job.object.status.conditions)


def _condition(
    session: Session, job: Job, kind: str, reason: str, message: str, since: float | None = None, *,
    status: str = "True", transition_id: str = "",
) -> PodGroupCondition:  # fmt: skip
    """The old condition if only its time would change, unless that is given."""
    assert job.object is not None
    for known in job.object.status.conditions:
        if known.type == kind and (known.status, known.reason, known.message) == (status, reason, message):
            time = known.last_transition_time
            if since is None or (time is not None and parse_timestamp(time) == since):
                return known
    stamp = _stamp(session.now)
    return PodGroupCondition(
        type=kind, status=status, reason=reason, message=message,
        last_transition_time=stamp if since is None else format_timestamp(since),
        transition_id=transition_id or stamp,
    )  # fmt: skip


def _phase(job: Job, unschedulable: bool) -> str:
    counts = job.counts
    if counts[_RUNNING] and (_has_lost_pods(job) or (unschedulable and job.ready_count < job.min_available)):
        return "Unknown"
    finished = counts[_SUCCEEDED] + counts[_FAILED]
    scheduled = _scheduled(job)
    if scheduled >= max(1, job.min_available):
        return "Completed" if scheduled == finished else "Running"
    # What has pods on nodes was admitted, and must be able to get the others.
    return "Inqueue" if job.phase == "Inqueue" or holds_nodes(job) else "Pending"


def _scheduled(job: Job) -> int:
    """How many tasks of a job have or had a node; terminating ones count until they are gone."""
    counts = job.counts
    finished = counts[_SUCCEEDED] + counts[_FAILED]
    scheduled = counts[_RUNNING] + counts[_BOUND] + counts[_BINDING] - job.held + finished
    if counts[_RELEASING]:
        scheduled += sum(t.status is _RELEASING and t.node is not None for t in job.tasks.values())
    return scheduled


def _has_lost_pods(job: Job) -> bool:
    """Some pods of the gang run and others are missing: they were deleted, perhaps before they had a node."""
    return job.counts[_RUNNING] > 0 and _scheduled(job) < job.min_available


def _explain_tasks(session: Session, job: Job, explanation: Explanation) -> None:
    """`explanation`: of those that do not have their place yet. Pods come in the order of their names: that of tasks
    depends on the order of events, which may differ after a restart."""
    tasks = job.tasks
    if job.held and job.held == len(tasks):
        keys, whys, _ = session.state(HeldBinds).explain_tasks(job)
    else:
        found = _explain_each(session, job, explanation)
        keys = sorted(found)
        whys = list(map(found.__getitem__, keys))
    session.cycle.waiting.update(zip(keys, whys, strict=True))
    session.cycle.decisions.extend(
        [
            PatchPod(task.key, why.code, why.message, task.nominated, task.refusals)
            for task, why in zip(map(tasks.__getitem__, keys), whys, strict=True)
            if not task.ungated and task.said != (why.message, task.nominated, task.refusals)
        ]
    )


def _explain_each(session: Session, job: Job, explanation: Explanation) -> dict[TaskKey, Explanation]:
    tasks = job.tasks
    found = {key: explanation for key, task in tasks.items() if task.status in _WAITS}
    if job.held:
        held = session.state(HeldBinds).explain_tasks(job)
        found.update(zip(held.keys, held.whys, strict=True))
    if job.gated:
        found |= {key: _why_gated(session, job, tasks[key], explanation) for key in found if tasks[key].gated}
    return found | unclear(job)


def _why_gated(session: Session, job: Job, task: Task, of_job: Explanation) -> Explanation:
    """`of_job`: why its job waits. That keeps the gate of a queue in place until the job is admitted."""
    if task.ungated:
        return Explanation(Code.SCHEDULING_GATED, gang_reasons.queue_gate_removed())
    if not task.awaits_queue:
        return Explanation(Code.SCHEDULING_GATED, gang_reasons.gated())
    note = session.notes.known(job)
    said = None if note is None else note.said.get(Code.SCHEDULING_GATED)
    if said is None:
        told = of_job.message if of_job.code != Code.SCHEDULING_GATED else ""
        said = gang_reasons.keeps_queue_gate(told).rstrip()
    return Explanation(Code.SCHEDULING_GATED, said)
