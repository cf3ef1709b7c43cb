"""Clusters with Reservations, written as users write them and run through the command line.

Documents come from the scenes about starvation: everything is in namespace `default`, requests CPUs unless a test says
otherwise, and time is in seconds. `play` runs a scene twice, the second time with a restart of everything in every
second, and fails if that changes anything.
"""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from starvation.scenes import Document, Outcome, gang, node, patch, pod, priority_class, queue, restart, short
from stromboli.console.main import cli

__all__ = [
    "Document", "configuration", "gang", "job", "node", "owned", "patch", "play", "pod", "pods", "priority_class",
    "queue", "reservation", "run",
]  # fmt: skip

APP = "app"


def reservation(
    name: str = "r",
    cpu: float = 1,
    *,
    owners: Iterable[Document] = (),
    app: str = "",
    at: float = 0,
    until: float | None = None,
    template: Document | None = None,
    requests: Document | None = None,
    **spec: Any,
) -> Document:
    """For pods with the label `app`, by default those of its own name, unless `owners` says otherwise."""
    annotations = {"sim.stromboli.io/at": f"{at}s"}
    if until is not None:
        annotations["sim.stromboli.io/until"] = f"{until}s"
    wanted = requests if requests is not None else {"cpu": str(cpu)}
    pod_spec = {"containers": [{"name": "main", "resources": {"requests": wanted}}], **(template or {})}
    by_label = [{"labelSelector": {"matchLabels": {APP: app or name}}}]
    return {
        "apiVersion": "scheduling.volcano.sh/v1alpha1",
        "kind": "Reservation",
        "metadata": {"name": name, "annotations": annotations},
        "spec": {"template": {"spec": pod_spec}, "owners": list(owners) or by_label, **spec},
    }


def owned(document: Document, app: str = "r") -> Document:
    """A pod with the label that Reservations look for."""
    document["metadata"].setdefault("labels", {})[APP] = app
    return document


def pods(name: str, count: int, cpu: float = 1, *, app: str = "", **options: Any) -> list[Document]:
    """`<name>-00` and so on, each in a group of its own."""
    made = [pod(f"{name}-{number:02}", cpu, **options) for number in range(count)]
    return [owned(one, app) for one in made] if app else made


def job(name: str, replicas: int, cpu: float = 1, *, app: str = "", at: float = 0, **spec: Any) -> Document:
    """A Job of equal pods that start together."""
    template = {
        "metadata": {"labels": {APP: app or name}},
        "spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": str(cpu)}}}]},
    }
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": name, "annotations": {"sim.stromboli.io/at": f"{at}s"}},
        "spec": {
            "minAvailable": replicas,
            "tasks": [{"name": "main", "replicas": replicas, "template": template}],
            **spec,
        },
    }


def configuration(
    *, leave_out: Iterable[str] = (), reserve: Document | None = None, sharing: str = "proportion",
    without_plugins: Iterable[str] = (),
) -> str:  # fmt: skip
    names = ["enqueue", "reclaim", "allocate", "preempt", "reserve", "backfill"]
    second: list[Document] = [
        {"name": "overcommit"},
        {"name": "drf", "enablePreemptable": False},
        {"name": "predicates"},
        {"name": sharing},
        {"name": "nodeorder"},
        {"name": "node_reservation"},
        {"name": "reservation"},
    ]
    arguments = {"reserve": reserve or {}}
    document = {
        "actions": [{"name": n, "arguments": arguments.get(n, {})} for n in names if n not in set(leave_out)],
        "tiers": [
            {"plugins": [{"name": name} for name in ("priority", "gang", "conformance", "pdb")]},
            {"plugins": [plugin for plugin in second if plugin["name"] not in set(without_plugins)]},
        ],
    }
    return json.dumps(document)


@dataclass(frozen=True)
class ReservedOutcome(Outcome):
    def reservation(self, name: str = "r") -> Document:
        said: Document = self.report["reservations"][name]
        return said

    def phases(self, name: str = "r") -> list[tuple[float, str]]:
        """(when, which phase it got)"""
        return [
            (e["t"], e["type"].removeprefix("Reservation"))
            for e in self.report["events"]
            if e["object"] == name and e["type"].startswith("Reservation")
        ]

    def bound(self) -> dict[str, tuple[float, str]]:
        """By pod: when it was bound for the last time, and where."""
        return {short(e["object"]): (e["t"], e["node"]) for e in self.report["events"] if e["type"] == "Bound"}

    def evictions(self) -> list[tuple[float, str, str]]:
        return [(e["t"], short(e["object"]), e["node"]) for e in self.report["events"] if e["type"] == "Evicted"]

    def pod(self, name: str) -> Document:
        said: Document = self.report["pods"][f"default/{name}"]
        return said

    def queue(self, name: str = "default") -> Document:
        said: Document = self.report["queues"][name]
        return said

    def node(self, name: str = "n1") -> Document:
        said: Document = self.report["nodes"][name]
        return said

    def running_by(self, what: str) -> Counter[str]:
        """How many pods run, by queue or by node."""
        return Counter(said[what] for said in self.report["pods"].values() if said["phase"] == "Running")


def run(
    *parts: Document | Iterable[Document], until: float | None = 10, flags: Iterable[str] = (), **options: Any
) -> ReservedOutcome:
    documents = [document for part in parts for document in ([part] if isinstance(part, dict) else part)]
    with tempfile.TemporaryDirectory() as folder:
        scenario, config = Path(folder) / "scenario.yaml", Path(folder) / "scheduler.yaml"
        scenario.write_text("\n---\n".join(json.dumps(document) for document in documents), encoding="utf-8")
        config.write_text(configuration(**options), encoding="utf-8")
        arguments = ["simulate", str(scenario), "--config", str(config), "--output", "json", *flags]
        if until is not None:
            arguments += ["--until", f"{until}s"]
        result = CliRunner().invoke(cli, arguments, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return ReservedOutcome(result.stdout)


def play(
    *parts: Document | Iterable[Document], until: float = 10, restarts: Iterable[float] = (), **options: Any
) -> ReservedOutcome:
    """The outcome, which is the same with restarts, in every second unless `restarts` says when."""
    outcome = run(*parts, until=until, **options)
    moments = list(restarts) or range(int(until) + 1)
    restarted = run(*parts, [restart(moment) for moment in moments], until=until, **options)
    assert restarted.text == outcome.text, "a restart of everything in every second changes the outcome"
    return outcome
