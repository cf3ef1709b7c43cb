"""The state at the end of a cycle, and the gauges that Prometheus gets from it.

Keeping a gauge for every queue up to date would cost every cycle something for a number that is read twice a minute,
and the gauge would have to be removed together with its queue. So a cycle only keeps a `State`, which is little more
than copies of the ledger, and the samples are computed when Prometheus scrapes. A deleted queue, or a job that no
longer waits, is not part of the next samples.
"""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from heapq import nlargest
from typing import Final

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from stromboli.cluster import CPU, MEMORY, UNLIMITED, Cluster, Queue, Status, Vector
from stromboli.cluster.queue_index import with_queues_below
from stromboli.kube.runtime import labelled_gauge
from stromboli.scheduling.decisions import Cycle, Evict

MOST_JOBS: Final = 1000
"""With a value of their own in metrics. Tenants choose the names, and a series for each would fill who reads them."""


@dataclass(frozen=True, slots=True)
class QueueState:
    weight: int
    allocated: Vector
    wanted: Vector
    capability: Vector | None
    deserved: Mapping[str, int] | None  # None if no plugin computes it


@dataclass(frozen=True, slots=True)
class State:
    """The cluster at the end of a cycle."""

    resources: tuple[tuple[str, int], ...] = ()  # name and column, in the request of names; "pods" is none
    total: list[int] = field(default_factory=list)
    queues: dict[str, QueueState] = field(default_factory=dict)
    namespaces: dict[str, tuple[int, Vector]] = field(default_factory=dict)  # weight, and its allocation in all queues
    reasons: dict[str, int] = field(default_factory=dict)
    missing: dict[str, int] = field(default_factory=dict)  # by job: how many more pods need a node before it can start
    victims: int = 0
    reservations: dict[str, int] = field(default_factory=dict)


def state_of(cluster: Cluster, cycle: Cycle) -> State:
    axis = cluster.axis
    table = cluster.ledger.table
    queues = {name: queue for name, queue in sorted(cluster.queues.items()) if queue.object is not None}
    allocated = with_queues_below(queues.values(), lambda queue: queue.allocated)
    wanted = with_queues_below(queues.values(), lambda queue: queue.wanted)
    return State(
        resources=tuple(axis.shared()),
        total=table.allocatable[table.ready].sum(axis=0).tolist(),
        queues={
            name: QueueState(
                weight=queue.weight,
                allocated=allocated[name].copy(),
                wanted=wanted[name].copy(),
                capability=None if queue.capability is None else queue.capability.copy(),
                deserved=cycle.deserved.get(name),
            )
            for name, queue in queues.items()
        },
        namespaces=_namespaces(cluster, queues.values()),
        reasons=dict(Tally(explanation.code for explanation in cycle.waiting.values())),
        missing=_missing(cluster, cycle),
        victims=sum(isinstance(d, Evict) and d.reason == "Preempted" for d in cycle.decisions),
        reservations=dict(Tally(known.status.phase for known in cluster.reservations.values())),
    )


def _namespaces(cluster: Cluster, queues: Iterable[Queue]) -> dict[str, tuple[int, Vector]]:
    """Namespaces that have an allocation or a weight."""
    held: dict[str, Vector] = {
        name: cluster.axis.zeros() for name, namespace in cluster.namespaces.items() if namespace.weights
    }
    for queue in queues:
        for name, amount in queue.by_namespace.items():
            if amount.any():
                held[name] = held[name] + amount if name in held else amount.copy()
    weights = cluster.namespaces
    return {name: (weights[name].weight if name in weights else 1, held[name]) for name in sorted(held)}


def _missing(cluster: Cluster, cycle: Cycle) -> dict[str, int]:
    """Jobs with too few pods on nodes to start, and how many more each needs."""
    missing: dict[str, int] = {}
    for task_key in cycle.waiting:
        task = cluster.tasks.get(task_key)
        if task is not None and task.job is not None and task.job.key not in missing:
            job = task.job
            # Allocated but not bound: placed in this cycle, but too few for the gang.
            missing[job.key] = job.min_available - (job.ready_count - job.counts[Status.ALLOCATED])
    return {job_key: number for job_key, number in missing.items() if number > 0}


class LastCycle(Collector):
    """Samples are computed in another thread than cycles run in, from one `State` that never changes."""

    def __init__(self) -> None:
        self.state = State()

    def collect(self) -> Iterator[GaugeMetricFamily]:
        state = self.state
        yield labelled_gauge(
            "stromboli_waiting_pods", "Waiting pods, by the code of the reason.", "reason", state.reasons
        )
        yield labelled_gauge("stromboli_reservations", "Reservations there are, by phase.", "phase", state.reservations)
        yield _number(
            "volcano_pod_preemption_victims", "Pods that the last cycle evicted by preemption.", state.victims
        )
        yield _number(
            "volcano_unschedule_job_count", "Jobs that cannot start: too few of their pods get a node.",
            len(state.missing),
        )  # fmt: skip
        yield labelled_gauge(
            "volcano_unschedule_task_count",
            "How many more pods of a job (namespace/name) need a node before it can start; of the largest 1,000.",
            "job_id",
            dict(nlargest(MOST_JOBS, state.missing.items(), key=lambda item: (item[1], item[0]))),
        )
        yield from _queue_amounts(state)
        yield from _queue_shares(state)
        yield from _namespace_shares(state)


