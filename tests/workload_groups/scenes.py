"""Documents of Kubernetes' own groups of pods, for stories that `stromboli simulate` tells."""

from __future__ import annotations

from typing import Any

from starvation.scenes import Document, node, pod
from together.situations import QUEUE, Report, Situation, situation

GROUPS = "scheduling.k8s.io"
INITIALLY = "PodGroupInitiallyScheduled"
TARGET = "DisruptionTarget"


def workload_group(
    name: str, least: int | None, *, parent: str = "", whole: bool = False, key: str = "", queue: str = "",
    priority: str = "", **times: Any,
) -> Document:  # fmt: skip
    """`least`: the gang's `minCount`; None for one whose pods start one by one. `whole`: it is disrupted whole."""
    spec: Document = {"schedulingPolicy": {"basic": {}} if least is None else {"gang": {"minCount": least}}}
    return _group("PodGroup", "v1beta1", name, spec, parent, whole, key, queue, priority, times)


def composite(
    name: str, least: int | None, *, parent: str = "", whole: bool = False, key: str = "", queue: str = "",
    priority: str = "", **times: Any,
) -> Document:  # fmt: skip
    """`least`: how many of its groups it needs to start; None for one whose groups start one by one."""
    spec: Document = {"schedulingPolicy": {"basic": {}} if least is None else {"gang": {"minGroupCount": least}}}
    spec["workloadRef"] = {"workloadName": "w", "templateName": "t"}
    return _group("CompositePodGroup", "v1alpha3", name, spec, parent, whole, key, queue, priority, times)


def _group(
    kind: str, version: str, name: str, spec: Document, parent: str, whole: bool, key: str, queue: str, priority: str,
    times: dict[str, Any],
) -> Document:  # fmt: skip
    if parent:
        spec["parentCompositePodGroupName"] = parent
        spec["workloadRef"] = {"workloadName": "w", "templateName": "t"}
    if whole:
        spec["disruptionMode"] = {"all": {}}
    if key:
        spec["schedulingConstraints"] = {"topology": [{"key": key}]}
    if priority:
        spec["priorityClassName"] = priority
    notes = {f"sim.stromboli.io/{word}": f"{value}s" for word, value in times.items()}
    if queue:
        notes[QUEUE] = queue
    return {
        "apiVersion": f"{GROUPS}/{version}", "kind": kind, "metadata": {"name": name, "annotations": notes},
        "spec": spec,
    }  # fmt: skip


def member(name: str, group: str, cpu: float = 1, *, scheduler: str = "volcano", **options: Any) -> Document:
    made = pod(name, cpu, **options)
    made["spec"] |= {"schedulingGroup": {"podGroupName": group}, "schedulerName": scheduler}
    return made


def members(group: str, count: int, cpu: float = 1, *, first: int = 0, **options: Any) -> list[Document]:
    return [member(f"{group}-{number}", group, cpu, **options) for number in range(first, first + count)]


def nodes(count: int, cpu: float, **labels: str) -> list[Document]:
    return [node(f"n{number}", cpu, labels=labels) for number in range(count)]


def running(report: Report) -> set[str]:
    return {
        name.removeprefix("default/")
        for name, pod in report["pods"].items()
        if pod["phase"] in ("Running", "Succeeded")
    }


def bound(report: Report) -> dict[str, float]:
    """When each pod that ever got a node got it."""
    return {
        name.removeprefix("default/"): pod["bound"] for name, pod in report["pods"].items() if pod["bound"] is not None
    }


def condition(report: Report, group: str, kind: str) -> Document:
    found = [one for one in report["podGroups"][f"default/{group}"]["conditions"] if one["type"] == kind]
    assert len(found) == 1, report["podGroups"][f"default/{group}"]["conditions"]
    return found[0]


def why(report: Report, name: str) -> tuple[str, str]:
    found = report["pods"][f"default/{name}"]
    return found["reason"], found["message"]


def evicted(report: Report) -> list[str]:
    return [one["object"].removeprefix("default/") for one in report["events"] if one["type"] == "Evicted"]


__all__ = [
    "GROUPS", "INITIALLY", "TARGET", "Situation", "bound", "composite", "condition", "evicted", "member", "members",
    "nodes", "running", "situation", "why", "workload_group",
]  # fmt: skip
