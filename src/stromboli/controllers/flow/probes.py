"""Whether the Jobs that a flow depends on are far enough.

Without a probe, a Job must have completed. With one, it may also still run: then each probe must succeed for it that is
about one of its tasks. A Job without such a task must have completed.

    task status   enough pods of the task have reached the phase: as many as the task needs to start
    tcp, http     all pods of the task run, and each accepts a connection, or answers with 200 to 399

Controllers talk to nobody. They ask their caller to talk to a pod (`Probe`), and hear the answer before a later pass. A
pod that has answered is not asked again. One that did not is asked again after a while.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from stromboli.api import FlowProbe, Job, JobFlow, Pod, TaskSpec, TaskStatusProbe, key, names
from stromboli.controllers.changes import Probe

PERIOD: Final = 5.0  # seconds until a pod is asked again that did not answer

_REACHED: Final = {
    "Running": ("Running", "Succeeded"),
    "Pending": ("Pending", "Running", "Succeeded", "Failed"),
    "": ("Pending", "Running", "Succeeded", "Failed", "Unknown"),
}
"""Phases in which a pod has reached one. Those that end reach no other."""


class ProbeAnswers:
    """What pods answered, by JobFlow."""

    def __init__(self) -> None:
        self._answers: dict[str, dict[object, float | None]] = {}  # None: it answered; or when it was asked last

    def note(self, probe: Probe, *, answered: bool, now: float) -> None:
        self._answers.setdefault(key(probe.object), {})[probe.question] = None if answered else now

    def has_answered(self, probe: Probe) -> bool:
        return self._answers.get(key(probe.object), {}).get(probe.question, 0.0) is None

    def next_attempt(self, probe: Probe) -> float:
        """When a pod is asked that has not answered yet."""
        asked = self._answers.get(key(probe.object), {}).get(probe.question)
        return 0.0 if asked is None else asked + PERIOD

    def forget(self, flow: str) -> None:
        self._answers.pop(flow, None)


def tasks_meant(probe: FlowProbe, job: Job) -> list[TaskSpec]:
    """Those tasks of a Job that a probe is about; all, if one of them names none."""
    named = {one.task_name for one in probe.http_get_list}
    named |= {one.task_name for one in probe.tcp_socket_list} | {one.task_name for one in probe.task_status_list}
    return [task for task in job.spec.tasks if "" in named or task.name in named]


def has_reached(probe: TaskStatusProbe, job: Job, task: TaskSpec) -> bool:
    counted = job.status.task_status_count.get(task.name)
    least = task.replicas if task.min_available is None else task.min_available
    phases = _REACHED.get(probe.phase, (probe.phase,))
    return counted is not None and sum(counted.phase.get(phase, 0) for phase in phases) >= max(1, least)


def talks(flow: JobFlow, probe: FlowProbe, task: TaskSpec, pods: list[Pod]) -> Iterator[Probe]:
    """What pods of a task must answer."""
    for http in probe.http_get_list:
        if http.task_name in ("", task.name):
            header = http.http_header
            sent = (header.name, header.value) if header is not None and header.name else None
            yield from (Probe(flow, pod, http.port, http.path or "/", sent) for pod in pods)
    for tcp in probe.tcp_socket_list:
        if tcp.task_name in ("", task.name):
            yield from (Probe(flow, pod, tcp.port) for pod in pods)


def is_talked_to(probe: FlowProbe, task: TaskSpec) -> bool:
    names_of = {one.task_name for one in probe.http_get_list} | {one.task_name for one in probe.tcp_socket_list}
    return bool(names_of & {"", task.name})


def pods_of(task: TaskSpec, pods: list[Pod]) -> list[Pod]:
    return [pod for pod in pods if pod.metadata.annotations.get(names.TASK_SPEC) == task.name]
