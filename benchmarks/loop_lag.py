"""How long the scheduler's event loop is held up while everything happens at once.

The lease is renewed, probes are answered and watches are read on one loop, so nothing may keep it waiting: no list of
fifty thousand pods, no cycle that decides on all of them (that runs in a thread, and threads of Python take turns), no
thousands of binds that are set in motion. Here the scheduler's process is the product's; the API server is a stand-in
without a network, which hands out its objects in pages and takes every bind at once. That is harder on the loop than a
real one, which takes its time.

    python benchmarks/loop_lag.py [--nodes 5000] [--gangs 500] [--size 100]

prints one JSON document; the goal for these sizes is that nobody waits for longer than 50 ms. Other work on the machine
counts, too: run it on a quiet one.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from collections.abc import AsyncIterator, Mapping
from random import Random
from typing import Any

import msgspec
from prometheus_client import CollectorRegistry

from stromboli.api import KObject
from stromboli.kube.client import Envelope, Page, Resource, TokenBucket
from stromboli.kube.runtime import (
    ConfigurationFile,
    InvolvedObject,
    LoopLag,
    ProcessMetrics,
    SoleReplica,
    garbage_collection,
)
from stromboli.kube.runtime.process import SWITCH_INTERVAL
from stromboli.kube.scheduler import SchedulerComponent, SchedulerMetrics
from stromboli.scheduling.cycle import Scheduler
from stromboli.scheduling.registry import Registry
from stromboli.scheduling.warm_up import load_kernels

PAGE = 500
VOLCANO = "scheduling.volcano.sh/v1beta1"


class StandIn:
    """As much of a client as a scheduler needs, with the objects of a cluster behind it."""

    def __init__(self, nodes: int, gangs: int, size: int) -> None:
        self.binds = 0
        self.random = Random(0)
        self._documents: dict[str, list[dict[str, Any]]] = {
            "nodes": [_node(f"node-{n}") for n in range(nodes)],
            "queues": [{"apiVersion": VOLCANO, "kind": "Queue", "metadata": _meta("default")}],
            "podgroups": [_group(f"gang-{g}", size) for g in range(gangs)],
            "pods": [_pod(f"gang-{g}", n) for g in range(gangs) for n in range(size)],
        }

    async def serves(self, group_version: str) -> bool:
        return True

    async def request(self, method: str, path: str, **facts: Any) -> bytes:
        return b"{}"

    async def pages(self, resource: Resource[Any], **selectors: str) -> AsyncIterator[Page]:
        documents = self._documents.get(resource.plural, [])
        for start in range(0, max(1, len(documents)), PAGE):
            items = [msgspec.Raw(msgspec.json.encode(one)) for one in documents[start : start + PAGE]]
            page = Page(items=items)
            page.metadata.resource_version = "1"
            await asyncio.sleep(0)
            yield page

    async def envelopes(self, resource: Resource[Any], version: str, **selectors: str) -> AsyncIterator[Envelope]:
        await asyncio.Event().wait()
        yield Envelope("BOOKMARK", msgspec.Raw(b"{}"))

    async def bind(self, pod_key: str, uid: str, node: str, *, annotations: Mapping[str, str] | None = None) -> None:
        await asyncio.sleep(0.001)
        self.binds += 1

    async def patch(self, resource: Resource[Any], key: str, patch: Mapping[str, Any], **facts: Any) -> KObject:
        await asyncio.sleep(0.001)
        namespace, _, name = key.rpartition("/")
        written: KObject = resource.type()
        written.metadata.namespace, written.metadata.name = namespace, name
        return written

    async def create(self, resource: Resource[Any], obj: Any, **facts: Any) -> Any:
        await asyncio.sleep(0.001)
        return obj


async def measure(nodes: int, gangs: int, size: int) -> dict[str, float]:
    registry = Registry()
    configuration: ConfigurationFile[Scheduler] = ConfigurationFile(
        None,
        lambda text, where: Scheduler(registry.load(text, where=where), registry),
        built_in=lambda: Scheduler(registry.default(), registry),
    )
    load_kernels(configuration.current)
    server = StandIn(nodes, gangs, size)
    lag = LoopLag(every=0.005, window=600.0)
    process = SchedulerComponent(
        server,  # type: ignore[arg-type]
        configuration=configuration,
        leadership=SoleReplica(),
        scheduler_name="volcano",
        process_ref=InvolvedObject("coordination.k8s.io/v1", "Lease", "default", "benchmark"),
        period=1.0,
        bucket=lambda: TokenBucket(1e6, 100_000),
        metrics=SchedulerMetrics(ProcessMetrics(CollectorRegistry(), lag)),
    )
    stop = asyncio.Event()
    started = time.perf_counter()
    watching = asyncio.create_task(lag.run())
    running = asyncio.create_task(process.run(stop))
    while server.binds < gangs * size and not running.done():
        await asyncio.sleep(0.05)
    took = time.perf_counter() - started
    worst = lag.worst
    for task in (watching, running):
        task.cancel()
    await asyncio.gather(watching, running, return_exceptions=True)
    return {"bound": server.binds, "seconds": round(took, 2), "longest_wait_ms": round(worst * 1000, 1)}


def _meta(name: str, namespace: str = "", **more: Any) -> dict[str, Any]:
    return {"name": name, "namespace": namespace, "uid": name, "resourceVersion": "1", **more}


def _node(name: str) -> dict[str, Any]:
    offer = {"cpu": "32", "memory": "128Gi", "pods": "110"}
    return {"apiVersion": "v1", "kind": "Node", "metadata": _meta(name), "status": {"allocatable": offer}}


def _group(name: str, size: int) -> dict[str, Any]:
    spec = {"minMember": size, "queue": "default"}
    return {"apiVersion": VOLCANO, "kind": "PodGroup", "metadata": _meta(name, "default"), "spec": spec}


def _pod(gang: str, number: int) -> dict[str, Any]:
    container = {"name": "main", "image": "work", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}
    annotations = {"scheduling.k8s.io/group-name": gang}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": _meta(f"{gang}-{number}", "default", annotations=annotations),
        "spec": {"schedulerName": "volcano", "containers": [container]},
        "status": {"phase": "Pending"},
    }


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--gangs", type=int, default=500)
    parser.add_argument("--size", type=int, default=100, help="pods of a gang")
    asked = parser.parse_args(arguments)
    sys.setswitchinterval(SWITCH_INTERVAL)
    garbage_collection.disable_automatic_collection()
    print(json.dumps(asyncio.run(measure(asked.nodes, asked.gangs, asked.size))))


if __name__ == "__main__":
    main()
