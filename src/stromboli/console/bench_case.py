"""The clusters of `stromboli bench cycle`, and how a cycle on them is timed.

A cluster is built from ordinary objects in the ordinary way, so this measures what a live scheduler does between
"something changed" and "these are the decisions", without a network.
"""

from __future__ import annotations

import gc
import time
from dataclasses import dataclass, field

from msgspec.structs import replace

from stromboli.api import (
    Condition,
    Container,
    LabelSelector,
    Node,
    NodeStatus,
    ObjectMeta,
    Pod,
    PodGroup,
    PodGroupCondition,
    PodGroupSpec,
    PodSpec,
    PodStatus,
    PodTemplateSpec,
    PriorityClass,
    Queue,
    QueueSpec,
    Reservation,
    ReservationOwner,
    ReservationSpec,
    ReservationStatus,
    ResourceRequirements,
    names,
)
from stromboli.api.kinds.batch import NetworkTopology
from stromboli.api.kinds.topology import ExactMatch, HyperNode, HyperNodeMember, HyperNodeSpec, MemberSelector
from stromboli.api.reservations import AVAILABLE
from stromboli.cluster import Applied, Cluster
from stromboli.scheduling.cycle import Scheduler, close_session
from stromboli.scheduling.decisions import Bind, Cycle, Evict, PatchGroup, PatchPod, PatchQueue, SelectNode
from stromboli.scheduling.registry import Registry

from .bench_claims import Claims, zone_of

GI = 1 << 30
LARGE_CPUS = 8
LARGE_PODS_PER_NODE = 4
"""The pods that run, preempt and reclaim use a quarter of a node."""


@dataclass(frozen=True)
class Evictions:
    """Pods that run, and gangs that need their room: how many pods each."""

    running: int = 0
    running_jobs: int = 1
    preemptor: int = 0
    reclaim: int = 0
    hopeless: int = 0


