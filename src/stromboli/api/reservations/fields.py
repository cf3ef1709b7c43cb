"""What a reservation holds, where, for which queue and until when.

The phases of a reservation that a user or the descheduler creates::

    Pending ──▶ Available ──▶ Succeeded   allocateOnce, and a pod used it
       │  ▲         │
       │  └─────────┤ its node is gone, or its resources were needed by others
       │            │
       └────────────┴──▶ Expired          its time is over
                    └──▶ Failed           its node is gone, and a pod had used it; or it can never be placed

The last three are final. An empty phase is the same as Pending.
"""

from __future__ import annotations

from typing import Final

from stromboli.api.defaults import RESERVATION_TTL
from stromboli.api.kinds.batch import Reservation
from stromboli.api.names import DEFAULT_NAMESPACE, DEFAULT_QUEUE
from stromboli.api.pod_requests import pod_requests
from stromboli.api.quantity import parse_duration
from stromboli.api.timestamps import parse_timestamp
from stromboli.api.waiting_reservations import waiting_pod_of

PENDING: Final = "Pending"
AVAILABLE: Final = "Available"
SUCCEEDED: Final = "Succeeded"
EXPIRED: Final = "Expired"
FAILED: Final = "Failed"
OVER: Final = frozenset({SUCCEEDED, EXPIRED, FAILED})
"""Phases that never change again."""


def is_over(reservation: Reservation) -> bool:
    return reservation.status.phase in OVER


def is_held(reservation: Reservation) -> bool:
    """Whether it holds resources of a node, as far as its status says."""
    return reservation.status.phase == AVAILABLE and bool(reservation.status.node_name)


def is_waiting_for_room(reservation: Reservation) -> bool:
    """Whether the scheduler has to find a node for it."""
    return reservation.status.phase in ("", PENDING) and waiting_pod_of(reservation) is None


def is_migration(reservation: Reservation) -> bool:
    """Whether it holds resources for the successor of a running pod. That pod is still counted, so it costs nobody."""
    return reservation.spec.replaces is not None


def queue_of(reservation: Reservation) -> str:
    """The queue that is charged for what nobody uses."""
    return reservation.spec.queue or DEFAULT_QUEUE


def serves_queue(reservation: Reservation, queue: str) -> bool:
    """Whether pods of a queue may use it: one that names no queue serves all of them."""
    return reservation.spec.queue in ("", queue)


def namespace_of(reservation: Reservation) -> str:
    """The namespace of the pods that it is for, which is charged for it."""
    template = reservation.spec.template
    return (template.metadata.namespace if template is not None else "") or DEFAULT_NAMESPACE


def preemptor_class(reservation: Reservation) -> str | None:
    """The PriorityClass with which it may preempt, and that its users must have at least. Only the one that its
    template names: what a cluster gives to all pods was not asked for. None for successors of pods that are moved."""
    template = reservation.spec.template
    if template is None or is_migration(reservation):
        return None
    return template.spec.priority_class_name or None


def pinned_node(reservation: Reservation) -> str:
    """The only node that it may be on; "" if any will do."""
    template = reservation.spec.template
    return reservation.spec.node_name or (template.spec.node_name if template is not None else "")


def reserved_amounts(reservation: Reservation) -> dict[str, int]:
    """What it is to hold, by its template: exact amounts by resource, with one of the node's places for pods."""
    template = reservation.spec.template
    return {} if template is None else {**pod_requests(template.spec), "pods": 1}


def expires_at(reservation: Reservation) -> float | None:
    """When its time is over, from its creation on, or from the eviction of the pod that it replaces; None: never."""
    ttl = parse_duration(RESERVATION_TTL if reservation.spec.ttl is None else reservation.spec.ttl)
    since = reservation.status.eviction_time or reservation.metadata.creation_timestamp
    return None if ttl == 0 or since is None else parse_timestamp(since) + ttl


def has_expired(reservation: Reservation, now: float) -> bool:
    """Whether its time is over, whatever its status says: the controllers may be late."""
    end = expires_at(reservation)
    return end is not None and now >= end
