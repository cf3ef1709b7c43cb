"""What a cycle decides, as plain values.

The core does no I/O. A world carries out the decisions in the order given and reports what happened as cluster events:
a bind that failed comes back as `BindFailed`. Those of which there may be one for each of ten thousand waiting pods are
structs, which are made faster than dataclasses.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from msgspec import Struct
from msgspec.structs import replace

from stromboli.api import Condition, ObjectReference, PodGroup, PodGroupCondition, Queue, Reservation, ResourceList
from stromboli.api.quantity import format_amount
from stromboli.cluster import JobKey, QueueName, TaskKey
from stromboli.containment import ContainedError


class Bind(Struct, frozen=True):
    """Before the bind, the pod is listed among the users of the Reservation that it uses."""

    task: TaskKey
    node: str
    job: JobKey
    backfill: bool = False  # mark the pod as running on lent resources
    reservation: str = ""  # the name and UID of the Reservation it uses, if it uses one


class SelectNode(Struct, frozen=True, gc=False):
    """The volume of a claim is to be made for this node: write it, with the time, on the claim."""

    claim: str
    node: str
    task: TaskKey  # the pod that waits for it
    pod_uid: str
    at: str


@dataclass(frozen=True, slots=True)
class UnselectNode:
    """The volume did not come: remove the selected node of the claim."""

    claim: str


@dataclass(frozen=True, slots=True)
class ClaimVolume:
    """An existing volume is for this claim: write it on the volume."""

    volume: str
    claim: str
    claim_uid: str
    task: TaskKey  # the pod that waits for it
    pod_uid: str
    node: str


@dataclass(frozen=True, slots=True)
class UnclaimVolume:
    """The claim was not bound to the volume: the volume is free again."""

    volume: str
    claim: str


class Evict(Struct, frozen=True, gc=False):
    task: TaskKey
    node: str
    reason: str  # "Preempted", "Reclaimed", …
    message: str


class Ungate(Struct, frozen=True, gc=False):
    """The queue of a pod has room for it: remove the gate that keeps the pod from being scheduled."""

    task: TaskKey
    queue: QueueName


@dataclass(frozen=True, slots=True)
class Reserve:
    """Resources on a node are reserved for a starved task: create this object."""

    task: TaskKey
    node: str
    reservation: Reservation


@dataclass(frozen=True, slots=True)
class Unreserve:
    """A task used its reservation or gave it up: delete the object of this name."""

    task: TaskKey
    node: str
    reservation: str
    reason: str


@dataclass(frozen=True, slots=True)
class PatchReservation:
    """A Reservation got a node, lost it, can never have one, or waits for another reason than before, perhaps for pods
    that are evicted for it on a node. Without amounts it holds nothing, and nobody uses it."""

    reservation: str
    uid: str
    phase: str
    node: str
    allocatable: dict[str, int]  # exact amounts by resource
    conditions: tuple[Condition, ...]  # those that change
    gone: tuple[str, ...] = ()  # the types of those that no longer hold
    event: str = ""  # the reason of an event with the message of the last condition, once this is written

    def applied_to(self, reservation: Reservation) -> Reservation:
        """The reservation with this status."""
        kinds = {condition.type for condition in self.conditions} | set(self.gone)
        others = [condition for condition in reservation.status.conditions if condition.type not in kinds]
        status = replace(
            reservation.status,
            phase=self.phase,
            node_name=self.node,
            allocatable={name: format_amount(name, n) for name, n in sorted(self.allocatable.items())},
            conditions=sorted([*others, *self.conditions], key=lambda condition: condition.type, reverse=True),
        )
        if not self.allocatable:
            status = replace(status, allocated={}, current_owners=[])
        return replace(reservation, status=status)


@dataclass(frozen=True, slots=True)
class DropUsers:
    """These pods do not use a Reservation that lists them: remove them from its status, before they are bound.
    `unseen`: those that the scheduler does not know, only if they are gone or have ended."""

    reservation: str
    uid: str
    pods: tuple[ObjectReference, ...]
    unseen: tuple[ObjectReference, ...]


class PatchGroup(Struct, frozen=True, gc=False):
    """The status of a PodGroup changed."""

    job: JobKey
    phase: str
    conditions: tuple[PodGroupCondition, ...]
    running: int
    succeeded: int
    failed: int

    def applied_to(self, group: PodGroup) -> PodGroup:
        """The group with this status."""
        status = replace(
            group.status,
            phase=self.phase,
            conditions=list(self.conditions),
            running=self.running,
            succeeded=self.succeeded,
            failed=self.failed,
        )
        return replace(group, status=status)


class PatchPod(Struct, frozen=True, gc=False):
    """Why a pod waits, for its PodScheduled condition, the node it is nominated to, if any, and the record of its
    refused binds, if any."""

    task: TaskKey
    reason: str  # a code of reasons.py
    message: str
    nominated: str = ""
    refused: str = ""


@dataclass(frozen=True, slots=True)
class PatchQueue:
    queue: QueueName
    allocated: dict[str, int]  # exact amounts by resource

    def applied_to(self, queue: Queue) -> Queue:
        """The queue with this status."""
        allocated: ResourceList = {name: format_amount(name, n) for name, n in sorted(self.allocated.items())}
        return replace(queue, status=replace(queue.status, allocated=allocated))


@dataclass(frozen=True, slots=True)
class Notice:
    """An event for users about an object ("Job ns/j", "Queue q", …)."""

    kind: str
    key: str
    reason: str
    message: str
    warning: bool = False


VolumeDecision = SelectNode | UnselectNode | ClaimVolume | UnclaimVolume
Decision = (
    Bind | Evict | Reserve | Unreserve | PatchReservation | DropUsers | PatchGroup | PatchPod | PatchQueue | Notice
    | Ungate | VolumeDecision
)  # fmt: skip


@dataclass(slots=True)
class Cycle:
    """The output of one cycle."""

    decisions: list[Decision] = field(default_factory=list)
    waiting: dict[TaskKey, Explanation] = field(default_factory=dict)  # every pending task of ours, and why
    reasons: dict[JobKey, Explanation] = field(default_factory=dict)  # every job that waits, with or without pods
    deserved: dict[QueueName, dict[str, int]] = field(default_factory=dict)  # empty if no plugin divides the cluster
    # By owner of locked nodes, as the cycle found it: it counts as allocated in that queue.
    idle_on_locked_nodes: dict[QueueName, dict[str, int]] = field(default_factory=dict)
    kept: dict[str, list[JobKey]] = field(default_factory=dict)  # by node: jobs that wait there for lent room
    next_due: float | None = None  # when a cycle is needed even without an event
    asks_again: bool = False  # the next cycle may decide differently although nothing changes: plugins do not say
    contained: list[ContainedError] = field(default_factory=list)  # errors, with the objects that were put aside
    cut: dict[str, int] = field(default_factory=dict)  # actions that ran out of time, and after how many turns
    not_reached: dict[str, list[JobKey]] = field(default_factory=dict)  # by action: jobs that had no turn
    postponed_searches: int = 0  # searches for victims that are left to the next cycle, because this one had many


class Explanation(Struct, frozen=True, gc=False):
    """Why a task waits: a code of reasons.py and a full sentence with its numbers."""

    code: str
    message: str
