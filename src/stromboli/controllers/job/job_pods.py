"""The pods of a Job: the task and index of each, which are missing, and how a new one is built.

A pod is identified by its task and index, and both are in its name, `<job>-<task>-<index>`. So there is at most one pod
for an index at any time, and its replacement has the same name.

A pod carries the version of the job it was created for. Restarting or stopping a job raises the version. A pod of an
older version has to be deleted, and any process that reads the objects knows that, also after a crash.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from operator import itemgetter

from msgspec.structs import replace

from stromboli.api import Job, ObjectMeta, Pod, PodTemplateSpec, TaskSpec, names
from stromboli.api.defaults import task_minimum
from stromboli.controllers.pod_owners import controlling_reference, is_terminating, owner_reference_to

_INHERITED_ANNOTATIONS = (
    names.PREEMPTABLE,
    names.COOLDOWN_TIME,
    names.REVOCABLE_ZONE,
    names.JDB_MIN_AVAILABLE,
    names.JDB_MAX_UNAVAILABLE,
    names.SUBMITTER,
)
"""Annotations of a job that apply to all its pods."""


@dataclass(frozen=True, slots=True)
class TaskPod:
    """A pod of the job's current version, with its task and index."""

    task: TaskSpec
    index: int
    pod: Pod


def group_name(job: Job) -> str:
    return f"{job.metadata.name}-{job.metadata.uid}"


def version_of(metadata: ObjectMeta, *, default: int) -> int:
    text = metadata.annotations.get(names.JOB_VERSION, "")
    # Anybody may write annotations, and Python refuses to parse a number of thousands of digits.
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 9 else default


def parse_pod_name(job: Job, pod_name: str) -> tuple[str, int] | None:
    """The task and the index in a pod's name; None if it is not the name of a pod of this job."""
    return _parse_pod_name(job.metadata.name, pod_name)


@lru_cache(maxsize=262_144)  # every pass parses every name several times
def _parse_pod_name(job_name: str, pod_name: str) -> tuple[str, int] | None:
    prefix = f"{job_name}-"
    task, _, index = pod_name.removeprefix(prefix).rpartition("-")
    # Limited in length, because anybody may name a pod and Python refuses to parse thousands of digits.
    if not pod_name.startswith(prefix) or not task or not (index.isascii() and index.isdigit() and len(index) <= 9):
        return None
    return task, int(index)


def belongs_to(job: Job, pod: Pod) -> bool:
    """Whether a pod that names this job as its owner was created for it, and not for an earlier job of that name."""
    reference = controlling_reference(pod.metadata)
    return (
        reference is not None
        and reference.uid in ("", job.metadata.uid)
        and parse_pod_name(job, pod.metadata.name) is not None
    )


def task_pods(job: Job, pods: Iterable[Pod]) -> Iterator[TaskPod]:
    """The pods whose task and index the job has, in that order. Other pods are left over from a scale-down."""
    tasks = {task.name: (order, task) for order, task in enumerate(job.spec.tasks)}
    found: list[tuple[tuple[int, int], TaskPod]] = []
    job_name = job.metadata.name
    for pod in pods:
        parsed = _parse_pod_name(job_name, pod.metadata.name)
        if parsed is None or parsed[0] not in tasks:
            continue
        order, task = tasks[parsed[0]]
        index = parsed[1]
        if index < task.replicas:
            found.append(((order, index), TaskPod(task, index, pod)))
    found.sort(key=itemgetter(0))
    return (member for _, member in found)


def has_place(job: Job, pod: Pod) -> bool:
    """Whether the job has the pod's task and index. A pod without a place is left over from a scale-down."""
    parsed = _parse_pod_name(job.metadata.name, pod.metadata.name)
    return parsed is not None and any(parsed[0] == task.name and parsed[1] < task.replicas for task in job.spec.tasks)


def missing_pods(job: Job, pods: Iterable[Pod]) -> Iterator[tuple[TaskSpec, int]]:
    """The task and index of every missing pod of the tasks that do not wait for other tasks."""
    existing: dict[str, set[int]] = {}
    ready: dict[str, int] = {}
    for member in task_pods(job, pods):
        existing.setdefault(member.task.name, set()).add(member.index)
        if _is_ready(member.pod):
            ready[member.task.name] = ready.get(member.task.name, 0) + 1
    for task in job.spec.tasks:
        indexes = existing.get(task.name, set())
        if len(indexes) < task.replicas and _may_start(job, task, ready):
            for index in range(task.replicas):
                if index not in indexes:
                    yield task, index


def _may_start(job: Job, task: TaskSpec, ready: dict[str, int]) -> bool:
    if task.depends_on is None or not task.depends_on.name:
        return True
    minimums = {other.name: task_minimum(other) for other in job.spec.tasks}
    started = [name in minimums and ready.get(name, 0) >= minimums[name] for name in task.depends_on.name]
    return any(started) if task.depends_on.iteration == "any" else all(started)


def _is_ready(pod: Pod) -> bool:
    if is_terminating(pod):
        return False
    if pod.status.phase == "Running":
        return all(status.ready for status in pod.status.container_statuses)
    return pod.status.phase == "Succeeded"


def _annotations_of(template: PodTemplateSpec) -> dict[str, str]:
    # A template must not name somebody else: we may write it on pods, and our word is taken.
    return {name: value for name, value in template.metadata.annotations.items() if name != names.SUBMITTER}


def _partition_of(task: TaskSpec, index: int) -> str:
    """The number of the pod's partition, which is the value of a label."""
    size = task.partition_policy.partition_size if task.partition_policy is not None else 0
    return str(index // size if size else 0)


def new_pod(job: Job, task: TaskSpec, index: int) -> Pod:
    template = task.template
    identity = {
        names.JOB_NAME: job.metadata.name,
        names.JOB_NAMESPACE: job.metadata.namespace,
        names.JOB_QUEUE: job.spec.queue or names.DEFAULT_QUEUE,
        names.TASK_SPEC: task.name,
        names.TASK_INDEX: str(index),
    }
    partition = {} if task.partition_policy is None else {names.PARTITION_ID: _partition_of(task, index)}
    job_annotations = job.metadata.annotations
    inherited = {name: job_annotations[name] for name in _INHERITED_ANNOTATIONS if name in job_annotations}
    return Pod(
        metadata=ObjectMeta(
            name=f"{job.metadata.name}-{task.name}-{index}",
            namespace=job.metadata.namespace,
            labels={**template.metadata.labels, **identity, **partition},
            annotations={
                **inherited,
                **_annotations_of(template),
                **identity,
                names.GROUP_NAME: group_name(job),
                names.JOB_VERSION: str(job.status.version),
                names.JOB_RETRY_COUNT: str(job.status.retry_count),
                names.TEMPLATE_UID: f"{job.metadata.uid}-{task.name}",
            },
            owner_references=[owner_reference_to(job)],
        ),
        spec=replace(
            template.spec,
            scheduler_name=template.spec.scheduler_name or job.spec.scheduler_name or names.DEFAULT_SCHEDULER,
            priority_class_name=template.spec.priority_class_name or job.spec.priority_class_name,
        ),
    )
