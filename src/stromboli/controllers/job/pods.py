"""The pods of a Job: where each belongs, which are missing, and what a new one looks like.

A pod's place is its task and its index, and both are in its name, `<job>-<task>-<index>`. So there is at
most one pod for a place at any time, and a place is filled again under the same name once its pod is gone.

A pod carries the version of the job it was made for. Killing a job raises the version, and that is the
whole mark: a pod of an older version is on its way out, whoever looks at it and after whatever crash.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from stromboli.api import ApiError, Job, ObjectMeta, Pod, TaskSpec, names
from stromboli.controllers.pod_owners import controlling_reference, is_leaving, reference_to

from .lifecycle_policy import Member
from .state_machine import task_minimum

_PASSED_ON = (
    names.PREEMPTABLE,
    names.COOLDOWN_TIME,
    names.REVOCABLE_ZONE,
    names.JDB_MIN_AVAILABLE,
    names.JDB_MAX_UNAVAILABLE,
)
"""What a user may say once for the whole job."""

LONGEST_LABEL = 63  # characters in the value of a label


def group_name(job: Job) -> str:
    return f"{job.metadata.name}-{job.metadata.uid}"


def check_names(job: Job) -> None:
    """Raise an ApiError for a name that fits an object but not the label that the job's pods carry it in."""
    for name, at in ((job.metadata.name, "metadata.name"), (job.spec.queue, "spec.queue")):
        if len(name) > LONGEST_LABEL:
            raise ApiError(
                at, f"must be at most {LONGEST_LABEL} characters, because it is a label of the pods, not {len(name)}"
            )


def version_of(metadata: ObjectMeta, *, otherwise: int) -> int:
    text = metadata.annotations.get(names.JOB_VERSION, "")
    # Anybody may write annotations, and a number of thousands of digits cannot even be read.
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 9 else otherwise


def place_of(job: Job, pod_name: str) -> tuple[str, int] | None:
    """The task and the index that a pod's name says; None for a name we would not have given."""
    prefix = f"{job.metadata.name}-"
    task, _, index = pod_name.removeprefix(prefix).rpartition("-")
    if not pod_name.startswith(prefix) or not task or not (index.isascii() and index.isdigit()):
        return None
    return task, int(index)


def belongs_to(job: Job, pod: Pod) -> bool:
    """Not one of an earlier job of that name, nor one that merely claims to be ours."""
    reference = controlling_reference(pod.metadata)
    return (
        reference is not None
        and reference.uid in ("", job.metadata.uid)
        and place_of(job, pod.metadata.name) is not None
    )


def members_among(job: Job, pods: Iterable[Pod]) -> Iterator[Member]:
    """The pods that have a place, in the order of tasks and indexes. Others are left over from a scale-down."""
    tasks = {task.name: (order, task) for order, task in enumerate(job.spec.tasks)}
    found: list[tuple[int, int, Member]] = []
    for pod in pods:
        place = place_of(job, pod.metadata.name)
        if place is None or place[0] not in tasks:
            continue
        order, task = tasks[place[0]]
        if place[1] < task.replicas:
            found.append((order, place[1], Member(task, place[1], pod)))
    found.sort(key=lambda entry: entry[:2])
    return (member for _, _, member in found)


def missing_pods(job: Job, pods: Iterable[Pod]) -> Iterator[tuple[TaskSpec, Pod]]:
    """A pod for every empty place whose task need not wait for another, with the task."""
    taken: dict[str, set[int]] = {}
    ready: dict[str, int] = {}
    for member in members_among(job, pods):
        taken.setdefault(member.task.name, set()).add(member.index)
        if _is_ready(member.pod):
            ready[member.task.name] = ready.get(member.task.name, 0) + 1
    for task in job.spec.tasks:
        filled = taken.get(task.name, set())
        if len(filled) < task.replicas and _may_start(job, task, ready):
            for index in range(task.replicas):
                if index not in filled:
                    yield task, _new_pod(job, task, index)


def _may_start(job: Job, task: TaskSpec, ready: dict[str, int]) -> bool:
    if task.depends_on is None or not task.depends_on.name:
        return True
    minimums = {other.name: task_minimum(other) for other in job.spec.tasks}
    started = [name in minimums and ready.get(name, 0) >= minimums[name] for name in task.depends_on.name]
    return any(started) if task.depends_on.iteration == "any" else all(started)


def _is_ready(pod: Pod) -> bool:
    if is_leaving(pod):
        return False
    if pod.status.phase == "Running":
        return all(status.ready for status in pod.status.container_statuses)
    return pod.status.phase == "Succeeded"


def _new_pod(job: Job, task: TaskSpec, index: int) -> Pod:
    template = task.template
    about = {
        names.JOB_NAME: job.metadata.name,
        names.JOB_NAMESPACE: job.metadata.namespace,
        names.JOB_QUEUE: job.spec.queue or names.DEFAULT_QUEUE,
        names.TASK_SPEC: task.name,
        names.TASK_INDEX: str(index),
    }
    for_all = {name: job.metadata.annotations[name] for name in _PASSED_ON if name in job.metadata.annotations}
    return Pod(
        metadata=ObjectMeta(
            name=f"{job.metadata.name}-{task.name}-{index}",
            namespace=job.metadata.namespace,
            labels={**template.metadata.labels, **about},
            annotations={
                **for_all,
                **template.metadata.annotations,
                **about,
                names.GROUP_NAME: group_name(job),
                names.JOB_VERSION: str(job.status.version),
                names.JOB_RETRY_COUNT: str(job.status.retry_count),
                names.TEMPLATE_UID: f"{job.metadata.uid}-{task.name}",
            },
            owner_references=[reference_to(job)],
        ),
        spec=replace(
            template.spec,
            scheduler_name=template.spec.scheduler_name or job.spec.scheduler_name or names.DEFAULT_SCHEDULER,
            priority_class_name=template.spec.priority_class_name or job.spec.priority_class_name,
        ),
    )
