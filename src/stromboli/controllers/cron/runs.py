"""The Jobs that a CronJob has created, one for each time of its schedule, and the next one."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass
from datetime import datetime

from msgspec.structs import replace

from stromboli.api import BatchCronJob, BatchJob, Job, ObjectMeta, ObjectReference, default, names
from stromboli.api.schedules import time_zone
from stromboli.controllers.pod_owners import owner_reference_to

from .families import FAILED, RUNNING, SUCCESSFUL, AnyCronJob, AnyJob, Family


@dataclass(frozen=True, slots=True)
class Runs:
    active: list[AnyJob]
    successful: list[AnyJob]  # in the order in which they were created, as the next ones
    failed: list[AnyJob]

    def surplus(self, cron_job: AnyCronJob) -> list[AnyJob]:
        """Those that ended first, beyond what is kept."""
        spec = cron_job.spec
        return [
            *_beyond(self.successful, spec.successful_jobs_history_limit),
            *_beyond(self.failed, spec.failed_jobs_history_limit),
        ]


def runs_among(jobs: Sequence[AnyJob], family: Family) -> Runs:
    in_order = sorted(jobs, key=lambda job: (job.metadata.creation_timestamp or "", job.metadata.name))
    states = [(job, family.state(job)) for job in in_order]
    return Runs(*([job for job, state in states if state == wanted] for wanted in (RUNNING, SUCCESSFUL, FAILED)))


def references(jobs: Sequence[AnyJob]) -> list[ObjectReference]:
    return [
        ObjectReference(
            api_version=job.api_version, kind=job.kind, namespace=job.metadata.namespace, name=job.metadata.name,
            uid=job.metadata.uid,
        )
        for job in jobs
    ]  # fmt: skip


def job_name(cron_job: AnyCronJob, scheduled: float) -> str:
    """One for each minute, so that no time has two Jobs, whoever creates them."""
    return f"{cron_job.metadata.name}-{int(scheduled // 60)}"


def new_job(cron_job: AnyCronJob, scheduled: float, family: Family) -> AnyJob:
    template = cron_job.spec.job_template
    metadata = ObjectMeta(
        name=job_name(cron_job, scheduled),
        namespace=cron_job.metadata.namespace,
        labels=dict(template.metadata.labels),
        annotations=_annotations(cron_job) | {family.scheduled_at: _stamp(cron_job, scheduled)},
        owner_references=[owner_reference_to(cron_job)],
    )
    if isinstance(cron_job, BatchCronJob):
        return BatchJob(metadata=metadata, spec=replace(cron_job.spec.job_template.spec))
    job = Job(metadata=metadata, spec=deepcopy(cron_job.spec.job_template.spec))
    default(job)
    return job


def _annotations(cron_job: AnyCronJob) -> dict[str, str]:
    """Those of the template. Who submitted the CronJob has submitted its Jobs, whatever the template claims."""
    found = dict(cron_job.spec.job_template.metadata.annotations)
    found.pop(names.SUBMITTER, None)
    named = cron_job.metadata.annotations.get(names.SUBMITTER)
    return found | ({names.SUBMITTER: named} if named else {})


def _stamp(cron_job: AnyCronJob, scheduled: float) -> str:
    local = datetime.fromtimestamp(scheduled, time_zone(cron_job.spec.time_zone or ""))
    return local.isoformat(timespec="seconds").replace("+00:00", "Z")


def _beyond(jobs: list[AnyJob], limit: int | None) -> list[AnyJob]:
    return [] if limit is None else jobs[: max(0, len(jobs) - limit)]
