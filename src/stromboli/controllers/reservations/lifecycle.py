"""What a Reservation should be, as its node and the pods there are.

A phase that is over never changes. Who uses the Reservation is in the list that the scheduler writes, and nowhere else:
what pods say about themselves is no proof. What those of them on the node request is allocated. So a write that is lost
is made again. What is seen of the list may be older than what is seen of the pods; then the new status is refused,
because it is for an older version of the Reservation.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from stromboli.api import Condition, Node, Pod, Reservation, ReservationStatus
from stromboli.api.pod_requests import pod_requests
from stromboli.api.quantity import QuantityError, amounts, format_amount, format_duration, parse_duration
from stromboli.api.reservations import (
    AVAILABLE,
    EXPIRED,
    FAILED,
    PENDING,
    SUCCEEDED,
    has_expired,
    pinned_node,
    uses,
)
from stromboli.api.timestamps import format_timestamp
from stromboli.controllers.pod_owners import is_finished

Amounts = dict[str, int]


@dataclass(frozen=True, slots=True)
class NodeContents:
    """A node, the pods on it, and the Reservations there, oldest first. `node` is None if it does not exist."""

    node: Node | None
    pods: Sequence[Pod]
    reservations: Sequence[Reservation]


def new_status(reservation: Reservation, contents: NodeContents | None, now: float) -> ReservationStatus:
    """The status that it should have. `contents`: of its node, if it has one."""
    status = reservation.status
    if has_expired(reservation, now):
        ttl = format_duration(parse_duration(reservation.spec.ttl or 0))
        return ended(_at_its_node(status), EXPIRED, "Expired", f"Its time to live of {ttl} is over.", now)
    if status.phase != AVAILABLE or contents is None:
        return replace(status, phase=status.phase or PENDING)
    if contents.node is None:
        was_used = bool(status.current_owners)
        return _without_node(reservation, was_used, f"Its node {status.node_name} was deleted.", "NodeDeleted", now)
    users = users_of(reservation, contents.pods)
    if users and reservation.spec.allocate_once:
        pod = f"{users[0].metadata.namespace}/{users[0].metadata.name}"
        return ended(_with_allocated(status, users), SUCCEEDED, "Succeeded", f"Pod {pod} uses it.", now)
    status = _with_allocated(status, users)
    room = remainders(contents)[reservation.metadata.name]
    allocated = amounts(status.allocated)
    fits = {name: room.get(name, 0) + allocated.get(name, 0) for name in amounts(status.allocatable)}
    if fits == amounts(status.allocatable):
        return status
    message = f"Node {status.node_name} has less to offer than it holds there."
    if not users and not _is_pinned(reservation):
        # The node is there: whoever used the Reservation before is no reason to give it up.
        return _without_node(replace(reservation, status=status), False, message, "NodeShrank", now)
    status = replace(status, allocatable=_written(fits))
    return replace(status, conditions=_said(status, "False", "NodeShrank", message, now))


def users_of(reservation: Reservation, pods: Iterable[Pod]) -> list[Pod]:
    """The pods on its node that it lists, by their keys."""
    users = [pod for pod in pods if uses(reservation, pod) and not is_finished(pod)]
    return sorted(users, key=lambda pod: (pod.metadata.namespace, pod.metadata.name))


def remainders(contents: NodeContents) -> Mapping[str, Amounts]:
    """By Reservation: what it can hold beside its users, if the node is to have no more used and held than it offers.
    Older Reservations come first."""
    assert contents.node is not None
    offered = contents.node.status
    left = amounts(offered.allocatable or offered.capacity)
    for pod in contents.pods:
        if not is_finished(pod):
            for name, amount in {**_requests(pod), "pods": 1}.items():
                left[name] = left.get(name, 0) - amount
    unlimited_pods = "pods" not in (offered.allocatable or offered.capacity)
    held: dict[str, Amounts] = {}
    for reservation in contents.reservations:
        mine = held[reservation.metadata.name] = {}
        users = users_of(reservation, contents.pods)
        if users and reservation.spec.allocate_once:
            continue  # it is over, and its status will say so
        used = _used(reservation, users)
        for name, amount in amounts(reservation.status.allocatable).items():
            rest = max(0, amount - used.get(name, 0))
            room = rest if name == "pods" and unlimited_pods else max(0, left.get(name, 0))
            mine[name] = min(rest, room)
            left[name] = left.get(name, 0) - mine[name]
    return held


def _with_allocated(status: ReservationStatus, users: Sequence[Pod]) -> ReservationStatus:
    given = amounts(status.allocatable)
    total: Amounts = {}
    for pod in users:
        for name, amount in {**_requests(pod), "pods": 1}.items():
            total[name] = total.get(name, 0) + amount
    used = {name: min(total[name], most) for name, most in given.items() if name in total}
    return replace(status, allocated=_written(used))


def _used(reservation: Reservation, users: Sequence[Pod]) -> Amounts:
    return amounts(_with_allocated(reservation.status, users).allocated)


def _without_node(reservation: Reservation, was_used: bool, message: str, reason: str, now: float) -> ReservationStatus:
    """Its node is gone. It looks for another one, unless it must not, or a pod has used it."""
    status = reservation.status
    if was_used or _is_pinned(reservation):
        return ended(status, FAILED, reason, message, now)
    conditions = _said(status, "False", reason, message, now)
    return replace(
        status, phase=PENDING, node_name="", allocatable={}, allocated={}, current_owners=[], conditions=conditions
    )


def _at_its_node(status: ReservationStatus) -> ReservationStatus:
    """While it is Pending, its node is only one from which pods are evicted for it."""
    return status if status.phase == AVAILABLE else replace(status, node_name="")


def _is_pinned(reservation: Reservation) -> bool:
    return bool(pinned_node(reservation))


def ended(status: ReservationStatus, phase: str, reason: str, message: str, now: float) -> ReservationStatus:
    return replace(status, phase=phase, conditions=_said(status, "False", reason, message, now))


def _said(status: ReservationStatus, value: str, reason: str, message: str, now: float) -> list[Condition]:
    """The conditions, with this one about being ready for pods."""
    for known in status.conditions:
        if (known.type, known.status, known.reason, known.message) == ("Ready", value, reason, message):
            return status.conditions
    said = Condition(
        type="Ready", status=value, reason=reason, message=message, last_transition_time=format_timestamp(now)
    )
    others = [condition for condition in status.conditions if condition.type != "Ready"]
    return sorted([*others, said], key=lambda condition: condition.type, reverse=True)


def _requests(pod: Pod) -> Amounts:
    try:
        return pod_requests(pod.spec)
    except QuantityError:  # an amount that fits no integer; the scheduler ignores such a pod, too
        return {}


def _written(exact: Amounts) -> dict[str, str | int | float]:
    return {name: format_amount(name, amount) for name, amount in sorted(exact.items())}
