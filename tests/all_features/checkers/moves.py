"""Moves: no plan is broken, no pod is lost, and nothing is left of a move.

A pod is evicted for a move only after its place is kept. Every move that was planned ends, with Succeeded or Failed,
and one whose pod was evicted succeeds unless its target was lost or closed, its set was scaled, or a component was
away (decisions 85, 88). At a quiet end no Reservation of a move is left, no `migrationState` is Running, and every set
has its pods.
"""

from __future__ import annotations

from all_features.case import Case
from all_features.checkers.promises import disturbed
from all_features.history import MIGRATED
from all_features.verdict import Verdict
from all_features.world import Document

PATIENCE = 24.0  # seconds without any event, after which a move has ended


def check(case: Case, verdict: Verdict) -> None:
    events = case.history.events
    planned = [e for e in events if e["type"] == "MigrationPlanned"]
    for event in planned:
        _follow(case, event, verdict)
    if case.history.end - case.history.last_event() >= 3 and case.history.end - case.scenario.quiet_from() > PATIENCE:
        _leftovers(case, verdict)


def _follow(case: Case, plan: Document, verdict: Verdict) -> None:
    events, name = case.history.events, plan["object"]
    index = next(number for number, event in enumerate(events) if event is plan)
    mine = []
    for event in events[index + 1 :]:
        if event["object"] == name and event["type"] == "MigrationPlanned":
            break
        if event["object"] == name:
            mine.append(event)
    verdict.judged["moves: planned"] += 1
    ends = [event for event in mine if event["type"] in ("MigrationSucceeded", "MigrationFailed")]
    evicted = [event for event in mine if event["type"] == "Evicted" and event["reason"] == MIGRATED]
    if not ends:
        # A plan may look for its places for five minutes.
        started = any(event["type"] == "MigrationStarted" for event in mine)
        if (
            (started or case.history.end - plan["t"] > 300)
            and case.history.end - plan["t"] > PATIENCE
            and case.history.end - case.history.last_event() >= 3
        ):
            verdict.fail("moves", plan["t"], f"the move of {name} to {plan['node']} has no end")
        return
    if evicted and not any(event["type"] == "MigrationStarted" for event in mine):
        verdict.fail("moves", evicted[0]["t"], f"{name} is evicted before its place is kept")
    last = ends[0]
    if last["type"] == "MigrationFailed" and evicted and evicted[0]["t"] <= last["t"]:
        verdict.judged["moves: failed after the eviction"] += 1
        if not disturbed(case, plan["t"], last["t"]):
            text = f"{name} was evicted at {evicted[0]['t']:g} to move to {plan['node']}, and the move failed: "
            verdict.fail("moves", last["t"], text + last["message"])


def _looks_for_places(case: Case) -> bool:
    """Whether a plan has neither begun nor ended."""
    last = {}
    for event in case.history.events:
        if event["type"].startswith("Migration"):
            last[event["object"]] = event["type"]
    return "MigrationPlanned" in last.values()


def _leftovers(case: Case, verdict: Verdict) -> None:
    report, time = case.report, case.history.end
    known = {one["metadata"]["name"] for one in case.scenario.of("Reservation")}
    under_way = {
        e["object"] for e in case.history.events if e["type"].startswith("Migration") and e["t"] > time - PATIENCE
    }
    if under_way or _looks_for_places(case):
        return
    verdict.judged["moves: quiet ends"] += 1
    for name, told in report["reservations"].items():
        if name not in known and told["phase"] in ("Pending", "Available"):
            verdict.fail("moves", time, f"{name} is left of a move: {told['phase']} on {told['node']}")
    for name, told in report["podGroups"].items():
        if told["migrationState"] in ("Running", "Pending"):
            verdict.fail("moves", time, f"{name} has migrationState {told['migrationState']}, and nothing moves")
    for kind in ("ReplicaSet", "StatefulSet"):
        for document in case.scenario.of(kind):
            _complete(case, kind, document, verdict)


def _complete(case: Case, kind: str, document: Document, verdict: Verdict) -> None:
    meta = document["metadata"]
    found = case.scenario.object_at(kind, meta["name"], case.history.end, meta["namespace"])
    if found is None:
        return
    owner = f"{kind} {meta['namespace']}/{meta['name']}"
    pods = [
        name for name, told in case.report["pods"].items()
        if told["phase"] in ("Running", "Pending") and case.scenario.pod(name).owner == owner
    ]  # fmt: skip
    verdict.judged["moves: sets"] += 1
    wanted = found["spec"]["replicas"]
    enough = len(pods) >= wanted if kind == "ReplicaSet" else len(pods) >= 1
    if not enough:
        verdict.fail("moves", case.history.end, f"{owner} has {len(pods)} of {wanted} pods")
