"""The PodGroup of a Job, and the resources its minimum number of pods requests.

A job's pods are not created before its group is admitted to the queue: a job that waits for days is one object, not a
thousand pending pods. So the group has to state what the pods will request. `minResources` is the request of the pods
that make up the job's minimum:

    tasks by priority, highest first, as written at equal priority
    1. of each task its own minimum, until the job's minimum is reached
    2. if that was not enough, the tasks' other replicas, in the same order

Tasks with a `partitionPolicy` are divided into partitions, which are sub-groups of the group.

The group of an older version of the job (see pods) is outdated and is deleted as its pods are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec
from msgspec.structs import replace

from stromboli.api import (
    Job,
    LabelSelector,
    Namespace,
    ObjectMeta,
    PodGroup,
    PodGroupSpec,
    PriorityClass,
    ResourceList,
    SubGroupPolicy,
    TaskSpec,
    names,
)
from stromboli.api.defaults import task_minimum
from stromboli.api.namespace_queue import queue_in_namespace
from stromboli.api.pod_requests import pod_requests
from stromboli.api.quantity import format_amount, format_duration, parse_duration
from stromboli.api.validation import limits
from stromboli.controllers.changes import Change, Create, Delete, Objects, Update
from stromboli.controllers.pod_owners import owner_reference_to

from .job_pods import group_name, version_of
from .job_record import JobRecord
from .state_machine import job_minimum

_SCENARIO_PREFIX = "sim.stromboli.io/"


def group_key_of(job: Job) -> str:
    return f"{job.metadata.namespace}/{group_name(job)}"


def find_group(job: Job, objects: Objects) -> PodGroup | None:
    return objects.get(PodGroup, group_key_of(job))


def reconcile_group(job: Job, group: PodGroup | None, record: JobRecord, objects: Objects) -> list[Change]:
    """The changes to the group of a job that may have pods. `job` has its new status: its version counts."""
    desired = _desired_spec(job, record, objects)
    if group is None:
        queue = queue_in_namespace(desired.queue, objects.get(Namespace, job.metadata.namespace))
        return [Create(_new_group(job, replace(desired, queue=queue)))]
    if is_outdated(job, group):
        return delete_group(group)
    spec = replace(
        desired,
        # A group stays in the queue that its namespace had when it was made.
        queue=group.spec.queue if desired.queue == names.DEFAULT_QUEUE else desired.queue,
        sub_group_policy=desired.sub_group_policy or group.spec.sub_group_policy,
        network_topology=desired.network_topology or group.spec.network_topology,
        migration_info=group.spec.migration_info,
    )
    return [Update(replace(group, spec=spec))] if spec != group.spec else []


def delete_group(group: PodGroup | None) -> list[Change]:
    return [Delete(group, reason="its Job has stopped or restarts")] if group is not None else []


def is_outdated(job: Job, group: PodGroup) -> bool:
    return version_of(group.metadata, default=job.status.version) != job.status.version


def is_admitted(group: PodGroup | None) -> bool:
    """Whether the group has been admitted to its queue."""
    return group is not None and group.status.phase not in ("", "Pending")


def minimum_resources(job: Job, priorities: Mapping[str, int]) -> ResourceList:
    """The requests of the job's minimum number of pods; `priorities` are the values of priority classes by name."""
    total: dict[str, int] = {}
    for task, pods in _minimum_pods(job, priorities):
        for resource, value in pod_requests(task.template.spec).items():
            total[resource] = total.get(resource, 0) + value * pods
    return limits.fits_in_list({name: format_amount(name, value) for name, value in total.items() if value})


def _minimum_pods(job: Job, priorities: Mapping[str, int]) -> list[tuple[TaskSpec, int]]:
    def by_priority(task: TaskSpec) -> int:
        return -priorities.get(task.template.spec.priority_class_name, 0)

    remaining = job_minimum(job)
    tasks = sorted(job.spec.tasks, key=by_priority)
    selected: list[tuple[TaskSpec, int]] = []
    for limit in (task_minimum, _replicas_above_minimum):
        for task in tasks:
            pods = min(remaining, limit(task))
            selected.append((task, pods))
            remaining -= pods
    return selected


