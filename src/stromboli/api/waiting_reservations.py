"""Reservations that wait: room set aside on a node for a pod of a starving job.

One Reservation per pod, in phase Waiting, owned by the pod's group. It holds nothing yet: it closes the node to others
until enough of it is free. Everything the scheduler has to remember of it is in the object, so a scheduler that is
killed and started again goes on where it was.
"""

from __future__ import annotations

from stromboli.api.kinds.batch import PodGroup, Reservation, ReservationOwner, ReservationSpec, ReservationStatus
from stromboli.api.kinds.metadata import ObjectMeta, ObjectReference, OwnerReference
from stromboli.api.kinds.pods import Pod, PodTemplateSpec

WAITING = "Waiting"


def waiting_name(pod: Pod) -> str:
    return f"waiting-{pod.metadata.uid}"


def waiting_reservation(pod: Pod, group: PodGroup, node: str) -> Reservation:
    """The object that sets room aside on `node` for a pod."""
    owner = OwnerReference(
        api_version=group.api_version, kind=group.kind, name=group.metadata.name, uid=group.metadata.uid
    )
    who = ObjectReference(
        api_version="v1",
        kind="Pod",
        namespace=pod.metadata.namespace,
        name=pod.metadata.name,
        uid=pod.metadata.uid,
    )
    return Reservation(
        metadata=ObjectMeta(name=waiting_name(pod), owner_references=[owner]),
        spec=ReservationSpec(
            template=PodTemplateSpec(spec=pod.spec),
            owners=[ReservationOwner(object=who)],
            ttl="0s",
            allocate_once=True,
            queue=group.spec.queue,
            node_name=node,
        ),
        status=ReservationStatus(phase=WAITING, node_name=node),
    )


def waits_for(reservation: Reservation) -> str | None:
    """The pod ("namespace/name") a waiting reservation is for; None if it is of another kind.

    A server writes an object and its status one after the other. One whose status was never written, because its
    scheduler was killed in between, is known by its name: it waits from the first moment.
    """
    for owner in reservation.spec.owners:
        who = owner.object
        if who is not None and who.kind == "Pod" and _is_waiting(reservation, who.uid):
            return f"{who.namespace}/{who.name}"
    return None


def node_set_aside(reservation: Reservation) -> str:
    """Where a waiting reservation has its room."""
    return reservation.status.node_name or reservation.spec.node_name


def _is_waiting(reservation: Reservation, pod_uid: str) -> bool:
    if reservation.status.phase:
        return reservation.status.phase == WAITING
    return bool(pod_uid) and reservation.metadata.name == f"waiting-{pod_uid}"
