"""The phases of a Job: which phase follows from an action, and which from the number of pods in each phase.

                     min running or done                 all done
         ┌─────────┐ ──────────────────▶ ┌─────────┐ ───────────────▶  Completed or Failed
    ""──▶│ Pending │ ◀────────────────── │ Running │
         └─────────┘   too many pending  └─────────┘
              ▲   │                         │
              │   └───────────┬─────────────┘
              │               ├── Restart… ──▶ Restarting ──▶ Pending, or Failed when no retry is left
              │               ├── AbortJob ──▶ Aborting ────▶ Aborted
              │               ├── TerminateJob ▶ Terminating ─▶ Terminated
              │               └── CompleteJob ─▶ Completing ──▶ Completed
              └─ Restarting ◀── ResumeJob, from Aborting and Aborted

An action that is not listed for a phase has no effect. Nothing here reads pods or the time: `apply_action` and
`next_phase` are functions of a phase and of numbers, so that each transition is one line of a test.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from stromboli.api import Job
from stromboli.api.defaults import MAX_RETRY, task_minimum
from stromboli.grammar import plural

PENDING = "Pending"
RUNNING = "Running"
RESTARTING = "Restarting"
ABORTING = "Aborting"
ABORTED = "Aborted"
COMPLETING = "Completing"
COMPLETED = "Completed"
TERMINATING = "Terminating"
TERMINATED = "Terminated"
FAILED = "Failed"

FINISHED_PHASES = frozenset({COMPLETED, TERMINATED, FAILED})
PHASES_WITHOUT_PODS = FINISHED_PHASES | {ABORTING, ABORTED, COMPLETING, TERMINATING}
"""Phases in which no pod may run. Finished pods are kept: users read their logs and exit codes."""

TARGETED_ACTIONS = frozenset({"RestartTask", "RestartPod", "RestartPartition"})
"""Actions that delete some pods of a job and leave the others running."""

_WHILE_ACTIVE = {
    "RestartJob": RESTARTING,
    "RestartTask": RESTARTING,
    "RestartPod": RESTARTING,
    "RestartPartition": RESTARTING,
    "AbortJob": ABORTING,
    "TerminateJob": TERMINATING,
    "CompleteJob": COMPLETING,
}
_FINAL_PHASES = {ABORTING: ABORTED, COMPLETING: COMPLETED, TERMINATING: TERMINATED}


@dataclass(frozen=True, slots=True)
class PodCounts:
    """How many pods of a job are in each phase. `terminating` are those being deleted, or to be deleted in this
    pass."""

    pending: int = 0
    running: int = 0
    succeeded: int = 0
    failed: int = 0
    unknown: int = 0
    terminating: int = 0
    by_task: Mapping[str, Mapping[str, int]] = field(default_factory=dict)

    @property
    def alive(self) -> int:
        return self.pending + self.running + self.unknown + self.terminating


@dataclass(frozen=True, slots=True)
class Transition:
    """The result of an action. A new version makes all pods and the group of the job outdated: they are deleted."""

    phase: str
    is_retry: bool
    new_version: bool


@dataclass(frozen=True, slots=True)
class PhaseResult:
    phase: str
    message: str = ""


def job_minimum(job: Job) -> int:
    minimum = job.spec.min_available
    return sum(task_minimum(task) for task in job.spec.tasks) if minimum is None else minimum


def total_replicas(job: Job) -> int:
    return sum(task.replicas for task in job.spec.tasks)


def retry_limit(job: Job) -> int:
    return job.spec.max_retry or MAX_RETRY


def apply_action(phase: str, action: str) -> Transition | None:
    """What an action does to a job in this phase; None if it has no effect."""
    if phase in (PENDING, RUNNING) and action in _WHILE_ACTIVE:
        new_phase = _WHILE_ACTIVE[action]
        return Transition(
            new_phase,
            is_retry=new_phase == RESTARTING,
            new_version=action not in TARGETED_ACTIONS,
        )
    if phase in (ABORTING, ABORTED) and action == "ResumeJob":
        return Transition(RESTARTING, is_retry=True, new_version=True)
    return None


def next_phase(job: Job, phase: str, counts: PodCounts, *, retry_count: int) -> PhaseResult:
    """The phase that follows from the pods, without any action."""
    match phase:
        case "Pending":
            if job_minimum(job) <= counts.running + counts.succeeded + counts.failed:
                return PhaseResult(RUNNING)
        case "Running":
            return _running(job, counts)
        case "Restarting":
            if retry_count >= retry_limit(job):
                message = f"No retries left: this would be restart {retry_count}, and maxRetry is {retry_limit(job)}."
                return PhaseResult(FAILED, message)
            if total_replicas(job) - counts.terminating >= job_minimum(job):
                return PhaseResult(PENDING)
        case "Aborting" | "Completing" | "Terminating" if counts.alive == 0:
            return PhaseResult(_FINAL_PHASES[phase])
    return PhaseResult(phase)


def _running(job: Job, counts: PodCounts) -> PhaseResult:
    replicas = total_replicas(job)
    if replicas == 0:
        # Scaled to zero for now. A job without replicas has neither succeeded nor failed.
        return PhaseResult(RUNNING)
    min_success = job.spec.min_success
    if min_success is not None and counts.succeeded >= min_success:
        return PhaseResult(COMPLETED, f"{plural(counts.succeeded, 'pod')} succeeded; minSuccess is {min_success}.")
    if counts.succeeded + counts.failed == replicas:
        return _all_finished(job, counts, replicas)
    if counts.pending > replicas - job_minimum(job):
        return PhaseResult(PENDING)
    return PhaseResult(RUNNING)


def _all_finished(job: Job, counts: PodCounts, replicas: int) -> PhaseResult:
    minimum = job_minimum(job)
    # The minimums of tasks are ignored if the job's own minimum is lower than their sum.
    if minimum >= sum(task_minimum(task) for task in job.spec.tasks):
        for task in job.spec.tasks:
            succeeded = counts.by_task.get(task.name, {}).get("Succeeded", 0)
            if succeeded < task_minimum(task):
                return PhaseResult(
                    FAILED,
                    f"{succeeded} of {task.replicas} pods of task {task.name} succeeded; "
                    f"at least {task_minimum(task)} must succeed.",
                )
    needed = max(minimum, job.spec.min_success or 0)
    message = f"{counts.succeeded} of {replicas} pods succeeded; at least {needed} must succeed."
    return PhaseResult(COMPLETED if counts.succeeded >= needed else FAILED, message)
