"""Which action a job has to take now, requested by a Command or by its policies.

A policy requests its action when its event has lasted for the policy's timeout (see lifecycle_policy). Events that are
due together and have the same action make one request: three pods that fail together cost the job one retry, not three.

Evictions need a record of their own. A failed pod keeps its object and its phase. An evicted pod is gone, and another
one soon has its name. Until that one runs, the eviction counts as a present event.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from stromboli.api import Command, Job, Pod, PodGroup
from stromboli.api.timestamps import parse_timestamp
from stromboli.controllers.changes import Change, Notify
from stromboli.controllers.pod_owners import is_terminating

from .job_pods import TaskPod, belongs_to, task_pods, version_of
from .job_record import JobRecord
from .lifecycle_policy import POD_EVICTED, POD_PENDING, JobEvent, current_events, eviction_of, policy_for, timeout_of
from .state_machine import PENDING, PHASES_WITHOUT_PODS, RUNNING, TARGETED_ACTIONS, apply_action


@dataclass(frozen=True, slots=True)
class ActionRequest:
    action: str
    reason: str
    message: str
    targets: frozenset[str] = frozenset()  # names of pods, for targeted actions


def request_from_command(job: Job, phase: str, command: Command) -> tuple[ActionRequest | None, list[Change]]:
    target = command.target
    if target is not None and target.uid not in ("", job.metadata.uid):
        return None, []
    if command.action in TARGETED_ACTIONS or apply_action(phase, command.action) is None:
        problem = f"The action {command.action or '(none)'} is not possible while the job is {phase}."
        return None, [Notify(job, "CommandRefused", problem, warning=True)]
    message = command.message or command.reason or "A command was issued"
    return ActionRequest(command.action, command.reason or "CommandIssued", message), []


def request_from_policies(
    job: Job, phase: str, pods: list[Pod], group: PodGroup | None, record: JobRecord, now: float
) -> ActionRequest | None:
    """The action that the policies request now. Events that are due together make one request: one retry."""
    if phase not in (PENDING, RUNNING):
        if phase in PHASES_WITHOUT_PODS:
            record.lost_pods.clear()
        return None
    if not any((job.spec.policies, *(task.policies for task in job.spec.tasks))):
        record.lost_pods.clear()
        return None
    version = job.status.version
    current = [pod for pod in pods if not is_terminating(pod) and version_of(pod.metadata, default=version) == version]
    members = list(task_pods(job, current))
    event_times: dict[JobEvent, float] = {}
    due: list[tuple[str, JobEvent]] = []
    later: list[float] = []
    for event, began in _events(job, members, group, record, now):
        policy = policy_for(job, event)
        if policy is None:
            if event.type == POD_EVICTED:
                record.lost_pods.pop(event.pod, None)
            continue
        event_times[event] = began
        due_at = began + timeout_of(policy)
        if due_at > now:
            later.append(due_at)
        elif apply_action(phase, policy.action) is not None and _has_target(policy.action, event):
            due.append((policy.action, event))
    record.event_times = event_times
    record.due = min(later, default=None)
    if not due:
        return None
    action, first = due[0]
    together = [event for chosen, event in due if chosen == action]
    if action not in TARGETED_ACTIONS:
        return ActionRequest(action, first.type, str(first))
    return ActionRequest(action, first.type, str(first), frozenset(_targets(job, action, together, members)))


def _events(
    job: Job, members: list[TaskPod], group: PodGroup | None, record: JobRecord, now: float
) -> Iterator[tuple[JobEvent, float]]:
    """The present events, each with the time since when it lasts."""
    started = {member.pod.metadata.name for member in members if member.pod.status.phase in ("Running", "Succeeded")}
    present = {member.pod.metadata.name: member.pod for member in members}
    for name, (pod, at) in sorted(record.lost_pods.items()):
        lost = list(task_pods(job, [pod]))
        outdated = version_of(pod.metadata, default=job.status.version) != job.status.version
        if not lost or outdated or not belongs_to(job, pod) or name in started:
            del record.lost_pods[name]
        else:
            yield eviction_of(lost[0]), at
    for event in current_events(job, members, group):
        created = present[event.pod].metadata.creation_timestamp if event.pod else None
        if event.type == POD_PENDING and created is not None:
            yield event, parse_timestamp(created)
        else:
            yield event, record.event_times.get(event, now)


def _has_target(action: str, event: JobEvent) -> bool:
    if action == "RestartTask":
        return bool(event.task)
    return action not in TARGETED_ACTIONS or bool(event.pod)


def _targets(job: Job, action: str, events: Iterable[JobEvent], members: list[TaskPod]) -> Iterator[str]:
    """The names of the pods that a targeted action deletes."""
    sizes = {
        task.name: task.partition_policy.partition_size
        for task in job.spec.tasks
        if task.partition_policy is not None and task.partition_policy.partition_size
    }

    def unit(task: str, index: int) -> tuple[str, int]:
        """What restarts together: the task, the partition or the pod."""
        match action:
            case "RestartTask":
                return task, 0
            case "RestartPartition":
                return task, index // sizes.get(task, 1)
            case _:
                return task, index

    affected = {unit(event.task, event.index) for event in events}
    for member in members:
        if unit(member.task.name, member.index) in affected:
            yield member.pod.metadata.name
