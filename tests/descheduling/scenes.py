"""Scenarios of moves: documents in a few words, run through the command line, and what became of them.

Everything is in namespace `default` and goes by its bare name. Time is in seconds, and cycles are one second apart.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from stromboli.console.main import cli

Document = dict[str, Any]
GPU = "nvidia.com/gpu"
QUEUE = "scheduling.volcano.sh/queue-name"
MOVABLE = "scheduling.stromboli.io/movable"


def node(name: str, *, cpu: float = 64, gpu: int = 0, labels: dict[str, str] | None = None, **more: Any) -> Document:
    offered = {"cpu": cpu, **({GPU: gpu} if gpu else {}), **more.pop("resources", {})}
    return {
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name, "labels": labels or {}, "annotations": _times(more)},
        "status": {"allocatable": offered},
    }  # fmt: skip


def replicas(
    name: str, on: str | Sequence[str], count: int | None = None, *, cpu: float = 0, gpu: int = 0, queue: str = "",
    group: str = "", notes: dict[str, str] | None = None, pod_notes: dict[str, str] | None = None,
    kind: str = "ReplicaSet", priority: str = "", usage: str = "", **times: Any,
) -> list[Document]:  # fmt: skip
    """A set and its running pods `<name>-0`, …, all on one node or each on its own."""
    nodes = [on] * (count or 1) if isinstance(on, str) else list(on)
    annotations = {
        **({QUEUE: queue} if queue else {}), **({"scheduling.k8s.io/group-name": group} if group else {}),
        **(notes or {}), **_times({key: times[key] for key in ("run", "grace") if key in times}),
        **({"sim.stromboli.io/usage": usage} if usage else {}),
    }  # fmt: skip
    requests = {**({"cpu": cpu} if cpu else {}), **({GPU: gpu} if gpu else {})}
    spec: Document = {"containers": [{"name": "main", "resources": {"requests": requests}}]}
    if priority:
        spec["priorityClassName"] = priority
    template = {"metadata": {"labels": {"app": name}, "annotations": annotations}, "spec": spec}
    owner = {
        "apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name},
        "spec": {"replicas": len(nodes), "selector": {"matchLabels": {"app": name}}, "template": template},
    }  # fmt: skip
    reference = {"apiVersion": "apps/v1", "kind": kind, "name": name, "controller": True}
    pods = [
        {
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {
                "name": f"{name}-{number}", "labels": {"app": name},
                "annotations": {**annotations, **(pod_notes or {})}, "ownerReferences": [reference],
            },
            "spec": {**spec, "nodeName": where},
        }
        for number, where in enumerate(nodes)
    ]  # fmt: skip
    return [owner, *pods]


def with_names(found: Scene) -> Scene:
    """The same with StatefulSets: successors have the names of those that left."""
    text = json.dumps(found.documents).replace('"ReplicaSet"', '"StatefulSet"')
    return replace(found, documents=tuple(json.loads(text)))


def job(
    name: str, count: int, *, least: int | None = None, cpu: float = 0, gpu: int = 0, queue: str = "",
    movable: bool = True, selector: dict[str, str] | None = None, **times: Any,
) -> Document:  # fmt: skip
    requests = {**({"cpu": cpu} if cpu else {}), **({GPU: gpu} if gpu else {})}
    inside = {key: times.pop(key) for key in ("run", "grace") if key in times}
    notes = {**_times(inside), **({MOVABLE: "true"} if movable else {})}
    spec: Document = {"containers": [{"name": "main", "resources": {"requests": requests}}]}
    if selector:
        spec["nodeSelector"] = selector
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job",
        "metadata": {"name": name, "annotations": _times(times)},
        "spec": {
            "minAvailable": count if least is None else least, **({"queue": queue} if queue else {}),
            "tasks": [{
                "name": "w", "replicas": count, "template": {"metadata": {"annotations": notes}, "spec": spec},
            }],
        },
    }  # fmt: skip


def pod(name: str, *, cpu: float = 0, gpu: int = 0, queue: str = "", on: str = "", **times: Any) -> Document:
    requests = {**({"cpu": cpu} if cpu else {}), **({GPU: gpu} if gpu else {})}
    return {
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "annotations": {**_times(times), **({QUEUE: queue} if queue else {})}},
        "spec": {
            "containers": [{"name": "main", "resources": {"requests": requests}}], **({"nodeName": on} if on else {}),
        },
    }  # fmt: skip


def queue(name: str, **spec: Any) -> Document:
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": name}, "spec": spec
    }  # fmt: skip


def budget(name: str, app: str, **spec: Any) -> Document:
    return {
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": name},
        "spec": {"selector": {"matchLabels": {"app": app}}, **spec},
    }  # fmt: skip


def restart(at: float, component: str = "all", away: float | None = None) -> Document:
    document = {"apiVersion": "sim.stromboli.io/v1", "kind": "Restart", "at": f"{at}s", "component": component}
    return document if away is None else {**document, "for": f"{away}s"}


def run_by_hand(at: float, **more: str) -> Document:
    return {"apiVersion": "sim.stromboli.io/v1", "kind": "Run", "at": f"{at}s", "component": "descheduler", **more}


def patch(at: float, kind: str, name: str, change: Document) -> Document:
    target = {"kind": kind, "name": name}
    return {"apiVersion": "sim.stromboli.io/v1", "kind": "Patch", "at": f"{at}s", "target": target, "patch": change}


DESCHEDULE = (
    "PodLifeTime", "RemoveFailedPods", "RemovePodsHavingTooManyRestarts", "RemovePodsViolatingInterPodAntiAffinity",
    "RemovePodsViolatingNodeAffinity", "RemovePodsViolatingNodeTaints",
)  # fmt: skip


def policy(*plugins: tuple[str, Document], interval: float = 5, **top: Any) -> Document:
    """One profile with these plugins; the default evictor may be among them."""
    return {
        "apiVersion": "descheduler/v1alpha2", "kind": "DeschedulerPolicy", "deschedulingInterval": f"{interval}s",
        "profiles": [{
            "name": "test",
            "pluginConfig": [{"name": name, "args": arguments} for name, arguments in plugins],
            "plugins": {
                "deschedule": {"enabled": [name for name, _ in plugins if name in DESCHEDULE]},
                "balance": {"enabled": [name for name, _ in plugins if name not in ("DefaultEvictor", *DESCHEDULE)]},
            },
        }],
        **top,
    }  # fmt: skip


def defragment(resource: str = "cpu", *, low: float = 30, middle: float = 75, high: float = 95,
               **more: Any) -> tuple[str, Document]:  # fmt: skip
    return "Defragmentation", {
        "ResourceType": resource, "lowThresholds": {resource: low}, "defragmentThresholds": {resource: middle},
        "protectionThresholds": {resource: high}, **more,
    }  # fmt: skip


FOR_PENDING = ("Defragmentation", {"forPending": True})


@dataclass(frozen=True)
class Scene:
    documents: tuple[Document, ...]
    policy: Document
    config: Document | None = None
    until: float = 60
    flags: tuple[str, ...] = ()

    def but(self, *more: Document, **changes: Any) -> Scene:
        return replace(self, documents=(*self.documents, *more), **changes)

    @cached_property
    def outcome(self) -> Outcome:
        with tempfile.TemporaryDirectory() as folder:
            scenario, chosen = Path(folder) / "scenario.json", Path(folder) / "policy.json"
            scenario.write_text("\n---\n".join(json.dumps(document) for document in self.documents))
            chosen.write_text(json.dumps(self.policy))
            arguments = ["simulate", str(scenario), "--descheduler-config", str(chosen), "--until", f"{self.until}s"]
            if self.config is not None:
                config = Path(folder) / "config.json"
                config.write_text(json.dumps(self.config))
                arguments += ["--config", str(config)]
            arguments += [*self.flags, "--output", "json"]
            result = CliRunner().invoke(cli, arguments, catch_exceptions=False)
        assert result.exit_code == 0, result.stderr
        return Outcome(json.loads(result.stdout))


def scene(*documents: Document | Iterable[Document], policy: Document, **more: Any) -> Scene:
    opened: list[Document] = []
    for document in documents:
        opened.extend([document] if isinstance(document, dict) else document)
    return Scene(tuple(opened), policy, **more)


@dataclass(frozen=True)
class Outcome:
    report: Document = field(repr=False)

    def times(self, kind: str, name: str = "") -> list[float]:
        wanted = f"default/{name}"
        return [e["t"] for e in self.report["events"] if e["type"] == kind and (not name or e["object"] == wanted)]

    def events(self, *kinds: str) -> list[tuple[float, str, str, str]]:
        return [
            (e["t"], e["type"], e["object"].removeprefix("default/"), e["node"])
            for e in self.report["events"]
            if e["type"] in kinds
        ]

    @property
    def moves(self) -> Document:
        found: Document = self.report["summary"]["moves"]
        return found

    def reasons(self, kind: str) -> list[str]:
        return [e["reason"] for e in self.report["events"] if e["type"] == kind]

    def running_on(self, name: str) -> list[str]:
        pods = self.report["pods"]
        here = [key for key, pod in pods.items() if pod["node"] == name and pod["phase"] == "Running"]
        return sorted(key.removeprefix("default/") for key in here)

    @property
    def kept_nodes(self) -> list[str]:
        """Nodes that cluster-autoscaler may not remove."""
        return [name for name, found in self.report["nodes"].items() if found.get("scaleDownDisabled")]

    @property
    def held(self) -> list[str]:
        """Reservations that hold something, or may still."""
        return [
            name
            for name, reservation in self.report["reservations"].items()
            if reservation["phase"] in ("", "Pending", "Available", "Waiting")
        ]

    def running_over_time(self, prefix: str) -> list[int]:
        """How many pods with this prefix ran, after each event about them."""
        bound = {e["object"].removeprefix("default/") for e in self.report["events"] if e["type"] == "Bound"}
        pods = self.report["pods"]
        at_start = {key.removeprefix("default/") for key, pod in pods.items() if pod["bound"] == 0.0} - bound
        running: set[str] = set()
        counts = []
        for event in self.report["events"]:
            name = event["object"].removeprefix("default/")
            if not name.startswith(prefix):
                continue
            if event["type"] == "Bound" or (event["type"] == "Submitted" and event["t"] == 0 and name in at_start):
                running.add(name)
            elif event["type"] in ("Evicted", "Finished", "Deleted"):
                running.discard(name)
            counts.append(len(running))
        return counts


def _times(given: dict[str, Any]) -> dict[str, str]:
    return {f"sim.stromboli.io/{name}": f"{seconds}s" for name, seconds in given.items()}
