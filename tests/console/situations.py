"""One small cluster for each reason code, in which one job waits for that reason."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from starvation.scenes import configuration, gang, group, node, patch, pod, priority_class, queue

Document = dict[str, Any]


@dataclass(frozen=True)
class Situation:
    documents: list[Document]
    job: str
    at: float
    config: str | None = None

    def write(self, folder: Path, *more: Document) -> list[str]:
        """The files, as options of a command."""
        scenario = folder / "scenario.yaml"
        documents = [*self.documents, *more]
        scenario.write_text("\n---\n".join(json.dumps(document) for document in documents), encoding="utf-8")
        options = ["--scenario", str(scenario), "--at", f"{self.at:g}s"]
        if self.config is not None:
            config = folder / "scheduler.yaml"
            config.write_text(self.config, encoding="utf-8")
            options += ["--config", str(config)]
        return options


def situation(job: str, at: float, *parts: Document | Iterable[Document], config: str | None = None) -> Situation:
    documents = [document for part in parts for document in ([part] if isinstance(part, dict) else part)]
    return Situation(documents, f"default/{job}", at, config)


def with_spec(document: Document, **spec: Any) -> Document:
    return {**document, "spec": {**document["spec"], **spec}}


def in_namespace(document: Document, namespace: str) -> Document:
    return {**document, "metadata": {**document["metadata"], "namespace": namespace}}


def volcano_job(
    name: str, replicas: int, cpu: float, *, least: int | None = None, run: float = 60, **spec: Any
) -> Document:
    template = {
        "metadata": {"annotations": {"sim.stromboli.io/run": f"{run}s", "sim.stromboli.io/grace": "0s"}},
        "spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": cpu}}}]} | spec.pop("pods", {}),
    }
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": name},
        "spec": {
            "minAvailable": replicas if least is None else least,
            "tasks": [{"name": "main", "replicas": replicas, "template": template}],
        } | spec,
    }  # fmt: skip


STARVE = {"starvingJobTimeThreshold": "2s", "reservedNodePercent": 100}


def tainted(name: str, cpu: float, key: str) -> Document:
    return {**node(name, cpu), "spec": {"taints": [{"key": key, "value": "yes", "effect": "NoSchedule"}]}}


def cordoned(name: str, cpu: float) -> Document:
    return {**node(name, cpu), "spec": {"unschedulable": True}}


def not_ready(name: str, cpu: float) -> Document:
    broken = node(name, cpu)
    broken["status"]["conditions"] = [{"type": "Ready", "status": "False"}]
    return broken


ANTI = {
    "podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "db"}}}
        ]
    }
}
SPREAD = [
    {
        "maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}},
    }
]  # fmt: skip
PORTS = [{"name": "main", "ports": [{"containerPort": 80, "hostPort": 80}], "resources": {"requests": {"cpu": 1}}}]


def labelled(document: Document, **labels: str) -> Document:
    return {**document, "metadata": {**document["metadata"], "labels": labels}}


SITUATIONS: dict[str, Situation] = {
    "QueueClosed": situation(
        "late", 3, node("n1", 4), queue("q"), patch("Queue", "q", {"status": {"state": "Closed"}}, at=2),
        pod("late", 1, queue="q", at=1), pod("first", 4, on="n1", run=2),
    ),
    # At most 4 CPUs, of which 3 are used: 2 more would be 5.
    "QueueOverQuota": situation(
        "late", 3, node("n1", 8), queue("q", capability={"cpu": 4}), pod("old", 3, queue="q", run=60),
        pod("late", 2, queue="q", at=1),
    ),
    # 8 CPUs, equal weights. The other queue has 4 and wants more, so 4 are deserved here, and they are used.
    "QueueOverDeserved": situation(
        "late", 3, node("n1", 8), queue("q"), queue("other"),
        [pod(f"theirs-{n}", 1, queue="other", run=60, preemptable=False) for n in range(6)],
        [pod(f"ours-{n}", 1, queue="q", run=60, preemptable=False) for n in range(4)], pod("late", 1, queue="q", at=1),
    ),
    "NamespaceShareAhead": situation(
        "late", 3, node("n1", 4), [pod(f"ours-{n}", 1, run=60) for n in range(3)],
        in_namespace(pod("theirs", 1, run=60), "other"), pod("late", 1, at=1),
        in_namespace(pod("waits", 1, at=1), "other"),
    ),
    "NotEnoughPods": situation(
        "g", 2, node("n1", 4), group("g", 3), pod("g-0", 1, group="g"), pod("g-1", 1, group="g")
    ),
    "InsufficientNode": situation(
        "late", 3, node("n1", 4), node("n2", 4), pod("a", 3, on="n1", run=60), pod("b", 2, on="n2", run=30),
        pod("late", 3, at=1),
    ),
    # The holder needs both nodes whole; a small pod would fit, but they are reserved.
    "NodeResourceReserved": situation(
        "late", 6, node("n1", 4), pod("old", 2, on="n1", run=60, estimate=60), gang("big", 4),
        pod("late", 1, at=5), config=configuration(STARVE, None),
    ),
    "NodeLockedByQueue": situation(
        "late", 8, node("n1", 4), node("n2", 4), queue("q"),
        queue("own", guarantee={"policy": "Best-Effort", "resource": {"cpu": 4}}),
        pod("old", 4, queue="q", run=60, at=4), pod("late", 1, queue="q", at=6),
    ),
    # Two nodes, of which half may be reserved; the gang needs both.
    "ReservationLimitExceeded": situation(
        "big", 6, node("n1", 4), node("n2", 4), pod("a", 1, on="n1", run=60), pod("b", 1, on="n2", run=60),
        gang("big", 4, 4), config=configuration({"starvingJobTimeThreshold": "2s", "reservedNodePercent": 50}, None),
    ),
    "WaitingForRelease": situation(
        "urgent", 4, node("n1", 4), priority_class("high", 100), pod("low", 4, grace=30),
        pod("urgent", 4, at=2, priority="high"),
    ),
    "ConditionallyReady": situation(
        "gang", 9, node("n1", 4), pod("service", 1, on="n1", run=8), gang("gang", 2, 2, run=20),
        pod("render", 2, at=2, run=60, grace=20),
        config=configuration(None, {"backfillNonBestEffort": True, "mode": "wait"}),
    ),
    "StarvingReserved": situation(
        "big", 6, node("n1", 4), pod("old", 2, on="n1", run=60, estimate=60), gang("big", 4),
        config=configuration(STARVE, None),
    ),
    # 3 and 2 CPUs are free: one pod of 2 on each node.
    "GangShort": situation(
        "big", 3, node("n1", 4), node("n2", 4), pod("a", 1, on="n1", run=60), pod("b", 2, on="n2", run=30),
        gang("big", 2, 2, 2, at=1),
    ),
    "PredicateNodeReady": situation("late", 2, not_ready("n1", 4), pod("late", 1)),
    "PredicatePodCount": situation(
        "late", 3, node("n1", 4, pods=1), pod("old", 1, on="n1", run=60), pod("late", 1, at=1)
    ),
    "PredicateNodeUnschedulable": situation("late", 2, cordoned("n1", 4), pod("late", 1)),
    "PredicateNodeAffinity": situation(
        "late", 2, node("n1", 4, labels={"zone": "b"}), node("n2", 4, labels={"zone": "b"}),
        pod("late", 1, selector={"zone": "a"}),
    ),
    "PredicateTaintToleration": situation("late", 2, tainted("n1", 4, "gpu"), pod("late", 1)),
    "PredicateNodePorts": situation(
        "late", 3, node("n1", 4), with_spec(pod("old", 1, on="n1", run=60), containers=PORTS),
        with_spec(pod("late", 1, at=1), containers=PORTS),
    ),
    "PredicateInterPodAffinity": situation(
        "late", 3, node("n1", 4, labels={"kubernetes.io/hostname": "n1"}),
        labelled(pod("old", 1, on="n1", run=60), app="db"), with_spec(pod("late", 1, at=1), affinity=ANTI),
    ),
    # Zone a has one web pod more than zone b, which is full.
    "PredicatePodTopologySpread": situation(
        "late", 3, node("n0", 9, labels={"zone": "a"}), node("n1", 9, labels={"zone": "a"}),
        node("n2", 1, labels={"zone": "b"}), pod("full", 1, on="n2", run=60),
        labelled(pod("old", 1, on="n1", run=90), app="web"),
        with_spec(labelled(pod("late", 1, at=1), app="web"), topologySpreadConstraints=SPREAD),
    ),
    "SchedulingGated": situation(
        "late", 2, node("n1", 4), with_spec(pod("late", 1), schedulingGates=[{"name": "wait"}])
    ),
    "QueueFirstInLine": situation(
        "late", 3, node("n1", 4), queue("q", dequeueStrategy="fifo"), pod("big", 9, queue="q"),
        pod("late", 1, queue="q", at=1),
    ),
    "NoQueue": situation("late", 2, node("n1", 4), pod("late", 1, queue="nowhere")),
}  # fmt: skip


JOBS: dict[str, Situation] = {
    # Four CPUs are free on each of two nodes, and the job needs 5 times 2.
    "a gang of a Job": situation(
        "train", 3, node("n1", 4), node("n2", 6), pod("old", 2, on="n2", run=40, estimate=40),
        volcano_job("train", 5, 2),
    ),
    "a Job with a selector": situation(
        "train", 3, node("n1", 4, labels={"zone": "a"}), node("n2", 8, labels={"zone": "b"}),
        pod("old", 4, on="n1", run=40), volcano_job("train", 2, 2, pods={"nodeSelector": {"zone": "a"}}),
    ),
    "a Job in a full queue": situation(
        "train", 3, node("n1", 8), queue("small", capability={"cpu": 2}), queue("large"),
        pod("old", 1, queue="small", run=50), volcano_job("train", 2, 1, queue="small"),
    ),
    "pods that are too large": situation(
        "train", 3, node("n1", 4), node("n2", 4), pod("a", 1, on="n1", run=60), pod("b", 1, on="n2", run=60),
        gang("train", 4, 4, at=1),
    ),
    "two jobs in the way": situation(
        "big", 3, node("n1", 4), pod("a", 1, on="n1"), pod("b", 1, on="n1"), gang("big", 4, at=1)
    ),
    "a job that ends": situation(
        "big", 3, node("n1", 4), gang("old", 3, estimate=100, run=100), gang("big", 4, at=1)
    ),
    "someone to evict": situation(
        "late", 3, node("n1", 4), queue("q"), queue("other", capability={"cpu": 1}),
        pod("old", 4, queue="q", run=60), pod("late", 2, queue="other", at=1),
    ),
}  # fmt: skip
