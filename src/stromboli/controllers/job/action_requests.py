"""Orders to a job: who may give them, and which one counts now.

A Command is an order by itself. A policy becomes one when its happening has lasted as long as the policy is
patient (see job_policy). Whatever the policies want at one moment and with one answer is one order: three
pods that fail together cost the job one retry, not three.

Evictions need a memory of their own. A failed pod stays and says so; one that was evicted is simply not
there, and its place is soon filled by another. Until that one runs, the eviction is held to be the case.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from stromboli.api import Command, Job, Pod, PodGroup
from stromboli.api.timestamps import parse_timestamp
from stromboli.controllers.changes import Change, Notify
from stromboli.controllers.pod_owners import is_leaving

from .lifecycle_policy import POD_EVICTED, POD_PENDING, Happening, Member, evicted, patience, policy_for, standing
from .pods import belongs_to, members_among, version_of
from .state_machine import KILLING_PHASES, PENDING, RUNNING, TARGETED_ACTIONS, obey


@dataclass(frozen=True, slots=True)
class Order:
    action: str
    reason: str
    message: str
    targets: frozenset[str] = frozenset()  # names of pods, for targeted actions


@dataclass(slots=True)
class Memory:
    """What is remembered of one job between passes."""

    gone: dict[str, tuple[Pod, float]] = field(default_factory=dict)  # pods that went unasked, and when
    since: dict[Happening, float] = field(default_factory=dict)
    taken_name: str = ""  # of a pod that could not be made because another has its name, once that was said
    due: float | None = None  # when to look again although nothing changed
    at_rest: tuple[Job, PodGroup | None, list[Pod]] | None = None  # what a pass without changes has seen
    answered: tuple[dict[str, tuple[Pod, float]], dict[Happening, float]] | None = None  # what this pass acts upon

    def start_afresh(self) -> None:
        """The job acts: what was waited for until now is over."""
        self.answered = (self.gone, self.since)
        self.gone, self.since = {}, {}
        self.due = None

    def take_back(self) -> None:
        """The job could not act after all: what happened still waits for an answer."""
        if self.answered is not None:
            gone, since = self.answered
            self.gone, self.since = gone | self.gone, since | self.since
            self.answered = None


def order_of_command(job: Job, phase: str, command: Command) -> tuple[Order | None, list[Change]]:
    target = command.target
    if target is not None and target.uid not in ("", job.metadata.uid):
        return None, []
    if command.action in TARGETED_ACTIONS or obey(phase, command.action) is None:
        said = f"A job that is {phase} cannot be told {command.action or 'nothing'}."
        return None, [Notify(job, "CommandRefused", said, warning=True)]
    why = command.message or command.reason or "A command was given"
    return Order(command.action, command.reason or "CommandIssued", why), []


def order_of_policies(
    job: Job, phase: str, pods: list[Pod], group: PodGroup | None, memory: Memory, now: float
) -> Order | None:
    """What the policies want now. What happened at one moment and has one answer is one order: one retry."""
    if phase not in (PENDING, RUNNING):
        if phase in KILLING_PHASES:
            memory.gone.clear()
        return None
    version = job.status.version
    current = [pod for pod in pods if not is_leaving(pod) and version_of(pod.metadata, otherwise=version) == version]
    members = list(members_among(job, current))
    since: dict[Happening, float] = {}
    due: list[tuple[str, Happening]] = []
    later: list[float] = []
    for happening, began in _happenings(job, members, group, memory, now):
        policy = policy_for(job, happening)
        if policy is None:
            if happening.event == POD_EVICTED:
                memory.gone.pop(happening.pod, None)
            continue
        since[happening] = began
        moment = began + patience(policy)
        if moment > now:
            later.append(moment)
        elif obey(phase, policy.action) is not None and _has_target(policy.action, happening):
            due.append((policy.action, happening))
    memory.since = since
    memory.due = min(later, default=None)
    if not due:
        return None
    action, first = due[0]
    together = [happening for chosen, happening in due if chosen == action]
    if action not in TARGETED_ACTIONS:
        return Order(action, first.event, str(first))
    return Order(action, first.event, str(first), frozenset(_targets(job, action, together, members)))


def _happenings(
    job: Job, members: list[Member], group: PodGroup | None, memory: Memory, now: float
) -> Iterator[tuple[Happening, float]]:
    """What is the case, each with the time since when."""
    started = {member.pod.metadata.name for member in members if member.pod.status.phase in ("Running", "Succeeded")}
    present = {member.pod.metadata.name: member.pod for member in members}
    for name, (pod, at) in sorted(memory.gone.items()):
        lost = list(members_among(job, [pod]))
        outdated = version_of(pod.metadata, otherwise=job.status.version) != job.status.version
        if not lost or outdated or not belongs_to(job, pod) or name in started:
            del memory.gone[name]
        else:
            yield evicted(lost[0]), at
    for happening in standing(job, members, group):
        created = present[happening.pod].metadata.creation_timestamp if happening.pod else None
        if happening.event == POD_PENDING and created is not None:
            yield happening, parse_timestamp(created)
        else:
            yield happening, memory.since.get(happening, now)


def _has_target(action: str, happening: Happening) -> bool:
    if action == "RestartTask":
        return bool(happening.task)
    return action not in TARGETED_ACTIONS or bool(happening.pod)


def _targets(job: Job, action: str, happenings: Iterable[Happening], members: list[Member]) -> Iterator[str]:
    """The names of the pods that a targeted action kills."""
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

    meant = {unit(happening.task, happening.index) for happening in happenings}
    for member in members:
        if unit(member.task.name, member.index) in meant:
            yield member.pod.metadata.name
