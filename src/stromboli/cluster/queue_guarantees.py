"""What the guarantee of a queue asks for, and what has become of it.

A guarantee with a `policy` or a `percentage` locks nodes; a bare `resource` is only a quota, as in Volcano, unless the
plugin is told to lock those as well. The controllers judge a guarantee once, when it is new or was edited, and remember
in the queue's status which one they judged. The scheduler and the controllers both read that here, so that they never
disagree about who may lock.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from fractions import Fraction
from typing import Final

from stromboli.api import Guarantee, Pod, Queue, names
from stromboli.api.quantity import amounts, parse_quantity

BEST_EFFORT: Final = "Best-Effort"
GUARANTEED: Final = "Guaranteed"

ACCEPTED: Final = "ReservationAccepted"
"""The condition of a queue whose guarantee locks nodes: whether it was accepted when it was judged."""
SATISFIED: Final = "ReservationSatisfied"
"""The condition of a queue whose guarantee was accepted: whether it could use all of it now."""

LOCKS: Final = "LocksNodes"
"""The condition, always False, of a queue with a guarantee for which nothing is locked: why, and what to do."""

BY_AMOUNTS: Final = "resource"
BY_NUMBER: Final = "percentage"
"""The basis of a guarantee: which part of it counts, if it has both."""

_GPU: Final = "nvidia.com/gpu"
_CRITICAL: Final = frozenset({"system-cluster-critical", "system-node-critical"})
_DEFAULT_DIMENSIONS: Final = ("cpu", "memory")


def locks_nodes(guarantee: Guarantee) -> bool:
    """Whether it says so itself."""
    return bool(guarantee.policy) or guarantee.percentage is not None


def is_bare(guarantee: Guarantee) -> bool:
    """Whether it has amounts and does not say that they should be locked."""
    return not locks_nodes(guarantee) and bool(guaranteed_amounts(guarantee))


def evicts(guarantee: Guarantee) -> bool:
    """Whether pods of others are evicted from the locked nodes."""
    return guarantee.policy == GUARANTEED


def full_name(resource: str, offered: Container[str] = ()) -> str:
    """`gpu` is short for NVIDIA's, unless nodes offer a resource of that very name. `offered`: what they offer."""
    return _GPU if resource == "gpu" and resource not in offered else resource


def guaranteed_amounts(guarantee: Guarantee, offered: Container[str] = ()) -> dict[str, int]:
    """Exact amounts by the full names of resources, without "pods", which only nodes limit."""
    found: dict[str, int] = {}
    for name, amount in amounts(guarantee.resource).items():
        if amount > 0 and name != "pods":
            full = full_name(name, offered)
            found[full] = max(amount, found.get(full, 0))
    return found


def guaranteed_fraction(guarantee: Guarantee) -> Fraction | None:
    """The share of the nodes; None without a percentage."""
    return None if guarantee.percentage is None else parse_quantity(guarantee.percentage.value)


def is_about_nodes(queue: Queue) -> bool:
    """Whether a queue is guaranteed what its nodes hold, not amounts. If it gives both, the controllers say which."""
    guarantee = queue.spec.guarantee
    if guarantee.percentage is None or not guaranteed_amounts(guarantee):
        return guarantee.percentage is not None
    return queue.status.reservation.basis == BY_NUMBER


def dimensions(guarantee: Guarantee, offered: Container[str] = ()) -> tuple[str, ...]:
    """The resources that a percentage is about: CPU and memory unless it says otherwise."""
    if guarantee.percentage is None:
        return ()
    named = guarantee.percentage.dimensions or _DEFAULT_DIMENSIONS
    return tuple(sorted({full_name(name, offered) for name in named}))


def never_drains(pod: Pod) -> bool:
    """Whether a pod stays on its node, or comes back to it, whoever the node is locked for."""
    if pod.spec.priority_class_name in _CRITICAL or names.MIRROR in pod.metadata.annotations:
        return True
    return any(owner.kind == "DaemonSet" for owner in pod.metadata.owner_references)


def is_judged(queue: Queue) -> bool:
    """Whether the present guarantee was accepted or refused already."""
    return queue.status.reservation.guarantee == queue.spec.guarantee


def is_refused(queue: Queue) -> bool:
    return any(c.type == ACCEPTED and c.status == "False" for c in queue.status.conditions)


def is_open(queue: Queue) -> bool:
    return queue.status.state in ("", "Open")


def may_lock(queue: Queue) -> bool:
    """Whether the nodes in the queue's status are locked for it. The spec beats a stale status; a bare guarantee is
    judged only if it is to be locked."""
    wanted = locks_nodes(queue.spec.guarantee) or (is_bare(queue.spec.guarantee) and is_judged(queue))
    return wanted and is_open(queue) and not is_refused(queue)


def lock_rank(queue: Queue) -> tuple[int, int, str, str]:
    """Who goes first if two queues want the same node."""
    meta = queue.metadata
    return (-queue.spec.priority, -(queue.spec.weight or 1), meta.creation_timestamp or "", meta.name)


def queues_below(parents: Mapping[str, str]) -> dict[str, frozenset[str]]:
    """For each queue: itself and all queues below it. `parents`: the parent of each queue, by name."""
    found: dict[str, set[str]] = {name: {name} for name in parents}
    for name in parents:
        above, seen = parents[name], {name}
        while above in parents and above not in seen:
            found[above].add(name)
            seen.add(above)
            above = parents[above]
    return {name: frozenset(members) for name, members in found.items()}


def nodes_in_force(queues: Iterable[Queue]) -> dict[str, str]:
    """The queue that each node is locked for, by the statuses of the queues. A node in two of them is the one's that
    goes first."""
    owners: dict[str, str] = {}
    for queue in sorted((queue for queue in queues if may_lock(queue)), key=lock_rank):
        for node in queue.status.reservation.nodes:
            owners.setdefault(node, queue.metadata.name)
    return owners
