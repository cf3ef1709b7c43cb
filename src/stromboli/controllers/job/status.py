"""What a Job's status says: phases with their times and reasons, counts, how long it ran.

All that must outlive this process is here: the phase, the version, the retries. `conditions` is the list of
all phases the job went through, so that one look at the object tells its story.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from stromboli.api import Job, JobCondition, JobState, JobStatus, Pod, TaskState
from stromboli.api.quantity import format_duration
from stromboli.api.timestamps import format_timestamp, parse_timestamp

from .pods import place_of
from .state_machine import FINISHED_PHASES, PENDING, RUNNING, Census, job_minimum

_COUNTED = ("Pending", "Running", "Succeeded", "Failed")


def take_census(job: Job, staying: Iterable[Pod], *, terminating: int) -> Census:
    counts = dict.fromkeys((*_COUNTED, "Unknown"), 0)
    by_task: dict[str, dict[str, int]] = {}
    for pod in staying:
        phase = pod.status.phase if pod.status.phase in _COUNTED else "Unknown"
        counts[phase] += 1
        place = place_of(job, pod.metadata.name)
        if place is not None:
            of_task = by_task.setdefault(place[0], {})
            of_task[phase] = of_task.get(phase, 0) + 1
    return Census(
        pending=counts["Pending"],
        running=counts["Running"],
        succeeded=counts["Succeeded"],
        failed=counts["Failed"],
        unknown=counts["Unknown"],
        terminating=terminating,
        by_task=by_task,
    )


def with_phase(status: JobStatus, phase: str, *, now: float, reason: str = "", message: str = "") -> JobStatus:
    """The status after a change of phase. Without a reason of its own an end keeps the reason it began with."""
    stamp = format_timestamp(now)
    if phase not in (PENDING, RUNNING) and not reason:
        reason = status.state.reason
        message = message or status.state.message
    changed: JobStatus = replace(
        status,
        state=JobState(phase=phase, reason=reason, message=message, last_transition_time=stamp),
        conditions=[*status.conditions, JobCondition(status=phase, last_transition_time=stamp)],
    )
    if phase in FINISHED_PHASES:
        changed.running_duration = _since_first_run(changed, now)
    return changed


def with_counts(status: JobStatus, job: Job, census: Census) -> JobStatus:
    counted: JobStatus = replace(
        status,
        min_available=job_minimum(job),
        pending=census.pending,
        running=census.running,
        succeeded=census.succeeded,
        failed=census.failed,
        unknown=census.unknown,
        terminating=census.terminating,
        task_status_count={name: TaskState(phase=dict(counts)) for name, counts in census.by_task.items()},
    )
    return counted


def finished_at(job: Job) -> float | None:
    if job.status.state.phase not in FINISHED_PHASES or job.status.state.last_transition_time is None:
        return None
    return parse_timestamp(job.status.state.last_transition_time)


def _since_first_run(status: JobStatus, now: float) -> str:
    for condition in status.conditions:
        if condition.status == RUNNING and condition.last_transition_time is not None:
            return format_duration(now - parse_timestamp(condition.last_transition_time))
    return ""
