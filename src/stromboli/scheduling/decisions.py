"""What a cycle decides, as plain values.

The core never talks to anybody. A world carries decisions out, in the order given, and reports what happened as
cluster events; a bind that fails comes back as `BindFailed` like any other news.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from stromboli.api import PodGroupCondition, Reservation
from stromboli.cluster import JobKey, QueueName, TaskKey


@dataclass(frozen=True, slots=True)
class Bind:
    task: TaskKey
    node: str
    job: JobKey
    backfill: bool = False  # the pod is to be marked as running on lent room


@dataclass(frozen=True, slots=True)
class Evict:
    task: TaskKey
    node: str
    reason: str  # "Preempted", "Reclaimed", …
    message: str


@dataclass(frozen=True, slots=True)
class Reserve:
    """Room on a node is set aside for a starving task: create this object."""

    task: TaskKey
    node: str
    reservation: Reservation


@dataclass(frozen=True, slots=True)
class Unreserve:
    """What was set aside for a task is used or given up: delete the object of this name."""

    task: TaskKey
    node: str
    reservation: str
    reason: str


@dataclass(frozen=True, slots=True)
class Consume:
    """A task takes its place out of a Reservation."""

    reservation: str
    task: TaskKey


@dataclass(frozen=True, slots=True)
class PatchGroup:
    """The status of a PodGroup changed."""

    job: JobKey
    phase: str
    conditions: tuple[PodGroupCondition, ...]
    running: int
    succeeded: int
    failed: int


@dataclass(frozen=True, slots=True)
class PatchPod:
    """Why a pod waits, for its PodScheduled condition; and the node kept for it, if any."""

    task: TaskKey
    reason: str  # a code of reasons.py
    message: str
    nominated: str = ""


@dataclass(frozen=True, slots=True)
class PatchQueue:
    queue: QueueName
    allocated: dict[str, int]  # exact amounts by resource


@dataclass(frozen=True, slots=True)
class Notice:
    """Something a user should be told about an object ("Job ns/j", "Queue q", …)."""

    kind: str
    key: str
    reason: str
    message: str
    warning: bool = False


Decision = Bind | Evict | Reserve | Unreserve | Consume | PatchGroup | PatchPod | PatchQueue | Notice


@dataclass(slots=True)
class Cycle:
    """All that one cycle has to say."""

    decisions: list[Decision] = field(default_factory=list)
    waiting: dict[TaskKey, Explanation] = field(default_factory=dict)  # every pending task of ours, and why
    deserved: dict[QueueName, dict[str, int]] = field(default_factory=dict)  # per queue, as far as a plugin says
    next_due: float | None = None  # when time alone will change something, though nothing happens


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a task waits: a code of reasons.py and a full sentence with its numbers."""

    code: str
    message: str
