"""What the admission policies of `deploy/` cost an API server.

    KUBEBUILDER_ASSETS=... python benchmarks/door_cost.py [--pods 5000] [--jobs 500] [--rounds 3]

Creates pods and Jobs over 16 connections, by turns without policies, with those of `since-1.30`, and with those of
`since-1.36` as well; each turn has a namespace of its own. Prints how many objects were created per second, and what a
creation took of the server's processor time, which is steadier where other work runs: medians over the rounds. The
server must be of Kubernetes 1.36 or later.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
import time
from collections import defaultdict
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from kube.client import Client as Admin
from kube.client import Refused
from kube.cluster import remove_namespace
from kube.crd_install import install_crds, installed, server_version
from kube.server import ApiServer, find_assets
from stromboli.api.rules.rule import MUTATIONS
from stromboli.kube.client import JOBS, PODS, Client, Resource, for_each_concurrently, load_client_config
from stromboli.kube.crds import mutating_policies, validating_policies

CONNECTIONS: Final = 16
WAYS: Final[dict[str, list[dict[str, Any]]]] = {
    "without": [],
    "since-1.30": validating_policies(),
    "since-1.36": [*mutating_policies(), *validating_policies()],
}
_BAD: Final = {"volcano.sh/jdb-min-available": "0"}


def pod(name: str) -> dict[str, Any]:
    requests = {"cpu": "1", "memory": "1Gi"}
    containers = [{"name": "main", "image": "work", "resources": {"requests": requests}}]
    annotations = {"scheduling.k8s.io/group-name": "gang"}
    return {
        "metadata": {"name": name, "annotations": annotations},
        "spec": {"schedulerName": "volcano", "containers": containers},
    }


def job(name: str) -> dict[str, Any]:
    template = {"spec": pod("")["spec"]}
    policies = [{"event": "PodEvicted", "action": "RestartJob"}]
    tasks = [
        {"name": name, "replicas": replicas, "template": template, "policies": policies}
        for name, replicas in (("master", 1), ("worker", 8))
    ]
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {"schedulerName": "volcano", "queue": "default", "tasks": tasks, "plugins": {"pytorch": []}},
    }


def is_in_effect(admin: Admin, way: str) -> bool:
    """Whether the server refuses and fills in as it should by now."""
    bad, good = pod("bad"), job("good")
    bad["metadata"]["annotations"] = _BAD
    try:
        admin.create("/api/v1/namespaces/default/pods?dryRun=All", bad)
        refused = False
    except Refused:
        refused = True
    made = admin.create("/apis/batch.volcano.sh/v1alpha1/namespaces/default/jobs?dryRun=All", good)
    return refused == (way != "without") and ("svc" in made["spec"]["plugins"]) == (way == "since-1.36")


async def create_all(server: ApiServer, resource: Resource[Any], objects: list[dict[str, Any]], namespace: str) -> Any:
    """Seconds that it took, and those of the server's processor time."""
    async with Client(load_client_config(server.kubeconfig, None)) as client:
        began, used = time.monotonic(), server.processor_seconds()

        async def create(one: dict[str, Any]) -> None:
            await client.create(resource, one, namespace=namespace)

        await for_each_concurrently(objects, create, limit=CONNECTIONS)
        return time.monotonic() - began, server.processor_seconds() - used


def turn(server: ApiServer, admin: Admin, way: str, pods: int, jobs: int, namespace: str) -> dict[str, float]:
    admin.create("/api/v1/namespaces", {"metadata": {"name": namespace}})
    figures: dict[str, float] = {}
    with ExitStack() as stack:
        stack.callback(remove_namespace, admin, namespace)
        stack.enter_context(installed(admin, WAYS[way], lambda: is_in_effect(admin, way)))
        for resource, objects in (
            (PODS, [pod(f"pod-{number}") for number in range(pods)]),
            (JOBS, [job(f"job-{number}") for number in range(jobs)]),
        ):
            seconds, used = asyncio.run(create_all(server, resource, objects, namespace))
            figures[f"{resource.plural}_per_second"] = len(objects) / seconds
            figures[f"{resource.plural}_cpu_ms"] = 1000 * used / len(objects)
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pods", type=int, default=5000)
    parser.add_argument("--jobs", type=int, default=500)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    found: dict[str, list[dict[str, float]]] = defaultdict(list)
    with ApiServer(find_assets()) as server:
        admin = server.client()
        version = server_version(admin)
        if version < MUTATIONS:
            parser.error(f"the server is of Kubernetes 1.{version[1]}; mutating policies need 1.{MUTATIONS[1]}")
        install_crds(admin)
        queues = "scheduling.volcano.sh/v1beta1"
        queue = {"apiVersion": queues, "kind": "Queue", "metadata": {"name": "default"}, "spec": {"weight": 1}}
        admin.create(f"/apis/{queues}/queues", queue)
        turn(server, admin, "without", min(options.pods, 500), min(options.jobs, 50), "warm-up")
        for number in range(options.rounds):
            for way in [*WAYS] if number % 2 == 0 else [*reversed(WAYS)]:
                figures = turn(server, admin, way, options.pods, options.jobs, f"{way.replace('.', '-')}-{number}")
                print(json.dumps({"round": number, "policies": way, **_rounded(figures)}), file=sys.stderr, flush=True)
                found[way].append(figures)
    for way, rounds in found.items():
        medians = {name: statistics.median(one[name] for one in rounds) for name in rounds[0]}
        print(json.dumps({"policies": way, **_rounded(medians)}))


def _rounded(figures: dict[str, float]) -> dict[str, float]:
    return {name: round(value, 2) for name, value in figures.items()}


if __name__ == "__main__":
    main()
