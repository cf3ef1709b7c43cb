"""The nodes, gangs and pods of a benchmark on a real API server.

Everything has the name of the run and is removed at the end, also when the run is interrupted. The nodes have a taint
and the pods a node selector, so a run does not affect other users of the cluster.

Requests that are on their way when the run is interrupted are waited for: a server carries them out all the same, and
what they create would appear after everything was listed to be removed.
"""

from __future__ import annotations

import asyncio
import math
import secrets
from collections.abc import Callable, Coroutine
from typing import Any, Final

import msgspec

from stromboli.api import Namespace, ObjectMeta, PodGroup, PodGroupSpec, Queue, QueueSpec, key, names
from stromboli.kube.client import (
    NAMESPACES,
    POD_GROUPS,
    PODS,
    QUEUES,
    Client,
    Failure,
    Resource,
    for_each_concurrently,
    is_not_found,
)
from stromboli.kube.hollow import HollowNodePool

PODS_PER_NODE: Final = 110
PART: Final = "stromboli.io/bench-part"  # a label of pods
_RUN: Final = "stromboli.io/bench"  # a label of nodes, and their taint


class Workload:
    """Pods belong to parts and are numbered from 0 in each; the gangs of a part are created before its pods."""

    def __init__(self, client: Client, *, nodes: int, gang_size: int, connections: int) -> None:
        self.name = f"bench-{secrets.token_hex(3)}"
        self._client = client
        self._gang_size = gang_size
        self._connections = connections
        self._unfinished: set[asyncio.Task[object]] = set()
        self._nodes = [f"{self.name}-{number}" for number in range(nodes)]
        self._pool = HollowNodePool(
            client,
            self._nodes,
            capacity={"cpu": "32", "memory": "128Gi", "pods": str(PODS_PER_NODE)},
            labels={_RUN: self.name},
            taints=[{"key": _RUN, "value": self.name, "effect": "NoSchedule"}],
            concurrency=connections,
        )

    async def set_up(self) -> None:
        await self._whole(self._set_up())

    async def _set_up(self) -> None:
        await self._client.create(NAMESPACES, Namespace(metadata=ObjectMeta(name=self.name)))
        await self._client.create(QUEUES, Queue(metadata=ObjectMeta(name=self.name), spec=QueueSpec(weight=1)))
        await self._pool.register()

    async def tear_down(self, say: Callable[[str], None]) -> None:
        """Remove as much as possible; a failure does not keep the rest from being removed."""
        if self._unfinished:
            await asyncio.wait(self._unfinished)
        for step in (self.clear, self._remove_queue_and_namespace, self._pool.remove):
            try:
                await step()
            except Failure as failure:
                say(f"cannot remove everything of {self.name}: {failure}")

    async def for_each_pod(self, part: str, count: int, do: Callable[[str, int], Coroutine[Any, Any, object]]) -> None:
        """Call `do` for every pod of a part, in order."""
        await for_each_concurrently(range(count), lambda number: self._whole(do(part, number)), limit=self._connections)

    async def create_groups(self, part: str, pods: int) -> None:
        async def create(number: int) -> None:
            least = min(self._gang_size, pods - number * self._gang_size)
            meta = ObjectMeta(name=f"{part}-{number}", namespace=self.name)
            spec = PodGroupSpec(min_member=least, queue=self.name)
            await self._client.create(POD_GROUPS, PodGroup(metadata=meta, spec=spec))

        gangs = range(math.ceil(pods / self._gang_size))
        await for_each_concurrently(gangs, lambda number: self._whole(create(number)), limit=self._connections)

    async def create(self, part: str, number: int) -> None:
        """A pod of a gang, for the scheduler of this run."""
        await self._post_pod(part, number, scheduler=self.name, group=self._group_of(part, number))

    async def create_bound(self, part: str, number: int) -> None:
        """The same, bound to a node from the start."""
        group, node = self._group_of(part, number), self._node_of(number)
        await self._post_pod(part, number, scheduler=self.name, group=group, node=node)

    async def create_unscheduled(self, part: str, number: int) -> None:
        """A pod that no scheduler considers."""
        await self._post_pod(part, number, scheduler=f"{self.name}-nobody")

    async def bind(self, part: str, number: int) -> None:
        await self._client.bind(f"{self.name}/{part}-{number}", "", self._node_of(number))

    async def clear(self, part: str = "") -> None:
        """Delete the pods and gangs of a part, or of all parts."""
        selector = f"{PART}={part}" if part else ""
        pods = await self._client.list(PODS, namespace=self.name, label_selector=selector)
        await for_each_concurrently(
            pods.items, lambda pod: self._remove(PODS, key(pod), grace=0), limit=self._connections
        )
        groups = await self._client.list(POD_GROUPS, namespace=self.name)
        ours = [group for group in groups.items if not part or group.metadata.name.startswith(f"{part}-")]
        await for_each_concurrently(ours, lambda group: self._remove(POD_GROUPS, key(group)), limit=self._connections)

    def _group_of(self, part: str, number: int) -> str:
        return f"{part}-{number // self._gang_size}"

    def _node_of(self, number: int) -> str:
        return self._nodes[number % len(self._nodes)]

    async def _post_pod(self, part: str, number: int, *, scheduler: str, group: str = "", node: str = "") -> None:
        spec: dict[str, Any] = {
            "schedulerName": scheduler,
            "nodeSelector": {_RUN: self.name},
            "tolerations": [{"key": _RUN, "value": self.name, "effect": "NoSchedule"}],
            "containers": [
                {"name": "main", "image": "none", "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}}}
            ],
        }
        if node:
            spec["nodeName"] = node
        meta: dict[str, Any] = {"name": f"{part}-{number}", "labels": {PART: part}}
        if group:
            meta["annotations"] = {names.GROUP_NAME: group}
        # The response is not decoded: this process shares the machine with the measured ones.
        body = msgspec.json.encode({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec})
        await self._client.request("POST", PODS.path(self.name), body=body)

    async def _whole(self, work: Coroutine[Any, Any, object]) -> None:
        """Wait for some work that goes on to its end if the run is interrupted meanwhile."""
        task = asyncio.create_task(work)
        self._unfinished.add(task)
        task.add_done_callback(self._unfinished.discard)
        await asyncio.shield(task)

    async def _remove_queue_and_namespace(self) -> None:
        await self._remove(QUEUES, self.name)
        await self._remove(NAMESPACES, self.name)

    async def _remove(self, resource: Resource[Any], name: str, *, grace: int | None = None) -> None:
        try:
            await self._client.delete(resource, name, grace_seconds=grace)
        except Failure as failure:
            if not is_not_found(failure):
                raise
