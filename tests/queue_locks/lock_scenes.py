"""Clusters in which queues lock nodes, written as users write them and run through the command line.

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

from starvation.scenes import Document, Outcome, gang, node, patch, pod, queue, restart, short
from stromboli.console.main import cli

__all__ = ["Document", "gang", "locking", "node", "patch", "play", "pod", "pods", "queue", "run", "tainted"]


def locking(
    name: str,
    resource: Document | None = None,
    *,
    policy: str = "",
    share: float | str | None = None,
    dimensions: Iterable[str] = (),
    **spec: Any,
) -> Document:
    """A queue whose guarantee locks nodes: an amount, or a share of the nodes, or both."""
    guarantee: Document = {"policy": policy} if policy else {}
    if resource is not None:
        guarantee["resource"] = resource
        guarantee.setdefault("policy", "Best-Effort")
    if share is not None:
        guarantee["percentage"] = {"value": share, **({"dimensions": list(dimensions)} if dimensions else {})}
    return queue(name, guarantee=guarantee, **spec)


def pods(name: str, count: int, cpu: float = 1, **options: Any) -> list[Document]:
    """`<name>-00` and so on, each in a group of its own."""
    return [pod(f"{name}-{number:02}", cpu, **options) for number in range(count)]


def tainted(document: Document, effect: str = "NoSchedule", key: str = "example.com/dedicated") -> Document:
    return {**document, "spec": {"taints": [{"key": key, "effect": effect}]}}


def configuration(
    reserve: Document | None, locks: Document | None, sharing: str = "proportion", *, tree: bool = False
) -> str:
    actions = ["enqueue", "reclaim", "allocate", "preempt", "reserve", "backfill"]
    arguments = {"reserve": reserve or {}}
    second: list[Document] = [
        {"name": "overcommit"},
        {"name": "drf", "enablePreemptable": False},
        {"name": "predicates"},
        {"name": sharing, **({"enableHierarchy": True} if tree else {})},
        {"name": "nodeorder"},
    ]
    if locks is not None:
        second.append({"name": "node_reservation", "arguments": locks})
    document = {
        "actions": [{"name": name, "arguments": arguments.get(name, {})} for name in actions],
        "tiers": [
            {"plugins": [{"name": name} for name in ("priority", "gang", "conformance", "pdb")]},
            {"plugins": second},
        ],
    }
    return json.dumps(document)


@dataclass(frozen=True)
class LockOutcome(Outcome):
    def locked(self, name: str) -> list[str]:
        nodes: list[str] = self.report["queues"][name]["reservation"]["nodes"]
        assert nodes == [n for n, told in self.report["nodes"].items() if told["lockedBy"] == name]
        return nodes

    def condition(self, name: str, kind: str) -> tuple[str, str] | None:
        for condition in self.report["queues"][name]["conditions"]:
            if condition["type"] == kind:
                return condition["status"], condition["reason"]
        return None

    def satisfied(self, name: str) -> tuple[str, str] | None:
        return self.condition(name, "ReservationSatisfied")

    def accepted(self, name: str) -> tuple[str, str] | None:
        return self.condition(name, "ReservationAccepted")

    def queue(self, name: str) -> Document:
        told: Document = self.report["queues"][name]
        return told

    def running_by(self, what: str) -> Counter[str]:
        """How many pods run, by queue or by node."""
        return Counter(told[what] for told in self.report["pods"].values() if told["phase"] == "Running")

    def evictions(self) -> list[tuple[float, str, str]]:
        """(when, who, from which node)"""
        return [(e["t"], short(e["object"]), e["node"]) for e in self.report["events"] if e["type"] == "Evicted"]

    def moves(self) -> list[tuple[float, str, str, str]]:
        """(when, Locked or Unlocked, queue, node)"""
        told = self.report["events"]
        return [(e["t"], e["type"], e["object"], e["node"]) for e in told if e["type"] in ("Locked", "Unlocked")]


def run(
    *parts: Document | Iterable[Document],
    until: float | None = 10,
    reserve: Document | None = None,
    locks: Document | None = {},  # noqa: B006  (never changed)
    sharing: str = "proportion",
    tree: bool = False,
    flags: Iterable[str] = (),
) -> LockOutcome:
    documents = [document for part in parts for document in ([part] if isinstance(part, dict) else part)]
    with tempfile.TemporaryDirectory() as folder:
        scenario, config = Path(folder) / "scenario.yaml", Path(folder) / "scheduler.yaml"
        scenario.write_text("\n---\n".join(json.dumps(document) for document in documents), encoding="utf-8")
        config.write_text(configuration(reserve, locks, sharing, tree=tree), encoding="utf-8")
        arguments = ["simulate", str(scenario), "--config", str(config), "--output", "json", *flags]
        if until is not None:
            arguments += ["--until", f"{until}s"]
        result = CliRunner().invoke(cli, arguments, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return LockOutcome(result.stdout)


def play(*parts: Document | Iterable[Document], until: float = 10, **options: Any) -> LockOutcome:
    """The outcome, which is the same with restarts."""
    outcome = run(*parts, until=until, **options)
    restarted = run(*parts, [restart(second) for second in range(int(until) + 1)], until=until, **options)
    assert restarted.text == outcome.text, "a restart of everything in every second changes the outcome"
    return outcome
