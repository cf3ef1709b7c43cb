"""Objects for the lock worker alone, without a scheduler: usage is what a test says it is."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from typing import Any, TypeVar

from msgspec.structs import replace

from builders import group, hyper_node, pod
from stromboli.api import (
    Guarantee,
    HyperNode,
    KObject,
    Node,
    ObjectMeta,
    ObjectReference,
    Pod,
    PodGroup,
    Queue,
    QueueSpec,
    Reservation,
    ReservationOwner,
    ReservationSpec,
    ReservationStatus,
    ResourceList,
)
from stromboli.api.quantity import amounts
from stromboli.controllers.queue_locks.node_use import UsageReader
from stromboli.controllers.queue_locks.worker import decide
from stromboli.scheduling.queue_locks import LockRules

T = TypeVar("T", bound=KObject)


def locking_queue(name: str, resource: ResourceList, *, policy: str = "Best-Effort", **spec: Any) -> Queue:
    guarantee = Guarantee(policy=policy, resource=resource)
    return Queue(metadata=ObjectMeta(name=name), spec=QueueSpec(guarantee=guarantee, **spec))


class Setting:
    """A cluster between two rounds of the worker."""

    def __init__(self, nodes: list[Node], queues: list[Queue], *, percent: int = 100) -> None:
        self.nodes = nodes
        self.queues = {queue.metadata.name: queue for queue in queues}
        self.rules = LockRules(Fraction(percent))
        self.notices: list[tuple[str, str]] = []  # (queue, reason)
        self._pods: dict[str, Pod] = {}
        self._more: list[Pod | Reservation | HyperNode] = []

    def list(self, kind: type[T]) -> Iterable[T]:
        everything: list[KObject] = [
            *self.nodes, *self.queues.values(), *self._pods.values(), *self._more,
            group("default/of-q1", queue="q1"), group("default/of-q2", queue="q2"),
        ]  # fmt: skip
        return [obj for obj in everything if isinstance(obj, kind)]

    def get(self, kind: type[T], key: str) -> T | None:
        return None

    def round(self, at: float, *, is_round: bool = True) -> None:
        view = UsageReader().read(self)
        for name, status in decide(view, list(self.queues.values()), self.rules, at, is_round=is_round).items():
            old = self.queues[name]
            new = replace(old.status, reservation=status.reservation, conditions=status.conditions)
            self.queues[name] = replace(old, status=new)
            self.notices += [(name, notice.reason) for notice in status.notices]

    def locked(self, queue: str) -> list[str]:
        return sorted(self.queues[queue].status.reservation.nodes)

    # -- what happens ---------------------------------------------------------------------------------------------

    def use(self, shares: dict[int, tuple[float, float]]) -> None:
        """By node: which part of it q1 uses, and which part q2."""
        for row, parts in shares.items():
            offered = amounts(self.nodes[row].status.allocatable)
            for queue, part in zip(("q1", "q2"), parts, strict=True):
                name = f"{queue}-{row}"
                cpu, memory = int(offered["cpu"] * part), int(offered.get("memory", 0) * part)
                self._pods[name] = pod(
                    f"default/{name}", cpu=f"{cpu}m", memory=memory, group=f"of-{queue}",
                    node=self.nodes[row].metadata.name,
                )  # fmt: skip
                self._pods[name].metadata.uid = name

    def amounts(self, queue: str) -> tuple[list[tuple[int, int]], list[tuple[int, int]], list[tuple[int, int]]]:
        """By node: what it offers, what the queue uses, what is idle."""
        from stromboli.api.pod_requests import pod_requests

        sizes, mine, idle = [], [], []
        for obj in self.nodes:
            offered = amounts(obj.status.allocatable)
            size = (offered["cpu"], offered.get("memory", 0))
            used = {"q1": (0, 0), "q2": (0, 0)}
            for name, running in self._pods.items():
                if running.spec.node_name == obj.metadata.name:
                    requests = pod_requests(running.spec)
                    used[name[:2]] = (requests.get("cpu", 0), requests.get("memory", 0))
            sizes.append(size)
            mine.append(used[queue])
            idle.append((size[0] - used["q1"][0] - used["q2"][0], size[1] - used["q1"][1] - used["q2"][1]))
        return sizes, mine, idle

    def rack(self, name: str, *nodes: int) -> None:
        members = [self.nodes[row].metadata.name for row in nodes]
        self._more.append(hyper_node(name, 1, nodes=members))

    def nominate(self, node: str, *, queue: str) -> None:
        waiting = pod(f"default/to-{node}", cpu=1, group=f"of-{queue}")
        waiting.status.nominated_node_name = node
        self._more.append(waiting)

    def reserve(self, node: str, *, queue: str, cpu: int = 1, once: bool = False) -> None:
        """An Available Reservation; `once`: of a migration."""
        self._more.append(
            Reservation(
                metadata=ObjectMeta(name=f"on-{node}"),
                spec=ReservationSpec(queue=queue, allocate_once=once),
                status=ReservationStatus(phase="Available", node_name=node, allocatable={"cpu": str(cpu)}),
            )
        )

    def set_aside(self, node: str, *, queue: str) -> None:
        owner = ReservationOwner(object=ObjectReference(kind="Pod", namespace="default", name="p", uid=f"u-{node}"))
        self._more.append(
            Reservation(
                metadata=ObjectMeta(name=f"waiting-u-{node}"),
                spec=ReservationSpec(queue=queue, owners=[owner], allocate_once=True, node_name=node),
                status=ReservationStatus(phase="Waiting", node_name=node),
            )
        )


__all__ = ["PodGroup", "Setting", "locking_queue"]