@dataclass
class Case:
    nodes: int
    pods: int
    jobs: int
    weights: list[int]
    namespaces: int
    scorer: str
    fill: float | None
    evictions: Evictions = field(default_factory=Evictions)
    reservations: int = 0  # for pods that are still to come
    used_reservations: int = 0
    claims: str = "none"
    topology: str = "none"
    kernel: str = ""

    def run(self) -> dict[str, float]:
        """One cycle on a fresh cluster, a second one, in which what the first one wrote has come back, and a third
        one."""
        registry = Registry()
        configuration = registry.load(_BINPACK) if self.scorer == "binpack" else registry.default()
        cluster = self.cluster()
        scheduler = Scheduler(configuration, registry)
        gc.collect()
        gc.freeze()
        gc.disable()
        try:
            clock = time.perf_counter
            busy = time.process_time()
            start = clock()
            snapshot = cluster.snapshot()
            taken = clock()
            session = scheduler.open(snapshot, 0.0)
            opened = clock()
            scheduler.act(session)
            acted = clock()
            decided = close_session(session)
            closed = clock()
            busy = time.process_time() - busy
            _apply_decisions(cluster, decided)
            quiet = clock()
            repeated = scheduler.run(cluster, 1.0)
            idle = clock()
            _apply_decisions(cluster, repeated)
            still = time.process_time()
            scheduler.run(cluster, 2.0)
            still = time.process_time() - still
        finally:
            gc.enable()
            gc.unfreeze()
        self.kernel = session.placement.kernels.NAME
        return {
            "snapshot_ms": (taken - start) * 1e3,
            "open_ms": (opened - taken) * 1e3,
            "allocate_ms": (acted - opened) * 1e3,
            "close_ms": (closed - acted) * 1e3,
            "total_ms": (closed - start) * 1e3,
            "idle_total_ms": (idle - quiet) * 1e3,
            "steady_cpu_ms": still * 1e3,
            "cpu_ms": busy * 1e3,
            "bound": sum(isinstance(decision, Bind | SelectNode) for decision in decided.decisions),
            "evicted": sum(isinstance(decision, Evict) for decision in decided.decisions),
        }

    def cluster(self) -> Cluster:
        cluster = Cluster()
        offer: dict[str, str | int | float] = {"cpu": "32", "memory": "128Gi", "nvidia.com/gpu": "8", "pods": "110"}
        if self.fill is not None:
            per_node = self.pods * self.fill / self.nodes
            offer |= {"cpu": f"{round(per_node * 1000)}m", "memory": str(round(per_node * 4 * GI))}
        for number in range(self.nodes):
            meta = ObjectMeta(name=f"node-{number:05d}", uid=f"n{number}", labels=zone_of(number))
            cluster.apply(Applied(Node(metadata=meta, status=NodeStatus(allocatable=offer))))
        if self.topology != "none":
            _add_domains(cluster, self.nodes)
        for number, weight in enumerate(self.weights):
            meta = ObjectMeta(name=f"queue-{number}", uid=f"q{number}")
            cluster.apply(Applied(Queue(metadata=meta, spec=QueueSpec(weight=weight))))
        claims = Claims(cluster, self.claims, self.nodes)
        sizes = _divided(self.pods, self.jobs) if self.pods else []
        for number, size in enumerate(sizes):
            _add_gang(
                cluster, f"team-{number % self.namespaces}", f"job-{number:05d}", size, cpus=1,
                queue=f"queue-{number % len(self.weights)}", claims=claims, topology=self.topology,
            )  # fmt: skip
        self._add_evictions(cluster)
        self._add_reservations(cluster)
        return cluster

    def _add_reservations(self, cluster: Cluster) -> None:
        """Each holds what one pod of a job requests, on a node of its own as far as there are enough."""
        container = Container(resources=ResourceRequirements(requests={"cpu": 1, "memory": "4Gi"}))
        for number in range(self.reservations + self.used_reservations):
            job = number % self.jobs
            app = f"job-{job:05d}" if number < self.used_reservations else f"later-{job:05d}"
            template = PodTemplateSpec(
                metadata=ObjectMeta(namespace=f"team-{job % self.namespaces}"), spec=PodSpec(containers=[container])
            )
            owner = ReservationOwner(label_selector=LabelSelector(match_labels={"app": app}))
            status = ReservationStatus(
                phase=AVAILABLE,
                node_name=f"node-{number % self.nodes:05d}",
                allocatable={"cpu": "1", "memory": "4Gi", "pods": "1"},
            )
            spec = ReservationSpec(template=template, owners=[owner], ttl="0", queue=f"queue-{job % len(self.weights)}")
            meta = ObjectMeta(name=f"reservation-{number:05d}", uid=f"r{number}")
            cluster.apply(Applied(Reservation(metadata=meta, spec=spec, status=status)))

    def _add_evictions(self, cluster: Cluster) -> None:
        """Jobs that run have pods all over the cluster, and may lose any of them but one."""
        wanted = self.evictions
        for name, value in (("low", 1), ("high", 1000)):
            cluster.apply(Applied(PriorityClass(metadata=ObjectMeta(name=name, uid=f"c-{name}"), value=value)))
        first = 0
        for number, size in enumerate(_divided(wanted.running, wanted.running_jobs)):
            nodes = [f"node-{position % self.nodes:05d}" for position in range(first, first + size)]
            first += size
            _add_gang(
                cluster, "team-0", f"running-{number:05d}", size, cpus=LARGE_CPUS, queue="queue-0",
                priority_class="low", nodes=nodes,
                states_minimum=False,
            )  # fmt: skip
        for name, size in (("preemptor", wanted.preemptor), ("hopeless", wanted.hopeless)):
            if size:
                _add_gang(
                    cluster, "team-0", name, size, cpus=LARGE_CPUS, queue="queue-0", priority_class="high",
                    states_minimum=name != "hopeless",
                )  # fmt: skip
        if wanted.reclaim:
            meta = ObjectMeta(name="claimant", uid="q-claimant")
            cluster.apply(Applied(Queue(metadata=meta, spec=QueueSpec(weight=max(self.weights)))))
            _add_gang(cluster, "team-0", "reclaim", wanted.reclaim, cpus=LARGE_CPUS, queue="claimant")


_TOPOLOGIES = {"hard": NetworkTopology(mode="hard", highest_tier_allowed=2), "soft": NetworkTopology(mode="soft")}
_DOMAIN_SIZES = (8, 32, 128, 512)  # nodes, by tier


