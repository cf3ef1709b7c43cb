"""What happens in the cluster, from watches alone: what any user with kubectl could see.

It adds up, at each tick, what every queue and namespace uses, and notes how close together the pods of a gang were
bound, what was reserved, what ran on lent resources, and what was evicted.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

import msgspec

from stromboli.api import Node, Pod, PodGroup, Queue, Reservation, group_name_of, is_backfill, key
from stromboli.api.pod_requests import pod_requests
from stromboli.api.quantity import amount
from stromboli.cluster.events import Applied, Deleted
from stromboli.kube.client import (
    EVENTS,
    NODES,
    POD_GROUPS,
    PODS,
    QUEUES,
    RESERVATIONS,
    Client,
    Failure,
    Reflector,
)

_TICK: Final = 0.5  # seconds
_FINISHED: Final = ("Succeeded", "Failed")
_EVICTIONS: Final = ("Evict", "Evicted", "Preempted", "Reclaimed", "GivenBack")


@dataclass(slots=True)
class Gang:
    """The pods of a group that need each other."""

    minimum: int
    binds: list[float] = field(default_factory=list)

    @property
    def started(self) -> bool:
        return len(self.binds) >= self.minimum

    @property
    def spread(self) -> float:
        """Seconds between the first bind and the one that completed the minimum."""
        binds = sorted(self.binds)
        return binds[self.minimum - 1] - binds[0]


@dataclass(slots=True)
class Usage:
    running: int = 0
    pending: int = 0
    cpu: int = 0  # millicores now
    cpu_seconds: float = 0.0


class Observer:
    """Run it beside the cluster; read it at any time."""

    def __init__(self, client: Client, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._client = client
        self._clock = clock
        self._pods = Reflector(client, PODS, self._on_pod)
        self._groups = Reflector(client, POD_GROUPS, self._on_group)
        self._nodes = Reflector(client, NODES, lambda event: None)
        self._queues = Reflector(client, QUEUES, lambda event: None)
        self._reservations = Reflector(client, RESERVATIONS, self._on_reservation)
        self._bound: dict[str, float] = {}  # uid of a pod, and when
        self.gangs: dict[str, Gang] = {}
        self.queues: dict[str, Usage] = {}
        self.namespaces: dict[str, Usage] = {}
        self.reserved: dict[str, set[str]] = {}  # a job or gang, and its nodes
        self.borrowed: set[str] = set()  # pods on lent resources
        self.finished: set[str] = set()
        self.evicted = 0
        self.started_at = clock()

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            for reflector in (self._pods, self._groups, self._nodes, self._queues, self._reservations):
                group.create_task(reflector.run())
            group.create_task(self._tick())

    def elapsed(self) -> float:
        """Seconds since the start."""
        return self._clock() - self.started_at

    @property
    def pods(self) -> list[Pod]:
        return list(self._pods.objects.values())

    @property
    def nodes(self) -> list[Node]:
        return list(self._nodes.objects.values())

    def capacity(self) -> int:
        """CPUs of all nodes, in millicores."""
        return sum(amount("cpu", node.status.allocatable.get("cpu", 0)) for node in self.nodes)

    def weight(self, queue: str) -> int:
        found = self._queues.objects.get(queue)
        return found.spec.weight if isinstance(found, Queue) and found.spec.weight else 1

    def groups(self) -> list[PodGroup]:
        return list(self._groups.objects.values())

    async def count_evictions(self) -> int:
        """From the events of the server; they are read when they are needed."""
        try:
            listed = await self._client.list(EVENTS)
        except Failure:
            return self.evicted
        self.evicted = sum(event.reason in _EVICTIONS for event in listed.items)
        return self.evicted

    # -- events -------------------------------------------------------------------------------------------------------

    def _on_pod(self, event: Applied | Deleted) -> None:
        pod = event.object
        assert isinstance(pod, Pod)
        if isinstance(event, Deleted):
            return
        uid = pod.metadata.uid
        if pod.spec.node_name and uid not in self._bound:
            self._bound[uid] = self._clock()
            group = group_name_of(pod)
            gang = self.gangs.get(f"{pod.metadata.namespace}/{group}") if group else None
            if gang is not None:
                gang.binds.append(self._bound[uid])
        if is_backfill(pod):
            self.borrowed.add(key(pod))
        if pod.status.phase in _FINISHED:
            self.finished.add(uid)

    def _on_group(self, event: Applied | Deleted) -> None:
        group = event.object
        assert isinstance(group, PodGroup)
        if isinstance(event, Applied) and (group.spec.min_member or 0) > 1:
            self.gangs.setdefault(key(group), Gang(group.spec.min_member or 0))

    def _on_reservation(self, event: Applied | Deleted) -> None:
        reservation = event.object
        assert isinstance(reservation, Reservation)
        node = reservation.status.node_name or reservation.spec.node_name
        if isinstance(event, Applied) and node:
            self.reserved.setdefault(_holder(reservation), set()).add(node)

    async def _tick(self) -> None:
        last = self._clock()
        while True:
            await asyncio.sleep(_TICK)
            now = self._clock()
            self._add_up(now - last)
            last = now

    def _add_up(self, seconds: float) -> None:
        queue_of = {key(group): group.spec.queue or "default" for group in self._groups.objects.values()}
        for usages in (self.queues, self.namespaces):
            for usage in usages.values():
                usage.running = usage.pending = usage.cpu = 0
        for pod in self._pods.objects.values():
            if pod.status.phase in _FINISHED or pod.metadata.deletion_timestamp is not None:
                continue
            group = group_name_of(pod)
            queue = queue_of.get(f"{pod.metadata.namespace}/{group}", "") if group else ""
            cpu = pod_requests(pod.spec).get("cpu", 0) if pod.spec.node_name else 0
            for usages, name in ((self.queues, queue or "default"), (self.namespaces, pod.metadata.namespace)):
                usage = usages.setdefault(name, Usage())
                usage.cpu += cpu
                usage.cpu_seconds += cpu * seconds / 1000
                if pod.spec.node_name:
                    usage.running += 1
                else:
                    usage.pending += 1


def _holder(reservation: Reservation) -> str:
    """Whom a node is reserved for: the owner that the Reservation names, without the number of the pod."""
    for owner in reservation.spec.owners:
        written = msgspec.to_builtins(owner)
        target = written.get("object") or {}
        if target.get("name"):
            return f"{target.get('namespace', '')}/{str(target['name']).rstrip('0123456789').rstrip('-')}"
    return reservation.metadata.name
