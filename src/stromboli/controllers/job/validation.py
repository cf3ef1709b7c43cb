"""Jobs that are valid objects, but that this controller cannot run; and how an invalid job is rejected."""

from __future__ import annotations

from msgspec.structs import replace

from stromboli.api import Job, JobStatus
from stromboli.controllers.changes import Change
from stromboli.controllers.validator import INVALID, rejection

from .job_status import with_phase
from .job_volumes import check_volumes
from .plugins import plugins_of
from .state_machine import PENDING

FAILED_CREATE = "FailedCreate"


def check_job(job: Job) -> None:
    """Raise an ApiError for volumes or plugin arguments that the job's pods could not be created with."""
    check_volumes(job)
    for plugin in plugins_of(job).values():
        plugin.check(job)


def reject_job(job: Job, error: str, now: float) -> list[Change]:
    status: JobStatus = job.status
    if not status.state.phase:
        status = with_phase(status, PENDING, now=now)
    status = replace(status, state=replace(status.state, reason=INVALID, message=error))
    return rejection(job, replace(job, status=status), error)


def with_failed_write(status: JobStatus, error: str, now: float) -> JobStatus:
    """The status of a job that waits for an object which could not be written."""
    if not status.state.phase:
        status = with_phase(status, PENDING, now=now)
    failed: JobStatus = replace(status, state=replace(status.state, reason=FAILED_CREATE, message=error))
    return failed


def without_rejection(status: JobStatus) -> JobStatus:
    """The status of a job that is valid, possibly after it was corrected, and whose objects could be written."""
    if status.state.reason not in (INVALID, FAILED_CREATE):
        return status
    valid: JobStatus = replace(status, state=replace(status.state, reason="", message=""))
    return valid
