"""Applies what `stromboli why` says to the scenario itself, as a user would do it, one second later.

This shares no code with the command: a change becomes patches, or a deletion and a new submission, of scenario files.
"""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from console.situations import Document, Situation
from stromboli.console.main import cli
from stromboli.console.whatif.changes import (
    Capability,
    Change,
    Ended,
    Minimum,
    OtherQueue,
    QueueOpened,
    SmallerRequest,
    Uncordoned,
    WithoutGates,
    WithoutNodeAffinity,
    WithoutSelector,
    WithToleration,
)

PATIENCE = 6.0
GROUP = "scheduling.k8s.io/group-name"
QUEUE = "scheduling.volcano.sh/queue-name"


def running_after(situation: Situation, change: Change | None, folder: Path) -> int:
    """How many pods of the job run some seconds after the change."""
    documents = list(situation.documents) if change is None else _changed(situation, change, situation.at + 1)
    report = simulate(Situation(documents, situation.job, situation.at, situation.config), folder, PATIENCE + 1)
    job = situation.job
    mine = [pod for key, pod in report["pods"].items() if job in (key, pod["podGroup"]) or key.startswith(f"{job}-")]
    return sum(pod["phase"] == "Running" for pod in mine)


def simulate(situation: Situation, folder: Path, more: float) -> dict[str, Any]:
    options = situation.write(folder)
    config = options[options.index("--config") :] if "--config" in options else []
    until = f"{situation.at + more:g}s"
    done = CliRunner().invoke(
        cli, ["simulate", options[1], *config, "--until", until, "--output", "json"], catch_exceptions=False
    )
    assert done.exit_code == 0, done.output
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def _changed(situation: Situation, change: Change, at: float) -> list[Document]:
    name = situation.job.partition("/")[2]
    patches = _patches(situation, change, name)
    if patches:
        return [*situation.documents, *(_patch(at, *patch) for patch in patches)]
    documents = []
    for document in situation.documents:
        if _belongs(document, name):
            old = copy.deepcopy(document)
            old["metadata"].setdefault("annotations", {})["sim.stromboli.io/until"] = f"{at}s"
            new = copy.deepcopy(document)
            new["metadata"].setdefault("annotations", {})["sim.stromboli.io/at"] = f"{at}s"
            _edit(new, change)
            documents += [old, new]
        else:
            documents.append(document)
    return documents


def _patches(situation: Situation, change: Change, name: str) -> list[tuple[str, str, Document]]:
    is_job = any(d["kind"] == "Job" and d["metadata"]["name"] == name for d in situation.documents)
    match change:
        case Minimum(pods):
            return [("Job", name, {"spec": {"minAvailable": pods}}) if is_job else
                    ("PodGroup", name, {"spec": {"minMember": pods}})]  # fmt: skip
        case WithoutGates():
            pods_of = [d["metadata"]["name"] for d in situation.documents if d["kind"] == "Pod" and _belongs(d, name)]
            return [("Pod", pod, {"spec": {"schedulingGates": None}}) for pod in pods_of]
        case QueueOpened(queue):
            return [("Queue", queue, {"status": {"state": "Open"}})]
        case Capability(queue, resource, most):
            assert resource == "cpu"
            return [("Queue", queue, {"spec": {"capability": {"cpu": f"{most}m"}}})]
        case Uncordoned(node):
            return [("Node", node, {"spec": {"unschedulable": False}})]
        case Ended(_, pods):
            return [("Pod", pod, {"status": {"phase": "Succeeded"}}) for pod in sorted(pods)]
        case _:
            return []


def _patch(at: float, kind: str, name: str, patch: Document) -> Document:
    namespace, _, name = name.rpartition("/")
    target = {"kind": kind, "name": name} | ({"namespace": namespace} if namespace else {})
    return {"apiVersion": "sim.stromboli.io/v1", "kind": "Patch", "at": f"{at}s", "target": target, "patch": patch}


def _belongs(document: Document, name: str) -> bool:
    if document["kind"] in ("Job", "PodGroup") and document["metadata"].get("name") == name:
        return True
    notes = document.get("metadata", {}).get("annotations", {})
    return document["kind"] == "Pod" and (document["metadata"]["name"] == name or notes.get(GROUP) == name)


def _edit(document: Document, change: Change) -> None:
    specs = [document["spec"]] if document["kind"] == "Pod" else []
    if document["kind"] == "Job":
        specs = [task["template"]["spec"] for task in document["spec"]["tasks"]]
    match change:
        case WithoutSelector(selector, _):
            for spec in specs:
                spec["nodeSelector"].pop(selector)
        case WithoutNodeAffinity():
            for spec in specs:
                spec["affinity"].pop("nodeAffinity")
        case WithToleration(taint):
            for spec in specs:
                spec.setdefault("tolerations", []).append({"key": taint, "operator": "Exists"})
        case SmallerRequest(resource, most):
            assert resource == "cpu"
            for spec in specs:
                spec["containers"][0]["resources"]["requests"]["cpu"] = f"{most}m"
        case OtherQueue(queue):
            if document["kind"] == "Pod":
                document["metadata"]["annotations"][QUEUE] = queue
            else:
                document["spec"]["queue"] = queue
        case _:
            raise AssertionError(f"do not know how to apply {change}")
