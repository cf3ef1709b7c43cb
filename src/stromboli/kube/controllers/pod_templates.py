"""Completes pods with every field of their task's template, and Jobs with every field of the CronJob's.

Our types hold only what scheduling reads, but a pod that really runs needs the rest: pull secrets, probes, security
contexts, and whatever the next Kubernetes version adds. So a Job from an API server keeps the raw template of each task
beside the decoded one. A controller builds the pod from the decoded template; here both are merged. What the controller
left unchanged is taken from the raw template, what it set or changed is taken from the pod. A CronJob keeps the raw
spec of its Jobs, which is sent as it is.
"""

from __future__ import annotations

from collections.abc import Mapping
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
    KObject,
    Pod,
    PodTemplateSpec,
    TaskSpec,
)
from stromboli.kube.client import CRON_JOBS, JOBS, Resource

_MERGED_BY_INDEX = ("containers", "initContainers")  # lists whose items the controller changes without adding any


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


def complete(obj: KObject, source: TaskSpec | CronJobTemplate | None) -> KObject | dict[str, Any]:
    """What to send to the server for an object that was built from a template."""
    if isinstance(obj, Pod) and isinstance(source, LiveTask) and source.raw_template:
        return _complete_pod(obj, source)
    if isinstance(obj, Job) and isinstance(source, LiveJobTemplate) and source.raw_spec:
        body: dict[str, Any] = msgspec.to_builtins(obj)
        del body["status"]
        return body | {"spec": plain_json.decode_shallow(source.raw_spec)}
    return obj


def _complete_pod(pod: Pod, task: LiveTask) -> dict[str, Any]:
    raw = plain_json.decode_shallow(bytes(task.raw_template))
    body: dict[str, Any] = msgspec.to_builtins(pod)
    read = msgspec.to_builtins(task.template.spec)
    body["spec"] = _merge_changes(raw.get("spec") or {}, read, body["spec"])
    del body["status"]
    return body


def _merge_changes(raw: Mapping[str, Any], before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """`raw`, with the changes from `before` to `after`."""
    result = dict(raw)
    for name in sorted(before.keys() | after.keys()):
        old, new = before.get(name), after.get(name)
        if old == new:
            continue
        if new is None:
            result.pop(name, None)
        elif name in _MERGED_BY_INDEX:
            result[name] = [_merge_changes(*three) for three in zip(raw[name], before[name], new, strict=True)]
        elif isinstance(new, dict) and isinstance(old, dict) and isinstance(result.get(name), dict):
            result[name] = _merge_changes(result[name], old, new)
        else:
            result[name] = new
    return result
