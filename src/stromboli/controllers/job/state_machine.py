"""The life of a Job, as a table: which phase follows from an action, and which from a count of pods.

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

An action that a phase does not know changes nothing. Nothing here looks at pods or at the time: `obey` and
`synchronise` are functions of a phase and of numbers, so that each line of the table is one line of a test.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from stromboli.api import Job, TaskSpec
from stromboli.api.defaults import MAX_RETRY

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
KILLING_PHASES = FINISHED_PHASES | {ABORTING, ABORTED, COMPLETING, TERMINATING}
"""Phases in which no pod may run. Those that have finished are kept: they are the job's record."""

TARGETED_ACTIONS = frozenset({"RestartTask", "RestartPod", "RestartPartition"})
"""Actions that kill some pods of a job and leave the others running."""

_WHILE_ACTIVE = {
    "RestartJob": RESTARTING,
    "RestartTask": RESTARTING,
    "RestartPod": RESTARTING,
    "RestartPartition": RESTARTING,
    "AbortJob": ABORTING,
    "TerminateJob": TERMINATING,
    "CompleteJob": COMPLETING,
}
_ENDS_AS = {ABORTING: ABORTED, COMPLETING: COMPLETED, TERMINATING: TERMINATED}


@dataclass(frozen=True, slots=True)
class Census:
    """How many pods of a job are in which phase. `terminating` are those that leave, or are about to be told to."""

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
class Outcome:
    """Where an action leads. A new version makes every pod and the group of the job outdated: all must go."""

    phase: str
    counts_as_retry: bool
    new_version: bool


@dataclass(frozen=True, slots=True)
class Verdict:
    phase: str
    message: str = ""


def task_minimum(task: TaskSpec) -> int:
    return task.replicas if task.min_available is None else task.min_available


def job_minimum(job: Job) -> int:
    stated = job.spec.min_available
    return sum(task_minimum(task) for task in job.spec.tasks) if stated is None else stated


def total_replicas(job: Job) -> int:
    return sum(task.replicas for task in job.spec.tasks)


def retry_limit(job: Job) -> int:
    return MAX_RETRY if job.spec.max_retry is None else job.spec.max_retry


def obey(phase: str, action: str) -> Outcome | None:
    """What an action does to a job in this phase; None when it does nothing."""
    if phase in (PENDING, RUNNING) and action in _WHILE_ACTIVE:
        following = _WHILE_ACTIVE[action]
        return Outcome(
            following,
            counts_as_retry=following == RESTARTING,
            new_version=action not in TARGETED_ACTIONS,
        )
    if phase in (ABORTING, ABORTED) and action == "ResumeJob":
        return Outcome(RESTARTING, counts_as_retry=True, new_version=True)
    return None


def synchronise(job: Job, phase: str, census: Census, *, retry_count: int) -> Verdict:
    """The phase that the pods say the job is in."""
    match phase:
        case "Pending":
            if job_minimum(job) <= census.running + census.succeeded + census.failed:
                return Verdict(RUNNING)
        case "Running":
            return _running(job, census)
        case "Restarting":
            if retry_count >= retry_limit(job):
                message = f"No retry is left: this would be restart {retry_count}, and maxRetry is {retry_limit(job)}."
                return Verdict(FAILED, message)
            if total_replicas(job) - census.terminating >= job_minimum(job):
                return Verdict(PENDING)
        case "Aborting" | "Completing" | "Terminating" if census.alive == 0:
            return Verdict(_ENDS_AS[phase])
    return Verdict(phase)


def _running(job: Job, census: Census) -> Verdict:
    replicas = total_replicas(job)
    if replicas == 0:
        # Scaled to zero for now. A job that wants no pods has neither succeeded nor failed.
        return Verdict(RUNNING)
    enough = job.spec.min_success
    if enough is not None and census.succeeded >= enough:
        return Verdict(COMPLETED, f"{census.succeeded} pods succeeded; {enough} were to.")
    if census.succeeded + census.failed == replicas:
        return _all_done(job, census, replicas)
    if census.pending > replicas - job_minimum(job):
        return Verdict(PENDING)
    return Verdict(RUNNING)


def _all_done(job: Job, census: Census, replicas: int) -> Verdict:
    minimum = job_minimum(job)
    # Minimums of tasks mean nothing when the job as a whole is content with fewer pods than they add up to.
    if minimum >= sum(task_minimum(task) for task in job.spec.tasks):
        for task in job.spec.tasks:
            succeeded = census.by_task.get(task.name, {}).get("Succeeded", 0)
            if succeeded < task_minimum(task):
                return Verdict(
                    FAILED,
                    f"{succeeded} of {task.replicas} pods of task {task.name} succeeded; {task_minimum(task)} had to.",
                )
    needed = max(minimum, job.spec.min_success or 0)
    message = f"{census.succeeded} of {replicas} pods succeeded; {needed} had to."
    return Verdict(COMPLETED if census.succeeded >= needed else FAILED, message)
