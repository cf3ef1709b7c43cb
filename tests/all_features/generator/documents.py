"""Builders of single documents, as users write them. Times are in seconds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

Document = dict[str, Any]

GPU = "nvidia.com/gpu"
ZONE = "topology.kubernetes.io/zone"
POOL = "pool"
GROUP = "scheduling.k8s.io/group-name"
QUEUE = "scheduling.volcano.sh/queue-name"
DRIVER = "csi.example.com"
SCHEDULING = "scheduling.volcano.sh/v1beta1"
SIMULATION = "sim.stromboli.io/v1"


def seconds(value: float) -> str:
    return f"{value:g}s"


def times(**given: float | None) -> dict[str, str]:
    """Annotations such as `at`, `until`, `run` and `grace`."""
    return {f"sim.stromboli.io/{name}": seconds(value) for name, value in given.items() if value is not None}


def metadata(name: str, namespace: str = "", labels: Mapping[str, str] | None = None, **notes: str) -> Document:
    found: Document = {"name": name, "annotations": dict(notes)}
    if namespace:
        found["namespace"] = namespace
    if labels:
        found["labels"] = dict(labels)
    return found


def node(
    name: str, cpu: int, *, gpu: int = 0, memory: int = 64, pods: int = 20, labels: Mapping[str, str] | None = None,
    taint: str = "", at: float | None = None, until: float | None = None,
) -> Document:  # fmt: skip
    offered: Document = {"cpu": cpu, "memory": f"{memory}Gi", "pods": pods, **({GPU: gpu} if gpu else {})}
    document: Document = {
        "apiVersion": "v1", "kind": "Node", "metadata": metadata(name, "", labels, **times(at=at, until=until)),
        "status": {"allocatable": offered},
    }  # fmt: skip
    if taint:
        document["spec"] = {"taints": [{"key": taint, "value": "x", "effect": "NoSchedule"}]}
    return document


def pod_spec(
    requests: Mapping[str, Any], *, priority: str = "", selector: Mapping[str, str] | None = None,
    tolerates: Iterable[str] = (), claims: Iterable[str] = (), port: int = 0, scheduler: str = "volcano",
) -> Document:  # fmt: skip
    container: Document = {"name": "main", "resources": {"requests": dict(requests)} if requests else {}}
    if port:
        container["ports"] = [{"containerPort": port, "hostPort": port}]
    spec: Document = {"schedulerName": scheduler, "containers": [container]}
    if priority:
        spec["priorityClassName"] = priority
    if selector:
        spec["nodeSelector"] = dict(selector)
    if tolerated := list(tolerates):
        spec["tolerations"] = [{"key": key, "operator": "Exists"} for key in tolerated]
    if names := list(claims):
        spec["volumes"] = [
            {"name": f"v{number}", "persistentVolumeClaim": {"claimName": name}} for number, name in enumerate(names)
        ]
    return spec


def pod(namespace: str, name: str, spec: Document, *, labels: Mapping[str, str], notes: Mapping[str, str]) -> Document:
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata(name, namespace, labels, **notes), "spec": spec}


def group(namespace: str, name: str, least: int, queue: str, priority: str = "", at: float | None = None) -> Document:
    spec: Document = {"minMember": least, "queue": queue}
    if priority:
        spec["priorityClassName"] = priority
    meta = metadata(name, namespace, None, **times(at=at))
    return {"apiVersion": SCHEDULING, "kind": "PodGroup", "metadata": meta, "spec": spec}


def controller(
    kind: str, namespace: str, name: str, replicas: int, spec: Document, *, labels: Mapping[str, str],
    notes: Mapping[str, str], own_notes: Mapping[str, str],
) -> Document:  # fmt: skip
    """A ReplicaSet or a StatefulSet. `notes`: of its pods."""
    template = {"metadata": {"labels": dict(labels), "annotations": dict(notes)}, "spec": spec}
    return {
        "apiVersion": "apps/v1", "kind": kind, "metadata": metadata(name, namespace, None, **own_notes),
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": labels["app"]}}, "template": template},
    }  # fmt: skip


def owned_by(document: Document, owner: Document) -> Document:
    """A pod with its owner."""
    reference = {
        "apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": owner["metadata"]["name"], "controller": True,
    }  # fmt: skip
    return {**document, "metadata": {**document["metadata"], "ownerReferences": [reference]}}


def patch(at: float, kind: str, name: str, change: Document, namespace: str = "") -> Document:
    target = {"kind": kind, "name": name, **({"namespace": namespace} if namespace else {})}
    return {"apiVersion": SIMULATION, "kind": "Patch", "at": seconds(at), "target": target, "patch": change}


def restart(at: float, component: str = "all", away: float = 0) -> Document:
    document = {"apiVersion": SIMULATION, "kind": "Restart", "at": seconds(at), "component": component}
    return {**document, "for": seconds(away)} if away else document
