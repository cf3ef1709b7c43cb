"""Completes pods with every field of their task's template.

Our types hold only what scheduling reads, but a pod that really runs needs the rest: pull secrets, probes, security
contexts, and whatever the next Kubernetes version adds. So a Job from an API server keeps the raw template of each task
beside the decoded one. A controller builds the pod from the decoded template; here both are merged. What the controller
left unchanged is taken from the raw template, what it set or changed is taken from the pod.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import msgspec

from stromboli import plain_json
from stromboli.api import Job, JobSpec, Pod, PodTemplateSpec, TaskSpec
from stromboli.kube.client import JOBS, Resource

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


def complete_pod(pod: Pod, task: TaskSpec | None) -> Pod | dict[str, Any]:
    """What to send to the server for a pod that was built from a task's template."""
    if not isinstance(task, LiveTask) or not task.raw_template:
        return pod
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
