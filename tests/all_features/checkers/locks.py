"""Locks: on a node that is locked for a queue only pods of that queue, and of those below it, land.

Exceptions: pods without requests; pods for which others were evicted there before; users of Reservations that were
there before; pods of a job that the node was set aside for at the same time (decisions 51, 52). A lock ends when its
guarantee is taken back, though controllers that are away then say so later. A lock evicts only
where it stands, pods of other queues, and takes no queue below its own quota. All queues together lock no more nodes
than `maxReservedPercent` allows, unless nodes were lost.
"""

from __future__ import annotations

import math
from fractions import Fraction

from all_features.amounts import amounts
from all_features.case import Case
from all_features.history import MIGRATED, Life, used
from all_features.scenario import NEVER, when
from all_features.verdict import Verdict


def check(case: Case, verdict: Verdict) -> None:
    locked: dict[str, str] = {}
    bound = {life.since: life for life in case.history.lives if life.bound}
    evicted = {life.until: life for life in case.history.lives if life.reason == "NodeLocked"}
    set_aside: dict[str, str] = {}
    for index, event in enumerate(case.history.events):
        kind, node, time = event["type"], event["node"], event["t"]
        if kind == "Locked":
            verdict.judged["locks: taken"] += 1
            # A node may pass from one queue to another at one moment; these events are in the order of queues.
            later = [e for e in case.history.events[index:] if e["t"] == time and e["type"] == "Unlocked"]
            if node in locked and not any(e["node"] == node and e["object"] == locked[node] for e in later):
                verdict.fail("locks", time, f"{node} is locked for {event['object']}, and was for {locked[node]}")
            locked[node] = event["object"]
        elif kind == "Unlocked":
            if locked.get(node) == event["object"]:
                del locked[node]
        elif kind == "Reserved":
            set_aside[event["object"]] = node
        elif index in bound and node in locked:
            _landing(case, bound[index], locked[node], set_aside, verdict)
        elif index in evicted:
            _eviction(case, evicted[index], locked, verdict)
    _number(case, verdict)


def _landing(case: Case, life: Life, owner: str, set_aside: dict[str, str], verdict: Verdict) -> None:
    verdict.judged["locks: landings"] += 1
    if owner in case.scenario.ancestors(life.pod.queue) or not life.pod.requests:
        verdict.judged["locks: landings of the owner"] += 1
        return
    if _is_taken_back(case, owner, life.start):
        return
    unit = life.pod.unit.name.removeprefix("Job ")
    made_way = any(
        other.node == life.node and other.reason and other.stop <= life.start
        and (life.pod.key in other.message or unit in other.message)
        for other in case.history.lives
    )  # fmt: skip
    if made_way or set_aside.get(life.pod.key) == life.node or _uses_reservation(case, life):
        return
    verdict.fail("locks", life.start, f"{life.pod.key} of {life.pod.queue} lands on {life.node}, locked for {owner}")


def _is_taken_back(case: Case, owner: str, time: float) -> bool:
    """Whether the queue no longer has a guarantee, and the controllers, who say so, are away."""
    is_queue = owner in case.scenario.queue_names
    return is_queue and not case.scenario.queue(owner, time).get("guarantee") and case.away(time, "controllers")


def _uses_reservation(case: Case, life: Life) -> bool:
    """Whether a Reservation on that node could be for it."""
    return any(
        event["node"] == life.node and event["t"] <= life.start and event["type"] == "ReservationAvailable"
        for event in case.history.events
    )


def _eviction(case: Case, life: Life, locked: dict[str, str], verdict: Verdict) -> None:
    verdict.judged["locks: evictions"] += 1
    # A gang may be evicted whole, for a member of it there.
    whole = [one.node for one in case.history.lives if one.pod.unit == life.pod.unit and one.stop == life.stop]
    owner = next((locked[node] for node in (life.node, *whole) if node in locked), None)
    if owner is None or owner in case.scenario.ancestors(life.pod.queue):
        verdict.fail("locks", life.stop, f"{life.pod.key} of {life.pod.queue} is evicted from {life.node}: {owner}")
    guarantee = case.scenario.queue(life.pod.queue, life.stop).get("guarantee") or {}
    held = [one["spec"].get("queue", "default") for one in case.scenario.of("Reservation")]
    if set(guarantee) == {"resource"} and life.pod.queue not in held:  # what is held for it counts as its own, too
        queue = [one for one in case.history.lives if one.pod.ours and one.pod.queue == life.pod.queue]
        left = [one for one in queue if one.start <= life.stop < one.stop or _is_moved(case, one, life.stop)]
        for resource, amount in amounts(guarantee["resource"]).items():
            if life.pod.requests[resource] and used(left)[resource] < amount:
                text = f"{life.pod.key} is evicted, and queue {life.pod.queue} has less than its guarantee"
                verdict.fail("locks", life.stop, text)


def _is_moved(case: Case, life: Life, time: float) -> bool:
    """Whether a pod is between two nodes. Its place is kept, and its queue pays for it from the eviction on, as for the
    pod (decision 62): so the queue has it, whether the move began before the lock evicts others or in the same second.
    """
    if life.reason != MIGRATED or life.stop > time:
        return False
    place = f"migration-{life.pod.key.partition('/')[2]}-"
    return not any(
        life.stop <= event["t"] <= time
        and ((event["type"] == "ReservationSucceeded" and event["object"].startswith(place))
             or (event["type"] == "MigrationFailed" and event["object"] == life.pod.key))
        for event in case.history.events
    )  # fmt: skip


def _number(case: Case, verdict: Verdict) -> None:
    plugin = case.scenario.plugin("node_reservation") or {}
    percent = plugin.get("arguments", {}).get("maxReservedPercent", 50)
    lost = any(when(node, "until", NEVER) < NEVER for node in case.scenario.of("Node"))
    for sample in case.run.samples:
        names = [name for name, told in sample["nodes"].items() if told["lockedBy"]]
        counted = [node for node in case.scenario.nodes(sample["end"]) if not node.taints]
        most = max(1, math.ceil(Fraction(len(counted) * percent, 100)))
        verdict.judged["locks: limits"] += 1
        if len(names) > most + lost:
            verdict.fail("locks", sample["end"], f"{len(names)} nodes are locked, of at most {most}: {names}")
