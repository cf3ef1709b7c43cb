"""Random clusters with queues that lock nodes, and a checker that knows only the rules, not the code.

A world is a scenario: nodes of several sizes that come, go and are cordoned; queues with amounts, percentages or both,
edited on the way; pods of all queues. The checker reads the stream of events and what stands in the report, and keeps
its own account of who runs where and which node is locked for whom.
"""

from __future__ import annotations

import math
import random
from fractions import Fraction
from typing import Any

from queue_locks.lock_scenes import Document, LockOutcome, locking, node, patch, pod, queue

UNTIL = 40


def world(seed: int) -> tuple[list[Document], int]:
    """The documents, and maxReservedPercent."""
    rng = random.Random(seed)
    percent = rng.choice([30, 50, 50, 80])
    documents: list[Document] = []
    for number in range(rng.randint(3, 9)):
        times: dict[str, Any] = {}
        if rng.random() < 0.15:
            times = {"until": rng.randint(8, 30)}
        elif rng.random() < 0.15:
            times = {"at": rng.randint(3, 20)}
        documents.append(node(f"n{number}", rng.choice([4, 8, 8, 16]), **times))
        if rng.random() < 0.1:
            documents.append(patch("Node", f"n{number}", {"spec": {"unschedulable": True}}, at=rng.randint(21, 35))
                             if "until" not in times else node(f"m{number}", 4))  # fmt: skip
    queues = [f"q{number}" for number in range(1, rng.randint(3, 6))]
    for name in queues:
        documents.append(_queue(rng, name))
        if rng.random() < 0.4:
            documents.append(patch("Queue", name, {"spec": {"guarantee": _guarantee(rng)}}, at=rng.randint(5, 30)))
    for number in range(rng.randint(10, 50)):
        documents.append(
            pod(
                f"p{number}", rng.choice([0, 1, 1, 2, 4, 8]), queue=rng.choice(queues), at=rng.randint(0, 30),
                run=rng.randint(2, 25), preemptable=rng.random() < 0.8,
            )
        )  # fmt: skip
    return documents, percent


def _queue(rng: random.Random, name: str) -> Document:
    spec: dict[str, Any] = {"weight": rng.randint(1, 3), "priority": rng.choice([0, 0, 1])}
    kind = rng.random()
    if kind < 0.35:
        return queue(name, **spec)
    document = locking(name, share=0.1, **spec)
    document["spec"]["guarantee"] = _guarantee(rng)
    return document


def _guarantee(rng: random.Random) -> Document | None:
    kind = rng.random()
    if kind < 0.15:
        return None
    guarantee: Document = {"policy": rng.choice(["Best-Effort", "Best-Effort", "Guaranteed"]), "resource": None}
    if kind < 0.7:
        guarantee["resource"] = {"cpu": rng.choice([1, 3, 4, 8, 10, 60])}
    if kind > 0.6:
        guarantee["percentage"] = {"value": rng.choice([0.1, 0.25, 0.3, 0.5, 0.9])}
    return {key: value for key, value in guarantee.items() if value is not None}


class Checker:
    """Goes through the events of a run in their order."""

    def __init__(self, documents: list[Document], outcome: LockOutcome, percent: int) -> None:
        self._outcome = outcome
        self._percent = percent
        self._cpu = {
            f"default/{d['metadata']['name']}": (
                d["spec"]["containers"][0]["resources"].get("requests", {}).get("cpu", 0),
                d["metadata"]["annotations"]["scheduling.volcano.sh/queue-name"],
            )
            for d in documents
            if d["kind"] == "Pod"
        }
        self.locked_by: dict[str, str] = {}

    def check(self) -> None:
        # A node may pass from one queue to another at one moment; events of one moment are in the order of queues.
        for event in sorted(self._outcome.report["events"], key=lambda e: (e["t"], e["type"] != "Unlocked")):
            if event["type"] == "Locked":
                assert event["node"] not in self.locked_by, f"{event}: it is locked for {self.locked_by[event['node']]}"
                self.locked_by[event["node"]] = event["object"]
            elif event["type"] == "Unlocked":
                assert self.locked_by.pop(event["node"]) == event["object"], event
            elif event["type"] == "Bound":
                self._check_landing(event)
            elif event["type"] == "Evicted" and event["reason"] == "NodeLocked":
                owner = self.locked_by.get(event["node"])
                assert owner is not None, event
                assert owner != self._cpu[event["object"]][1], event
        self._check_end()

    def _check_landing(self, event: Document) -> None:
        cpu, name = self._cpu[event["object"]]
        owner = self.locked_by.get(event["node"])
        nominated = any(
            e["type"] == "Evicted" and e["node"] == event["node"] and event["object"] in e["message"]
            for e in self._outcome.report["events"]
        )
        assert owner in (None, name) or not cpu or nominated, f"{event} is locked for {owner}"

    def _check_end(self) -> None:
        report = self._outcome.report
        nodes = report["nodes"]
        at_end = {name: told["lockedBy"] for name, told in nodes.items() if told["lockedBy"]}
        assert at_end == {name: owner for name, owner in self.locked_by.items() if name in nodes}
        assert len(at_end) <= math.ceil(Fraction(len(nodes) * self._percent, 100))
        for name, told in report["queues"].items():
            conditions = {c["type"]: c for c in told["conditions"]}
            accepted = conditions.get("ReservationAccepted")
            if accepted is None or accepted["status"] == "False":
                assert told["reservation"]["nodes"] == [], name
            satisfied = conditions.get("ReservationSatisfied")
            if satisfied is not None and satisfied["status"] == "False" and satisfied["reason"] == "TooFewNodes":
                self._check_too_few(name, at_end)

    def _check_too_few(self, name: str, at_end: dict[str, str]) -> None:
        """Whoever lacks nodes must lack a reason: the limit is reached, or every other node is somebody's or closed."""
        nodes = self._outcome.report["nodes"]
        most = math.ceil(Fraction(len(nodes) * self._percent, 100))
        free = [n for n in nodes if n not in at_end and not nodes[n]["reservedFor"]]
        assert len(at_end) >= most or all(self._is_closed(n) for n in free), f"{name} could have one of {free}"

    def _is_closed(self, name: str) -> bool:
        """Whether somebody cordoned the node."""
        return name in self.cordoned

    cordoned: frozenset[str] = frozenset()


def cordoned_in(documents: list[Document]) -> frozenset[str]:
    return frozenset(d["target"]["name"] for d in documents if d["kind"] == "Patch" and d["target"]["kind"] == "Node")
