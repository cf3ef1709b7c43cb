"""Completes pods with every field of their task's template, and Jobs with every field of the CronJob's or the
JobTemplate's.

Our types hold only what scheduling reads, but a pod that really runs needs the rest: pull secrets, probes, security
contexts, and whatever the next Kubernetes version adds. So a Job from an API server keeps the raw template of each task
beside the decoded one. A controller builds the pod from the decoded template; here both are merged. What the controller
left unchanged is taken from the raw template, what it set or changed is taken from the pod. A CronJob keeps the raw
spec of its Jobs, which is sent as it is, and a JobTemplate that to which flows apply their patches.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec

from stromboli import plain_json
from stromboli.api import (
    CronJob,
    CronJobSpec,
    CronJobTemplate,
    Job,
    JobSpec,
    JobTemplate,
    KObject,
    Pod,
    PodTemplateSpec,
    TaskSpec,
)
from stromboli.controllers.changes import FromTemplate
from stromboli.controllers.flow.patches import patched
from stromboli.controllers.written_fields import with_changes
from stromboli.kube.client import CRON_JOBS, JOB_TEMPLATES, JOBS, Resource


class LiveTask(TaskSpec):
    template: Any = msgspec.field(default_factory=PodTemplateSpec)  # JSON while it is decoded, then a PodTemplateSpec
    raw_template: bytes = b""

    def __post_init__(self) -> None:
        if isinstance(self.template, dict):
            self.raw_template = msgspec.json.encode(self.template)
            self.template = msgspec.convert(self.template, PodTemplateSpec)


class LiveJobSpec(JobSpec):
    tasks: list[LiveTask] = msgspec.field(default_factory=list)  # type: ignore[assignment]


class LiveJob(Job):
    """A Job as it comes from an API server."""

    spec: LiveJobSpec = msgspec.field(default_factory=LiveJobSpec)


LIVE_JOBS: Resource[Job] = replace(JOBS, type=LiveJob)


class LiveJobTemplate(CronJobTemplate):
    spec: Any = msgspec.field(default_factory=JobSpec)  # JSON while it is decoded, then a JobSpec
    raw_spec: bytes = b""

    def __post_init__(self) -> None:
        if isinstance(self.spec, dict):
            self.raw_spec = msgspec.json.encode(self.spec)
            self.spec = msgspec.convert(self.spec, JobSpec)


class LiveCronJobSpec(CronJobSpec):
    job_template: LiveJobTemplate = msgspec.field(default_factory=LiveJobTemplate)


class LiveCronJob(CronJob):
    """A CronJob as it comes from an API server."""

    spec: LiveCronJobSpec = msgspec.field(default_factory=LiveCronJobSpec)


LIVE_CRON_JOBS: Resource[CronJob] = replace(CRON_JOBS, type=LiveCronJob)


class LiveFlowTemplate(JobTemplate):
    """A JobTemplate as it comes from an API server."""

    spec: Any = msgspec.field(default_factory=JobSpec)  # JSON while it is decoded, then a JobSpec
    raw_spec: bytes = b""

    def __post_init__(self) -> None:
        if isinstance(self.spec, dict):
            self.raw_spec = msgspec.json.encode(self.spec)
            self.spec = msgspec.convert(self.spec, JobSpec)


LIVE_JOB_TEMPLATES: Resource[JobTemplate] = replace(JOB_TEMPLATES, type=LiveFlowTemplate)

Source = TaskSpec | CronJobTemplate | FromTemplate | PodTemplateSpec


def complete(obj: KObject, source: Source | None) -> KObject | dict[str, Any]:
    """What to send to the server for an object that was built from a template."""
    if isinstance(obj, Pod) and isinstance(source, LiveTask) and source.raw_template:
        return _complete_pod(obj, source)
    if isinstance(obj, Job) and isinstance(source, LiveJobTemplate) and source.raw_spec:
        return _with_spec(obj, plain_json.decode_shallow(source.raw_spec))
    if isinstance(obj, Job) and isinstance(source, FromTemplate) and isinstance(source.template, LiveFlowTemplate):
        return _with_spec(obj, patched(plain_json.decode_shallow(source.template.raw_spec), source.patch))
    return obj


def _with_spec(job: Job, spec: dict[str, Any]) -> dict[str, Any]:
    body: dict[str, Any] = msgspec.to_builtins(job)
    del body["status"]
    return body | {"spec": spec}


def _complete_pod(pod: Pod, task: LiveTask) -> dict[str, Any]:
    raw = plain_json.decode_shallow(bytes(task.raw_template))
    body: dict[str, Any] = msgspec.to_builtins(pod)
    read = msgspec.to_builtins(task.template.spec)
    body["spec"] = with_changes(raw.get("spec") or {}, read, body["spec"])
    del body["status"]
    return body
