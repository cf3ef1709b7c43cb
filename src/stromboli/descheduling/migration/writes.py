"""What the descheduler writes, as plain values. A world carries them out in the given order.

A write that fails changes nothing about those before it, and the next pass sees in the objects what is left to do. The
one exception is a Reservation of a new plan that cannot be created: then the plan is incomplete, and the next pass
gives it up.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from stromboli.api import PodGroup, Reservation
from stromboli.api.migration_reservations import Migration

PLANNED = "MigrationPlanned"
STARTED = "MigrationStarted"
SUCCEEDED = "MigrationSucceeded"
FAILED = "MigrationFailed"
RESERVED = "Reserved"
UNRESERVED = "Unreserved"


@dataclass(frozen=True, slots=True)
class CreateReservation:
    reservation: Reservation


@dataclass(frozen=True, slots=True)
class UpdateReservation:
    """Annotations and the time to live have changed. Its resourceVersion is that of the version it replaces."""

    reservation: Reservation


@dataclass(frozen=True, slots=True)
class DeleteReservation:
    """`spared`: only if the pod of this move still runs. If its eviction was accepted after all, its successor needs
    the place."""

    reservation: Reservation
    why: str = ""
    spared: Migration | None = None


@dataclass(frozen=True, slots=True)
class EvictPod:
    """Evict a pod, only if it still has this uid, only while the Reservation of this uid is Available, and only as its
    disruption budgets allow."""

    pod: str
    uid: str
    reservation: Reservation
    message: str


@dataclass(frozen=True, slots=True)
class RemovePod:
    """Evict a pod without a place for a successor, only if it still has this uid, and only as its disruption budgets
    allow; one that has finished is deleted. `plugin`: the one that asks for it."""

    pod: str
    uid: str
    plugin: str
    message: str


@dataclass(frozen=True, slots=True)
class UpdateGroup:
    """The group with its new `migrationInfo`, `migrationState` and annotations."""

    group: PodGroup


@dataclass(frozen=True, slots=True)
class AnnotateNode:
    """Set these annotations of a node; None removes one."""

    node: str
    annotations: dict[str, str | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Report:
    """An event for users, about a pod: one of the names above."""

    what: str
    pod: str
    uid: str
    node: str
    reason: str = ""
    message: str = ""

    @property
    def warning(self) -> bool:
        return self.what == FAILED


Write = (
    CreateReservation
    | UpdateReservation
    | DeleteReservation
    | EvictPod
    | RemovePod
    | UpdateGroup
    | AnnotateNode
    | Report
)