def _replicas_above_minimum(task: TaskSpec) -> int:
    return max(0, task.replicas - task_minimum(task))


def _desired_spec(job: Job, record: JobRecord, objects: Objects) -> PodGroupSpec:
    """Depends on the job's spec and on priorities, which seldom change, so it is remembered."""
    priorities = _priorities(job, objects)
    known = record.group_spec
    if known is None or known[0] is not job.spec or known[1] != priorities:
        known = record.group_spec = (job.spec, priorities, _spec(job, priorities))
    return known[2]


def _spec(job: Job, priorities: Mapping[str, int]) -> PodGroupSpec:
    return PodGroupSpec(
        min_member=job_minimum(job),
        min_task_member={task.name: task_minimum(task) for task in job.spec.tasks},
        queue=job.spec.queue or names.DEFAULT_QUEUE,
        priority_class_name=job.spec.priority_class_name,
        min_resources=minimum_resources(job, priorities),
        network_topology=job.spec.network_topology,
        sub_group_policy=list(_partitions(job)),
    )


def _partitions(job: Job) -> Iterator[SubGroupPolicy]:
    """Each partition of a task is a sub-group: its pods have the number of their partition as a label."""
    for task in job.spec.tasks:
        if task.partition_policy is not None:
            yield SubGroupPolicy(
                name=task.name,
                label_selector=LabelSelector(match_labels={names.TASK_SPEC: task.name}),
                match_label_keys=[names.PARTITION_ID],
                sub_group_size=task.partition_policy.partition_size,
                min_sub_groups=task.partition_policy.min_partitions or 0,
                network_topology=task.partition_policy.network_topology,
            )


def _priorities(job: Job, objects: Objects) -> dict[str, int]:
    values: dict[str, int] = {}
    for task in job.spec.tasks:
        name = task.template.spec.priority_class_name
        found = objects.get(PriorityClass, name) if name else None
        if found is not None:
            values[name] = found.value
    return values


def _new_group(job: Job, spec: PodGroupSpec) -> PodGroup:
    # Scenario annotations say when to create and delete the job, not its group.
    annotations = {k: v for k, v in job.metadata.annotations.items() if not k.startswith(_SCENARIO_PREFIX)}
    annotations[names.JOB_VERSION] = str(job.status.version)
    if job.spec.running_estimate is not None:
        annotations[names.ESTIMATE] = format_duration(parse_duration(job.spec.running_estimate))
    if _evicted_as_whole(job):
        annotations[names.GOES_WHOLE] = "true"
    if any(task.template.metadata.labels for task in job.spec.tasks):
        annotations[names.POD_LABELS] = _pod_labels(job)
    return PodGroup(
        metadata=ObjectMeta(
            name=group_name(job),
            namespace=job.metadata.namespace,
            labels=dict(job.metadata.labels),
            annotations=annotations,
            owner_references=[owner_reference_to(job)],
        ),
        spec=spec,
    )


def _pod_labels(job: Job) -> str:
    """The labels that the pods of each task will have. The scheduler must know them before there are pods, to find the
    Reservations that are for them."""
    labels = [{**task.template.metadata.labels, names.TASK_SPEC: task.name} for task in job.spec.tasks]
    return msgspec.json.encode(labels, order="deterministic").decode()


def _evicted_as_whole(job: Job) -> bool:
    """Whether the job stops or restarts all its pods when one is evicted. The scheduler must know it, because evicting
    one pod of such a job means evicting all of them."""
    policies = [*job.spec.policies, *(policy for task in job.spec.tasks for policy in task.policies)]
    return any(
        policy.action in _ACTIONS_ON_ALL_PODS and {policy.event, *policy.events} & {"PodEvicted", "*"}
        for policy in policies
    )


_ACTIONS_ON_ALL_PODS = frozenset({"RestartJob", "AbortJob", "TerminateJob", "CompleteJob"})
