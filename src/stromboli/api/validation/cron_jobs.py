"""What the fields of a CronJob must be. The Jobs that it creates are judged as if they had been written by hand."""

from __future__ import annotations

from stromboli.api.errors import ApiError
from stromboli.api.kinds.batch import CronJob, CronJobSpec, Job
from stromboli.api.kinds.jobs import BatchCronJob, BatchCronJobSpec
from stromboli.api.schedules import parse_schedule, time_zone

from . import rules
from .batch import check_dependencies, check_job
from .pod_owners import check_batch_job_spec

CONCURRENCY_POLICIES = ("", "Allow", "Forbid", "Replace")
MAX_SCHEDULE = 1000  # characters
MAX_TIME_ZONE = 253
MAX_NAME = 52
_TEMPLATE = "spec.jobTemplate"


def check_cron_job(obj: CronJob, *, max_replicas: int) -> None:
    _check_schedule(obj.spec)
    try:
        check_job(_as_job(obj), max_replicas=max_replicas)
    except ApiError as error:
        raise ApiError(f"{_TEMPLATE}.{error.field}", error.message) from None


def check_batch_cron_job(obj: BatchCronJob) -> None:
    """That of `batch/v1`. Its Jobs have names of at most 63 characters, of which the time has 11."""
    if len(obj.metadata.name) > MAX_NAME:
        raise ApiError("metadata.name", f"must have at most {MAX_NAME} characters, not {len(obj.metadata.name)}")
    _check_schedule(obj.spec)
    check_batch_job_spec(obj.spec.job_template.spec, f"{_TEMPLATE}.spec")


def _check_schedule(spec: CronJobSpec | BatchCronJobSpec) -> None:
    rules.required(spec.schedule, "spec.schedule")
    if "TZ=" in spec.schedule:
        raise ApiError("spec.schedule", "must not name a time zone: write it into spec.timeZone")
    _understood(spec.schedule)
    if spec.time_zone is not None:
        rules.required(spec.time_zone, "spec.timeZone")
        try:
            time_zone(spec.time_zone)
        except ValueError as error:
            raise ApiError("spec.timeZone", str(error)) from None
    rules.one_of(spec.concurrency_policy, CONCURRENCY_POLICIES, "spec.concurrencyPolicy")
    rules.at_least(spec.starting_deadline_seconds or 0, 0, "spec.startingDeadlineSeconds")
    rules.at_least(spec.successful_jobs_history_limit or 0, 0, "spec.successfulJobsHistoryLimit")
    rules.at_least(spec.failed_jobs_history_limit or 0, 0, "spec.failedJobsHistoryLimit")


def check_job_template(obj: CronJob) -> None:
    """What is judged of a Job when all else is right."""
    try:
        check_dependencies(obj.spec.job_template.spec.tasks)
    except ApiError as error:
        raise ApiError(f"{_TEMPLATE}.{error.field}", error.message) from None


def _understood(schedule: str) -> None:
    try:
        parse_schedule(schedule)
    except ValueError as error:
        raise ApiError("spec.schedule", str(error)) from None


def _as_job(obj: CronJob) -> Job:
    return Job(metadata=obj.metadata, spec=obj.spec.job_template.spec)
