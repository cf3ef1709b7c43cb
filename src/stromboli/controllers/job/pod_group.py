"""The PodGroup of a Job, and how much must be free before it is worth starting.

A job's pods are not made before its group is let into the queue: a job that waits for days is one object,
not a thousand pending pods. So the group has to say for the pods what they will ask for. `minResources` is
the request of the pods that make up the job's minimum:

    tasks by priority, highest first, as written at equal priority
    1. of each task its own minimum, until the job's minimum is reached
    2. if that was not enough, the tasks' other replicas, in the same order

The group of an older version of the job (see job_pods) is outdated and goes as the pods do.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from stromboli.api import Job, ObjectMeta, PodGroup, PodGroupSpec, PriorityClass, ResourceList, TaskSpec, names
from stromboli.api.pod_requests import pod_requests
from stromboli.api.quantity import format_amount, format_duration, parse_duration
from stromboli.controllers.changes import Change, Create, Delete, Objects, Update
from stromboli.controllers.pod_owners import reference_to

from .pods import group_name, version_of
from .state_machine import job_minimum, task_minimum

_SCENARIO = "sim.stromboli.io/"


def find_group(job: Job, objects: Objects) -> PodGroup | None:
    return objects.get(PodGroup, f"{job.metadata.namespace}/{group_name(job)}")


def keep_group(job: Job, group: PodGroup | None, objects: Objects) -> list[Change]:
    """The group of a job that has or wants pods. `job` is as it will be: its version counts."""
    wanted = _spec(job, objects)
    if group is None:
        return [Create(_new_group(job, wanted))]
    if is_outdated(job, group):
        return drop_group(group)
    spec = replace(wanted, sub_group_policy=group.spec.sub_group_policy, network_topology=group.spec.network_topology)
    return [Update(replace(group, spec=spec))] if spec != group.spec else []


def drop_group(group: PodGroup | None) -> list[Change]:
    return [Delete(group, reason="its Job runs no pods any more")] if group is not None else []


def is_outdated(job: Job, group: PodGroup) -> bool:
    return version_of(group.metadata, otherwise=job.status.version) != job.status.version


def admits_pods(group: PodGroup | None) -> bool:
    """Whether the group has been let into its queue."""
    return group is not None and group.status.phase not in ("", "Pending")


def minimum_resources(job: Job, priorities: Mapping[str, int]) -> ResourceList:
    """What the job's minimum asks for; `priorities` are the values of priority classes by name."""
    total: dict[str, int] = {}
    for task, pods in _minimum_pods(job, priorities):
        for resource, value in pod_requests(task.template.spec).items():
            total[resource] = total.get(resource, 0) + value * pods
    return {resource: format_amount(resource, value) for resource, value in total.items() if value}


def _minimum_pods(job: Job, priorities: Mapping[str, int]) -> list[tuple[TaskSpec, int]]:
    def urgency(task: TaskSpec) -> int:
        return -priorities.get(task.template.spec.priority_class_name, 0)

    left = job_minimum(job)
    tasks = sorted(job.spec.tasks, key=urgency)
    taken: list[tuple[TaskSpec, int]] = []
    for most in (task_minimum, _beyond_minimum):
        for task in tasks:
            pods = min(left, most(task))
            taken.append((task, pods))
            left -= pods
    return taken


def _beyond_minimum(task: TaskSpec) -> int:
    return max(0, task.replicas - task_minimum(task))


def _spec(job: Job, objects: Objects) -> PodGroupSpec:
    return PodGroupSpec(
        min_member=job_minimum(job),
        min_task_member={task.name: task_minimum(task) for task in job.spec.tasks},
        queue=job.spec.queue or names.DEFAULT_QUEUE,
        priority_class_name=job.spec.priority_class_name,
        min_resources=minimum_resources(job, _priorities(job, objects)),
        network_topology=job.spec.network_topology,
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
    # When a scenario deletes the job says nothing about its group.
    annotations = {k: v for k, v in job.metadata.annotations.items() if not k.startswith(_SCENARIO)}
    annotations[names.JOB_VERSION] = str(job.status.version)
    if job.spec.running_estimate is not None:
        annotations[names.ESTIMATE] = format_duration(parse_duration(job.spec.running_estimate))
    if _goes_whole(job):
        annotations[names.GOES_WHOLE] = "true"
    return PodGroup(
        metadata=ObjectMeta(
            name=group_name(job),
            namespace=job.metadata.namespace,
            labels=dict(job.metadata.labels),
            annotations=annotations,
            owner_references=[reference_to(job)],
        ),
        spec=spec,
    )


def _goes_whole(job: Job) -> bool:
    """Whether the job gives up all its pods when one is evicted. The scheduler must know it, because who evicts one
    of them then evicts them all."""
    policies = [*job.spec.policies, *(policy for task in job.spec.tasks for policy in task.policies)]
    return any(
        policy.action in _ENDS_ALL and {policy.event, *policy.events} & {"PodEvicted", "*"} for policy in policies
    )


_ENDS_ALL = frozenset({"RestartJob", "AbortJob", "TerminateJob", "CompleteJob"})
