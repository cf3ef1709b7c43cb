"""Reservations: which node, for whom, and how much of it is used."""

from __future__ import annotations

from collections.abc import Callable

from stromboli.api import ObjectReference, Reservation, ReservationController, ReservationOwner
from stromboli.api.quantity import QuantityError, amounts
from stromboli.api.reservations import expires_at, is_over
from stromboli.api.waiting_reservations import reserved_node_of, waiting_pod_of
from stromboli.cluster import Cluster, Job, TaskKey
from stromboli.cluster.object_fields import creation_time
from stromboli.scheduling.explanation.orphans import why_reservation_waits

from .picture import Amounts, ReservationPicture


def reservation_pictures(cluster: Cluster, name_of: Callable[[Job], str]) -> list[ReservationPicture]:
    return [_reservation(cluster, one, name_of) for _, one in sorted(cluster.reservations.items())]


def _reservation(cluster: Cluster, reservation: Reservation, name_of: Callable[[Job], str]) -> ReservationPicture:
    status = reservation.status
    created = creation_time(reservation)
    reason, message = why_reservation_waits(reservation)
    return ReservationPicture(
        name=reservation.metadata.name,
        phase=status.phase or "Pending",
        node=reserved_node_of(reservation),
        queue=reservation.spec.queue,  # one that names none serves all queues
        owner=_owner(cluster, reservation, name_of),
        allocatable=_counted(amounts(status.allocatable)),
        allocated=_counted(amounts(status.allocated)),
        created=created,
        expires=_expiry(reservation),
        reason=reason,
        message=message,
    )


def _owner(cluster: Cluster, reservation: Reservation, name_of: Callable[[Job], str]) -> str:
    pod = waiting_pod_of(reservation)
    task = cluster.tasks.get(TaskKey(pod)) if pod is not None else None
    if task is not None and task.job is not None:
        return name_of(task.job)
    owners = [_described(owner) for owner in reservation.spec.owners]
    return f"{owners[0]} or {len(owners) - 1} more" if len(owners) > 1 else "".join(owners)


def _described(owner: ReservationOwner) -> str:
    """One of its parts: all of them must match, and one says enough."""
    if owner.object is not None:
        return _named("Pod", owner.object)
    if owner.controller is not None:
        return _named(owner.controller.kind or "Controller", owner.controller)
    labels = owner.label_selector.match_labels if owner.label_selector is not None else {}
    return ", ".join(f"{key}={value}" for key, value in sorted(labels.items())) or "any pod"


def _named(kind: str, reference: ObjectReference | ReservationController) -> str:
    name = "/".join(part for part in (reference.namespace, reference.name) if part)
    return f"{kind} {name or reference.uid}"


def _expiry(reservation: Reservation) -> float | None:
    """None if it does not expire, or has ended."""
    if is_over(reservation) or waiting_pod_of(reservation) is not None:
        return None
    try:
        return expires_at(reservation)
    except QuantityError:
        return None


def _counted(exact: Amounts) -> Amounts:
    return {name: amount for name, amount in sorted(exact.items()) if name != "pods"}
