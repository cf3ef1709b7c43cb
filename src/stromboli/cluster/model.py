"""The scheduler's data model: nodes, tasks, jobs, queues and namespaces.

These classes hold data and compute only what follows from their own fields. Only the ledger (ledger.py) writes their
amounts and counters. A "task" is a pod as the scheduler sees it, and a "job" is a PodGroup with its tasks.

The statuses of a task::

    Pending ──▶ Allocated ──▶ Binding ──▶ Bound ──▶ Running ──▶ Succeeded / Failed
       │  ▲                                 │          │
       │  └─ undo                           └────┬─────┘
       ├──▶ Pipelined     waits for resources being released        ▼
       ├──▶ Conditional   needs resources lent to backfill       Releasing ──▶ (deleted)
       └──▶ Reserved      a node is reserved for it

Allocated, Pipelined and Conditional exist only during a session; the others outlive it.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, NewType

import numpy as np

from stromboli.api import Node as NodeObject
from stromboli.api import Pod, PodGroup, PodGroupCondition, ResourceQuota, names
from stromboli.api import Queue as QueueObject
from stromboli.api.volumes.pod_volumes import NO_VOLUMES, PodVolumes

from .refused_bind import RefusedBind
from .resources import PODS, UNOFFERED, ResourceAxis, Unoffered, Vector, add_to
from .topology.layout import Layout

JobKey = NewType("JobKey", str)  # "namespace/podgroup"; see `api.upstream` for those of scheduling.k8s.io
TaskKey = NewType("TaskKey", str)  # "namespace/pod"
QueueName = NewType("QueueName", str)
GroupStatus = tuple[str, int, int, int, tuple[PodGroupCondition, ...]]
"""What sessions write: phase, pods that run, have succeeded and have failed, conditions."""


def group_status(group: PodGroup) -> GroupStatus:
    status = group.status
    return (status.phase, status.running, status.succeeded, status.failed, tuple(status.conditions))


class Status(IntEnum):
    PENDING = 0
    PIPELINED = 1
    CONDITIONAL = 2
    RESERVED = 3
    ALLOCATED = 4
    BINDING = 5
    BOUND = 6
    RUNNING = 7
    RELEASING = 8
    SUCCEEDED = 9
    FAILED = 10
    UNKNOWN = 11


OCCUPYING = frozenset({Status.ALLOCATED, Status.BINDING, Status.BOUND, Status.RUNNING})
"""Statuses in which a task occupies resources of a node and counts in shares."""
WAITING = frozenset({Status.PENDING, Status.CONDITIONAL, Status.RESERVED})
"""Statuses in which a task still has to be placed."""


@dataclass(eq=False, slots=True, weakref_slot=True)
class Shape:
    """What pods with the same scheduling requirements share: filters and scores are computed once per shape."""

    id: int
    request: Vector  # with one in the column "pods"
    best_effort: bool  # requests no resource but "pods"
    pod: Pod  # any pod of this shape, to read selectors, tolerations, ports and so on from
    has_pod_terms: bool  # inter-pod (anti-)affinity or topology spread: labels and namespace matter
    has_ports: bool
    unoffered: Unoffered = ()  # what it requests that no node offers

    def shown(self, name: str, column: int) -> tuple[str, int]:
        """What users read for a column: the name of a resource, and how much is requested."""
        return self.unoffered[0] if column == UNOFFERED and self.unoffered else (name, int(self.request[column]))


@dataclass(eq=False, slots=True)
class Lock:
    """A node that is closed to all but one queue and the queues below it. What these use, and what nobody uses, counts
    as its owner's. What others still use there counts as theirs until they have left."""

    owner: Queue
    opens_to: frozenset[QueueName]  # the owner and the queues below it
    offers: Vector  # what the node offers, without "pods"; nothing while it takes no pods
    taken: Vector  # by anybody; what terminating pods of these queues use is not
    by_queue: dict[QueueName, Vector]  # the part of it that each of these queues has
    unused: Vector  # offers - taken, at least 0: it is in its owner's allocation

    @property
    def owned(self) -> Vector:
        """What counts as its owner's, and that of the queues below it."""
        owned = sum(self.by_queue.values(), start=self.unused.copy())
        owned[PODS] = 0
        return owned

    @property
    def drains(self) -> Vector:
        """What others use, and must leave before it is its owner's."""
        return np.asarray(np.maximum(self.offers - self.owned, 0))

    def widen(self, axis: ResourceAxis) -> None:
        self.offers, self.taken, self.unused = (axis.pad(one) for one in (self.offers, self.taken, self.unused))
        self.by_queue = {name: axis.pad(amount) for name, amount in self.by_queue.items()}


