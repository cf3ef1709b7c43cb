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
from stromboli.api.quantity import parse_quantity
from stromboli.console.main import cli
from stromboli.console.whatif.possible_changes import (
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

PATIENCE = 5.0
GROUP = "scheduling.k8s.io/group-name"
QUEUE = "scheduling.volcano.sh/queue-name"


def starts_after(situation: Situation, change: Change | None, folder: Path) -> bool:
    """Whether pods of the job are bound within some seconds after the change."""
    documents = list(situation.documents) if change is None else _changed(situation, change, situation.at + 1)
    report = simulate(Situation(documents, situation.job, situation.at, situation.config), folder, PATIENCE)
    job = situation.job
    pods = {key for key, pod in report["pods"].items() if job in (key, pod["podGroup"]) or key.startswith(f"{job}-")}
    return any(
        event["type"] == "Bound" and event["object"] in pods and event["t"] > situation.at for event in report["events"]
    )


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
    mine = [document for document in situation.documents if _belongs(document, situation.job)]
    patches = _patches(situation.job, mine, change)
    if patches:
        return [*situation.documents, *(_patch(at, *patch) for patch in patches)]
    documents = [document for document in situation.documents if document not in mine]
    for document in mine:
        old = copy.deepcopy(document)
        old["metadata"].setdefault("annotations", {})["sim.stromboli.io/until"] = f"{at}s"
        new = copy.deepcopy(document)
        new["metadata"].setdefault("annotations", {})["sim.stromboli.io/at"] = f"{at}s"
        _edit(new, change)
        documents += [old, new]
    return documents


def _patches(job: str, mine: list[Document], change: Change) -> list[tuple[str, str, Document]]:
    match change:
        case Minimum(pods):
            is_job = any(document["kind"] == "Job" for document in mine)
            return [("Job", job, {"spec": {"minAvailable": pods}}) if is_job else
                    ("PodGroup", job, {"spec": {"minMember": pods}})]  # fmt: skip
        case WithoutGates():
            return [("Pod", _key(d), {"spec": {"schedulingGates": None}}) for d in mine if d["kind"] == "Pod"]
        case QueueOpened(queue):
            return [("Queue", queue, {"status": {"state": "Open"}})]
        case Capability(queue, resource, most):
            return [("Queue", queue, {"spec": {"capability": {resource: _written(resource, most)}}})]
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


def _key(document: Document) -> str:
    meta = document["metadata"]
    return f"{meta.get('namespace', 'default')}/{meta['name']}"


def _belongs(document: Document, job: str) -> bool:
    if document["kind"] in ("Job", "PodGroup", "Pod") and _key(document) == job:
        return True
    group = document.get("metadata", {}).get("annotations", {}).get(GROUP)
    return document["kind"] == "Pod" and f"{document['metadata'].get('namespace', 'default')}/{group}" == job


def _written(resource: str, amount: int) -> str:
    return f"{amount}m" if resource == "cpu" else str(amount)


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
            for spec in specs:
                requests = spec["containers"][0]["resources"].get("requests", {})
                wants = requests.get(resource, 0)
                if parse_quantity(wants) * (1000 if resource == "cpu" else 1) > most:
                    requests[resource] = _written(resource, most)
        case OtherQueue(queue):
            if document["kind"] == "Pod":
                document["metadata"]["annotations"][QUEUE] = queue
            else:
                document["spec"]["queue"] = queue
        case _:
            raise AssertionError(f"do not know how to apply {change}")
