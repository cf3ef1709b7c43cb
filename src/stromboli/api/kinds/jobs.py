"""The kinds of `batch/v1`. Volcano's kinds of the same names are in `batch`."""

from __future__ import annotations

from msgspec import field

from .metadata import ApiObject, ApiStruct, Condition, LabelSelector, ObjectMeta, ObjectReference
from .pods import PodTemplateSpec


class OnExitCodes(ApiStruct):
    container_name: str = ""
    operator: str = ""
    values: list[int] = field(default_factory=list)


class OnPodCondition(ApiStruct):
    type: str = ""
    status: str = "True"


class PodFailurePolicyRule(ApiStruct):
    action: str = ""
    on_exit_codes: OnExitCodes | None = None
    on_pod_conditions: list[OnPodCondition] = field(default_factory=list)


class PodFailurePolicy(ApiStruct):
    rules: list[PodFailurePolicyRule] = field(default_factory=list)


class SuccessPolicyRule(ApiStruct):
    succeeded_indexes: str = ""
    succeeded_count: int | None = None


class SuccessPolicy(ApiStruct):
    rules: list[SuccessPolicyRule] = field(default_factory=list)


class BatchJobSpec(ApiStruct):
    parallelism: int | None = None
    completions: int | None = None
    active_deadline_seconds: int | None = None
    backoff_limit: int | None = None
    backoff_limit_per_index: int | None = None
    max_failed_indexes: int | None = None
    pod_failure_policy: PodFailurePolicy | None = None
    success_policy: SuccessPolicy | None = None
    selector: LabelSelector | None = None
    manual_selector: bool | None = None
    template: PodTemplateSpec = field(default_factory=PodTemplateSpec)
    ttl_seconds_after_finished: int | None = None
    completion_mode: str = ""
    suspend: bool | None = None
    pod_replacement_policy: str = ""
    managed_by: str = ""


class BatchJobCondition(Condition):
    last_probe_time: str | None = None


class UncountedPods(ApiStruct):
    """The uids of finished pods whose finalizers are being removed."""

    succeeded: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)


class BatchJobStatus(ApiStruct):
    conditions: list[BatchJobCondition] = field(default_factory=list)
    start_time: str | None = None
    completion_time: str | None = None
    active: int = 0
    succeeded: int = 0
    failed: int = 0
    terminating: int | None = None
    completed_indexes: str = ""
    failed_indexes: str = ""
    uncounted_terminated_pods: UncountedPods | None = None
    ready: int | None = None


class BatchJob(ApiObject):
    api_version: str = "batch/v1"
    kind: str = "Job"
    spec: BatchJobSpec = field(default_factory=BatchJobSpec)
    status: BatchJobStatus = field(default_factory=BatchJobStatus)


class BatchJobTemplate(ApiStruct):
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: BatchJobSpec = field(default_factory=BatchJobSpec)


class BatchCronJobSpec(ApiStruct):
    schedule: str = ""
    time_zone: str | None = None
    starting_deadline_seconds: int | None = None
    concurrency_policy: str = ""
    suspend: bool | None = None
    job_template: BatchJobTemplate = field(default_factory=BatchJobTemplate)
    successful_jobs_history_limit: int | None = None
    failed_jobs_history_limit: int | None = None


class BatchCronJobStatus(ApiStruct):
    active: list[ObjectReference] = field(default_factory=list)
    last_schedule_time: str | None = None
    last_successful_time: str | None = None


class BatchCronJob(ApiObject):
    api_version: str = "batch/v1"
    kind: str = "CronJob"
    spec: BatchCronJobSpec = field(default_factory=BatchCronJobSpec)
    status: BatchCronJobStatus = field(default_factory=BatchCronJobStatus)
