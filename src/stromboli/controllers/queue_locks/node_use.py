"""What the lock worker knows of the cluster: nodes as columns, and who uses what on them.

The nodes that count, for percentages, are all Node objects without NoSchedule taints, ready or not, cordoned or not: a
guarantee must not change because a node is rebooted. Taints that Kubernetes itself sets on such nodes do not count.
Only nodes that are ready and take pods can be locked.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from stromboli.api import HyperNode, Node, Pod, PodGroup, Queue, Reservation, group_name_of, key, names
from stromboli.api.pod_requests import pod_requests
from stromboli.api.quantity import QuantityError, amounts
from stromboli.api.waiting_reservations import reserved_node_of, waiting_pod_of
from stromboli.cluster.queue_guarantees import guaranteed_amounts, never_drains
from stromboli.controllers.changes import Objects
from stromboli.controllers.pod_owners import is_finished, is_terminating

from .known_domains import KnownDomains
from .score import Amounts
from .whole_domains import Domains

Flags = npt.NDArray[np.bool_]


@dataclass(slots=True)
class ClusterView:
    resources: tuple[str, ...]  # sorted, without "pods"; what nodes have or queues are guaranteed
    offered: frozenset[str]  # those of them that nodes have
    names: tuple[str, ...]  # of all nodes, sorted
    sizes: Amounts
    used: Amounts
    fixed: Amounts  # the part of `used` that never drains: pods of DaemonSets, mirror and critical pods
    counts: Flags
    usable: Flags
    row: dict[str, int]
    column: dict[str, int]  # the row of a resource in the arrays above
    by_queue: dict[str, Amounts] = field(default_factory=dict)  # what each queue's pods use
    movable: dict[int, dict[str, int]] = field(default_factory=dict)  # by node: the number of other pods of each queue
    promised: dict[int, set[str]] = field(default_factory=dict)  # by node: queues with nominations or migrations there
    set_aside: dict[int, set[str]] = field(default_factory=dict)  # by node: queues with starving jobs it is kept for
    domains: Domains = field(default_factory=lambda: np.zeros((0, 0), dtype=np.bool_))  # one row for each domain
    held: list[tuple[int, str, Amounts]] = field(default_factory=list)  # Available Reservations: node, queue, remainder

    def __post_init__(self) -> None:
        if not len(self.domains):
            self.domains = np.zeros((0, len(self.names)), dtype=np.bool_)

    def vector(self, wanted: Mapping[str, int]) -> Amounts:
        vector = np.zeros(len(self.resources))
        for name, amount in wanted.items():
            if name in self.column:
                vector[self.column[name]] = amount
        return vector

    def use_of(self, queues: Iterable[str]) -> Amounts:
        """What the pods of these queues use on each node."""
        total = np.zeros_like(self.sizes)
        for name in sorted(queues):
            if name in self.by_queue:
                total += self.by_queue[name]
        return total

    @property
    def idle(self) -> Amounts:
        return np.maximum(self.sizes - self.used, 0)

    def digest(self) -> int:
        """Equal for equal contents, and of all of them: a round that would find the same is not held, and a worker that
        starts anew holds it. The sums of floats are exact: all amounts are whole numbers."""
        tables = tuple(t.tobytes() for t in (self.sizes, self.used, self.fixed, self.counts, self.usable, self.domains))
        per_queue = tuple((name, used.tobytes()) for name, used in sorted(self.by_queue.items()))
        movable = tuple((row, tuple(sorted(pods.items()))) for row, pods in sorted(self.movable.items()))
        promises = tuple(
            tuple((row, tuple(sorted(who))) for row, who in sorted(part.items()))
            for part in (self.promised, self.set_aside)
        )
        held = tuple(sorted((row, queue, remainder.tobytes()) for row, queue, remainder in self.held))
        return hash((self.resources, self.names, tables, per_queue, movable, promises, held))


class UsageReader:
    """Builds views. It remembers the requests of pods that did not change: parsing them takes most of the time."""

    def __init__(self) -> None:
        self._requests: dict[str, tuple[Pod, dict[str, int]]] = {}
        self._domains = KnownDomains()

    def read(self, objects: Objects, topology_keys: tuple[str, ...] = ()) -> ClusterView:
        nodes = sorted(objects.list(Node), key=lambda node: node.metadata.name)
        view = _view_of_nodes(nodes, objects.list(Queue))
        view.domains = self._domains.of(nodes, list(objects.list(HyperNode)), topology_keys)
        queue_of = {key(group): group.spec.queue or names.DEFAULT_QUEUE for group in objects.list(PodGroup)}
        fresh: dict[str, tuple[Pod, dict[str, int]]] = {}
        for pod in objects.list(Pod):
            # A pod that has just been created has no PodGroup yet. It may name its queue itself.
            queue = queue_of.get(f"{pod.metadata.namespace}/{group_name_of(pod)}") or pod.metadata.annotations.get(
                names.QUEUE_NAME, ""
            )
            if pod.spec.node_name:
                fresh[pod.metadata.uid] = self._add_pod(view, pod, queue)
            elif pod.status.nominated_node_name in view.row:
                view.promised.setdefault(view.row[pod.status.nominated_node_name], set()).add(queue)
        self._requests = fresh
        for reservation in objects.list(Reservation):
            _add_reservation(view, reservation)
        return view

    def _add_pod(self, view: ClusterView, pod: Pod, queue: str) -> tuple[Pod, dict[str, int]]:
        known = self._requests.get(pod.metadata.uid)
        if known is None or known[0] is not pod:
            known = (pod, _requests_of(pod))
        row = view.row.get(pod.spec.node_name)
        if row is None or is_finished(pod):
            return known
        used = view.by_queue.get(queue)
        if used is None:
            used = view.by_queue[queue] = np.zeros_like(view.sizes)
        stays = never_drains(pod)
        for resource, amount in known[1].items():
            column = view.column.get(resource)
            if column is not None:
                view.used[column, row] += amount
                used[column, row] += amount
                if stays:
                    view.fixed[column, row] += amount
        if not stays and not is_terminating(pod) and known[1]:
            pods = view.movable.setdefault(row, {})
            pods[queue] = pods.get(queue, 0) + 1
        return known


def _asked_for(queues: Iterable[Queue], offered: Container[str]) -> set[str]:
    """The resources that are guaranteed. The last node that has one of them may be gone: then it is missing."""
    found: set[str] = set()
    for queue in queues:
        try:
            found |= guaranteed_amounts(queue.spec.guarantee, offered).keys()
        except QuantityError:  # an invalid queue locks nothing
            continue
    return found


def _view_of_nodes(nodes: Sequence[Node], queues: Iterable[Queue]) -> ClusterView:
    offers = [amounts(node.status.allocatable or node.status.capacity) for node in nodes]
    offered = {name for offer in offers for name, amount in offer.items() if amount and name != "pods"}
    resources = tuple(sorted(offered | _asked_for(queues, offered)))
    column = {name: number for number, name in enumerate(resources)}
    sizes = np.zeros((len(resources), len(nodes)))
    for row, offer in enumerate(offers):
        for name, amount in offer.items():
            if name in column:
                sizes[column[name], row] = amount
    counts = np.array([not _is_tainted(node, ("NoSchedule",)) for node in nodes], dtype=np.bool_)
    takes_pods = np.array([_takes_pods(node) for node in nodes], dtype=np.bool_)
    return ClusterView(
        resources=resources,
        offered=frozenset(offered),
        names=tuple(node.metadata.name for node in nodes),
        sizes=sizes,
        used=np.zeros_like(sizes),
        fixed=np.zeros_like(sizes),
        counts=counts,
        usable=counts & takes_pods,
        row={node.metadata.name: row for row, node in enumerate(nodes)},
        column=column,
    )


def _is_tainted(node: Node, effects: tuple[str, ...]) -> bool:
    return any(
        taint.effect in effects and not taint.key.startswith(names.LIFECYCLE_TAINTS) for taint in node.spec.taints
    )


def _takes_pods(node: Node) -> bool:
    ready = all(condition.status == "True" for condition in node.status.conditions if condition.type == "Ready")
    gone = node.metadata.deletion_timestamp is not None
    return ready and not gone and not node.spec.unschedulable and not _is_tainted(node, ("NoSchedule", "NoExecute"))


def _requests_of(pod: Pod) -> dict[str, int]:
    try:
        return pod_requests(pod.spec)
    except QuantityError:  # an amount that fits no integer; the scheduler ignores such a pod, too
        return {}


def _is_promised(reservation: Reservation) -> bool:
    """Whether its node is needed for what is under way: a move, or evictions for the Reservation."""
    status = reservation.status
    if status.phase == "Pending" and status.node_name:
        return True
    return bool(reservation.spec.allocate_once) and status.phase in ("", "Pending", "Available")


def _add_reservation(view: ClusterView, reservation: Reservation) -> None:
    row = view.row.get(reserved_node_of(reservation))
    if row is None:
        return
    queue = reservation.spec.queue or names.DEFAULT_QUEUE
    status = reservation.status
    if waiting_pod_of(reservation) is not None:
        view.set_aside.setdefault(row, set()).add(queue)
    elif _is_promised(reservation):
        view.promised.setdefault(row, set()).add(queue)
    if status.phase == "Available":
        remainder = view.vector(amounts(status.allocatable)) - view.vector(amounts(status.allocated))
        view.held.append((row, queue, np.maximum(remainder, 0)))
