"""What the documents of a world say, in the words of the checkers: who asks for what, who may go where, and since when.

It is read from the documents alone and shares no code with the scheduler. Users act in the order of the simulator: at
one time deletions come before creations, and these before patches; a cycle comes after all of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from all_features.amounts import Amounts, amounts, duration
from all_features.world import Document, World

NEVER = float("inf")
GROUP = "scheduling.k8s.io/group-name"
QUEUE = "scheduling.volcano.sh/queue-name"
OURS = "volcano"


def when(document: Document, name: str, default: float) -> float:
    value = document["metadata"].get("annotations", {}).get(f"sim.stromboli.io/{name}")
    return default if value is None else duration(value)


def key(document: Document) -> str:
    meta = document["metadata"]
    return f"{meta.get('namespace', 'default')}/{meta['name']}"


@dataclass(frozen=True)
class Unit:
    """Pods that must start together: a PodGroup, a Job, or one pod or set of pods that is no gang."""

    name: str
    queue: str
    least: int
    roles: Mapping[str, int] = field(default_factory=dict)  # minimum of each task of a Job
    is_gang: bool = True
    priority: int = 0
    at: float = 0.0


@dataclass(frozen=True)
class PodSpec:
    key: str
    requests: Amounts
    unit: Unit
    role: str
    labels: Mapping[str, str]
    priority: int
    selector: Mapping[str, str]
    tolerates: frozenset[str]
    claims: tuple[str, ...]
    run: float
    grace: float
    preemptable: bool
    scheduler: str
    owner: str  # "ReplicaSet ns0/web0"; empty for a plain pod
    node: str  # where it runs from the start

    @property
    def queue(self) -> str:
        return self.unit.queue

    @property
    def namespace(self) -> str:
        return self.key.partition("/")[0]

    @property
    def ours(self) -> bool:
        return self.scheduler == OURS

    @property
    def takes(self) -> Amounts:
        return self.requests + amounts({"pods": 1})


@dataclass(frozen=True)
class NodeState:
    name: str
    allocatable: Amounts
    labels: Mapping[str, str]
    taints: frozenset[str]
    cordoned: bool
    ready: bool

    @property
    def open(self) -> bool:
        return self.ready and not self.cordoned

    def admits(self, pod: PodSpec) -> str:
        """Why the pod may not be placed there; empty if it may."""
        if self.cordoned:
            return "is cordoned"
        if not self.ready:
            return "is not ready"
        if self.taints - pod.tolerates:
            return f"has the taint {', '.join(sorted(self.taints - pod.tolerates))}"
        wrong = {label: value for label, value in pod.selector.items() if self.labels.get(label) != value}
        return f"does not have the labels {wrong}" if wrong else ""


class Scenario:
    def __init__(self, world: World) -> None:
        self.world = world
        self._by_kind: dict[str, list[Document]] = {}
        for document in world.documents:
            self._by_kind.setdefault(document["kind"], []).append(document)
        self._patches = sorted(self.of("Patch"), key=lambda patch: duration(patch["at"]))
        self.priorities = {one["metadata"]["name"]: int(one["value"]) for one in self.of("PriorityClass")}

    def of(self, kind: str) -> list[Document]:
        return self._by_kind.get(kind, [])

    # -- configuration ----------------------------------------------------------------------------------------------

    def action(self, name: str) -> Document:
        return next((one.get("arguments", {}) for one in self.world.config["actions"] if one["name"] == name), {})

    def plugin(self, name: str) -> Document | None:
        tiers = self.world.config["tiers"]
        return next((one for tier in tiers for one in tier["plugins"] if one["name"] == name), None)

    @cached_property
    def tree(self) -> bool:
        return bool((self.plugin("capacity") or {}).get("enableHierarchy"))

    # -- objects over time ------------------------------------------------------------------------------------------

    def object_at(self, kind: str, name: str, time: float, namespace: str = "") -> Document | None:
        """As users wrote it, with their patches; None if it does not exist. For cluster-scoped kinds and sets."""
        for document in self.of(kind):
            meta = document["metadata"]
            since = when(document, "at", 0)
            if meta["name"] != name or (namespace and meta.get("namespace", "default") != namespace):
                continue
            if not since <= time < when(document, "until", NEVER):
                continue
            found = document
            for patch in self._patches:
                target, at = patch["target"], duration(patch["at"])
                same = target["kind"] == kind and target["name"] == name
                if same and target.get("namespace", namespace) == namespace and since <= at <= time:
                    found = merged(found, patch["patch"])
            return found
        return None

    @cached_property
    def node_names(self) -> list[str]:
        return sorted({one["metadata"]["name"] for one in self.of("Node")})

    def node(self, name: str, time: float) -> NodeState | None:
        """At the cycle of that time."""
        document = self.object_at("Node", name, time)
        if document is None:
            return None
        spec = document.get("spec") or {}
        taints = frozenset(taint["key"] for taint in spec.get("taints") or [] if taint["effect"] != "PreferNoSchedule")
        conditions = (document.get("status") or {}).get("conditions") or []
        ready = all(one["status"] == "True" for one in conditions if one["type"] == "Ready")
        return NodeState(
            name, amounts(document["status"]["allocatable"]), document["metadata"].get("labels", {}), taints,
            bool(spec.get("unschedulable")), ready,
        )  # fmt: skip

    def nodes(self, time: float) -> list[NodeState]:
        return [found for name in self.node_names if (found := self.node(name, time)) is not None]

    def queue(self, name: str, time: float) -> Document:
        """The spec of a queue."""
        document = self.object_at("Queue", name, time)
        return {} if document is None else document["spec"]

    @cached_property
    def queue_names(self) -> list[str]:
        return sorted({one["metadata"]["name"] for one in self.of("Queue")} | {"default"})

    def ancestors(self, name: str) -> Iterator[str]:
        """The queue itself and those above it."""
        seen: set[str] = set()
        while name and name not in seen:
            seen.add(name)
            yield name
            name = self.queue(name, 0).get("parent", "") if self.tree else ""

    @cached_property
    def parents(self) -> set[str]:
        if not self.tree:
            return set()
        return {one["spec"]["parent"] for one in self.of("Queue") if one["spec"].get("parent")} | {"root"}

    # -- pods -------------------------------------------------------------------------------------------------------

    @cached_property
    def _pods(self) -> dict[str, Document]:
        return {key(one): one for one in self.of("Pod")}

    @cached_property
    def _owners(self) -> dict[str, Document]:
        return {key(one): one for kind in ("ReplicaSet", "StatefulSet", "Job") for one in self.of(kind)}

    def pod(self, name: str) -> PodSpec:
        known = self._known.get(name)
        if known is None:
            known = self._known[name] = self._read(name)
        return known

    @cached_property
    def _known(self) -> dict[str, PodSpec]:
        return {}

    def _read(self, name: str) -> PodSpec:
        document = self._pods.get(name)
        if document is not None:
            references = document["metadata"].get("ownerReferences", [])
            owner = f"{references[0]['kind']} {name.partition('/')[0]}/{references[0]['name']}" if references else ""
            return self._spec(name, document["metadata"], document["spec"], owner, "")
        stem = name
        while stem not in self._owners:
            stem = stem.rpartition("-")[0]
            assert stem, f"{name} belongs to nobody"
        owned = self._owners[stem]
        if owned["kind"] == "Job":
            role = name.removeprefix(f"{stem}-").rpartition("-")[0]
            template = next(task["template"] for task in owned["spec"]["tasks"] if task["name"] == role)
            return self._spec(name, template["metadata"], template["spec"], f"Job {stem}", role)
        template = owned["spec"]["template"]
        return self._spec(name, template["metadata"], template["spec"], f"{owned['kind']} {stem}", "")

    def _spec(self, name: str, meta: Document, spec: Document, owner: str, role: str) -> PodSpec:
        notes = meta.get("annotations", {})
        priority = self.priorities.get(spec.get("priorityClassName", ""), 0)
        claims = [one["persistentVolumeClaim"]["claimName"] for one in spec.get("volumes", []) if len(one) == 2]
        inside = {"metadata": {"annotations": notes}}
        return PodSpec(
            name, amounts(spec["containers"][0].get("resources", {}).get("requests")),
            self._unit(name, notes, owner, priority, spec), role, meta.get("labels", {}), priority,
            spec.get("nodeSelector", {}), frozenset(one["key"] for one in spec.get("tolerations", [])), tuple(claims),
            when(inside, "run", NEVER), when(inside, "grace", 0), notes.get("volcano.sh/preemptable") != "false",
            spec.get("schedulerName", OURS), owner, spec.get("nodeName", ""),
        )  # fmt: skip

    def _unit(self, name: str, notes: Mapping[str, str], owner: str, priority: int, body: Document) -> Unit:
        namespace = name.partition("/")[0]
        if "schedulingGroup" in body:
            return self._unit_of_kubernetes(f"{namespace}/{body['schedulingGroup']['podGroupName']}")
        if owner.startswith("Job "):
            return self._unit_of_job(owner.removeprefix("Job "))
        if GROUP in notes:
            wanted = f"{namespace}/{notes[GROUP]}"
            document = next((one for one in self.of("PodGroup") if key(one) == wanted), None)
            if document is not None:
                spec = document["spec"]
                its_priority = self.priorities.get(spec.get("priorityClassName", ""), 0)
                return Unit(
                    wanted, spec.get("queue", "default"), spec["minMember"], {}, spec["minMember"] > 0, its_priority,
                    when(document, "at", 0),
                )  # fmt: skip
        return Unit(owner or name, notes.get(QUEUE, "default"), 1, {}, False, priority)

    def _unit_of_kubernetes(self, name: str) -> Unit:
        document = next(one for one in self.of("PodGroup") if key(one) == name)
        spec, notes = document["spec"], document["metadata"]["annotations"]
        priority = self.priorities.get(spec.get("priorityClassName", ""), 0)
        least = spec["schedulingPolicy"]["gang"]["minCount"]
        return Unit(name, notes[QUEUE], least, {}, True, priority, when(document, "at", 0))

    def _unit_of_job(self, name: str) -> Unit:
        document = self._owners[name]
        spec = document["spec"]
        roles = {task["name"]: task.get("minAvailable", task["replicas"]) for task in spec["tasks"]}
        least = spec.get("minAvailable", sum(roles.values()))
        if sum(roles.values()) > least:
            roles = {}  # as in Volcano
        priority = self.priorities.get(spec.get("priorityClassName", ""), 0)
        return Unit(f"Job {name}", spec.get("queue", "default"), least, roles, True, priority, when(document, "at", 0))

    # -- disturbances -----------------------------------------------------------------------------------------------

    def quiet_from(self) -> float:
        """When the last thing happened that a user or a fault did."""
        moments = [0.0]
        for document in self.world.documents:
            if document["kind"] in ("Patch", "Restart", "Run"):
                moments.append(duration(document["at"]) + duration(document.get("for", 0)))
            else:
                moments += [when(document, "at", 0)]
                moments += [until for until in [when(document, "until", NEVER)] if until < NEVER]
        return max(moments)

    def outages(self) -> list[tuple[float, float, str]]:
        """(from, to, component) of components that were away."""
        return [
            (duration(one["at"]), duration(one["at"]) + duration(one["for"]), one["component"])
            for one in self.of("Restart") if "for" in one
        ]  # fmt: skip


def merged(value: Any, change: Any) -> Any:
    """A JSON merge patch."""
    if not isinstance(change, dict):
        return deepcopy(change)
    found = dict(value) if isinstance(value, dict) else {}
    for name, inner in change.items():
        if inner is None:
            found.pop(name, None)
        else:
            found[name] = merged(found.get(name), inner)
    return found
