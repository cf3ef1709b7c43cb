"""How long a tenant's pods wait for their binds, alone and beside the pods of another that cannot start.

    python benchmarks/tenants.py [--pending 100000] [--probes 100]      the scheduler's own cycles
    python benchmarks/tenants.py --live [--pending 2000] [--probes 40]  a whole cluster in one process, with a socket

One namespace has n pods that are larger than every node, each in a group of its own. Another submits pods that fit, one
after the other. Both are in one queue. Measured are the times from a submission to the bind, alone, beside n and beside
2n pending pods, and what a cycle takes then. The bound: the p99 beside them is at most the p99 alone plus one cycle.

Without --live, a submission is the events of a group and a pod, and a bind leaves at the end of the action that decides
it, as in the live scheduler. With it, pods without a group are created at the API server, so the controllers make their
groups first, and the bind is what a watch shows. Times are processor time without --live,
and what a clock shows with it.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import msgspec

from stromboli.api import KObject, decode
from stromboli.cluster import Applied, Cluster
from stromboli.console.bench_case import Case, _apply_decisions
from stromboli.console.up.cluster import Plan, run_cluster
from stromboli.console.up.machines import Machines
from stromboli.kube.client import PODS, Client, for_each_concurrently, load_client_config
from stromboli.scheduling.cycle import Scheduler, close_session
from stromboli.scheduling.decisions import Bind
from stromboli.scheduling.registry import Registry

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.cliffs import gang, nodes, queue

NODES = 100
TOO_LARGE = "64"  # CPUs; nodes have 32
FITS = "10m"
GAP = 0.3  # seconds between two submissions on a live cluster
CONNECTIONS = 16


def figures(waits: list[float], cycles: list[float]) -> dict[str, float]:
    """In seconds. With fewer than 100 waits, the p99 is their maximum."""
    ordered = sorted(waits)
    return {
        "median": round(statistics.median(ordered), 4),
        "p99": round(ordered[max(0, -(-99 * len(ordered) // 100) - 1)], 4),
        "cycle": round(max(cycles), 4),
    }


def is_within_bound(alone: dict[str, float], beside: dict[str, float]) -> bool:
    return beside["p99"] <= alone["p99"] + beside["cycle"]


# -- the cycles of a scheduler ----------------------------------------------------------------------------------------


class Cycles:
    def __init__(self, pending: int) -> None:
        self._cluster = Cluster()
        registry = Registry()
        self._scheduler = Scheduler(registry.default(), registry)
        self._now = 0.0
        for document in [*nodes(NODES), queue("default")]:
            self._cluster.apply(Applied(decode(document)))
        for number in range(pending):
            self._submit("crowd", f"crowd{number:06d}", TOO_LARGE)
        for _ in range(3):
            self._cycle()
        gc.collect()
        gc.freeze()

    def _submit(self, namespace: str, name: str, cpu: str) -> None:
        for document in gang(name, 1, cpu=lambda _: cpu):
            document["metadata"]["namespace"] = namespace
            obj: KObject = decode(document)
            self._cluster.apply(Applied(obj))

    def _cycle(self) -> tuple[float | None, float]:
        """When the first bind left, and how long the cycle took."""
        self._now += 1.0
        started, bound = time.process_time(), None
        session = self._scheduler.open(self._cluster.snapshot(), self._now)

        def note(action: str) -> None:
            nonlocal bound
            if bound is None and any(isinstance(decision, Bind) for decision in session.cycle.decisions):
                bound = time.process_time() - started

        self._scheduler.act(session, note)
        cycle = close_session(session)
        took = time.process_time() - started
        _apply_decisions(self._cluster, cycle)
        return bound, took

    def measure(self, probes: int) -> dict[str, float]:
        waits, cycles = [], []
        for number in range(probes):
            started = time.process_time()
            self._submit("team", f"probe{number:06d}", FITS)
            applied = time.process_time() - started
            bound, took = self._cycle()
            assert bound is not None, "the pod of the team was not bound in the first cycle"
            waits.append(applied + bound)
            cycles.append(took)
        gc.unfreeze()
        return figures(waits, cycles)


# -- a live cluster ---------------------------------------------------------------------------------------------------


def bare_pod(namespace: str, name: str, cpu: str) -> dict[str, Any]:
    container = {"name": "main", "image": "none", "resources": {"requests": {"cpu": cpu}}}
    return {
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": namespace},
        "spec": {"schedulerName": "volcano", "restartPolicy": "Never", "containers": [container]},
    }  # fmt: skip


class Live:
    """Probes on one cluster; more pending pods come in between."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._bound: dict[str, float] = {}
        self._has_reason: set[str] = set()
        self._news = asyncio.Event()
        self._probes = self._pending = 0

    async def watch(self) -> None:
        async for event in self._client.watch(PODS, "0"):
            pod = event.object
            if pod.metadata.namespace == "team" and pod.spec.node_name:
                self._bound.setdefault(pod.metadata.name, time.monotonic())
            elif any(condition.type == "PodScheduled" for condition in pod.status.conditions):
                self._has_reason.add(pod.metadata.name)
            self._news.set()

    async def add_pending(self, number: int) -> float:
        """Create so many more, and wait until each says why it waits: then all have their groups. Returns the longest
        wait of probes meanwhile."""
        first, self._pending = self._pending, self._pending + number
        creating = asyncio.create_task(
            for_each_concurrently(
                range(first, first + number),
                lambda n: self._create(bare_pod("crowd", f"crowd{n:06d}", TOO_LARGE)),
                limit=CONNECTIONS,
            )
        )
        meanwhile = []
        while len(self._has_reason) < self._pending or not creating.done():
            meanwhile.append(await self._probe())
            await asyncio.sleep(GAP)
        await creating
        return max(meanwhile, default=0.0)

    async def measure(self, probes: int) -> list[float]:
        waits = []
        for _ in range(probes):
            waits.append(await self._probe())
            await asyncio.sleep(GAP)
        return waits

    async def _probe(self) -> float:
        self._probes += 1
        name = f"probe{self._probes:06d}"
        started = time.monotonic()
        await self._create(bare_pod("team", name, FITS))
        while name not in self._bound:
            self._news.clear()
            await asyncio.wait_for(self._news.wait(), 300)
        return self._bound[name] - started

    async def _create(self, document: dict[str, Any]) -> None:
        path = f"/api/v1/namespaces/{document['metadata']['namespace']}/pods"
        await self._client.request("POST", path, body=msgspec.json.encode(document))