@dataclass(eq=False, slots=True)
class Node:
    name: str
    object: NodeObject
    row: int  # its row in the NodeTable, in the order of names; -1 before it has one
    labels: dict[str, str]
    ready: bool
    schedulable: bool  # not cordoned
    allocatable: dict[str, int]
    tasks: dict[TaskKey, Task] = field(default_factory=dict)  # all tasks on it, in any status
    lock: Lock | None = None

    @property
    def takes_pods(self) -> bool:
        """Whether pods of queues can be placed on it. Not if it is cordoned or not ready, or has a taint that
        Kubernetes sets on such nodes and on the control plane. Other taints are for some pods and against others."""
        if not (self.ready and self.schedulable):
            return False
        return not any(
            taint.effect != "PreferNoSchedule"
            and taint.key != names.MEMORY_PRESSURE
            and (taint.key in names.CONTROL_PLANE or taint.key.startswith(names.LIFECYCLE_TAINTS))
            for taint in self.object.spec.taints
        )

    def is_closed_to(self, queue: Queue) -> bool:
        """Whether it is locked for a queue other than this one and those above it."""
        return self.lock is not None and queue.name not in self.lock.opens_to


@dataclass(eq=False, slots=True)
class Task:
    key: TaskKey
    name: str
    namespace: str
    uid: str
    pod: Pod
    shape: Shape
    job: Job | None  # None: in no group, so it is not scheduled and only occupies resources
    priority: int
    role: str
    index: int  # the number at the end of its name, -1 if there is none
    created: float
    preemptable: bool
    may_preempt: bool  # preemptionPolicy is not Never
    gated: bool  # has scheduling gates, so it must not be placed yet
    backfill: bool  # runs on resources lent by a gang that was not ready
    nominated: str  # the node from which pods are evicted for it, or ""
    uses: str = ""  # the Reservation that it uses: its name and UID
    put_aside: bool = False  # an error happened on it: its group is withdrawn, and its tasks are no victims
    stands_for: str = ""  # the Reservation that this task is placed for; it is no pod then
    refused: RefusedBind | None = None  # binds that the server refused
    volumes: PodVolumes = NO_VOLUMES  # claims, and volumes of drivers
    claim: str = ""  # the only one of them, if there is one
    claim_kind: int | None = None  # equal for tasks with one claim of their own, if these are alike; see VolumeIndex
    # Why it waits, where it is nominated to, and which binds were refused, if its pod's status has it.
    said: tuple[str, str, str] | None = None
    awaits_queue: bool = False  # its only gate is the one that is removed when its queue has room
    ungated: bool = False  # that has been decided, and the pod does not show it yet
    ends: bool = True  # False: as far as anybody can tell, it runs until somebody deletes it
    status: Status = Status.PENDING
    node: Node | None = None
    # The state outside any session; a snapshot restores status, node and backfill from it.
    true_status: Status = Status.PENDING
    true_node: Node | None = None
    true_backfill: bool = False

    @property
    def request(self) -> Vector:
        return self.shape.request

    @property
    def best_effort(self) -> bool:
        return self.shape.best_effort

    @property
    def refusals(self) -> str:
        """The record of refused binds; "" if there are none."""
        return "" if self.refused is None else self.refused.record

    @property
    def lent_room(self) -> bool:
        """Whether it counts in the node's column `backfilled`."""
        return self.backfill and self.status in OCCUPYING

    def __repr__(self) -> str:
        where = f" on {self.node.name}" if self.node else ""
        return f"<Task {self.key} {self.status.name.lower()}{where}>"


# As plain numbers: looking up members of an enumeration is slow, and these are needed for every job in every cycle.
_ALLOCATED = int(Status.ALLOCATED)
_BINDING = int(Status.BINDING)
_BOUND = int(Status.BOUND)
_CONDITIONAL = int(Status.CONDITIONAL)
_PENDING = int(Status.PENDING)
_PIPELINED = int(Status.PIPELINED)
_RESERVED = int(Status.RESERVED)
_RUNNING = int(Status.RUNNING)
_SUCCEEDED = int(Status.SUCCEEDED)
_RELEASING = int(Status.RELEASING)
_FAILED = int(Status.FAILED)
_UNKNOWN = int(Status.UNKNOWN)


