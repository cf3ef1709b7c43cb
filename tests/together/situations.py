"""Clusters in which starvation, lending, queues, namespaces and priorities meet, and how they are simulated.

A `Situation` is documents of a scenario file, a configuration and an end. It is run through `stromboli simulate` and
judged by the JSON it prints, and by nothing else: code shared with the scheduler would share its mistakes. Builders of
single documents come from `starvation.scenes`; here are those that need namespaces.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from starvation.scenes import Document, restart
from stromboli.console.main import cli

Report = dict[str, Any]

WEIGHT = "volcano.sh/namespace.weight"
QUEUE = "scheduling.volcano.sh/queue-name"


# -- documents ------------------------------------------------------------------------------------------------------


def in_namespace(namespace: str, *parts: Document | Iterable[Document]) -> list[Document]:
    """The same documents, in a namespace."""
    return [{**document, "metadata": {**document["metadata"], "namespace": namespace}} for document in flat(parts)]


def weighted(namespace: str, weight: int | str) -> Document:
    """The ResourceQuota that gives a namespace its weight."""
    return {
        "apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "weight", "namespace": namespace},
        "spec": {"hard": {WEIGHT: weight}},
    }  # fmt: skip


def template(
    cpu: float, *, run: float | None = None, grace: float | None = None, priority: str = "",
    selector: dict[str, str] | None = None, labels: dict[str, str] | None = None, preemptable: bool = True,
) -> Document:  # fmt: skip
    """A pod template; without `run` its pods never end."""
    times = {"run": run, "grace": grace}
    notes = {f"sim.stromboli.io/{name}": f"{value}s" for name, value in times.items() if value is not None}
    if not preemptable:
        notes["volcano.sh/preemptable"] = "false"
    spec: Document = {
        "schedulerName": "volcano", "containers": [{"name": "main", "resources": {"requests": {"cpu": cpu}}}]
    }  # fmt: skip
    if priority:
        spec["priorityClassName"] = priority
    if selector:
        spec["nodeSelector"] = selector
    return {"metadata": {"labels": labels or {}, "annotations": notes}, "spec": spec}


def replica_set(name: str, replicas: int, cpu: float, *, queue: str = "", at: float = 0, **options: Any) -> Document:
    labels = {"app": name}
    notes = {"sim.stromboli.io/at": f"{at}s"} | ({QUEUE: queue} if queue else {})
    return {
        "apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": name, "annotations": notes},
        "spec": {
            "replicas": replicas, "selector": {"matchLabels": labels},
            "template": template(cpu, labels=labels, **options),
        },
    }  # fmt: skip


def job(
    name: str, replicas: int, cpu: float, *, queue: str = "default", at: float = 0, estimate: float | None = None,
    priority: str = "", **options: Any,
) -> Document:  # fmt: skip
    """A Job of one task, all pods of which start together."""
    spec: Document = {
        "queue": queue,
        "tasks": [{"name": "t", "replicas": replicas, "template": template(cpu, priority=priority, **options)}],
    }
    if priority:
        spec["priorityClassName"] = priority
    if estimate is not None:
        spec["runningEstimate"] = f"{estimate}s"
    meta = {"name": name, "annotations": {"sim.stromboli.io/at": f"{at}s"}}
    return {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": meta, "spec": spec}


def flat(parts: Iterable[Document | Iterable[Document]]) -> list[Document]:
    return [document for part in parts for document in ([part] if isinstance(part, dict) else part)]


# -- configurations -------------------------------------------------------------------------------------------------

ACTIONS = ("enqueue", "reclaim", "allocate", "preempt", "reserve", "backfill")


def configuration(
    reserve: Document | None = None, backfill: Document | None = None, *, drf: Document | None = None,
    leave_out: tuple[str, ...] = (), tree: bool = False,
) -> Document:  # fmt: skip
    """The built-in configuration with these arguments of two actions and these settings of `drf`. `tree`: with
    `capacity` and a tree of queues instead of `proportion`."""
    sharing: Document = {"name": "capacity", "enableHierarchy": True} if tree else {"name": "proportion"}
    arguments = {"reserve": reserve or {}, "backfill": backfill or {}}
    return {
        "actions": [
            {"name": name, "arguments": arguments.get(name, {})} for name in ACTIONS if name not in leave_out
        ],
        "tiers": [
            {"plugins": [{"name": name} for name in ("priority", "gang", "conformance", "pdb")]},
            {
                "plugins": [
                    {"name": "overcommit"},
                    {"name": "drf", "enablePreemptable": False, **(drf or {})},
                    *({"name": "predicates"}, sharing, {"name": "nodeorder"}),
                ]
            },
        ],
    }  # fmt: skip


def without(config: Document, action: str) -> Document:
    return {**config, "actions": [one for one in config["actions"] if one["name"] != action]}


# -- running --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Situation:
    documents: list[Document]
    config: Document | None
    until: float

    def run(self, *more: Document) -> Report:
        with tempfile.TemporaryDirectory() as folder:
            result = CliRunner().invoke(cli, self.write(Path(folder), *more), catch_exceptions=False)
        assert result.exit_code == 0, result.output
        report: Report = json.loads(result.stdout)
        return report

    def at(self, time: float) -> Report:
        """As it is at that time."""
        return replace(self, until=time).run()

    def write(self, folder: Path, *more: Document) -> list[str]:
        """The files of a run, in a folder; returns the arguments of `stromboli` that run them. JSON is YAML."""
        scenario, config = folder / "scenario.yaml", folder / "scheduler.yaml"
        text = "\n---\n".join(json.dumps(document) for document in [*self.documents, *more])
        scenario.write_text(text + "\n", encoding="utf-8")
        arguments = ["simulate", str(scenario), "--until", f"{self.until}s", "--output", "json"]
        if self.config is None:
            return arguments
        config.write_text(json.dumps(self.config, indent=2) + "\n", encoding="utf-8")
        return [*arguments, "--config", str(config)]


def situation(
    *parts: Document | Iterable[Document], until: float, reserve: Document | None = None,
    backfill: Document | None = None, drf: Document | None = None, leave_out: tuple[str, ...] = (),
    tree: bool = False,
) -> Situation:  # fmt: skip
    return Situation(flat(parts), configuration(reserve, backfill, drf=drf, leave_out=leave_out, tree=tree), until)


# -- reading the report ---------------------------------------------------------------------------------------------


def happened(report: Report, kind: str) -> list[tuple[float, str]]:
    """(when, what it is about) of the events of a type."""
    return [(event["t"], event["object"]) for event in report["events"] if event["type"] == kind]


def starts(report: Report) -> dict[str, float]:
    """When each pod was bound for the first time."""
    first: dict[str, float] = {}
    for time, pod in happened(report, "Bound"):
        first.setdefault(pod, time)
    return first


def fate_of_pods(report: Report) -> list[tuple[float, str, str, str]]:
    """(when, what, pod, node): all that a restart must not change."""
    kinds = ("Bound", "Finished", "Evicted")
    return [(e["t"], e["type"], e["object"], e["node"]) for e in report["events"] if e["type"] in kinds]


def assert_restarts_change_nothing(story: Situation, until: float | None = None) -> None:
    """One run for each second with a restart of everything in it, and one with restarts at all seconds.

    `until`: it is enough to look so far, as the rest repeats itself.
    """
    watched = story if until is None else replace(story, until=until)
    undisturbed = fate_of_pods(watched.run())
    every_second = [restart(second) for second in range(int(watched.until) + 1)]
    for moment in every_second:
        assert fate_of_pods(watched.run(moment)) == undisturbed, f"after a restart at {moment['at']}"
    assert fate_of_pods(watched.run(*every_second)) == undisturbed, "after restarts at all seconds"
