"""The state of the cluster at the start of a session."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from stromboli.api import PodDisruptionBudget, Reservation
from stromboli.api.waiting_reservations import waiting_pod_of

from .ledger import Ledger
from .model import Job, NamespaceInfo, Queue, QueueName, TaskKey
from .node_table import NodeTable
from .object_warnings import ObjectWarning
from .reservations import FormerUsers
from .resources import Vector
from .topology import Topology
from .volumes import VolumeIndex


@dataclass(slots=True)
class Snapshot:
    """Jobs are those with a PodGroup, in a queue that exists, in the order of their keys."""

    ledger: Ledger
    jobs: list[Job]
    active: list[Job]  # those of them that are not at rest, or have changed since the last session
    queues: dict[QueueName, Queue]  # in the order of names
    namespaces: dict[str, NamespaceInfo]
    budgets: dict[str, PodDisruptionBudget]
    reservations: dict[str, Reservation]
    total: Vector  # allocatable of all ready nodes, without "pods", which shares are not measured in
    # What queues have, and what is free on nodes that take pods: the rest is not theirs to divide. As of the call.
    divisible: Callable[[], Vector]
    # Values in objects to warn about, new since this was last called: not every snapshot is for a session that warns.
    take_warnings: Callable[[], list[ObjectWarning]]
    stand_ins: list[Job] = field(default_factory=list)  # for Reservations that wait for a node; not among the jobs
    reservation_priority: Callable[[Reservation], int] = lambda reservation: 0  # that of its template
    # Of pods that may use a Reservation; None: of any priority.
    least_priority: Callable[[Reservation], int | None] = lambda reservation: None
    expire_reservations: Callable[[float], float | None] = lambda now: None  # see ReservationIndex.expire
    lists_users: Callable[[], bool] = lambda: False  # whether some Reservation lists pods that use it
    former_users: Callable[[], list[FormerUsers]] = list  # see ReservationIndex.former_users
    hold_reservations: Callable[[Iterable[str]], None] = lambda nodes: None  # see ReservationIndex.hold_on
    volumes: VolumeIndex = field(default_factory=VolumeIndex)
    topology: Topology = field(default_factory=Topology)  # which nodes are close together

    has_pod_terms: bool = True  # whether some pod has inter-pod affinity or topology spread

    @property
    def nodes(self) -> NodeTable:
        return self.ledger.table

    def waiting_reservations(self) -> list[tuple[str, TaskKey]]:
        """The waiting reservations, each with the task it is for."""
        return [
            (name, TaskKey(task))
            for name, reservation in self.reservations.items()
            if (task := waiting_pod_of(reservation)) is not None
        ]

    def reservation_of(self, task: TaskKey) -> Reservation | None:
        for name, waiting in self.waiting_reservations():
            if waiting == task:
                return self.reservations[name]
        return None
