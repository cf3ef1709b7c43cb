"""The status of a Job: its phases with their times and reasons, the counts of its pods, and its duration.

The status holds everything that must survive a restart: the phase, the version and the retries. `conditions` lists all
phases the job went through, so that the object shows its history.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from stromboli.api import Job, JobCondition, JobState, JobStatus, Pod, TaskState
from stromboli.api.quantity import format_duration
from stromboli.api.timestamps import format_timestamp, parse_timestamp

from .job_pods import parse_pod_name
from .state_machine import FINISHED_PHASES, PENDING, RUNNING, PodCounts, job_minimum

_COUNTED = ("Pending", "Running", "Succeeded", "Failed")


def count_pods(job: Job, pods: Iterable[Pod], *, terminating: int) -> PodCounts:
    counts = dict.fromkeys((*_COUNTED, "Unknown"), 0)
    by_task: dict[str, dict[str, int]] = {}
    for pod in pods:
        phase = pod.status.phase if pod.status.phase in _COUNTED else "Unknown"
        counts[phase] += 1
        parsed = parse_pod_name(job, pod.metadata.name)
        if parsed is not None:
            of_task = by_task.setdefault(parsed[0], {})
            of_task[phase] = of_task.get(phase, 0) + 1
    return PodCounts(
        pending=counts["Pending"],
        running=counts["Running"],
        succeeded=counts["Succeeded"],
        failed=counts["Failed"],
        unknown=counts["Unknown"],
        terminating=terminating,
        by_task=by_task,
    )


def with_phase(status: JobStatus, phase: str, *, now: float, reason: str = "", message: str = "") -> JobStatus:
    """The status after a change of phase. A final phase without a reason keeps the reason of the phase before."""
    timestamp = format_timestamp(now)
    if phase not in (PENDING, RUNNING) and not reason:
        reason = status.state.reason
        message = message or status.state.message
    changed: JobStatus = replace(
        status,
        state=JobState(phase=phase, reason=reason, message=message, last_transition_time=timestamp),
        conditions=[*status.conditions, JobCondition(status=phase, last_transition_time=timestamp)],
    )
    if phase in FINISHED_PHASES:
        changed.running_duration = _since_first_run(changed, now)
    return changed


def with_counts(status: JobStatus, job: Job, counts: PodCounts) -> JobStatus:
    updated: JobStatus = replace(
        status,
        min_available=job_minimum(job),
        pending=counts.pending,
        running=counts.running,
        succeeded=counts.succeeded,
        failed=counts.failed,
        unknown=counts.unknown,
        terminating=counts.terminating,
        task_status_count={name: TaskState(phase=dict(counts)) for name, counts in counts.by_task.items()},
    )
    return updated


def finished_at(job: Job) -> float | None:
    if job.status.state.phase not in FINISHED_PHASES or job.status.state.last_transition_time is None:
        return None
    return parse_timestamp(job.status.state.last_transition_time)


def _since_first_run(status: JobStatus, now: float) -> str:
    for condition in status.conditions:
        if condition.status == RUNNING and condition.last_transition_time is not None:
            return format_duration(now - parse_timestamp(condition.last_transition_time))
    return ""
