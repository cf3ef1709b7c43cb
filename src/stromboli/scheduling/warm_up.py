"""One small cycle before the first real one.

The first cycle of a process imports plugins and loads the compiled kernels, which takes half a second or more. So a
process runs a small cycle at its start, while it waits for the API server to list its objects.
"""

from __future__ import annotations

from stromboli.api import (
    Container,
    Node,
    NodeStatus,
    ObjectMeta,
    Pod,
    PodGroup,
    PodGroupSpec,
    PodGroupStatus,
    PodSpec,
    Queue,
    ResourceRequirements,
    names,
)
from stromboli.cluster import Applied, Cluster
from stromboli.scheduling.placement.kernel_choice import BIG_CLUSTER

from .cycle import Scheduler


def warm_up(scheduler: Scheduler) -> None:
    """Run a cycle on a cluster that is large enough for the compiled kernels."""
    cluster = Cluster()
    cluster.apply(Applied(Queue(metadata=ObjectMeta(name=names.DEFAULT_QUEUE))))
    for number in range(BIG_CLUSTER):
        offer = NodeStatus(allocatable={"cpu": "4", "memory": "8Gi", "pods": "10"})
        cluster.apply(Applied(Node(metadata=ObjectMeta(name=f"node-{number}"), status=offer)))
    for group, wanted in (("small", "1"), ("large", "400")):
        cluster.apply(Applied(_group(group)))
        for index in range(2):
            cluster.apply(Applied(_pod(group, index, wanted)))
    scheduler.run(cluster, now=0.0)


def _group(name: str) -> PodGroup:
    return PodGroup(
        metadata=ObjectMeta(name=name, namespace="default", uid=name),
        spec=PodGroupSpec(min_member=2, queue=names.DEFAULT_QUEUE),
        status=PodGroupStatus(phase="Inqueue"),
    )


def _pod(group: str, index: int, cpu: str) -> Pod:
    name = f"{group}-{index}"
    container = Container(name="main", resources=ResourceRequirements(requests={"cpu": cpu}))
    return Pod(
        metadata=ObjectMeta(name=name, namespace="default", uid=name, annotations={names.GROUP_NAME: group}),
        spec=PodSpec(scheduler_name=names.DEFAULT_SCHEDULER, containers=[container]),
    )
