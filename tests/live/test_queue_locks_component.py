"""Locks on an API server: the controllers write them into the status of queues, and follow the configuration file."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry

from live.fake_api_server import FakeApiServer
from stromboli.kube.client import Client, TokenBucket
from stromboli.kube.controllers import ControllerMetrics, ControllersComponent
from stromboli.kube.runtime import ConfigurationFile, LoopLag, ProcessMetrics, SoleReplica
from stromboli.scheduling.queue_locks import LockRules, lock_rules
from stromboli.scheduling.registry import Registry

Document = dict[str, Any]

ON = "actions: allocate\ntiers: [{plugins: [{name: gang}, {name: node_reservation}]}]\n"
OFF = "actions: allocate\ntiers: [{plugins: [{name: gang}]}]\n"


def node(name: str, cpu: str = "4", **parts: Any) -> Document:
    return {
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "spec": {},
        "status": {"allocatable": {"cpu": cpu}, "conditions": [{"type": "Ready", "status": "True"}]}, **parts,
    }  # fmt: skip


def queue(guarantee: Document | None) -> Document:
    spec = {} if guarantee is None else {"guarantee": guarantee}
    return {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": "q1"}, "spec": spec}


def play(tmp_path: Path, story: Callable[[FakeApiServer, Path], Coroutine[Any, Any, None]]) -> None:
    file = tmp_path / "scheduler.yaml"
    file.write_text(ON, encoding="utf-8")
    registry = Registry()

    def load(text: str, where: str) -> LockRules | None:
        return lock_rules(registry.load(text, where=where))

    async def run() -> None:
        async with FakeApiServer() as server, Client(server.config()) as client:
            server.put(node("n1"))
            server.put(node("n2"))
            component = ControllersComponent(
                client,
                leadership=SoleReplica(),
                scheduler_name="volcano",
                bucket=lambda: TokenBucket(10_000, 10_000),
                metrics=ControllerMetrics(ProcessMetrics(CollectorRegistry(), LoopLag())),
                lock_rules=ConfigurationFile(file, load, built_in=lambda: None, interval=0.05),
                relock_period=0.3,
            )
            stop = asyncio.Event()
            task = asyncio.create_task(component.run(stop))
            try:
                await story(server, file)
            finally:
                stop.set()
                await asyncio.wait_for(task, 10)

    asyncio.run(run())


def locked(server: FakeApiServer) -> list[str]:
    found = server.stored("queues", "q1") or {}
    nodes: list[str] = found.get("status", {}).get("reservation", {}).get("nodes", [])
    return nodes


async def until(test: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not test():
            await asyncio.sleep(0.02)


def test_editing_a_queue_turns_it_on_and_off(tmp_path: Path) -> None:
    async def story(server: FakeApiServer, file: Path) -> None:
        server.put(queue({"policy": "Best-Effort", "resource": {"cpu": "4"}}))
        await until(lambda: locked(server) == ["n1"])
        changed = server.stored("queues", "q1") or {}
        server.put({**changed, "spec": {}})
        await until(lambda: locked(server) == [])

    play(tmp_path, story)


def test_a_node_that_is_cordoned_is_replaced(tmp_path: Path) -> None:
    async def story(server: FakeApiServer, file: Path) -> None:
        server.put(queue({"policy": "Best-Effort", "resource": {"cpu": "4"}}))
        await until(lambda: locked(server) == ["n1"])
        server.put(node("n1", spec={"unschedulable": True}))
        await until(lambda: locked(server) == ["n2"])

    play(tmp_path, story)


def test_the_configuration_file_turns_all_of_it_on_and_off(tmp_path: Path) -> None:
    async def story(server: FakeApiServer, file: Path) -> None:
        server.put(queue({"percentage": {"value": 0.5}}))
        await until(lambda: locked(server) == ["n1"])
        file.write_text(OFF, encoding="utf-8")
        await until(lambda: locked(server) == [])
        file.write_text(ON, encoding="utf-8")
        await until(lambda: locked(server) == ["n1"])

    play(tmp_path, story)