def role_minimums_apply(min_available: int, role_minimums: Mapping[str, int]) -> bool:
    """Whether the minimums of a gang's roles apply. If their sum exceeds the gang's own, they are ignored, as in
    Volcano."""
    return bool(role_minimums) and min_available >= sum(role_minimums.values())


@dataclass(eq=False, slots=True)
class Job:
    key: JobKey
    name: str
    namespace: str
    queue: Queue
    allocated: Vector  # requests of its occupying and pipelined tasks
    object: PodGroup | None = None  # None: tasks name a group that does not exist (yet)
    priority: int = 0
    created: float = 0.0
    min_available: int = 1
    role_minimums: dict[str, int] = field(default_factory=dict)
    min_resources: Vector | None = None
    unoffered: Unoffered = ()  # the part of its minimum that no node offers
    # Each task is on its own: its group was generated for pods without one, and nobody said that they belong together.
    single_tasks: bool = False
    goes_whole: bool = False  # its owner stops or restarts all tasks when one is evicted
    layout: Layout | None = None  # how close together its pods must be, and its sub-groups; None: it does not matter
    missing_class: str = ""  # a PriorityClass that does not exist, if no pods can be made without it
    put_aside: bool = False  # an error happened on it: its group is withdrawn, and its tasks are no victims
    stands_for: str = ""  # the Reservation that this job is placed for; it goes after other jobs of its priority
    phase: str = "Pending"
    said: GroupStatus | None = None  # the status of its PodGroup that follows from its tasks, as a session found it
    evicted_whole: str = ""  # why all its tasks were evicted, until its PodGroup says it
    tasks: dict[TaskKey, Task] = field(default_factory=dict)
    counts: list[int] = field(default_factory=lambda: [0] * len(Status))  # tasks by status
    pending_best_effort: int = 0
    gated: int = 0  # pending tasks with scheduling gates
    held: int = 0  # tasks in status Binding whose bind waits for volumes
    # What schedulers have found out about its pods and minimums, each by an object of its own; empty when these change.
    memo: dict[Hashable, Any] = field(default_factory=dict)
    role_counts: dict[str, list[int]] = field(default_factory=dict)  # by role, then status
    role_pending_best_effort: dict[str, int] = field(default_factory=dict)

    @property
    def ready_count(self) -> int:
        c = self.counts
        return c[_ALLOCATED] + c[_BINDING] + c[_BOUND] + c[_RUNNING] + c[_SUCCEEDED]

    @property
    def waiting_count(self) -> int:
        return self.counts[_PIPELINED]

    @property
    def pending_count(self) -> int:
        c = self.counts
        return c[_PENDING] + c[_CONDITIONAL] + c[_RESERVED]

    @property
    def valid_count(self) -> int:
        """Tasks that run, have succeeded, or may still be placed."""
        c = self.counts
        return len(self.tasks) - c[_RELEASING] - c[_FAILED] - c[_UNKNOWN]

    @property
    def is_ready(self) -> bool:
        return self.ready_count + self.pending_best_effort >= self.min_available

    @property
    def is_pipelined(self) -> bool:
        return self._promised_count >= self.min_available

    @property
    def is_conditionally_ready(self) -> bool:
        """Ready if the resources lent to backfill tasks are counted."""
        return self._promised_count + self.counts[_CONDITIONAL] >= self.min_available

    @property
    def is_ready_with_reserved(self) -> bool:
        """Ready if lent resources and reserved nodes are counted."""
        promised = self._promised_count + self.counts[_CONDITIONAL]
        return promised + self.counts[_RESERVED] >= self.min_available

    @property
    def _promised_count(self) -> int:
        return self.waiting_count + self.ready_count + self.pending_best_effort

    @property
    def is_below_minimum(self) -> bool:
        return self.waiting_count + self.ready_count < self.min_available

    @property
    def is_starving(self) -> bool:
        """Whether others may be evicted for it: its gang cannot start, or a task that is on its own waits."""
        return self.is_below_minimum or (self.single_tasks and self.pending_count > self.gated)

    @property
    def is_over(self) -> bool:
        """Whether nothing of it is left to schedule: its group is gone, and its pods have finished."""
        return self.object is None and len(self.tasks) == self.counts[_SUCCEEDED] + self.counts[_FAILED]

    @property
    def shows_what_was_said(self) -> bool:
        """Whether the PodGroup has the status that was decided last. A write may be given up on its way, for instance
        when the lease ran out while the process was suspended; then it is decided again."""
        assert self.object is not None
        if self.phase != self.object.status.phase:
            return False
        return self.said is None or self.said == group_status(self.object)

    @property
    def is_at_rest(self) -> bool:
        """Whether there is nothing to do for it until it changes: it was admitted, no pod of it waits or is missing,
        and its PodGroup shows what was decided."""
        if self.pending_count or self.held:
            return False
        if self.object is None:
            return True
        if not self.shows_what_was_said or self.phase in ("Pending", "Inqueue"):
            return False
        return self.min_resources is None or self.valid_count >= self.min_available

    @property
    def first_unoffered(self) -> tuple[str, int] | None:
        """The first resource that the job asks for and no node offers, and how much; None if there is none."""
        found = self.unoffered or tuple(one for task in self.tasks.values() for one in task.shape.unoffered)
        return min(found, default=None)

    @property
    def roles_matter(self) -> bool:
        return role_minimums_apply(self.min_available, self.role_minimums)

    def role_occupied(self, role: str, *, with_pipelined: bool = False) -> int:
        counts = self.role_counts.get(role)
        if counts is None:
            return 0
        occupied = (
            counts[_ALLOCATED]
            + counts[_BINDING]
            + counts[_BOUND]
            + counts[_RUNNING]
            + counts[_SUCCEEDED]
            + self.role_pending_best_effort.get(role, 0)
        )
        return occupied + counts[_PIPELINED] if with_pipelined else occupied

    def role_valid(self, role: str) -> int:
        counts = self.role_counts.get(role)
        if counts is None:
            return 0
        return sum(counts[:_RELEASING]) + counts[_SUCCEEDED]

    def __repr__(self) -> str:
        return f"<Job {self.key} {self.phase} {self.ready_count}/{self.min_available}>"


