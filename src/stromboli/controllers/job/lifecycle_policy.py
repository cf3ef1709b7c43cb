"""What happened to a job, and what its policies say about it.

A policy answers an event (`PodFailed`, …, `*` for any) or an exit code with an action. A task's own
policies come first, then the job's; within a list the first that fits decides. `PodPending` is the state
every pod starts in, so it is an event only for a policy that says for how long it may last.

Happenings are states, not moments: "this pod has failed", for as long as it is there and failed. That makes
a restart harmless, and it makes delays simple. A policy with a timeout acts when its happening has lasted
that long; a pod that recovers ends the happening, and nothing has to be cancelled.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from stromboli.api import Job, LifecyclePolicy, Pod, PodGroup, TaskSpec
from stromboli.api.defaults import MAX_RETRY
from stromboli.api.quantity import parse_duration
from stromboli.controllers.pod_owners import was_evicted

POD_FAILED = "PodFailed"
POD_EVICTED = "PodEvicted"
POD_PENDING = "PodPending"
TASK_COMPLETED = "TaskCompleted"
TASK_FAILED = "TaskFailed"
UNKNOWN = "Unknown"
ANY = "*"


@dataclass(frozen=True, slots=True)
class Happening:
    """An event with its subject: a pod (by name and place in its task), a task, or the job as a whole."""

    event: str
    task: str = ""
    pod: str = ""
    index: int = -1
    exit_code: int = 0

    def __str__(self) -> str:
        ended = f" with exit code {self.exit_code}" if self.exit_code else ""
        match self.event:
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


@dataclass(frozen=True, slots=True)
class Member:
    """A pod of the job's present version, at its place."""

    task: TaskSpec
    index: int
    pod: Pod


def policy_for(job: Job, happening: Happening) -> LifecyclePolicy | None:
    for task in job.spec.tasks:
        if task.name == happening.task:
            for policy in task.policies:
                if _fits(policy, happening):
                    return policy
    return next((policy for policy in job.spec.policies if _fits(policy, happening)), None)


def patience(policy: LifecyclePolicy) -> float:
    """For how many seconds a happening must last before the policy acts."""
    return 0.0 if policy.timeout is None else parse_duration(policy.timeout)


def standing(job: Job, members: Iterable[Member], group: PodGroup | None) -> Iterator[Happening]:
    """Everything that is the case now, of pods first, then of tasks, then of the job."""
    by_task: dict[str, list[Member]] = {task.name: [] for task in job.spec.tasks}
    for member in members:
        by_task[member.task.name].append(member)
        yield from _of_pod(job, member)
    for task in job.spec.tasks:
        pods = [member.pod for member in by_task[task.name]]
        if _restarted_too_often(task, pods):
            yield Happening(TASK_FAILED, task=task.name)
        if task.replicas and sum(pod.status.phase == "Succeeded" for pod in pods) >= task.replicas:
            yield Happening(TASK_COMPLETED, task=task.name)
    if group is not None and group.status.phase == "Unknown":
        yield Happening(UNKNOWN)


def evicted(member: Member) -> Happening:
    return Happening(POD_EVICTED, task=member.task.name, pod=member.pod.metadata.name, index=member.index)


def exit_code_of(pod: Pod) -> int:
    """How the first container that failed ended; 0 if the pod does not say."""
    for status in pod.status.container_statuses:
        if status.state.terminated is not None and status.state.terminated.exit_code:
            return status.state.terminated.exit_code
    return 0


def _of_pod(job: Job, member: Member) -> Iterator[Happening]:
    pod = member.pod
    if was_evicted(pod):
        thrown_out = evicted(member)
        yield thrown_out
        if policy_for(job, thrown_out) is not None:
            return
    # A pod that a node threw out has failed, too: the event its users did prepare for is the one that counts.
    name = pod.metadata.name
    if pod.status.phase == "Failed":
        yield Happening(POD_FAILED, member.task.name, name, member.index, exit_code=exit_code_of(pod))
    elif pod.status.phase == "Pending":
        yield Happening(POD_PENDING, member.task.name, name, member.index)


def _fits(policy: LifecyclePolicy, happening: Happening) -> bool:
    if happening.event == POD_PENDING and policy.timeout is None:
        return False
    events = (policy.event, *policy.events)
    if happening.event in events or ANY in events:
        return True
    return bool(policy.exit_code) and policy.exit_code == happening.exit_code


def _restarted_too_often(task: TaskSpec, pods: list[Pod]) -> bool:
    """Containers that start again inside their pods; a limit of -1 means none."""
    limit = MAX_RETRY if task.max_retry is None else task.max_retry
    if limit == -1:
        return False
    restarts = sum(
        status.restart_count
        for pod in pods
        if pod.status.phase in ("Pending", "Running")
        for status in (*pod.status.init_container_statuses, *pod.status.container_statuses)
    )
    return restarts > limit
