"""The events of a job, and which lifecycle policy applies to each.

A policy maps an event (`PodFailed`, …, `*` for any) or an exit code to an action. The policies of a task come first,
then those of the job; within a list the first match applies. `PodPending` is the phase every pod starts in, so it is an
event only for a policy with a timeout.

Events are states, not moments: "this pod has failed", for as long as the pod exists and is failed. So a restart of the
controller loses nothing, and timeouts are simple. A policy with a timeout acts when its event has lasted that long; a
pod that recovers ends the event, and nothing has to be cancelled.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from stromboli.api import Job, LifecyclePolicy, Pod, PodGroup, TaskSpec
from stromboli.api.defaults import MAX_RETRY
from stromboli.api.quantity import parse_duration
from stromboli.controllers.pod_owners import was_evicted

from .job_pods import TaskPod

POD_FAILED = "PodFailed"
POD_EVICTED = "PodEvicted"
POD_PENDING = "PodPending"
TASK_COMPLETED = "TaskCompleted"
TASK_FAILED = "TaskFailed"
UNKNOWN = "Unknown"
ANY = "*"


@dataclass(frozen=True, slots=True)
class JobEvent:
    """An event with its subject: a pod (by name, and by its index in the task), a task, or the whole job."""

    type: str
    task: str = ""
    pod: str = ""
    index: int = -1
    exit_code: int = 0

    def __str__(self) -> str:
        ended = f" with exit code {self.exit_code}" if self.exit_code else ""
        match self.type:
            case "PodFailed":
                return f"Pod {self.pod} failed{ended}"
            case "PodEvicted":
                return f"Pod {self.pod} was evicted"
            case "PodPending":
                return f"Pod {self.pod} was pending for too long"
            case "TaskCompleted":
                return f"All pods of task {self.task} succeeded"
            case "TaskFailed":
                return f"Pods of task {self.task} were restarted too often"
            case _:
                return "The state of the job's pods is unknown"


def policy_for(job: Job, event: JobEvent) -> LifecyclePolicy | None:
    for task in job.spec.tasks:
        if task.name == event.task:
            for policy in task.policies:
                if _matches(policy, event):
                    return policy
    return next((policy for policy in job.spec.policies if _matches(policy, event)), None)


def timeout_of(policy: LifecyclePolicy) -> float:
    """For how many seconds an event must last before the policy acts."""
    return 0.0 if policy.timeout is None else parse_duration(policy.timeout)


def current_events(job: Job, members: Iterable[TaskPod], group: PodGroup | None) -> Iterator[JobEvent]:
    """The present events: of pods first, then of tasks, then of the job."""
    by_task: dict[str, list[TaskPod]] = {task.name: [] for task in job.spec.tasks}
    for member in members:
        by_task[member.task.name].append(member)
        yield from _events_of_pod(job, member)
    for task in job.spec.tasks:
        pods = [member.pod for member in by_task[task.name]]
        if _restarted_too_often(task, pods):
            yield JobEvent(TASK_FAILED, task=task.name)
        if task.replicas and sum(pod.status.phase == "Succeeded" for pod in pods) >= task.replicas:
            yield JobEvent(TASK_COMPLETED, task=task.name)
    if group is not None and group.status.phase == "Unknown":
        yield JobEvent(UNKNOWN)


def eviction_of(member: TaskPod) -> JobEvent:
    return JobEvent(POD_EVICTED, task=member.task.name, pod=member.pod.metadata.name, index=member.index)


def exit_code_of(pod: Pod) -> int:
    """The exit code of the first container that failed; 0 if the pod's status has none."""
    for status in pod.status.container_statuses:
        if status.state.terminated is not None and status.state.terminated.exit_code:
            return status.state.terminated.exit_code
    return 0


def _events_of_pod(job: Job, member: TaskPod) -> Iterator[JobEvent]:
    pod = member.pod
    if was_evicted(pod):
        eviction = eviction_of(member)
        yield eviction
        if policy_for(job, eviction) is not None:
            return
    # A pod that its node evicted has also failed. If no policy handles evictions, one for failures may.
    name = pod.metadata.name
    if pod.status.phase == "Failed":
        yield JobEvent(POD_FAILED, member.task.name, name, member.index, exit_code=exit_code_of(pod))
    elif pod.status.phase == "Pending":
        yield JobEvent(POD_PENDING, member.task.name, name, member.index)


def _matches(policy: LifecyclePolicy, event: JobEvent) -> bool:
    if event.type == POD_PENDING and policy.timeout is None:
        return False
    events = (policy.event, *policy.events)
    if event.type in events or ANY in events:
        return True
    return bool(policy.exit_code) and policy.exit_code == event.exit_code


def _restarted_too_often(task: TaskSpec, pods: list[Pod]) -> bool:
    """Whether the containers of the task's pods restarted as often as maxRetry; -1 means no limit."""
    limit = task.max_retry or MAX_RETRY
    if limit == -1:
        return False
    restarts = sum(
        status.restart_count
        for pod in pods
        if pod.status.phase in ("Pending", "Running")
        for status in (*pod.status.init_container_statuses, *pod.status.container_statuses)
    )
    return restarts >= limit