@dataclass(eq=False, slots=True)
class Queue:
    name: QueueName
    allocated: Vector  # what its tasks occupy, and what is idle on nodes that are locked for it
    wanted: Vector  # requests of its waiting tasks
    unused: Vector  # the part of `allocated` that nobody occupies: idle on nodes that are locked for it
    object: QueueObject | None = None  # None: jobs name a queue that does not exist (yet)
    weight: int = 1
    priority: int = 0
    created: float = 0.0
    capability: Vector | None = None  # UNLIMITED for resources that are not given
    guarantee: Vector | None = None
    deserved: Vector | None = None  # from the spec, for the capacity plugin
    reclaimable: bool = True
    open: bool = True
    fifo: bool = False  # stops at its first job that cannot be placed
    parent: str = ""
    jobs: dict[JobKey, Job] = field(default_factory=dict)  # at a snapshot: without those that are over
    by_namespace: dict[str, Vector] = field(default_factory=dict)  # allocation of each namespace in this queue
    leaving_in: dict[str, Vector] = field(default_factory=dict)  # what its terminating tasks use, by namespace

    @property
    def occupied(self) -> Vector:
        """What its tasks occupy, wherever they are."""
        return self.allocated - self.unused

    def __repr__(self) -> str:
        return f"<Queue {self.name}>"


@dataclass(eq=False, slots=True)
class NamespaceInfo:
    name: str
    labels: dict[str, str] = field(default_factory=dict)
    queue: str = ""  # of its pods and groups that name none
    weights: dict[str, int] = field(default_factory=dict)  # by the name of the ResourceQuota
    quotas: dict[str, ResourceQuota] = field(default_factory=dict)  # all of them, by name

    @property
    def weight(self) -> int:
        return max(self.weights.values(), default=1)


def requests_by_row(tasks: Iterable[Task]) -> dict[int, Vector]:
    """What those of these tasks request that have a node, by its row."""
    rows: dict[int, Vector] = {}
    for task in tasks:
        if task.node is not None:
            add_to(rows, task.node.row, task.request)
    return rows
