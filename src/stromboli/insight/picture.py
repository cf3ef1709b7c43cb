"""The picture of a cluster at one time.

Amounts are exact integers by resource, as in the ledger: millicores of CPU, whole units of everything else. Times are
seconds since 1970. Shares are parts of the cluster, between 0 and 1, in the resource where the part is largest.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

Amounts = dict[str, int]


@dataclass(frozen=True, slots=True)
class QueuePicture:
    name: str
    state: str  # Open, Closing, Closed, Unknown
    parent: str
    weight: int
    priority: int
    allocated: Amounts  # what its pods use, and what Reservations hold for it
    waiting: Amounts  # what its jobs wait for, also those that have no pods yet
    deserved: Amounts  # empty if no plugin divides the cluster
    borrowed: Amounts  # allocated beyond what it deserves
    lent: Amounts  # deserved, not allocated, and used by queues that borrow
    capability: Amounts  # only the resources that are limited
    guarantee: Amounts
    share: float  # allocated
    deserved_share: float
    jobs: dict[str, int]  # by phase
    locked_nodes: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class NamespacePicture:
    """A namespace inside a queue."""

    queue: str
    namespace: str
    weight: int
    allocated: Amounts
    share: float


@dataclass(frozen=True, slots=True)
class PodCounts:
    waiting: int = 0
    running: int = 0  # bound or running
    terminating: int = 0
    succeeded: int = 0
    failed: int = 0

    @property
    def total(self) -> int:
        return self.waiting + self.running + self.terminating + self.succeeded + self.failed


@dataclass(frozen=True, slots=True)
class JobPicture:
    name: str  # "namespace/name", as its user named it
    group: str  # "namespace/name" of its PodGroup; "" if it has none yet
    kind: str  # of the object that the user created: Job, PodGroup, Pod, ReplicaSet, …
    namespace: str
    queue: str
    priority: int
    phase: str
    min_available: int
    pods: PodCounts
    requested: Amounts  # by all pods that wait or run; before it has pods, by those that it will have
    wanted: Amounts  # by those of them that wait, or do not exist yet
    allocated: Amounts
    created: float
    waiting_since: float | None = None  # None: nothing of it waits
    started: float | None = None  # of the first pod that still runs
    ends: float | None = None  # if all running pods say how long they run
    reason: str = ""  # why it waits: a reason code
    message: str = ""
    nodes: list[str] = field(default_factory=list)  # where its pods are
    reserved_nodes: list[str] = field(default_factory=list)
    backfilled: int = 0  # pods that run on lent resources

    @property
    def waits(self) -> bool:
        return self.waiting_since is not None


@dataclass(frozen=True, slots=True)
class NodePicture:
    name: str
    ready: bool
    schedulable: bool  # not cordoned
    allocatable: Amounts
    used: Amounts  # by pods; without what Reservations hold
    idle: Amounts
    releasing: Amounts  # the part of used that terminating pods are about to release
    backfilled: Amounts  # the part of used that runs on lent resources
    held: Amounts  # unused parts of Reservations
    reserved: Amounts  # for jobs that have starved
    promised: Amounts  # kept for jobs that pods leave for
    pods: int
    use: float  # the part that is used, in the resource where it is largest
    domains: dict[str, str] = field(default_factory=dict)  # which it is in, by the name of the tier, from the lowest
    locked_by: str = ""  # a queue
    reserved_for: list[str] = field(default_factory=list)  # jobs
    promised_to: list[str] = field(default_factory=list)  # jobs
    jobs: list[str] = field(default_factory=list)  # that have pods here


@dataclass(frozen=True, slots=True)
class ReservationPicture:
    name: str
    phase: str
    node: str
    queue: str
    owner: str  # whom it is for, as far as one name says it
    allocatable: Amounts
    allocated: Amounts
    created: float
    expires: float | None = None
    reason: str = ""  # why it has no node yet
    message: str = ""


@dataclass(frozen=True, slots=True)
class Picture:
    now: float
    capacity: Amounts  # of all ready nodes
    used: Amounts
    queues: list[QueuePicture]  # each list is in the order of names
    namespaces: list[NamespacePicture]
    jobs: list[JobPicture]
    nodes: list[NodePicture]
    reservations: list[ReservationPicture]
    ignored: list[str] = field(default_factory=list)  # objects that cannot be used, and why

    def jobs_by_phase(self) -> dict[str, int]:
        return count(job.phase for job in self.jobs)

    def job(self, name: str) -> JobPicture | None:
        """By its own name or that of its PodGroup."""
        return next((job for job in self.jobs if name in (job.name, job.group)), None)


def count(words: Iterable[str]) -> dict[str, int]:
    """How often each word occurs, in the order of words."""
    found: dict[str, int] = {}
    for word in words:
        found[word] = found.get(word, 0) + 1
    return dict(sorted(found.items()))


def share_of(part: Amounts, whole: Amounts) -> float:
    """The dominant share. Resources that the whole does not have do not count."""
    return max((amount / whole[name] for name, amount in part.items() if whole.get(name)), default=0.0)
