"""The two kinds of CronJobs, Volcano's and that of `batch/v1`: what differs between them, and their Jobs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from stromboli.api import BatchCronJob, BatchJob, CronJob, Job, names
from stromboli.controllers.pod_owners import controlling_reference

AnyCronJob = CronJob | BatchCronJob
AnyJob = Job | BatchJob

RUNNING, SUCCESSFUL, FAILED = "running", "successful", "failed"
_PHASES: Final = {"Completed": SUCCESSFUL, "Failed": FAILED, "Terminated": FAILED}


@dataclass(frozen=True, slots=True)
class Family:
    cron_job: type[CronJob] | type[BatchCronJob]
    job: type[Job] | type[BatchJob]
    group: str
    scheduled_at: str  # the annotation of a Job with its time
    state: Callable[[Any], str]  # of a Job: running, successful or failed
    ended: Callable[[Any], str | None]  # when a Job has succeeded

    def owner(self, job: AnyJob) -> str:
        """The key of the CronJob that controls a Job; "" if none does."""
        reference = controlling_reference(job.metadata)
        if reference is None or reference.kind != "CronJob" or not reference.api_version.startswith(self.group):
            return ""
        return f"{job.metadata.namespace}/{reference.name}"


def _state(job: Job) -> str:
    return _PHASES.get(job.status.state.phase, RUNNING)


def _batch_state(job: BatchJob) -> str:
    holding = {one.type for one in job.status.conditions if one.status == "True"}
    return SUCCESSFUL if "Complete" in holding else FAILED if "Failed" in holding else RUNNING


VOLCANO: Final = Family(
    CronJob, Job, "batch.volcano.sh/", names.SCHEDULED_AT, _state, lambda job: job.status.state.last_transition_time
)
KUBERNETES: Final = Family(
    BatchCronJob, BatchJob, "batch/v1", "batch.kubernetes.io/cronjob-scheduled-timestamp", _batch_state,
    lambda job: job.status.completion_time,
)  # fmt: skip
