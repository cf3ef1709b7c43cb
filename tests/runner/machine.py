"""One node whose pods are real processes of this machine, with an API server and nothing else: pods name the node."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from stromboli import plain_json
from stromboli.embedded.embedded_cluster import EmbeddedCluster
from stromboli.kube.client import PODS, Client, Failure, Resource, is_not_found, load_client_config
from stromboli.kube.runner import ProcessLogs, ProcessRunner

PATIENCE = 60.0
Document = dict[str, Any]
Story = Callable[["Machine"], Coroutine[Any, Any, None]]


class Machine:
    def __init__(self, client: Client, folder: Path, **options: Any) -> None:
        self.client = client
        self.folder = folder
        self._options = options
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        options = {"first_pause": 0.1, **self._options}
        self._task = asyncio.create_task(ProcessRunner(self.client, {"n"}, self.folder, **options).run())

    async def stop(self) -> None:
        assert self._task is not None
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def create(self, resource: Resource[Any], body: Document, namespace: str = "default") -> None:
        await self.client.create(resource, body, namespace=namespace)

    async def run(self, name: str, *containers: Document, meta: Document | None = None, **spec: Any) -> None:
        """Create a pod. A container without a name is `main`."""
        named = [{"name": "main", **one} for one in containers]
        metadata = {"name": name, **(meta or {})}
        body = {
            "metadata": metadata,
            "spec": {"nodeName": "n", "restartPolicy": "Never", "containers": named, **spec},
        }
        await self.client.create(PODS, body, namespace="default")

    async def pod(self, name: str) -> Document:
        try:
            return plain_json.decode_shallow(await self.client.request("GET", PODS.path_of(f"default/{name}")))
        except Failure as failure:
            if is_not_found(failure):
                return {}
            raise

    async def until(self, name: str, holds: Callable[[Document], Any]) -> Document:
        end = asyncio.get_running_loop().time() + PATIENCE
        while True:
            pod = await self.pod(name)
            if holds(pod):
                return pod
            assert asyncio.get_running_loop().time() < end, pod.get("status", "there is no such pod")
            await asyncio.sleep(0.02)

    async def ended(self, name: str) -> Document:
        return await self.until(name, lambda pod: pod["status"]["phase"] in ("Succeeded", "Failed"))

    async def log(self, name: str, container: str = "main", **query: str) -> str:
        pod = await self.pod(name)
        pieces = ProcessLogs(self.folder / "logs").read(pod, container, query)
        return b"".join([piece async for piece in pieces]).decode()

    async def output(self, name: str) -> str:
        """What the container of a pod has written when the pod has ended well."""
        pod = await self.ended(name)
        written = await self.log(name)
        assert pod["status"]["phase"] == "Succeeded", (pod["status"], written)
        return written


def main_status(pod: Mapping[str, Any]) -> Document:
    statuses = pod["status"].get("containerStatuses") or [{"state": {}, "restartCount": 0}]
    return dict(statuses[0])


def shell(script: str, **fields: Any) -> Document:
    return {"command": ["sh", "-c", script], **fields}


@asynccontextmanager
async def machine(folder: Path, **options: Any) -> AsyncIterator[Machine]:
    async with (
        EmbeddedCluster(folder / "server", persistent=False) as cluster,
        Client(load_client_config(cluster.kubeconfig, None)) as client,
    ):
        made = Machine(client, folder / "machine", **options)
        made.start()
        try:
            yield made
        finally:
            await made.stop()


def play(folder: Path, story: Story, **options: Any) -> None:
    async def scene() -> None:
        async with machine(folder, **options) as made:
            await story(made)

    asyncio.run(scene())


def is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] != "Z"


async def eventually(holds: Callable[[], Any] | Callable[[], Awaitable[Any]]) -> None:
    end = asyncio.get_running_loop().time() + PATIENCE
    while not holds():
        assert asyncio.get_running_loop().time() < end
        await asyncio.sleep(0.02)
