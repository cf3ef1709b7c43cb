"""A running embedded server with hollow nodes, in a thread, for tests that need a socket."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from stromboli.embedded.embedded_cluster import EmbeddedCluster
from stromboli.kube.client import Client, load_client_config
from stromboli.kube.hollow import HollowNodePool, HollowNodes


class Running:
    def __init__(self, folder: Path, *, nodes: int, persistent: bool = False) -> None:
        self.cluster = EmbeddedCluster(folder, persistent=persistent)
        self._nodes = nodes
        self._ready = threading.Event()
        self._stop: asyncio.Event | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        self._thread.start()
        assert self._ready.wait(60)
        if self._error is not None:
            raise self._error

    def stop(self) -> None:
        assert self._loop is not None
        assert self._stop is not None
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(30)
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        try:
            asyncio.run(self._main())
        except BaseException as error:
            self._error = error
        finally:
            self._ready.set()

    async def _main(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        async with self.cluster:
            if not self._nodes:
                self._ready.set()
                await self._stop.wait()
                return
            async with Client(load_client_config(self.cluster.kubeconfig, None)) as client:
                names = [f"node-{number}" for number in range(self._nodes)]
                pool = HollowNodePool(client, names, capacity={"cpu": "8", "memory": "32Gi", "pods": "110"})
                nodes = HollowNodes(client, pool)
                running = asyncio.create_task(nodes.run(self._stop))
                ready = asyncio.create_task(nodes.ready.wait())
                await asyncio.wait([running, ready], return_when=asyncio.FIRST_COMPLETED)
                ready.cancel()
                self._ready.set()
                await running


@contextmanager
def running(folder: Path, *, nodes: int = 0, persistent: bool = False) -> Iterator[EmbeddedCluster]:
    server = Running(folder, nodes=nodes, persistent=persistent)
    server.start()
    try:
        yield server.cluster
    finally:
        server.stop()
