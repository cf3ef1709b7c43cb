"""A workload that shows the features within a minute, on twenty nodes with sixteen CPUs each (320 together).

    0 s   web       a crawl of 40 pods with 4 CPUs: half of the cluster
    0 s   alice     training in gangs of 8 × 4 CPUs
    1 s   bob       small runs of 1 or 2 CPUs, again and again
    6 s   bob       one large gang of 10 × 14 CPUs: it starves, nodes are reserved for it, small runs use them meanwhile
    30 s  web       another crawl, larger than the share of its queue
    40 s  web       an urgent job, which preempts pods of the crawl

The queue research (alice, bob) has twice the weight of production (web).
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from stromboli.kube.client import JOBS, NAMESPACES, PRIORITY_CLASSES, QUEUES, Client, Failure, is_already_exists

from .machines import Machines

NODES: Final = 20
SECONDS: Final = 60.0
CONFIGURATION: Final = """\
actions: "enqueue, reclaim, allocate, preempt, reserve, backfill"
configurations:
- name: reserve
  arguments: {starvingJobTimeThreshold: 8s, reservedNodePercent: 80}
- name: backfill
  arguments: {backfillNonBestEffort: true, useEstimates: true}
tiers:
- plugins: [{name: priority}, {name: gang}, {name: conformance}, {name: pdb}]
- plugins:
  - {name: overcommit}
  - {name: drf, enablePreemptable: false}
  - {name: predicates}
  - {name: proportion}
  - {name: nodeorder}
"""


def machines() -> Machines:
    names = [f"node-{number:02d}" for number in range(NODES)]
    return Machines(names, {"cpu": "16", "memory": "64Gi", "pods": "110"})


@dataclass(frozen=True, slots=True)
class _Job:
    at: float
    namespace: str
    name: str
    queue: str
    replicas: int
    cpu: int
    run: int  # seconds
    minimum: int = 1
    priority: str = ""
    preemptable: bool = False

    def manifest(self) -> dict[str, Any]:
        resources = {"requests": {"cpu": str(self.cpu), "memory": f"{self.cpu}Gi"}}
        annotations = {"sim.stromboli.io/run": f"{self.run}s"}
        if self.preemptable:
            annotations["volcano.sh/preemptable"] = "true"
        spec: dict[str, Any] = {
            "queue": self.queue,
            "minAvailable": self.minimum,
            "schedulerName": "volcano",
            "tasks": [
                {
                    "name": "main",
                    "replicas": self.replicas,
                    "template": {
                        "metadata": {"annotations": annotations},
                        "spec": {
                            "restartPolicy": "Never",
                            "terminationGracePeriodSeconds": 1,
                            "containers": [{"name": "main", "image": "demo", "resources": resources}],
                        },
                    },
                }
            ],
        }
        if self.priority:
            spec["priorityClassName"] = self.priority
        return {
            "apiVersion": "batch.volcano.sh/v1alpha1",
            "kind": "Job",
            "metadata": {"name": self.name, "namespace": self.namespace},
            "spec": spec,
        }


def _jobs() -> Iterator[_Job]:
    yield _Job(0, "web", "crawl", "production", replicas=40, cpu=4, run=22, preemptable=True)
    for number in range(3):
        yield _Job(0, "alice", f"train-{number}", "research", replicas=8, cpu=4, run=16 + 4 * number, minimum=8)
    yield _Job(6, "bob", "large", "research", replicas=10, cpu=14, run=12, minimum=10)
    yield _Job(30, "web", "crawl-2", "production", replicas=50, cpu=4, run=25, preemptable=True)
    yield _Job(40, "web", "urgent", "production", replicas=4, cpu=12, run=10, minimum=4, priority="urgent")
    for number in range(18):
        cpu = 1 + number % 2
        yield _Job(1 + 3 * number, "bob", f"run-{number}", "research", replicas=6, cpu=cpu, run=6, preemptable=True)
    for number in range(5):
        yield _Job(34 + 4 * number, "alice", f"tune-{number}", "research", replicas=8, cpu=4, run=12, minimum=8)


async def submit(client: Client) -> None:
    """Create the workload, each job at its time."""
    for namespace in ("alice", "bob", "web"):
        await _create(client, NAMESPACES, {"metadata": {"name": namespace}})
    for queue, weight in (("research", 2), ("production", 1)):
        await _create(client, QUEUES, {"metadata": {"name": queue}, "spec": {"weight": weight}})
    await _create(client, PRIORITY_CLASSES, {"metadata": {"name": "urgent"}, "value": 1000})
    loop = asyncio.get_running_loop()
    start = loop.time()
    for job in sorted(_jobs(), key=lambda one: one.at):
        await asyncio.sleep(max(0.0, start + job.at - loop.time()))
        await _create(client, JOBS, job.manifest())


async def _create(client: Client, resource: Any, body: dict[str, Any]) -> None:
    kind = {"apiVersion": resource.group_version, "kind": resource.type.__name__}
    try:
        await client.create(resource, kind | body)
    except Failure as failure:
        if not is_already_exists(failure):
            raise
