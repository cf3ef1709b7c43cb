"""Pods with everything that the template of their task says.

Our types hold what scheduling reads, and a pod that really runs needs the rest: images' pull secrets, probes, security
contexts, whatever the next Kubernetes brings. So a Job from an API server keeps each task's template the way it was
written, beside what we read of it. A controller makes the pod from what we read; here the two are put together. What
the controller left as it was is taken from what was written, what it set or changed is taken from the pod.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import msgspec

from stromboli.api import Job, JobSpec, Pod, PodTemplateSpec, TaskSpec
from stromboli.kube.client.resources import JOBS, Resource

_BY_PLACE = ("containers", "initContainers")  # lists in which the controller changes members, and adds none


class LiveTask(TaskSpec):
    template: Any = msgspec.field(default_factory=PodTemplateSpec)  # any JSON on its way in, then a PodTemplateSpec
    written: bytes = b""

    def __post_init__(self) -> None:
        if isinstance(self.template, dict):
            self.written = msgspec.json.encode(self.template)
            self.template = msgspec.convert(self.template, PodTemplateSpec)


class LiveJobSpec(JobSpec):
    tasks: list[LiveTask] = msgspec.field(default_factory=list)  # type: ignore[assignment]


class LiveJob(Job):
    """A Job as it comes from an API server."""

    spec: LiveJobSpec = msgspec.field(default_factory=LiveJobSpec)


LIVE_JOBS: Resource[Job] = replace(JOBS, type=LiveJob)


def whole_pod(pod: Pod, task: TaskSpec | None) -> Pod | dict[str, Any]:
    """What to send to the server for a pod that was made from a task's template."""
    if not isinstance(task, LiveTask) or not task.written:
        return pod
    written = msgspec.json.decode(task.written)
    body: dict[str, Any] = msgspec.to_builtins(pod)
    read = msgspec.to_builtins(task.template.spec)
    body["spec"] = _changed_alike(written.get("spec") or {}, read, body["spec"])
    del body["status"]
    return body


def _changed_alike(written: Mapping[str, Any], before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """What was written, with what makes `after` of `before`."""
    result = dict(written)
    for name in sorted(before.keys() | after.keys()):
        old, new = before.get(name), after.get(name)
        if old == new:
            continue
        if new is None:
            result.pop(name, None)
        elif name in _BY_PLACE:
            result[name] = [_changed_alike(*three) for three in zip(written[name], before[name], new, strict=True)]
        elif isinstance(new, dict) and isinstance(old, dict) and isinstance(result.get(name), dict):
            result[name] = _changed_alike(result[name], old, new)
        else:
            result[name] = new
    return result
