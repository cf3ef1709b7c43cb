"""Small cycles that load what the first real one needs.

The first cycle of a process imports plugins, and the first one on a large cluster loads the compiled kernels. So a
process runs a small cycle at its start, while it waits for the API server to list its objects. The kernels take longer,
half a second. A process that has few pods to place does so without them first (`placement.kernel_choice`).
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
from stromboli.scheduling.placement.kernel_choice import BIG_CLUSTER, loading_kernels

from .cycle import Scheduler


def warm_up(scheduler: Scheduler) -> None:
    """Run a cycle on a small cluster."""
    scheduler.run(_cluster(nodes=2), now=0.0)


def load_kernels(scheduler: Scheduler) -> None:
    """Run a cycle with the compiled kernels, beside those of the scheduler: this may be another thread."""
    with loading_kernels():
        Scheduler(scheduler.configuration, scheduler.registry).run(_cluster(nodes=BIG_CLUSTER), now=0.0)


def _cluster(nodes: int) -> Cluster:
    cluster = Cluster()
    cluster.apply(Applied(Queue(metadata=ObjectMeta(name=names.DEFAULT_QUEUE))))
    for number in range(nodes):
        offer = NodeStatus(allocatable={"cpu": "4", "memory": "8Gi", "pods": "10"})
        cluster.apply(Applied(Node(metadata=ObjectMeta(name=f"node-{number}"), status=offer)))
    for group, wanted in (("small", "1"), ("large", "400")):
        cluster.apply(Applied(_group(group)))
        for index in range(2):
            cluster.apply(Applied(_pod(group, index, wanted)))
    return cluster


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
