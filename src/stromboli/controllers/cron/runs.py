"""The Jobs that a CronJob has created, one for each time of its schedule, and the next one."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass
from datetime import datetime

from stromboli.api import CronJob, Job, ObjectMeta, ObjectReference, default, names
from stromboli.api.schedules import time_zone
from stromboli.controllers.pod_owners import owner_reference_to

_SUCCESSFUL = ("Completed",)
_FAILED = ("Failed", "Terminated")


@dataclass(frozen=True, slots=True)
class Runs:
    active: list[Job]
    successful: list[Job]  # in the order in which they were created, as the next ones
    failed: list[Job]

    def surplus(self, cron_job: CronJob) -> list[Job]:
        """Those that ended first, beyond what is kept."""
        spec = cron_job.spec
        return [
            *_beyond(self.successful, spec.successful_jobs_history_limit),
            *_beyond(self.failed, spec.failed_jobs_history_limit),
        ]


def runs_among(jobs: Sequence[Job]) -> Runs:
    in_order = sorted(jobs, key=lambda job: (job.metadata.creation_timestamp or "", job.metadata.name))
    return Runs(
        active=[job for job in in_order if _phase(job) not in (*_SUCCESSFUL, *_FAILED)],
        successful=[job for job in in_order if _phase(job) in _SUCCESSFUL],
        failed=[job for job in in_order if _phase(job) in _FAILED],
    )


def references(jobs: Sequence[Job]) -> list[ObjectReference]:
    return [
        ObjectReference(
            api_version=job.api_version, kind=job.kind, namespace=job.metadata.namespace, name=job.metadata.name,
            uid=job.metadata.uid,
        )
        for job in jobs
    ]  # fmt: skip


def job_name(cron_job: CronJob, scheduled: float) -> str:
    """One for each minute, so that no time has two Jobs, whoever creates them."""
    return f"{cron_job.metadata.name}-{int(scheduled // 60)}"


def new_job(cron_job: CronJob, scheduled: float) -> Job:
    template = cron_job.spec.job_template
    metadata = ObjectMeta(
        name=job_name(cron_job, scheduled),
        namespace=cron_job.metadata.namespace,
        labels=dict(template.metadata.labels),
        annotations=_annotations(cron_job) | {names.SCHEDULED_AT: _stamp(cron_job, scheduled)},
        owner_references=[owner_reference_to(cron_job)],
    )
    job = Job(metadata=metadata, spec=deepcopy(template.spec))
    default(job)
    return job


def _annotations(cron_job: CronJob) -> dict[str, str]:
    """Those of the template. Who submitted the CronJob has submitted its Jobs, whatever the template claims."""
    found = dict(cron_job.spec.job_template.metadata.annotations)
    found.pop(names.SUBMITTER, None)
    named = cron_job.metadata.annotations.get(names.SUBMITTER)
    return found | ({names.SUBMITTER: named} if named else {})


def _stamp(cron_job: CronJob, scheduled: float) -> str:
    local = datetime.fromtimestamp(scheduled, time_zone(cron_job.spec.time_zone or ""))
    return local.isoformat(timespec="seconds").replace("+00:00", "Z")


def _phase(job: Job) -> str:
    return job.status.state.phase


def _beyond(jobs: list[Job], limit: int | None) -> list[Job]:
    return [] if limit is None else jobs[: max(0, len(jobs) - limit)]