def _add_domains(cluster: Cluster, nodes: int) -> None:
    below, kind, names_below = 1, "Node", [f"node-{number:05d}" for number in range(nodes)]
    for tier, size in enumerate(_DOMAIN_SIZES, 1):
        step, made = size // below, list[str]()
        for first in range(0, len(names_below), step):
            made.append(f"tier-{tier}-{first // step:05d}")
            members = [
                HyperNodeMember(type=kind, selector=MemberSelector(exact_match=ExactMatch(name=name)))
                for name in names_below[first : first + step]
            ]
            meta = ObjectMeta(name=made[-1], uid=f"h-{made[-1]}")
            cluster.apply(Applied(HyperNode(metadata=meta, spec=HyperNodeSpec(tier=tier, members=members))))
        below, kind, names_below = size, "HyperNode", made


def _divided(pods: int, jobs: int) -> list[int]:
    return [pods // jobs + (number < pods % jobs) for number in range(jobs)]


def _add_gang(
    cluster: Cluster,
    namespace: str,
    name: str,
    size: int,
    *,
    cpus: int,
    queue: str,
    priority_class: str = "",
    nodes: list[str] | None = None,
    states_minimum: bool = True,
    claims: Claims | None = None,
    topology: str = "none",
) -> None:
    """A PodGroup and its pods. `nodes`: where they run already; then one of them is enough for the group.
    `states_minimum`: with `minResources`, so that a group that is too large is not admitted."""
    container = Container(resources=ResourceRequirements(requests={"cpu": cpus, "memory": f"{4 * cpus}Gi"}))
    group = PodGroup(
        metadata=ObjectMeta(name=name, namespace=namespace, uid=f"g-{name}"),
        spec=PodGroupSpec(
            min_member=1 if nodes else size,
            queue=queue,
            min_resources={"cpu": size * cpus, "memory": size * 4 * cpus * GI} if states_minimum else {},
            priority_class_name=priority_class,
            network_topology=_TOPOLOGIES.get(topology),
        ),
    )
    if nodes:
        started = PodGroupCondition(type="Scheduled", status="True", reason="TasksReady")
        status = replace(group.status, phase="Running", running=size, conditions=[started])
        group = replace(group, status=status)
    cluster.apply(Applied(group))
    spec = PodSpec(containers=[container])
    for index in range(size):
        meta = ObjectMeta(
            name=f"{name}-{index}",
            namespace=namespace,
            uid=f"p-{name}-{index}",
            annotations={names.GROUP_NAME: name},
            labels={"app": name},
        )
        pod = Pod(metadata=meta, spec=spec if claims is None else claims.added_to(spec, meta))
        if nodes:
            pod = replace(pod, spec=replace(spec, node_name=nodes[index]), status=PodStatus(phase="Running"))
        cluster.apply(Applied(pod))


def _apply_decisions(cluster: Cluster, decided: Cycle) -> None:
    """Apply what would be written to objects. The cluster knows the binds and evictions already."""
    for decision in decided.decisions:
        if isinstance(decision, PatchGroup):
            group = cluster.jobs[decision.job].object
            assert group is not None
            cluster.apply(Applied(decision.applied_to(group)))
        elif isinstance(decision, PatchQueue):
            queue = cluster.queues[decision.queue].object
            assert queue is not None
            cluster.apply(Applied(decision.applied_to(queue)))
        elif isinstance(decision, PatchPod):
            pod = cluster.tasks[decision.task].pod
            said = Condition(type="PodScheduled", status="False", reason=decision.reason, message=decision.message)
            status = replace(pod.status, conditions=[said], nominated_node_name=decision.nominated)
            cluster.apply(Applied(replace(pod, status=status)))


_BINPACK = """
actions: "enqueue, reclaim, allocate, preempt, backfill"
tiers:
- plugins: [{name: priority}, {name: gang}, {name: conformance}, {name: pdb}]
- plugins:
  - {name: overcommit}
  - {name: drf, enablePreemptable: false}
  - {name: predicates}
  - {name: proportion}
  - {name: binpack}
"""
