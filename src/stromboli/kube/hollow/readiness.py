"""Hollow nodes can be lost on request: the annotation `sim.stromboli.io/ready: "false"` makes a node NotReady.

It then sends no heartbeats, and its pods neither start nor finish, as on a machine that was unplugged. Without the
annotation the node is back.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

from stromboli.api import Node
from stromboli.cluster.events import Applied, Deleted
from stromboli.kube.client import NODES, Client, Failure, Reflector
from stromboli.kube.runtime import Log

from .node_pool import HollowNodePool

READY_ANNOTATION: Final = "sim.stromboli.io/ready"

_log = Log("hollow")


class NodeReadiness:
    """Keeps `lost`, the names of the nodes that are lost, and their Ready conditions."""

    def __init__(
        self, client: Client, pools: Sequence[HollowNodePool], lost: set[str], *, on_return: Callable[[str], None]
    ) -> None:
        self._pools = {name: pool for pool in pools for name in pool.names}
        self._lost = lost
        self._on_return = on_return
        self._nodes = Reflector(client, NODES, self._on_event)
        self._changed: asyncio.Queue[str] = asyncio.Queue()

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._nodes.run())
            group.create_task(self._work())

    def _on_event(self, event: Applied | Deleted) -> None:
        node = event.object
        assert isinstance(node, Node)
        name = node.metadata.name
        if name not in self._pools:
            return
        if isinstance(event, Deleted):
            self._lost.discard(name)
        elif _is_wanted(node) == (name in self._lost):
            self._changed.put_nowait(name)

    async def _work(self) -> None:
        while True:
            name = await self._changed.get()
            node = self._nodes.objects.get(name)
            if node is None or _is_wanted(node) != (name in self._lost):
                continue
            ready = _is_wanted(node)
            (self._lost.discard if ready else self._lost.add)(name)
            try:
                await self._pools[name].set_ready(name, ready)
            except Failure as failure:
                _log.warning("cannot write the condition of a node", node=name, error=str(failure))
            if ready:
                self._on_return(name)


def _is_wanted(node: Node) -> bool:
    return node.metadata.annotations.get(READY_ANNOTATION, "") != "false"
