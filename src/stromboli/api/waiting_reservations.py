"""Waiting reservations: a node is reserved for a pod of a starving job.

There is one Reservation per pod, in phase Waiting, owned by the pod's group. It holds no resources yet: it closes the
node to other pods until enough is free. The object holds the whole state, so a scheduler that is killed and started
again continues where it stopped.
"""

from __future__ import annotations

from msgspec.structs import replace

from .kinds.batch import PodGroup, Reservation, ReservationOwner, ReservationSpec, ReservationStatus
from .kinds.metadata import ObjectMeta, ObjectReference, OwnerReference, ResourceList
from .kinds.pods import Pod, PodTemplateSpec
from .pod_requests import pod_requests
from .quantity import format_amount
from .upstream import as_written

WAITING = "Waiting"


def waiting_name(pod: Pod) -> str:
    return f"waiting-{pod.metadata.uid}"


def waiting_reservation(pod: Pod, group: PodGroup, node: str) -> Reservation:
    """The object that reserves `node` for a pod."""
    written = as_written(group)
    owner = OwnerReference(
        api_version=written.api_version, kind=written.kind, name=written.metadata.name, uid=group.metadata.uid
    )
    pod_reference = ObjectReference(
        api_version="v1",
        kind="Pod",
        namespace=pod.metadata.namespace,
        name=pod.metadata.name,
        uid=pod.metadata.uid,
    )
    return Reservation(
        metadata=ObjectMeta(name=waiting_name(pod), owner_references=[owner]),
        spec=ReservationSpec(
            # Not its priority: that is the group's, and a template must not have that of a system pod.
            template=PodTemplateSpec(spec=replace(pod.spec, priority=None, priority_class_name="")),
            owners=[ReservationOwner(object=pod_reference)],
            ttl="0s",
            allocate_once=True,
            queue=group.spec.queue,
            node_name=node,
        ),
        status=ReservationStatus(phase=WAITING, node_name=node, allocatable=_amounts_set_aside(pod)),
    )


def _amounts_set_aside(pod: Pod) -> ResourceList:
    """What the pod needs on the node: its requests, and one of the node's places for pods."""
    requests = {**pod_requests(pod.spec), "pods": 1}
    return {resource: format_amount(resource, amount) for resource, amount in sorted(requests.items())}


def waiting_pod_of(reservation: Reservation) -> str | None:
    """The pod ("namespace/name") that a waiting reservation is for; None for any other reservation.

    An API server writes an object and its status one after the other. If the scheduler was killed in between, the
    status is empty, and the reservation is recognized by its name.
    """
    for owner in reservation.spec.owners:
        pod = owner.object
        if pod is not None and pod.kind == "Pod" and _is_waiting(reservation, pod.uid):
            return f"{pod.namespace}/{pod.name}"
    return None


def reserved_node_of(reservation: Reservation) -> str:
    """The node that a waiting reservation reserves."""
    return reservation.status.node_name or reservation.spec.node_name


def _is_waiting(reservation: Reservation, pod_uid: str) -> bool:
    if reservation.status.phase:
        return reservation.status.phase == WAITING
    return bool(pod_uid) and reservation.metadata.name == f"waiting-{pod_uid}"