async def live(pending: int, probes: int, folder: Path) -> dict[str, Any]:
    offers = {"cpu": "32", "memory": "128Gi", "pods": "110"}
    machines = [Machines([f"node-{number}" for number in range(NODES)], offers)]
    stop = asyncio.Event()
    result: dict[str, Any] = {}

    async def work(client: Client) -> None:
        try:
            async with Client(load_client_config(folder / "kubeconfig", None), connections=CONNECTIONS) as own:
                for namespace in ("crowd", "team"):
                    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
                    await own.request("POST", "/api/v1/namespaces", body=msgspec.json.encode(body))
                bench = Live(own)
                watching = asyncio.create_task(bench.watch())
                await bench.measure(3)  # until everything runs
                result["alone"] = figures(await bench.measure(probes), [0.0])
                for more in (pending, pending):
                    longest = await bench.add_pending(more)
                    key = f"beside {bench._pending}"
                    result[key] = figures(await bench.measure(probes), [0.0])
                    result[key]["longest while they come"] = round(longest, 4)
                watching.cancel()
        finally:
            stop.set()

    await run_cluster(Plan(folder=folder, persistent=False, machines=machines), stop, [work])
    for key in [key for key in result if key != "alone"]:
        result[key]["cycle"] = Cycles(int(key.partition(" ")[2])).measure(10)["cycle"]
    return result


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--live", action="store_true")
    parser.add_argument("--pending", type=int)
    parser.add_argument("--probes", type=int)
    chosen = parser.parse_args(arguments)
    if chosen.live:
        with tempfile.TemporaryDirectory() as folder:
            result = asyncio.run(live(chosen.pending or 2000, chosen.probes or 40, Path(folder) / "cluster"))
    else:
        Case(256, 512, 8, [1], 1, "nodeorder", None).run()  # compiles the kernels
        pending, probes = chosen.pending or 100_000, chosen.probes or 100
        result = {"alone": Cycles(0).measure(probes)}
        for number in (pending, 2 * pending):
            result[f"beside {number}"] = Cycles(number).measure(probes)
    for key in [key for key in result if key != "alone"]:
        result[key]["within bound"] = is_within_bound(result["alone"], result[key])
    json.dump(result, sys.stdout, indent=2)
    print()


if __name__ == "__main__":
    main()
