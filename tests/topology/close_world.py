"""Small random worlds of groups that must be close together, and what they say about themselves.

A world is drawn with its tree and its work as plain facts, and the documents are written from these. So a checker need
not read a HyperNode or a selector: it knows what the author of the documents meant. `draw(seed)` is always the same for
the same seed. Times are whole seconds.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from stromboli.console.main import cli

Document = dict[str, Any]
Report = dict[str, Any]

UNTIL = 40
NAMESPACE = "lab"
FOREVER = 10_000
KEYS = ("zone", "block", "rack")  # labels of nodes, from the widest; the last one is tier 1
TIER_NAMES = {1: "rack", 2: "block", 3: "zone"}


@dataclass(frozen=True)
class NodeFact:
    name: str
    cpu: int
    lost: int = FOREVER
    returns: int = FOREVER

    def exists(self, time: int) -> bool:
        return time < self.lost or time >= self.returns


@dataclass(frozen=True)
class DomainFact:
    name: str
    tier: int
    nodes: frozenset[str]


@dataclass(frozen=True)
class Close:
    """What a group asks for. `tier`: the highest; None for any."""

    hard: bool
    tier: int | None = None


@dataclass(frozen=True)
class PodFact:
    name: str
    cpu: int
    at: int
    run: int = FOREVER
    grace: int = 0
    group: str = ""
    unit: str = ""  # its sub-group, "policy/value"
    priority: int = 0
    queue: str = "default"
    node: str = ""  # where it runs from the start


@dataclass(frozen=True)
class PolicyFact:
    name: str
    size: int
    least: int
    close: Close | None


@dataclass(frozen=True)
class GroupFact:
    name: str
    least: int
    pods: tuple[PodFact, ...]
    close: Close | None = None
    policies: tuple[PolicyFact, ...] = ()
    priority: int = 0
    queue: str = "default"
    job: bool = False  # a Job, whose pods are made again

    @property
    def hard(self) -> bool:
        return self.close is not None and self.close.hard

    @property
    def is_equal(self) -> bool:
        return len({pod.cpu for pod in self.pods}) == 1

    def policy(self, name: str) -> PolicyFact:
        return next(policy for policy in self.policies if policy.name == name)

    def units(self) -> dict[str, list[PodFact]]:
        found: dict[str, list[PodFact]] = {}
        for pod in self.pods:
            if pod.unit:
                found.setdefault(pod.unit, []).append(pod)
        return found


@dataclass
class CloseWorld:
    nodes: list[NodeFact] = field(default_factory=list)
    domains: list[DomainFact] = field(default_factory=list)
    moved: tuple[int, str, str, str] | None = None  # at this time a node leaves a rack for another
    groups: list[GroupFact] = field(default_factory=list)
    singles: list[PodFact] = field(default_factory=list)
    queues: dict[str, int] = field(default_factory=dict)  # weights
    actions: tuple[str, ...] = ("allocate",)
    binpack: bool = False
    by_labels: bool = False
    is_full: bool = False  # most of it is in use, by pods that may be preempted
    restarts: str = ""  # the component that restarts in every second
    documents: list[Document] = field(default_factory=list)

    # -- facts ------------------------------------------------------------------------------------------------------

    def tree(self, time: int) -> list[DomainFact]:
        """The domains with the nodes that there are."""
        there = {node.name for node in self.nodes if node.exists(time)}
        found = []
        for domain in self.domains:
            nodes = domain.nodes
            if self.moved is not None and time >= self.moved[0] and domain.name in self.moved[2:]:
                name = self.moved[1]
                nodes = nodes - {name} if domain.name == self.moved[2] else nodes | {name}
            if nodes & there:
                found.append(DomainFact(domain.name, domain.tier, nodes & there))
        return found

    def allowed(self, close: Close | None, time: int) -> list[frozenset[str]]:
        """The sets of nodes that pods of one group may be on together."""
        if close is None or not close.hard:
            return [frozenset(node.name for node in self.nodes if node.exists(time))]
        return [domain.nodes for domain in self.tree(time) if close.tier is None or domain.tier <= close.tier]

    @property
    def pods(self) -> dict[str, PodFact]:
        pods = [*self.singles, *(pod for group in self.groups for pod in group.pods)]
        return {f"{NAMESPACE}/{pod.name}": pod for pod in pods}

    # -- run --------------------------------------------------------------------------------------------------------

    def config(self) -> Document:
        plugins: list[Document] = [{"name": "drf", "enablePreemptable": False}, {"name": "predicates"}]
        plugins += [{"name": "proportion"}, {"name": "nodeorder"}]
        plugins += [{"name": "binpack"}] if self.binpack else []
        first = [{"name": name} for name in ("priority", "gang", "conformance")]
        return {
            "actions": [{"name": name} for name in self.actions],
            "tiers": [{"plugins": first}, {"plugins": plugins}],
            **({"topologyKeys": list(KEYS)} if self.by_labels else {}),
        }

    def run(self, folder: Path, *, restarts: str | None = None) -> Report:
        """What `stromboli simulate` prints."""
        component = self.restarts if restarts is None else restarts
        again = [
            {"apiVersion": "sim.stromboli.io/v1", "kind": "Restart", "at": f"{time}s", "component": component}
            for time in range(1, UNTIL) if component
        ]  # fmt: skip
        scenario, config = folder / "scenario.yaml", folder / "scheduler.yaml"
        documents = [*self.documents, *again]
        scenario.write_text("".join(f"---\n{json.dumps(one)}\n" for one in documents), encoding="utf-8")
        config.write_text(json.dumps(self.config()), encoding="utf-8")
        arguments = ["simulate", str(scenario), "--config", str(config), "--until", f"{UNTIL}s", "--output", "json"]
        result = CliRunner().invoke(cli, arguments, catch_exceptions=False)
        assert result.exit_code == 0, result.output
        report: Report = json.loads(result.stdout_bytes)
        return report
