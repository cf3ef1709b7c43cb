"""Scenarios in a few lines, told as users write them, and two ways to run them.

Builders return the documents of a scenario file (plain mappings). Everything asks for CPUs only and runs for ever
unless a test says otherwise, so that what somebody has is a count. `simulate` goes through the command line, as a user
would; `Run` drives the same engine in this process, and keeps what the scheduler decided in each cycle.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from stromboli.api import KINDS, Pod, decode, key
from stromboli.cluster import Cluster
from stromboli.console.main import cli
from stromboli.controllers.queue_locks import QueueLocks
from stromboli.scheduling.configuration.configuration_file import Configuration
from stromboli.scheduling.cycle import Scheduler
from stromboli.scheduling.decisions import Bind, Cycle, Evict
from stromboli.scheduling.registry import Registry
from stromboli.simulation.engine import Engine
from stromboli.simulation.journal import Journal
from stromboli.simulation.scenario import (
    Origin,
    Scenario,
    ScenarioObject,
    ScenarioPatch,
    check_scenario,
    extract_lifetime,
)
from stromboli.simulation.virtual_time import microseconds

Document = dict[str, Any]

FAIR_INSIDE = """
actions: "enqueue, reclaim, allocate, preempt, backfill"
tiers:
- plugins: [{name: priority}, {name: gang}, {name: conformance}, {name: pdb}]
- plugins:
  - {name: overcommit}
  - {name: drf, arguments: {namespaceOrderScope: beforePriority}}
  - {name: predicates}
  - {name: proportion}
  - {name: nodeorder}
