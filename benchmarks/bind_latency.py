"""How long a pod waits for its bind on a real API server, alone and beside pods that cannot start.

Single pods are created one after the other, and the time from the request that creates a pod to the watch event that
shows its node is taken. Most of it is the pause in which the scheduler gathers related events (50 ms). The same is done
beside

    refused   pods in a namespace where an admission webhook that nobody serves refuses all binds
    hopeless  a gang of high priority for which the cluster is too small, with pods of low priority on all nodes

    python benchmarks/bind_latency.py --kubeconfig test.kubeconfig [--refused 500] [--hopeless 900] [--probes 40]

prints one JSON document with medians and maxima in seconds. The server must have the CRDs. Use a test cluster: the
webhook, the nodes and the namespaces have the name of the run and are removed at the end, but while the benchmark runs
the server has that many more nodes and pods.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import secrets
import statistics
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from stromboli.api import key, names
from stromboli.cluster.events import Applied, Deleted
from stromboli.kube.bench.child_process import ChildProcess
from stromboli.kube.client import (
    NAMESPACES,
    PODS,
    Client,
    Failure,
    Reflector,
    for_each_concurrently,
    is_not_found,
    load_client_config,
)
from stromboli.kube.hollow import HollowNodePool

GROUPS = "/apis/scheduling.volcano.sh/v1beta1"
WEBHOOKS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
CONNECTIONS = 16
NODES = 200
RUNNING_ON_NODE = 4  # pods of 8 CPUs on nodes of 32, and one more node has room
GAP = 0.4  # seconds between two pods
SETTLE = 5.0  # seconds until the scheduler has seen the pods that cannot start
LABEL = "stromboli.io/bench"


class Bench:
    def __init__(self, client: Client, kubeconfig: Path, name: str) -> None:
        self.name = name
        self.refused = f"{name}-refused"  # the namespace
        self._client = client
        self._kubeconfig = kubeconfig
        self._nodes = [f"{name}-{number:03}" for number in range(NODES)]
        self._bound: dict[str, float] = {}
        self._news = asyncio.Event()
        self._probes = 0
        offers = [(self._nodes, "32"), ([f"{name}-roomy"], "16")]
        self._pools = [
            HollowNodePool(
                client, nodes, capacity={"cpu": cpu, "memory": "64Gi", "pods": "1000"}, concurrency=CONNECTIONS
            )
            for nodes, cpu in offers
        ]

    async def set_up(self) -> None:
        for namespace in (self.name, self.refused):
            labels = {LABEL: namespace}
            await self._post("/api/v1/namespaces", {"metadata": {"name": namespace, "labels": labels}})
        await self._post(f"{GROUPS}/queues", {"metadata": {"name": self.name}, "spec": {"weight": 1}}, GROUPS)
        priority = {"metadata": {"name": self.name}, "value": 1000}
        await self._post("/apis/scheduling.k8s.io/v1/priorityclasses", priority, "/apis/scheduling.k8s.io/v1")
        for pool in self._pools:
            await pool.register()
        await self._gang(self.name, "low", 1)
        places = [node for node in self._nodes for _ in range(RUNNING_ON_NODE)]
        await for_each_concurrently(
            enumerate(places),
            lambda place: self._pod(self.name, f"low-{place[0]}", "low", "8", nodeName=place[1]),
            limit=CONNECTIONS,
        )

    async def tear_down(self) -> None:
        for path in (
            f"{WEBHOOKS}/{self.name}", f"{GROUPS}/queues/{self.name}",
            f"/apis/scheduling.k8s.io/v1/priorityclasses/{self.name}",
        ):  # fmt: skip
            await self._remove(path)
        for namespace in (self.name, self.refused):
            pods = await self._client.list(PODS, namespace=namespace)
            await for_each_concurrently(
                pods.items, lambda pod: self._client.delete(PODS, key(pod), grace_seconds=0), limit=CONNECTIONS
            )
            await self._remove(f"{GROUPS}/namespaces/{namespace}/podgroups")
            await self._client.delete(NAMESPACES, namespace)
        for pool in self._pools:
            await pool.remove()

    @asynccontextmanager
    async def scheduler(self, watching: Client) -> AsyncIterator[None]:
        child = ChildProcess([
            "scheduler", "--kubeconfig", str(self._kubeconfig), "--scheduler-name", self.name,
            "--no-leader-elect", "--probe-port", "0", "--log-level", "error",
        ])  # fmt: skip
        watch = Reflector(watching, PODS, self._on_event, namespace=self.name, field_selector="spec.nodeName!=")
        watched = asyncio.create_task(watch.run())
        await watch.synced.wait()
        await child.start()
        try:
            await self.waits(1)  # for the scheduler to start
            await asyncio.sleep(SETTLE)
            yield
        finally:
            await child.stop()
            watched.cancel()
            await asyncio.gather(watched, return_exceptions=True)

    async def waits(self, number: int) -> list[float]:
        """How long so many pods waited for their binds, in seconds."""
        waits = []
        for _ in range(number):
            self._probes += 1
            name = f"probe-{self._probes}"
            await self._gang(self.name, name, 1)
            started = time.monotonic()
            await self._pod(self.name, name, name, "10m")
            while name not in self._bound:
                self._news.clear()
                await asyncio.wait_for(self._news.wait(), 120)
            waits.append(self._bound[name] - started)
            await asyncio.sleep(GAP)
        return waits

    async def add_refused(self, number: int) -> None:
        rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods/binding"]}
        webhook = {
            "name": "nobody.stromboli.io",
            "rules": [rule],
            "namespaceSelector": {"matchLabels": {LABEL: self.refused}},
            "failurePolicy": "Fail",
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
            "timeoutSeconds": 5,
            "clientConfig": {"url": "https://127.0.0.1:1/"},
        }
        group_version = WEBHOOKS.rpartition("/")[0]
        await self._post(WEBHOOKS, {"metadata": {"name": self.name}, "webhooks": [webhook]}, group_version)
        await asyncio.sleep(2.0)  # the server reads it from time to time

        async def create(name: str) -> None:
            await self._gang(self.refused, name, 1)
            await self._pod(self.refused, name, name, "10m")

        await for_each_concurrently((f"refused-{n}" for n in range(number)), create, limit=CONNECTIONS)

    async def add_hopeless(self, number: int) -> None:
        await self._gang(self.name, "hopeless", number, priorityClassName=self.name)
        await for_each_concurrently(
            (f"hopeless-{n}" for n in range(number)),
            lambda name: self._pod(self.name, name, "hopeless", "8", priorityClassName=self.name),
            limit=CONNECTIONS,
        )

    async def remove_refused(self) -> None:
        pods = await self._client.list(PODS, namespace=self.refused)
        await for_each_concurrently(
            pods.items, lambda pod: self._client.delete(PODS, key(pod), grace_seconds=0), limit=CONNECTIONS
        )

    def _on_event(self, event: Applied | Deleted) -> None:
        self._bound.setdefault(event.object.metadata.name, time.monotonic())
        self._news.set()

    async def _gang(self, namespace: str, name: str, least: int, **spec: Any) -> None:
        body = {"metadata": {"name": name}, "spec": {"minMember": least, "queue": self.name, **spec}}
        await self._post(f"{GROUPS}/namespaces/{namespace}/podgroups", body, GROUPS)

    async def _pod(self, namespace: str, name: str, group: str, cpu: str, **spec: Any) -> None:
        container = {"name": "main", "image": "none", "resources": {"requests": {"cpu": cpu}}}
        body = {
            "metadata": {"name": name, "annotations": {names.GROUP_NAME: group}},
            "spec": {"schedulerName": self.name, "containers": [container], **spec},
        }
        await self._post(f"/api/v1/namespaces/{namespace}/pods", body)

    async def _post(self, path: str, body: dict[str, Any], group_version: str = "/api/v1") -> None:
        kind = {"podgroups": "PodGroup", "queues": "Queue", "priorityclasses": "PriorityClass", "pods": "Pod"} | {
            "namespaces": "Namespace", "validatingwebhookconfigurations": "ValidatingWebhookConfiguration",
        }  # fmt: skip
        version = group_version.removeprefix("/apis/").removeprefix("/api/")
        typed = {"apiVersion": version, "kind": kind[path.rpartition("/")[2]], **body}
        await self._client.request("POST", path, body=msgspec.json.encode(typed))

    async def _remove(self, path: str) -> None:
        try:
            await self._client.request("DELETE", path)
        except Failure as failure:
            if not is_not_found(failure):
                raise


def figures(waits: list[float]) -> dict[str, float]:
    return {"median": round(statistics.median(waits), 3), "maximum": round(max(waits), 3)}


async def measure(arguments: argparse.Namespace) -> dict[str, Any]:
    config = load_client_config(arguments.kubeconfig, None)
    result: dict[str, Any] = {}
    async with Client(config, connections=CONNECTIONS) as client, Client(config) as watching:
        bench = Bench(client, arguments.kubeconfig, f"latency-{secrets.token_hex(3)}")
        try:
            await bench.set_up()
            async with bench.scheduler(watching):
                result["alone"] = figures(await bench.waits(arguments.probes))
                if arguments.refused:
                    await bench.add_refused(arguments.refused)
                    result["besideRefusedAtFirst"] = figures(await bench.waits(arguments.probes))
                    result["besideRefused"] = figures(await bench.waits(arguments.probes))
                    await bench.remove_refused()
                    await asyncio.sleep(SETTLE)
                if arguments.hopeless:
                    await bench.add_hopeless(arguments.hopeless)
                    await asyncio.sleep(SETTLE)
                    result["besideHopeless"] = figures(await bench.waits(arguments.probes))
        finally:
            await bench.tear_down()
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kubeconfig", type=Path, required=True)
    parser.add_argument("--refused", type=int, default=500)
    parser.add_argument("--hopeless", type=int, default=900)
    parser.add_argument("--probes", type=int, default=40)
    print(json.dumps(asyncio.run(measure(parser.parse_args())), indent=2))


if __name__ == "__main__":
    main()
