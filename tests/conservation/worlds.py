"""Random clusters that come to rest, so that it can be judged whether anything lies idle that somebody waits for.

`world(seed)` is always the same for the same seed. Work arrives in a few waves and runs for long, so there are quiet
times between them in which nothing changes any more. Beside the documents a world keeps a plain description of what
nodes have, what queues may use and who requests what, which is all that the checker reads beside the report.

What is random: nodes of several sizes with zones, disks, GPUs, taints and numbers of pods; queues with weights,
guarantees and capabilities; pods, gangs, elastic jobs, services and pods without requests; priorities, selectors,
tolerations, host ports and anti-affinity; estimates; whether pods may be evicted. And the configuration: reserve with
both scopes or none, lending with both modes or none, estimates.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import Any

from starvation.scenes import Document, gang, node, pod, priority_class, queue
from together.situations import Situation, configuration, in_namespace, replica_set, weighted, without

GPU = "nvidia.com/gpu"
ZONE = "zone"
HOST = "host"
WAVES = (0.0, 1.0, 12.0, 13.0, 26.0)
RUNS = (5.0, 8.0, 8.0, 21.0, 21.0, 36.0, None)  # None: for ever
ENDS = (10.0, 11.0, 24.0, 25.0, 44.0, 50.0)  # of the run: before the next wave, or when all have come
PRIORITIES = {"": 0, "middle": 10, "high": 100}


@dataclass(frozen=True)
class Node:
    name: str
    has: dict[str, float]  # cpu, pods and perhaps GPUs
    labels: dict[str, str]
    taint: str = ""


@dataclass(frozen=True)
class Queue:
    name: str
    weight: int
    guarantee: float = 0  # of CPUs
    capability: float | None = None


@dataclass(frozen=True)
class Work:
    """Equal pods of one group."""

    name: str  # "namespace/name"; pods are named after it
    kind: str  # pod, gang, service or besteffort
    queue: str
    pods: int
    least: int  # how many must start together
    cpu: float
    gpu: int = 0
    at: float = 0
    run: float | None = None
    priority: int = 0
    selector: dict[str, str] = field(default_factory=dict)
    tolerates: str = ""
    port: int = 0
    apart: str = ""  # a label of nodes: no two of them where it has the same value
    preemptable: bool = True
    estimate: float | None = None

    @property
    def request(self) -> dict[str, float]:
        return {"cpu": self.cpu, GPU: self.gpu, "pods": 1}


@dataclass
class World:
    seed: int
    nodes: list[Node]
    queues: dict[str, Queue]
    weights: dict[str, int]  # of namespaces
    reserve: Document | None
    backfill: Document
    until: float
    works: list[Work] = field(default_factory=list)

    @property
    def lends(self) -> bool:
        return bool(self.backfill.get("backfillNonBestEffort"))

    def situation(self) -> Situation:
        config = configuration(self.reserve, self.backfill)
        if self.reserve is None:
            config = without(config, "reserve")
        return Situation(self._documents(), config, self.until)

    def _documents(self) -> list[Document]:
        documents: list[Document] = [priority_class(name, value) for name, value in PRIORITIES.items() if name]
        for each in self.nodes:
            one = node(each.name, each.has["cpu"], labels=each.labels, pods=each.has["pods"])
            if GPU in each.has:
                one["status"]["allocatable"][GPU] = each.has[GPU]
            if each.taint:
                one["spec"] = {"taints": [{"key": each.taint, "value": "x", "effect": "NoSchedule"}]}
            documents.append(one)
        for queue_ in self.queues.values():
            limits: dict[str, Any] = {}
            if queue_.guarantee:
                limits["guarantee"] = {"resource": {"cpu": queue_.guarantee}}
            if queue_.capability is not None:
                limits["capability"] = {"cpu": queue_.capability}
            documents.append(queue(queue_.name, queue_.weight, **limits))
        documents += [weighted(name, weight) for name, weight in self.weights.items()]
        for work in self.works:
            namespace, _, bare = work.name.partition("/")
            documents += in_namespace(namespace, [_with_rules(work, one) for one in _plain(work, bare)])
        return documents


def _plain(work: Work, bare: str) -> list[Document]:
    priority = next(name for name, value in PRIORITIES.items() if value == work.priority)
    if work.kind == "service":
        return [replica_set(bare, work.pods, work.cpu, queue=work.queue, at=work.at, priority=priority)]
    options: dict[str, Any] = {"queue": work.queue, "priority": priority, "at": work.at}
    options["preemptable"] = work.preemptable
    if work.run is not None:
        options["run"] = work.run
    if work.estimate is not None:
        options["estimate"] = work.estimate
    if work.kind == "gang":
        return gang(bare, *[work.cpu] * work.pods, least=work.least, **options)
    return [pod(bare, work.cpu, **options)]


def _with_rules(work: Work, document: Document) -> Document:
    """Selector, toleration, port and anti-affinity, in a pod or in the template of a service."""
    if document["kind"] == "PodGroup":
        return document
    inside = document["spec"]["template"] if document["kind"] == "ReplicaSet" else document
    meta, spec = dict(inside["metadata"]), dict(inside["spec"])
    label = {"work": work.name.replace("/", "-")}
    meta["labels"] = {**meta.get("labels", {}), **label}
    (container,) = spec["containers"]
    if work.gpu:
        requests = {**container["resources"]["requests"], GPU: work.gpu}
        container = {**container, "resources": {"requests": requests}}
    if work.port:
        container = {**container, "ports": [{"containerPort": work.port, "hostPort": work.port}]}
    spec["containers"] = [container]
    if work.selector:
        spec["nodeSelector"] = work.selector
    if work.tolerates:
        spec["tolerations"] = [{"key": work.tolerates, "operator": "Exists"}]
    if work.apart:
        term = {"labelSelector": {"matchLabels": label}, "topologyKey": work.apart}
        spec["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    if document["kind"] == "ReplicaSet":
        return {**document, "spec": {**document["spec"], "template": {"metadata": meta, "spec": spec}}}
    return {**document, "metadata": meta, "spec": spec}


# -- drawing --------------------------------------------------------------------------------------------------------


def world(seed: int) -> World:
    dice = Random(seed)
    nodes = [_node(dice, number) for number in range(dice.randint(2, 5))]
    total = sum(each.has["cpu"] for each in nodes)
    drawn = World(
        seed, nodes, _queues(dice, total), {f"ns{number}": dice.choice((1, 1, 2)) for number in range(2)},
        _reserve(dice), _backfill(dice), dice.choice(ENDS),
    )  # fmt: skip
    told = bool(drawn.backfill.get("useEstimates"))
    for number in range(dice.randint(6, 14)):
        drawn.works.append(_work(dice, drawn, number, told=told))
    return drawn


def _node(dice: Random, number: int) -> Node:
    has: dict[str, float] = {"cpu": dice.choice((2, 2, 3, 4, 6)), "pods": dice.choice((2, 3, 20, 20, 20))}
    labels = {HOST: f"n{number}", ZONE: dice.choice(("a", "a", "b"))}
    if dice.random() < 0.25:
        has[GPU] = dice.choice((1, 2))
    if dice.random() < 0.3:
        labels["disk"] = "ssd"
    return Node(f"n{number}", has, labels, "special" if dice.random() < 0.15 else "")


def _queues(dice: Random, total: float) -> dict[str, Queue]:
    queues = {}
    limits = dice.random() < 0.6
    for number in range(dice.randint(1, 3)):
        kind = dice.random() if limits else 0.5
        guarantee = dice.choice((1, 2)) if kind < 0.25 else 0
        capability = dice.randint(2, max(2, int(total))) if kind > 0.6 else None
        queues[f"q{number}"] = Queue(f"q{number}", dice.choice((1, 1, 2, 4)), guarantee, capability)
    return queues


def _reserve(dice: Random) -> Document | None:
    if dice.random() < 0.35:
        return None
    return {
        "starvingJobTimeThreshold": dice.choice((3, 5)), "reservedNodePercent": dice.choice((50, 100)),
        "maxHolders": dice.choice((1, 2, 4)), "scope": dice.choice(("node", "node", "amount")),
        "reservationTimeout": dice.choice((8, 300)),
    }  # fmt: skip


def _backfill(dice: Random) -> Document:
    told: Document = {"useEstimates": dice.random() < 0.3}
    mode = dice.choice(("", "preemption", "wait"))
    if mode:
        told |= {"backfillNonBestEffort": True, "mode": mode}
    return told


def _work(dice: Random, drawn: World, number: int, *, told: bool) -> Work:
    kind = dice.choices(("pod", "gang", "elastic", "service", "besteffort"), (4, 5, 2, 1, 1))[0]
    pods, least = 1, 1
    if kind in ("gang", "elastic"):
        pods = least = dice.randint(2, 4)
        if kind == "elastic":
            least = dice.randint(1, pods - 1)
            kind = "gang"
    elif kind == "service":
        pods = dice.randint(1, 2)
    run = None if kind == "service" else dice.choice(RUNS)
    selector: dict[str, str] = {}
    where = dice.random()
    if where < 0.15:
        selector = {ZONE: dice.choice("ab")}
    elif where < 0.25:
        selector = {HOST: dice.choice(drawn.nodes).name}
    elif where < 0.3:
        selector = {"disk": "ssd"}
    rules = dice.random()
    return Work(
        f"{dice.choice(sorted(drawn.weights))}/w{number:02}", kind, dice.choice(sorted(drawn.queues)), pods, least,
        0 if kind == "besteffort" else dice.choice((0.5, 1, 1, 2, 2, 3)),
        gpu=1 if kind in ("pod", "gang") and dice.random() < 0.12 else 0,
        at=dice.choice(WAVES), run=run, priority=dice.choice((0, 0, 0, 0, 10, 100)), selector=selector,
        tolerates="special" if dice.random() < 0.3 else "",
        port=8000 + number if kind != "besteffort" and rules < 0.08 else 0,
        apart=dice.choice((ZONE, HOST)) if kind in ("gang", "service") and 0.1 < rules < 0.22 else "",
        preemptable=dice.random() < 0.8 or kind == "service",
        estimate=run if told and run is not None and dice.random() < 0.7 else None,
    )  # fmt: skip
