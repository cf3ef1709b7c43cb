"""Reservations: which node, for whom, and how much of it is used."""

from __future__ import annotations

from collections.abc import Callable

from stromboli.api import Reservation
from stromboli.api.quantity import QuantityError, amounts, parse_duration
from stromboli.api.waiting_reservations import reserved_node_of, waiting_pod_of
from stromboli.cluster import Cluster, Job, TaskKey
from stromboli.cluster.object_fields import creation_time

from .picture import Amounts, ReservationPicture

_DAY = 86_400.0
_ENDED = frozenset({"Succeeded", "Expired", "Failed"})


def reservation_pictures(cluster: Cluster, name_of: Callable[[Job], str]) -> list[ReservationPicture]:
    return [_reservation(cluster, one, name_of) for _, one in sorted(cluster.reservations.items())]


def _reservation(cluster: Cluster, reservation: Reservation, name_of: Callable[[Job], str]) -> ReservationPicture:
    status = reservation.status
    created = creation_time(reservation)
    return ReservationPicture(
        name=reservation.metadata.name,
        phase=status.phase or "Pending",
        node=reserved_node_of(reservation),
        queue=reservation.spec.queue,
        owner=_owner(cluster, reservation, name_of),
        allocatable=_counted(amounts(status.allocatable)),
        allocated=_counted(amounts(status.allocated)),
        created=created,
        expires=_expiry(reservation, created),
    )


def _owner(cluster: Cluster, reservation: Reservation, name_of: Callable[[Job], str]) -> str:
    pod = waiting_pod_of(reservation)
    task = cluster.tasks.get(TaskKey(pod)) if pod is not None else None
    if task is not None and task.job is not None:
        return name_of(task.job)
    for owner in reservation.spec.owners:
        if owner.object is not None:
            return f"{owner.object.kind} {owner.object.namespace}/{owner.object.name}".replace(" /", " ")
        if owner.controller is not None:
            return f"{owner.controller.kind} {owner.controller.namespace}/{owner.controller.name}".replace(" /", " ")
        if owner.label_selector is not None:
            return ", ".join(f"{k}={v}" for k, v in sorted(owner.label_selector.match_labels.items())) or "any pod"
    return ""


def _expiry(reservation: Reservation, created: float) -> float | None:
    """None if it does not expire, or has ended."""
    if reservation.status.phase in _ENDED or waiting_pod_of(reservation) is not None:
        return None
    try:
        ttl = _DAY if reservation.spec.ttl is None else parse_duration(reservation.spec.ttl)
    except QuantityError:
        return None
    return created + ttl if ttl else None


def _counted(exact: Amounts) -> Amounts:
    return {name: amount for name, amount in sorted(exact.items()) if name != "pods"}