"""
"""The built-in configuration, but jobs and namespaces of one queue may take room from each other by their shares."""


# -- documents --------------------------------------------------------------------------------------------------------


def nodes(*cpus: int) -> list[Document]:
    return [
        {
            "apiVersion": "v1", "kind": "Node", "metadata": {"name": f"n{number}"},
            "status": {"allocatable": {"cpu": cpu}},
        }
        for number, cpu in enumerate(cpus)
    ]  # fmt: skip


def queue(name: str, **spec: Any) -> Document:
    """`cpu` amounts may be given for `guarantee` and `capability`; the rest is the spec of a Queue."""
    if (guarantee := spec.pop("guarantee", None)) is not None:
        spec["guarantee"] = {"resource": {"cpu": guarantee}}
    if (capability := spec.pop("capability", None)) is not None:
        spec["capability"] = {"cpu": capability}
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": name}, "spec": spec,
    }  # fmt: skip


def priority_class(name: str, value: int) -> Document:
    return {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}, "value": value}


def weight(namespace: str, value: Any, *, name: str = "weight", **times: Any) -> Document:
    """A ResourceQuota that gives a namespace its weight."""
    return {
        "apiVersion": "v1", "kind": "ResourceQuota",
        "metadata": {"name": name, "namespace": namespace, "annotations": _times(times)},
        "spec": {"hard": {"pods": 1000} if value is None else {"volcano.sh/namespace.weight": value}},
    }  # fmt: skip


def patch(kind: str, target: str, change: Document, *, at: float) -> Document:
    namespace, _, name = target.rpartition("/")
    where = {"kind": kind, "name": name} | ({"namespace": namespace} if namespace else {})
    return {"apiVersion": "sim.stromboli.io/v1", "kind": "Patch", "at": at, "target": where, "patch": change}


def pods(target: str, count: int, *, queue: str, cpu: int = 1, priority: str = "", **times: Any) -> list[Document]:
    """So many pods by themselves, named `<target>-0` and so on. An evicted one is gone."""
    namespace, _, name = target.rpartition("/")
    return [
        {
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {
                "name": f"{name}-{number}", "namespace": namespace,
                "annotations": {"scheduling.volcano.sh/queue-name": queue, **_times(times)},
            },
            "spec": _pod_spec(cpu, priority),
        }
        for number in range(count)
    ]  # fmt: skip


def gang(
    target: str, count: int, *, queue: str, least: int | None = None, cpu: int = 1, priority: str = "", **times: Any
) -> list[Document]:
    """A PodGroup and its pods; all of them start together unless `least` says how many must."""
    namespace, _, name = target.rpartition("/")
    group = {
        "apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup",
        "metadata": {"name": name, "namespace": namespace, "annotations": _times({"at": times.get("at")})},
        "spec": {"minMember": count if least is None else least, "queue": queue, "priorityClassName": priority},
    }  # fmt: skip
    members = pods(target, count, queue=queue, cpu=cpu, priority=priority, **times)
    for member in members:
        member["metadata"]["annotations"]["scheduling.k8s.io/group-name"] = name
    return [group, *members]


def replica_set(
    target: str, count: int, *, queue: str, least: int = 1, cpu: int = 1, priority: str = "", grace: float = 0,
    at: float = 0,
) -> Document:  # fmt: skip
    """A ReplicaSet: whoever is evicted comes back a second later, under a new name."""
    namespace, _, name = target.rpartition("/")
    said = {"scheduling.volcano.sh/queue-name": queue, "scheduling.volcano.sh/group-min-member": str(least)}
    return {
        "apiVersion": "apps/v1", "kind": "ReplicaSet",
        "metadata": {"name": name, "namespace": namespace, "annotations": _times({"at": at})},
        "spec": {
            "replicas": count, "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}, "annotations": {**said, **_times({"grace": grace})}},
                "spec": _pod_spec(cpu, priority),
            },
        },
    }  # fmt: skip


def job(
    target: str, count: int, *, queue: str, least: int = 1, cpu: int = 1, priority: str = "", grace: float = 0,
    at: float = 0, when_evicted: str = "",
) -> Document:  # fmt: skip
    """A Job; `when_evicted`: the action on an evicted pod. Without one the pod alone is made again."""
    namespace, _, name = target.rpartition("/")
    task = {
        "name": "t", "replicas": count, "minAvailable": least,
        "template": {"metadata": {"annotations": _times({"grace": grace})}, "spec": _pod_spec(cpu, priority)},
    }  # fmt: skip
    spec: Document = {"queue": queue, "minAvailable": least, "priorityClassName": priority, "tasks": [task]}
    if when_evicted:
        # So many retries that none of the runs here comes to an end of them: a job that gives up hides a storm.
        spec |= {"policies": [{"event": "PodEvicted", "action": when_evicted}], "maxRetry": 1000}
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job",
        "metadata": {"name": name, "namespace": namespace, "annotations": _times({"at": at})}, "spec": spec,
    }  # fmt: skip


def _pod_spec(cpu: int, priority: str) -> Document:
    spec: Document = {
        "schedulerName": "volcano", "containers": [{"name": "main", "resources": {"requests": {"cpu": cpu}}}],
    }  # fmt: skip
    return spec | ({"priorityClassName": priority} if priority else {})


def _times(times: Document) -> dict[str, str]:
    return {f"sim.stromboli.io/{name}": f"{value}s" for name, value in times.items() if value}


def flat(*parts: Document | Iterable[Document]) -> list[Document]:
    return [document for part in parts for document in ([part] if isinstance(part, dict) else part)]


# -- through the command line -----------------------------------------------------------------------------------------


def simulate(
    folder: Path, *parts: Document | Iterable[Document], until: float | None = None, config: str = ""
) -> Document:
    """The report of `stromboli simulate --output json`."""
    scenario = folder / "scenario.yaml"
    # JSON is YAML.
    scenario.write_text("\n---\n".join(json.dumps(document) for document in flat(*parts)), encoding="utf-8")
    arguments = ["simulate", str(scenario), "--output", "json"]
    if until is not None:
        arguments += ["--until", f"{until}s"]
    if config:
        (folder / "scheduler.yaml").write_text(config, encoding="utf-8")
        arguments += ["--config", str(folder / "scheduler.yaml")]
    result = CliRunner().invoke(cli, arguments, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    report: Document = json.loads(result.stdout)
    return report


def cores(amounts: dict[str, str]) -> int:
    return int(amounts.get("cpu", "0"))


def in_queues(report: Document) -> dict[str, int]:
    """CPUs of each queue that has any."""
    has = {name: cores(told["allocated"]) for name, told in report["queues"].items()}
    return {name: count for name, count in has.items() if count}


def in_namespaces(report: Document) -> dict[str, int]:
    """CPUs of each namespace in each queue, by `queue/namespace`."""
    return {name: cores(told["allocated"]) for name, told in report["namespaces"].items()}


# -- in this process --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Eviction:
    cycle: int
    victim: str
    victim_uid: str
    node: str
    claimant: str
    claimant_uid: str


_NAMED = re.compile(r" for (\S+?)[,:]")


@dataclass
class Run:
    """A scenario, cycle by cycle; `evictions` and `binds` are what was decided so far."""

    documents: list[Document]
    configuration: Configuration | None = None
    cycles: int = 60
    evictions: list[Eviction] = field(default_factory=list)
    binds: list[dict[str, str]] = field(default_factory=list)  # by cycle: pod -> node
    waiting: list[dict[str, str]] = field(default_factory=list)  # by cycle: uid of a waiting pod -> node kept for it

    def __post_init__(self) -> None:
        registry = Registry(installed_plugins=(), installed_actions=())
        self._scheduler = Scheduler(self.configuration or registry.default(), registry)
        self.engine = Engine(
            _scenario(self.documents), Journal(), new_scheduler=lambda: self, period=microseconds(1),
            until=microseconds(self.cycles), new_locks=self.new_locks,
        )  # fmt: skip
        self.engine.run()
        self.engine.cluster.snapshot()

    def new_locks(self) -> QueueLocks | None:
        """The worker that locks nodes for queues; there is none unless a test needs it."""
        return None

    def run(self, cluster: Cluster, now: float) -> Cycle:
        """The engine asks for a cycle. Cycles that it skips, because nothing can happen in them, are not counted."""
        at = len(self.binds)
        before = {key(pod): pod for pod in self.engine.world.store.list(Pod)}
        self.waiting.append(
            {pod.metadata.uid: pod.status.nominated_node_name for pod in before.values() if not pod.spec.node_name}
        )
        cycle = self._scheduler.run(cluster, now)
        for told in cycle.decisions:
            if isinstance(told, Evict):
                named = _NAMED.search(told.message)
                assert named is not None, told.message
                victim, claimant = before[told.task], before[named[1]]
                self.evictions.append(
                    Eviction(at, told.task, victim.metadata.uid, told.node, named[1], claimant.metadata.uid)
                )
        self.binds.append({told.task: told.node for told in cycle.decisions if isinstance(told, Bind)})
        return cycle

    def running(self) -> Counter[tuple[str, str]]:
        """CPUs by (queue, namespace) at the end."""
        has: Counter[tuple[str, str]] = Counter()
        for line in self.engine.cluster.queues.values():
            for namespace, amount in line.by_namespace.items():
                cpu = self.engine.cluster.axis.amounts(amount).get("cpu", 0)
                if cpu:
                    has[line.name, namespace] = cpu // 1000
        return has


def _scenario_patch(document: Document, origin: Origin) -> ScenarioPatch:
    target = document["target"]
    kind = next(kind for (_, name), kind in KINDS.items() if name == target["kind"])
    where = "/".join(target[part] for part in ("namespace", "name") if part in target)
    return ScenarioPatch(microseconds(document["at"]), kind, where, document["patch"], origin)


def fair_inside() -> Configuration:
    return Registry(installed_plugins=(), installed_actions=()).load(FAIR_INSIDE, where="fair inside")


def _scenario(documents: Iterable[Document]) -> Scenario:
    scenario = Scenario()
    for number, document in enumerate(documents):
        if document["kind"] == "Patch":
            scenario.patches.append(_scenario_patch(document, Origin("story", number, 1)))
            continue
        bare, lifetime = extract_lifetime(decode(document))
        scenario.objects.append(ScenarioObject(bare, lifetime, Origin("story", number, 1)))
    check_scenario(scenario)
    return scenario
