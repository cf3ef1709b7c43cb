"""What really happened in a world. A feature that never happens in many worlds is a mistake in the generator."""

from __future__ import annotations

from collections import Counter

from all_features.case import Case
from all_features.scenario import NEVER, when
from all_features.verdict import Verdict

EXPECTED = (
    "Bound", "Finished", "Conditional", "Locked", "Unlocked", "Reserved", "Unreserved", "Evicted Preempted",
    "Evicted Reclaimed", "Evicted GivenBack", "Evicted NodeLocked", "Evicted NodeLost", "Evicted Migrated",
    "ReservationAvailable", "ReservationSucceeded", "ReservationExpired", "ReservationFailed", "MigrationPlanned",
    "MigrationSucceeded", "MigrationFailed", "gangs started", "members of gangs moved", "pods that used a Reservation",
    "volumes provisioned", "volumes that could not be made", "pods on lent room", "nodes with promised room",
    "nodes set aside", "nodes lost", "nodes returned", "nodes closed for a while", "restarts", "outages",
    "worlds with a tree of queues", "moves by Defragmentation", "moves by LoadAware", "moves for pending jobs",
)  # fmt: skip


def missing(seen: Counter[str]) -> list[str]:
    return [what for what in EXPECTED if not seen[what]]


def count(case: Case, verdict: Verdict) -> None:
    seen = verdict.seen
    for event in case.history.events:
        kind = event["type"]
        seen[f"{kind} {event['reason']}" if kind in ("Evicted", "Warning") else kind] += 1
        if kind == "MigrationPlanned":
            seen[f"moves by {event['reason']}"] += 1
            seen["moves for pending jobs"] += "makes room for" in event["message"]
        seen["volumes that could not be made"] += event["reason"] == "VolumesNotReady"
    gangs = [life for life in case.history.lives if life.pod.unit.is_gang]
    seen["gangs started"] += len({(life.start, life.pod.unit.name) for life in gangs if life.bound})
    seen["members of gangs moved"] += sum(life.reason == "Migrated" for life in gangs)
    seen["pods on lent room"] += sum(told["backfill"] for told in case.report["pods"].values())
    seen["volumes provisioned"] += sum(
        bool(told["node"]) and told["phase"] == "Bound" for told in case.report["claims"].values()
    )
    users = [told["owners"] for sample in case.run.samples for told in sample["reservations"].values()]
    seen["pods that used a Reservation"] += len({user for owners in users for user in owners})
    nodes = [node for sample in case.run.samples for node in sample["nodes"].values()]
    seen["nodes with promised room"] += sum(bool(node.get("promised")) for node in nodes)
    seen["nodes set aside"] += sum(bool(node["reservedFor"]) for node in nodes)
    seen["worlds with a tree of queues"] += case.scenario.tree
    for document in case.world_documents:
        if document["kind"] == "Restart":
            seen["outages" if "for" in document else "restarts"] += 1
        elif document["kind"] == "Patch":
            seen["nodes closed for a while"] += document["target"]["kind"] == "Node"
        elif document["kind"] == "Node":
            seen["nodes lost"] += when(document, "until", NEVER) < NEVER
            seen["nodes returned"] += when(document, "at", 0) > 0
