"""The pods of a Job that are to be started: of an Indexed one, those of indexes that nobody works on."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any, Final

from msgspec.structs import replace

from stromboli.api import BatchJob, BatchJobStatus, Container, Pod
from stromboli.controllers.index_ranges import parse_indexes
from stromboli.controllers.workloads.owned_pods import INDEX, TRACKING, PodsOfOwner
from stromboli.controllers.workloads.pod_names import PodNames
from stromboli.controllers.workloads.pod_template import pod_from_template

_ENV: Final = "JOB_COMPLETION_INDEX"


def new_pods(job: BatchJob, status: BatchJobStatus, pods: PodsOfOwner, names: PodNames, missing: int) -> Iterator[Pod]:
    if missing <= 0:
        return
    if job.spec.completion_mode != "Indexed":
        for _, name in zip(range(missing), names.names(), strict=False):
            yield _pod(job, name)
        return
    completions = job.spec.completions or 0
    taken = parse_indexes(status.completed_indexes, completions)
    taken |= {pod.index for pod in pods.active.values() if pod.index is not None}
    for index in islice((index for index in range(completions) if index not in taken), missing):
        yield _indexed(job, _pod(job, next(names.names(f"{index}-"))), index)


def _pod(job: BatchJob, name: str) -> Pod:
    pod = pod_from_template(job, name)
    labels = {"job-name": job.metadata.name, "batch.kubernetes.io/job-name": job.metadata.name}
    metadata = replace(
        pod.metadata, labels=labels | pod.metadata.labels, finalizers=[*pod.metadata.finalizers, TRACKING]
    )
    return replace(pod, metadata=metadata)


def _indexed(job: BatchJob, pod: Pod, index: int) -> Pod:
    mark = {INDEX: str(index)}
    metadata = replace(pod.metadata, labels=pod.metadata.labels | mark, annotations=pod.metadata.annotations | mark)
    spec = replace(
        pod.spec,
        hostname=pod.spec.hostname or f"{job.metadata.name}-{index}",
        containers=[_told(container, index) for container in pod.spec.containers],
        init_containers=[_told(container, index) for container in pod.spec.init_containers],
    )
    return replace(pod, metadata=metadata, spec=spec)


def _told(container: Container, index: int) -> Container:
    told: list[dict[str, Any]] = [one for one in container.env if one.get("name") != _ENV]
    return replace(container, env=[*told, {"name": _ENV, "value": str(index)}])
