"""Random clusters in which many pods wait, each for a reason with numbers in it.

`world(seed)` is always the same for the same seed. What is random: nodes of different sizes, some labelled, tainted,
cordoned or with few pod slots; queues with weights, capabilities and guarantees; gangs of equal and of different pods,
as PodGroups and as Jobs, some larger than their queue, than any node or than the cluster; single pods that end; and the
configuration: reserve, lending, admission. Nothing here knows how a scheduler decides.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import Any

from starvation.scenes import Document, gang, node, pod, priority_class, queue
from together.situations import Situation, configuration, in_namespace, job, weighted

TAINT = {"key": "team", "value": "blue", "effect": "NoSchedule"}
TOLERATES = {"key": "team", "operator": "Exists"}


@dataclass(frozen=True)
class Machine:
    name: str
    cpu: int
    memory: int  # in Gi
    zone: str
    tainted: bool
    cordoned: bool
    slots: int | None


@dataclass(frozen=True)
class Work:
    """A gang or a single pod."""

    name: str  # "namespace/name"; of its pods, the first part
    queue: str
    cpus: tuple[int, ...]  # of each pod
    memory: int  # of each pod, in Gi; 0: none requested
    least: int
    zone: str  # "": any
    tolerates: bool
    kind: str  # gang, job or single

    def pod_names(self) -> list[str]:
        if self.kind == "single":
            return [self.name]
        middle = "-t-" if self.kind == "job" else "-"
        return [f"{self.name}{middle}{number}" for number in range(len(self.cpus))]


@dataclass
class World:
    seed: int
    machines: list[Machine]
    queues: dict[str, dict[str, Any]]  # name -> spec
    works: list[Work] = field(default_factory=list)
    documents: list[Document] = field(default_factory=list)
    config: Document = field(default_factory=dict)
    until: float = 8

    def situation(self) -> Situation:
        return Situation(self.documents, self.config, self.until)

    def work_of(self, pod_name: str) -> Work | None:
        return next((work for work in self.works if pod_name in work.pod_names()), None)


def world(seed: int) -> World:
    dice = Random(seed)
    machines = [_machine(dice, f"n{number}") for number in range(dice.randint(1, 5))]
    drawn = World(seed, machines, _queues(dice, sum(machine.cpu for machine in machines)))
    drawn.documents = [priority_class("high", 100), *(_node(machine) for machine in machines)]
    drawn.documents += [queue(name, **spec) for name, spec in drawn.queues.items()]
    drawn.documents += [weighted("ns1", dice.choice((1, 2)))]
    for number in range(dice.randint(3, 9)):
        _add(dice, drawn, number)
    reserve = {"starvingJobTimeThreshold": dice.choice((2, 4)), "reservedNodePercent": dice.choice((50, 100))}
    reserve["scope"] = dice.choice(("node", "amount"))
    lending = {"backfillNonBestEffort": True, "mode": dice.choice(("preemption", "wait"))}
    left_out = [name for name, chance in (("reserve", 0.5), ("enqueue", 0.2)) if dice.random() < chance]
    drawn.config = configuration(reserve, lending if dice.random() < 0.5 else None, leave_out=tuple(left_out))
    drawn.until = dice.choice((1, 5, 9))
    return drawn


def _machine(dice: Random, name: str) -> Machine:
    return Machine(
        name, dice.choice((1, 2, 4, 4, 8)), dice.choice((2, 4, 8)), dice.choice("ab"),
        tainted=dice.random() < 0.15, cordoned=dice.random() < 0.1,
        slots=dice.randint(1, 3) if dice.random() < 0.2 else None,
    )  # fmt: skip


def _node(machine: Machine) -> Document:
    slots = {} if machine.slots is None else {"pods": machine.slots}
    made = node(machine.name, machine.cpu, labels={"zone": machine.zone}, memory=f"{machine.memory}Gi", **slots)
    made["spec"] = {"taints": [TAINT] if machine.tainted else [], "unschedulable": machine.cordoned}
    return made


def _queues(dice: Random, total: int) -> dict[str, dict[str, Any]]:
    queues: dict[str, dict[str, Any]] = {}
    for number in range(dice.randint(1, 3)):
        spec: dict[str, Any] = {"weight": dice.randint(1, 3)}
        if dice.random() < 0.5:
            spec["capability"] = {"cpu": dice.randint(1, total)}
        if dice.random() < 0.25:
            most = int(spec.get("capability", {}).get("cpu", total))
            spec["guarantee"] = {"resource": {"cpu": min(most, dice.randint(1, 2))}}
        queues[f"q{number}"] = spec
    return queues


def _add(dice: Random, drawn: World, number: int) -> None:
    kind = dice.choice(("gang", "gang", "gang", "job", "single", "single"))
    namespace = dice.choice(("ns0", "ns1"))
    size = 1 if kind == "single" else dice.randint(2, 5)
    cpus = [dice.choice((1, 1, 2, 2, 3, 5))] * size
    if kind == "gang" and dice.random() < 0.25:
        cpus = [dice.choice((1, 2, 3)) for _ in cpus]
    work = Work(
        f"{namespace}/w{number}", dice.choice(sorted(drawn.queues)), tuple(cpus),
        memory=dice.choice((0, 0, 1, 2)) if kind != "job" else 0,
        least=dice.randint(1, size) if kind == "gang" and dice.random() < 0.3 else size,
        zone=dice.choice(("", "", "a", "b")), tolerates=dice.random() < 0.2, kind=kind,
    )  # fmt: skip
    drawn.works.append(work)
    at = dice.choice((0, 0, 0, 1, 3))
    times: dict[str, Any] = {"at": at}
    if dice.random() < 0.6:
        times["run"] = dice.choice((1, 2, 4))
    if dice.random() < 0.3:
        times["grace"] = 2
    priority = "high" if dice.random() < 0.15 else ""
    drawn.documents += in_namespace(namespace, _documents(work, priority, times))


def _documents(work: Work, priority: str, times: dict[str, Any]) -> list[Document]:
    bare = work.name.partition("/")[2]
    where = {"zone": work.zone} if work.zone else None
    if work.kind == "job":
        options = {key: value for key, value in times.items() if key != "at"}
        made = [job(
            bare, len(work.cpus), work.cpus[0], queue=work.queue, at=times["at"], priority=priority, selector=where,
            **options,
        )]  # fmt: skip
        specs = [made[0]["spec"]["tasks"][0]["template"]["spec"]]
    else:
        options = {"queue": work.queue, "priority": priority, "selector": where, **times}
        if work.memory:
            options["memory"] = f"{work.memory}Gi"
        made = (
            gang(bare, *work.cpus, least=work.least, **options)
            if work.kind == "gang"
            else [pod(bare, work.cpus[0], **options)]
        )
        specs = [document["spec"] for document in made if document["kind"] == "Pod"]
    for spec in specs:
        if work.tolerates:
            spec["tolerations"] = [TOLERATES]
    return made
