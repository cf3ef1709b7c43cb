"""Whether a Job has ended, and how; and the conditions in which its status says so."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from stromboli.api import BatchJob, BatchJobCondition, BatchJobStatus
from stromboli.api.timestamps import parse_timestamp

FIRST_BACKOFF: Final = 10.0
LONGEST_BACKOFF: Final = 360.0
"""Seconds after a failed pod until the next one, doubled each time up to this."""
BACKOFF_LIMIT: Final = 6


@dataclass(frozen=True, slots=True)
class Outcome:
    type: str  # Complete or Failed
    reason: str
    message: str


def outcome_of(job: BatchJob, status: BatchJobStatus, active: int, restarts: int, now: float) -> Outcome | None:
    """`restarts`: of containers in pods that run."""
    spec = job.spec
    limit = BACKOFF_LIMIT if spec.backoff_limit is None else spec.backoff_limit
    if status.failed > limit:
        return Outcome("Failed", "BackoffLimitExceeded", f"{status.failed} pods have failed; backoffLimit is {limit}.")
    if restarts and restarts >= limit and spec.template.spec.restart_policy == "OnFailure":
        message = f"Its containers have restarted {restarts} times; backoffLimit is {limit}."
        return Outcome("Failed", "BackoffLimitExceeded", message)
    end = deadline_of(job, status)
    if end is not None and now >= end:
        message = f"It has run for activeDeadlineSeconds ({spec.active_deadline_seconds} s)."
        return Outcome("Failed", "DeadlineExceeded", message)
    if spec.completions is None:
        is_done = status.succeeded > 0 and not active
    else:
        is_done = status.succeeded >= spec.completions
    return Outcome("Complete", "CompletionsReached", f"{status.succeeded} pods have succeeded.") if is_done else None


def deadline_of(job: BatchJob, status: BatchJobStatus) -> float | None:
    limit = job.spec.active_deadline_seconds
    return None if limit is None or status.start_time is None else parse_timestamp(status.start_time) + limit


def resume_at(failed: int, last_failure: float | None) -> float | None:
    """When a pod may be started after the last failure."""
    if not failed or last_failure is None:
        return None
    return last_failure + min(FIRST_BACKOFF * 2.0 ** min(failed - 1, 10), LONGEST_BACKOFF)


def ending(status: BatchJobStatus) -> BatchJobCondition | None:
    """The condition with which a Job has ended; None if it has not."""
    return next((one for one in status.conditions if one.type in ("Complete", "Failed") and one.status == "True"), None)


def ended_at(status: BatchJobStatus) -> float | None:
    found = ending(status)
    if found is None or found.last_transition_time is None:
        return None
    return parse_timestamp(found.last_transition_time)


def is_suspended(status: BatchJobStatus) -> bool:
    return any(one.type == "Suspended" and one.status == "True" for one in status.conditions)


def set_condition(status: BatchJobStatus, kind: str, value: str, reason: str, message: str, stamp: str) -> None:
    if any((one.type, one.status) == (kind, value) for one in status.conditions):
        return
    made = BatchJobCondition(
        type=kind, status=value, reason=reason, message=message, last_probe_time=stamp, last_transition_time=stamp
    )
    status.conditions = [*(one for one in status.conditions if one.type != kind), made]
