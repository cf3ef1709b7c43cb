"""Which pods may use a reservation, and which pod uses which.

Owners are alternatives; the parts of one owner must all match. An owner that names no namespace means the namespace of
the template: labels, names and references to controllers can be copied, and nobody may use the reservation of another
namespace that way. Only the UID of a pod says by itself which pod is meant.

Whether a pod may use a reservation is tested when it gets its place. The proof is its UID in `status.currentOwners`,
which the scheduler writes before it binds the pod: users may write labels and annotations of their pods at any time,
but never the status of a reservation. If the scheduler is killed between the two writes, the pod has no node and uses
nothing, whatever the list says, and the next scheduler removes it from there. `status.allocated` is derived.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from msgspec.structs import replace

from stromboli.api.kinds.batch import Reservation, ReservationController, ReservationOwner
from stromboli.api.kinds.metadata import ObjectMeta, ObjectReference, OwnerReference
from stromboli.api.kinds.pods import Pod
from stromboli.api.selectors import matches_labels

from .fields import AVAILABLE, namespace_of


def may_use(reservation: Reservation, pod: Pod) -> bool:
    """Whether the owners of a reservation include this pod. Queue, node and amounts are not looked at."""
    default_namespace = namespace_of(reservation)
    return any(_includes(owner, pod.metadata, default_namespace) for owner in reservation.spec.owners)


def may_use_elsewhere(reservation: Reservation, pod: Pod) -> bool:
    """Whether a pod matches an owner, and its namespace does not."""
    default_namespace = namespace_of(reservation)
    return any(
        not _is_in_reach(owner, pod.metadata, default_namespace) and _is_meant(owner, pod.metadata)
        for owner in reservation.spec.owners
    )


def reservation_id(reservation: Reservation) -> str:
    """Its name and UID, which tells it from a later one of the same name. Pods that use it have this in an annotation,
    for people to read."""
    return f"{reservation.metadata.name}/{reservation.metadata.uid}"


def uses(reservation: Reservation, pod: Pod) -> bool:
    """Whether a pod uses a reservation: it is listed, and on its node. A waiting pod uses none."""
    node = pod.spec.node_name
    return (
        bool(node)
        and node == reservation.status.node_name
        and any(owner.uid == pod.metadata.uid for owner in reservation.status.current_owners)
    )


def with_users(reservation: Reservation, node: str, pods: Iterable[ObjectReference]) -> Reservation:
    """With these pods, which are about to be bound to a node, among its users. Unchanged if it holds nothing there any
    more: then they take room of the node that is nobody's."""
    status = reservation.status
    if status.phase != AVAILABLE or status.node_name != node:
        return reservation
    users = {owner.uid: owner for owner in [*status.current_owners, *pods]}
    return _listing(reservation, users.values())


def without_users(reservation: Reservation, uids: Collection[str]) -> Reservation:
    """Without these pods among its users. One that is over keeps the list as it was then."""
    if reservation.status.phase != AVAILABLE:
        return reservation
    return _listing(reservation, [owner for owner in reservation.status.current_owners if owner.uid not in uids])


def _listing(reservation: Reservation, users: Iterable[ObjectReference]) -> Reservation:
    in_order = sorted(users, key=lambda user: (user.namespace, user.name, user.uid))
    if in_order == reservation.status.current_owners:
        return reservation
    return replace(reservation, status=replace(reservation.status, current_owners=in_order))


def is_user(pod: Pod | None, user: ObjectReference) -> bool:
    """Whether the pod of that name is still the one that a list names, and has not ended."""
    return pod is not None and pod.metadata.uid == user.uid and pod.status.phase not in ("Succeeded", "Failed")


def user_reference(pod: ObjectMeta) -> ObjectReference:
    return ObjectReference(api_version="v1", kind="Pod", namespace=pod.namespace, name=pod.name, uid=pod.uid)


def _includes(owner: ReservationOwner, pod: ObjectMeta, default_namespace: str) -> bool:
    return _is_in_reach(owner, pod, default_namespace) and _is_meant(owner, pod)


def _is_in_reach(owner: ReservationOwner, pod: ObjectMeta, default_namespace: str) -> bool:
    """A part may name a namespace of its own. Otherwise it is the template's, unless the UID of a pod is given."""
    if owner.namespaces:
        return pod.namespace in owner.namespaces
    wanted, controller = owner.object, owner.controller
    if wanted is not None and (wanted.uid or wanted.namespace):
        return True
    if controller is not None and controller.namespace:
        return True
    return pod.namespace == default_namespace


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
