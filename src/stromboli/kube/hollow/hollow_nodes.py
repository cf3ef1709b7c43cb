"""Registers hollow nodes, keeps them and their pods going until a stop, and removes them.

On any API server they replace the rest of a cluster: for trying a policy with the real scheduler and controllers, for
tests, and for benchmarks.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from stromboli.grammar import plural
from stromboli.kube.client import Client
from stromboli.kube.runtime import Log

from .kubelet import HollowKubelet
from .node_pool import HollowNodePool
from .readiness import NodeReadiness
from .volume_provisioner import HollowProvisioner

_log = Log("hollow")


class Kubelet(Protocol):
    """Runs the pods of all nodes."""

    async def run(self) -> None: ...

    def unfinished(self) -> int:
        """How many pods have not finished."""
        ...


class HollowNodes:
    """Registers its nodes when `run` starts and removes them when `stop` is set, unless `keep` is true.

    The pools may have nodes of different sizes. Without another `kubelet` the pods only pretend to run.
    `provision_volumes`: there is no volume controller and no provisioner either, so pretend to be both.
    """

    def __init__(
        self,
        client: Client,
        *pools: HollowNodePool,
        keep: bool = False,
        say: Callable[[str], None] = _log.info,
        kubelet: Kubelet | None = None,
        provision_volumes: bool = False,
    ) -> None:
        self._pools: Sequence[HollowNodePool] = pools
        self._keep = keep
        self._say = say
        self.ready = asyncio.Event()
        """Set when all nodes are registered."""
        names = frozenset(name for pool in pools for name in pool.names)
        self._count = len(names)
        lost: set[str] = set()
        hollow = HollowKubelet(client, names, lost=lost)
        self._kubelet: Kubelet = kubelet or hollow
        self._provisioners = [HollowProvisioner(client)] if provision_volumes else []
        self._readiness = NodeReadiness(client, pools, lost, on_return=hollow.resume)

    async def run(self, stop: asyncio.Event) -> None:
        stopping = asyncio.create_task(stop.wait())
        registering = asyncio.create_task(self._register())
        try:
            if await _first(stopping, registering) is registering:
                count = plural(self._count, "hollow node")
                self._say(f"{count} ready. Ctrl-C {'ends this; they stay' if self._keep else 'removes them'}.")
                self.ready.set()
                beats = [pool.run_heartbeats() for pool in self._pools]
                making = [provisioner.run() for provisioner in self._provisioners]
                running = asyncio.gather(*beats, self._kubelet.run(), self._readiness.run(), *making)
                try:
                    await _first(stopping, running)
                finally:
                    await _cancel(running)
        finally:
            await _cancel(registering, stopping)
            await self._clean_up()

    async def _register(self) -> None:
        for pool in self._pools:
            await pool.register()

    async def _clean_up(self) -> None:
        if self._keep:
            for pool in self._pools:
                await pool.release()
        else:
            removed = sum([await pool.remove() for pool in self._pools])
            if removed:
                self._say(f"{plural(removed, 'hollow node')} removed.")
        left = self._kubelet.unfinished()
        if left:
            self._say(
                f"{plural(left, 'pod')} on these nodes did not finish. Nothing runs there now: "
                "delete such pods, or start the same nodes again."
            )


async def _first(*tasks: asyncio.Future[Any]) -> asyncio.Future[Any]:
    """Wait for the first that is done; raises what it raised."""
    done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    first = next(task for task in tasks if task in done)
    first.result()
    return first


async def _cancel(*tasks: asyncio.Future[Any]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
