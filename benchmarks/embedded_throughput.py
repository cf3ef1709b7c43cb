"""How fast a cluster in one process is.

    python benchmarks/embedded_throughput.py --pods 2000 --nodes 100

Starts `stromboli up` in this process (API server, hollow nodes, controllers, scheduler), creates Jobs with that many
pods, which run for one second, and waits until all have finished. Then, on another server, it changes one object a
thousand times per second, for a while, and counts what a watch on a socket sees of it.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import tempfile
import time
from pathlib import Path
from typing import Any, Final

import msgspec

from stromboli.console.up.cluster import Plan, run_cluster
from stromboli.console.up.machines import Machines
from stromboli.embedded.embedded_cluster import EmbeddedCluster
from stromboli.embedded.server import Request
from stromboli.kube.client import CONFIG_MAPS, JOBS, PODS, Client, Failure, load_client_config

PODS_PER_JOB: Final = 20
WATCH_SECONDS: Final = 5


def _job(number: int) -> dict[str, Any]:
    resources = {"requests": {"cpu": "1", "memory": "1Gi"}}
    template = {
        "metadata": {"annotations": {"sim.stromboli.io/run": "1s"}},
        "spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "x", "resources": resources}]},
    }
    tasks = [{"name": "main", "replicas": PODS_PER_JOB, "template": template}]
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": f"job-{number}", "namespace": "default"},
        "spec": {"minAvailable": PODS_PER_JOB, "schedulerName": "volcano", "tasks": tasks},
    }


async def run_pods(client: Client, pods: int) -> float:
    """Seconds from the first Job until the last pod has finished."""
    started = time.monotonic()
    creating = asyncio.gather(*(client.create(JOBS, _job(number)) for number in range(-(-pods // PODS_PER_JOB))))
    finished: set[str] = set()
    async for event in client.watch(PODS, "0"):
        if event.type in ("ADDED", "MODIFIED") and event.object.status.phase == "Succeeded":
            finished.add(event.object.metadata.uid)
            if len(finished) >= pods:
                break
    await creating
    return time.monotonic() - started


async def follow_changes(per_second: int, seconds: int, folder: Path) -> tuple[int, int, float]:
    """How many changes were made, how many a watch on a socket saw, and how long the changes took."""
    total = per_second * seconds
    seen: list[int] = []
    async with EmbeddedCluster(folder, persistent=True) as cluster, _client(folder) as client:
        await client.create(CONFIG_MAPS, {"metadata": {"name": "counter", "namespace": "default"}, "data": {"n": "0"}})

        async def watch() -> None:
            async for envelope in client.envelopes(CONFIG_MAPS, "0", namespace="default"):
                if envelope.type in ("ADDED", "MODIFIED"):
                    seen.append(int(msgspec.json.decode(envelope.object)["data"]["n"]))
                    if seen[-1] >= total:
                        return

        watching = asyncio.create_task(watch())
        await asyncio.sleep(0.5)
        started = time.monotonic()
        for number in range(1, total + 1):
            _change(cluster, number)
            ahead = started + number / per_second - time.monotonic()
            if ahead > 0 or number % 20 == 0:
                await asyncio.sleep(max(0.0, ahead))
        took = time.monotonic() - started
        await asyncio.wait_for(watching, 60)
    assert seen == sorted(seen), "changes came out of order"
    return total, len({value for value in seen if value}), took


def _change(cluster: EmbeddedCluster, number: int) -> None:
    """Without a socket: this is about the watch."""
    assert cluster.api is not None
    headers = {"content-type": "application/merge-patch+json"}
    path = CONFIG_MAPS.path_of("default/counter")
    outcome = cluster.api.handle(Request("PATCH", path, {}, headers, b'{"data":{"n":"%d"}}' % number), time.time())
    assert outcome.status == 200, outcome


def _client(folder: Path) -> Client:
    return Client(load_client_config(folder / "kubeconfig", None))


async def measure(pods: int, nodes: int, folder: Path, *, per_second: int = 1000) -> dict[str, float]:
    names = [f"node-{number}" for number in range(nodes)]
    machines = [Machines(names, {"cpu": "32", "memory": "128Gi", "pods": "110"})]
    stop = asyncio.Event()
    result: dict[str, float] = {}

    async def work(client: Client) -> None:
        cpu = time.process_time()
        try:
            async with _client(folder / "cluster") as own:
                result["seconds"] = await run_pods(own, pods)
                result["cpu_seconds"] = time.process_time() - cpu
        finally:
            stop.set()

    plan = Plan(folder=folder / "cluster", persistent=True, machines=machines)
    try:
        await run_cluster(plan, stop, [work])
    except Failure as failure:
        raise SystemExit(f"the API server: {failure}") from None
    made, seen, took = await follow_changes(per_second, WATCH_SECONDS, folder / "changes")
    result.update(changes=made, seen=seen, changes_per_second=made / took)
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pods", type=int, default=2000)
    parser.add_argument("--nodes", type=int, default=100)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        result = asyncio.run(measure(arguments.pods, arguments.nodes, Path(folder)))
    print(
        f"{arguments.pods} pods on {arguments.nodes} hollow nodes, created, bound and finished in "
        f"{result['seconds']:.1f} s ({result['cpu_seconds']:.1f} s of processor time on {os.cpu_count()} cores)"
    )
    print(
        f"{result['changes']:.0f} changes at {result['changes_per_second']:.0f} per second, of which a watch saw "
        f"{result['seen']:.0f}"
    )


if __name__ == "__main__":
    main()