def _queue_amounts(state: State) -> Iterator[GaugeMetricFamily]:
    allocated = {name: queue.allocated.tolist() for name, queue in state.queues.items()}
    wanted = {name: queue.wanted.tolist() for name, queue in state.queues.items()}
    names = dict(state.resources)
    yield from _amounts(state, "allocated", "pods of the queue have", allocated)
    yield from _amounts(
        state, "request", "pods of the queue have or wait for",
        {name: [a + w for a, w in zip(allocated[name], wanted[name], strict=True)] for name in allocated},
    )  # fmt: skip
    yield from _amounts(
        state, "deserved", "the queue deserves, if a plugin computes it", {
            name: _columns(queue.deserved, names, len(queue.allocated))
            for name, queue in state.queues.items() if queue.deserved is not None
        },
    )  # fmt: skip
    yield from _amounts(
        state, "capacity", "the queue may have at most, where that is limited",
        {name: queue.capability.tolist() for name, queue in state.queues.items() if queue.capability is not None},
    )  # fmt: skip


def _columns(amounts: Mapping[str, int], columns: Mapping[str, int], width: int) -> list[int]:
    row = [0] * width
    for name, amount in amounts.items():
        row[columns[name]] = amount
    return row


def _amounts(state: State, what: str, sentence: str, rows: Mapping[str, list[int]]) -> Iterator[GaugeMetricFamily]:
    """One kind of amount of all queues, in the three families that Volcano has for each."""
    cpu = GaugeMetricFamily(
        f"volcano_queue_{what}_milli_cpu", f"How much CPU {sentence}, in millicores.", labels=["queue_name"]
    )
    memory = GaugeMetricFamily(
        f"volcano_queue_{what}_memory_bytes", f"How much memory {sentence}, in bytes.", labels=["queue_name"]
    )
    others = GaugeMetricFamily(
        f"volcano_queue_{what}_scalar_resources",
        f"How much of other resources {sentence}, in thousandths (as Volcano counts them).",
        labels=["queue_name", "resource"],
    )
    for queue, row in rows.items():
        for resource, column in state.resources:
            amount = row[column]
            if amount >= UNLIMITED:
                continue
            if column == CPU:
                cpu.add_metric([queue], amount)
            elif column == MEMORY:
                memory.add_metric([queue], amount)
            elif amount:
                others.add_metric([queue, resource], amount * 1000)
    yield from (cpu, memory, others)


def _queue_shares(state: State) -> Iterator[GaugeMetricFamily]:
    weights = {name: queue.weight for name, queue in state.queues.items()}
    yield labelled_gauge("volcano_queue_weight", "The weight of the queue.", "queue_name", weights)
    shares: dict[str, float] = {}
    overused: dict[str, float] = {}
    for name, queue in state.queues.items():
        if queue.deserved is not None:
            held = queue.allocated.tolist()
            due = {column: queue.deserved.get(resource, 0) for resource, column in state.resources}
            ratios = [held[c] / amount if amount else 1.0 for c, amount in due.items() if held[c]]
            shares[name] = max(ratios, default=0.0)
            counted = [(held[c], amount, state.total[c]) for c, amount in due.items() if amount]
            overused[name] = bool(counted) and all(has >= amount < total for has, amount, total in counted)
    yield labelled_gauge(
        "volcano_queue_share",
        "What the queue has of what it deserves, in the resource where that is most; above 1 it can be reclaimed.",
        "queue_name",
        shares,
    )
    yield labelled_gauge(
        "volcano_queue_overused", "Whether the queue has all that it deserves (1) or not (0).", "queue_name", overused
    )


def _namespace_shares(state: State) -> Iterator[GaugeMetricFamily]:
    weights = {name: weight for name, (weight, _) in state.namespaces.items()}
    shares: dict[str, float] = {}
    for name, (_, held) in state.namespaces.items():
        row = held.tolist()
        ratios = [row[c] / state.total[c] if state.total[c] else 1.0 for _, c in state.resources if row[c]]
        shares[name] = max(ratios, default=0.0)
    yield labelled_gauge("volcano_namespace_weight", "The weight of the namespace.", "namespace_name", weights)
    yield labelled_gauge(
        "volcano_namespace_share",
        "What the namespace has of the cluster, in the resource where that is most.",
        "namespace_name",
        shares,
    )
    yield labelled_gauge(
        "volcano_namespace_weighted_share",
        "The share of the namespace divided by its weight.",
        "namespace_name",
        {name: share / weights[name] for name, share in shares.items()},
    )


def _number(name: str, sentence: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, sentence, value=value)
