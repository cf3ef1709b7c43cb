"""Which pods may use a reservation, and which pod uses which.

Owners are alternatives; the parts of one owner must all match. A label selector without namespaces means the namespace
of the template, so that nobody can use the reservation of another namespace by copying its labels.

A pod that uses a reservation names it in an annotation, which is written together with its bind. This is the only
record: `status.currentOwners` and `status.allocated` are derived from it, so a crash between two writes cannot make
them disagree for long.
"""

from __future__ import annotations

from typing import NamedTuple

from stromboli.api.kinds.batch import Reservation, ReservationController, ReservationOwner
from stromboli.api.kinds.metadata import ObjectMeta, ObjectReference, OwnerReference
from stromboli.api.kinds.pods import Pod
from stromboli.api.names import RESERVATION_ALLOCATED
from stromboli.api.selectors import matches_labels

from .fields import namespace_of


class UsedReservation(NamedTuple):
    """The reservation that a pod names. The UID tells it from a later one of the same name."""

    name: str
    uid: str


def may_use(reservation: Reservation, pod: Pod) -> bool:
    """Whether the owners of a reservation include this pod. Queue, node and amounts are not looked at."""
    default_namespace = namespace_of(reservation)
    return any(_includes(owner, pod.metadata, default_namespace) for owner in reservation.spec.owners)


def may_use_elsewhere(reservation: Reservation, pod: Pod) -> bool:
    """Whether the labels of a pod match an owner, and its namespace does not."""
    default_namespace = namespace_of(reservation)
    return any(
        owner.label_selector is not None
        and not _is_in_reach(owner, pod.metadata, default_namespace)
        and _is_meant(owner, pod.metadata)
        for owner in reservation.spec.owners
    )


def reservation_annotation(reservation: Reservation) -> str:
    """What a pod that uses this reservation has in its annotation."""
    return f"{reservation.metadata.name}/{reservation.metadata.uid}"


def named_reservation(pod: Pod) -> UsedReservation | None:
    """The reservation that a pod on a node uses. A waiting pod uses none, whatever its annotations say."""
    if not pod.spec.node_name:
        return None
    name, separator, uid = pod.metadata.annotations.get(RESERVATION_ALLOCATED, "").partition("/")
    return UsedReservation(name, uid) if separator else None


def _includes(owner: ReservationOwner, pod: ObjectMeta, default_namespace: str) -> bool:
    return _is_in_reach(owner, pod, default_namespace) and _is_meant(owner, pod)


def _is_in_reach(owner: ReservationOwner, pod: ObjectMeta, default_namespace: str) -> bool:
    if owner.namespaces:
        return pod.namespace in owner.namespaces
    return owner.label_selector is None or pod.namespace == default_namespace


def _is_meant(owner: ReservationOwner, pod: ObjectMeta) -> bool:
    """Whatever its namespace is, unless a part of the owner names one."""
    if owner.object is not None and not _is_object(owner.object, pod):
        return False
    if owner.controller is not None and not _is_controlled(owner.controller, pod):
        return False
    return owner.label_selector is None or matches_labels(owner.label_selector, pod.labels)


def _is_object(wanted: ObjectReference, pod: ObjectMeta) -> bool:
    """By UID, name and namespace. The kind is not compared: only pods can use a reservation."""
    pairs = ((wanted.uid, pod.uid), (wanted.name, pod.name), (wanted.namespace, pod.namespace))
    return all(not expected or expected == actual for expected, actual in pairs)


def _is_controlled(wanted: ReservationController, pod: ObjectMeta) -> bool:
    if wanted.namespace and wanted.namespace != pod.namespace:
        return False
    return any(_is_owner(wanted, reference) for reference in pod.owner_references)


def _is_owner(wanted: ReservationController, actual: OwnerReference) -> bool:
    pairs = (
        (wanted.uid, actual.uid),
        (wanted.name, actual.name),
        (wanted.kind, actual.kind),
        (wanted.api_version, actual.api_version),
    )
    same_role = wanted.controller is None or wanted.controller == bool(actual.controller)
    return same_role and all(not expected or expected == found for expected, found in pairs)
