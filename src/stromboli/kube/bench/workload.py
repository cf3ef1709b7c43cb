"""The stage of a benchmark: nodes, gangs and pods on a real API server, put up and taken down.

Everything has the name of the run, and is removed in the end, also when the run is interrupted. Nodes have a taint and
pods a selector: on a cluster that others use, neither gets in anybody's way.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Awaitable, Callable
from typing import Any, Final

import msgspec

from stromboli.api import Namespace, ObjectMeta, PodGroup, PodGroupSpec, Queue, QueueSpec, key, names
from stromboli.kube.client.client import Client
from stromboli.kube.client.errors import Failure, is_not_found
from stromboli.kube.client.parallel import side_by_side
from stromboli.kube.client.resources import NAMESPACES, POD_GROUPS, PODS, QUEUES, Resource
from stromboli.kube.hollow.nodes import Fleet

PODS_PER_NODE: Final = 110
PART: Final = "stromboli.io/bench-part"  # a label of pods
_RUN: Final = "stromboli.io/bench"  # a label of nodes, and their taint


class Stage:
    """Pods come in parts, numbered from 0 in each; a part's gangs are made before its pods."""

    def __init__(self, client: Client, *, nodes: int, gang_size: int, connections: int) -> None:
        self.name = f"bench-{secrets.token_hex(3)}"
        self._client = client
        self._gang_size = gang_size
        self._connections = connections
        self._nodes = [f"{self.name}-{number}" for number in range(nodes)]
        self._fleet = Fleet(
            client,
            self._nodes,
            capacity={"cpu": "32", "memory": "128Gi", "pods": str(PODS_PER_NODE)},
            labels={_RUN: self.name},
            taints=[{"key": _RUN, "value": self.name, "effect": "NoSchedule"}],
            width=connections,
        )

    async def put_up(self) -> None:
        await self._client.create(NAMESPACES, Namespace(metadata=ObjectMeta(name=self.name)))
        await self._client.create(QUEUES, Queue(metadata=ObjectMeta(name=self.name), spec=QueueSpec(weight=1)))
        await self._fleet.register()

    async def take_down(self, say: Callable[[str], None]) -> None:
        """As much as can be; what fails does not keep the rest from going."""
        for step in (self.clear, self._remove_itself, self._fleet.remove):
            try:
                await step()
            except Failure as failure:
                say(f"not everything of {self.name} could be removed: {failure}")

    async def each(self, part: str, count: int, do: Callable[[str, int], Awaitable[object]]) -> None:
        """Do it for every pod of a part, in their order."""
        await side_by_side(range(count), lambda number: do(part, number), width=self._connections)

    async def create_groups(self, part: str, pods: int) -> None:
        async def create(number: int) -> None:
            least = min(self._gang_size, pods - number * self._gang_size)
            meta = ObjectMeta(name=f"{part}-{number}", namespace=self.name)
            spec = PodGroupSpec(min_member=least, queue=self.name)
            await self._client.create(POD_GROUPS, PodGroup(metadata=meta, spec=spec))

        await side_by_side(range(math.ceil(pods / self._gang_size)), create, width=self._connections)

    async def create(self, part: str, number: int) -> None:
        """A pod of a gang, for the scheduler of this run."""
        await self._post_pod(part, number, scheduler=self.name, group=self._group_of(part, number))

    async def create_bound(self, part: str, number: int) -> None:
        """The same, on a node from the beginning."""
        group, node = self._group_of(part, number), self._node_of(number)
        await self._post_pod(part, number, scheduler=self.name, group=group, node=node)

    async def create_alone(self, part: str, number: int) -> None:
        """A pod that no scheduler looks at."""
        await self._post_pod(part, number, scheduler=f"{self.name}-nobody")

    async def bind(self, part: str, number: int) -> None:
        await self._client.bind(f"{self.name}/{part}-{number}", "", self._node_of(number))

    async def clear(self, part: str = "") -> None:
        """Remove the pods and gangs of a part, or of all."""
        selector = f"{PART}={part}" if part else ""
        pods = await self._client.list(PODS, namespace=self.name, label_selector=selector)
        await side_by_side(pods.items, lambda pod: self._remove(PODS, key(pod), grace=0), width=self._connections)
        groups = await self._client.list(POD_GROUPS, namespace=self.name)
        ours = [group for group in groups.items if not part or group.metadata.name.startswith(f"{part}-")]
        await side_by_side(ours, lambda group: self._remove(POD_GROUPS, key(group)), width=self._connections)

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
        # The answer is not decoded: this process shares the machine with those that are measured.
        body = msgspec.json.encode({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec})
        await self._client.request("POST", PODS.path(self.name), body=body)

    async def _remove_itself(self) -> None:
        await self._remove(QUEUES, self.name)
        await self._remove(NAMESPACES, self.name)

    async def _remove(self, resource: Resource[Any], name: str, *, grace: int | None = None) -> None:
        try:
            await self._client.delete(resource, name, grace_seconds=grace)
        except Failure as failure:
            if not is_not_found(failure):
                raise
