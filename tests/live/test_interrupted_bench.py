"""A run of `stromboli bench cluster` that is interrupted while requests are on their way."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import msgspec

from stromboli.api import Pod
from stromboli.kube.bench.workload import Workload
from stromboli.kube.client import PODS, Client


class LateServer:
    """What it was sent it carries out some turns of the event loop later, whether somebody waits for it or not."""

    def __init__(self) -> None:
        self.pods: dict[str, Pod] = {}
        self._sent = 0

    async def request(self, method: str, path: str, *, body: bytes) -> None:
        self._sent += 1
        for _ in range(10 * self._sent):
            await asyncio.sleep(0)
        pod = msgspec.json.decode(body, type=Pod)
        pod.metadata.namespace = path.split("/")[-2]
        self.pods[f"{pod.metadata.namespace}/{pod.metadata.name}"] = pod

    async def list(self, resource: object, **_: object) -> Any:
        return SimpleNamespace(items=list(self.pods.values()) if resource is PODS else [])

    async def delete(self, resource: object, name: str, **_: object) -> None:
        if resource is PODS:
            del self.pods[name]


def test_what_was_on_its_way_is_removed_too() -> None:
    async def story() -> None:
        server = LateServer()
        workload = Workload(cast(Client, server), nodes=2, gang_size=4, connections=4)
        creating = asyncio.create_task(workload.for_each_pod("binds", 20, workload.create_unscheduled))
        while len(server.pods) < 3:
            await asyncio.sleep(0)
        creating.cancel()
        await asyncio.wait([creating])
        await workload.tear_down(print)
        there = dict(server.pods)
        for _ in range(200):
            await asyncio.sleep(0)
        assert (there, server.pods) == ({}, {})

    asyncio.run(story())
