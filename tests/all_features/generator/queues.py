"""Queues: one that locks nodes, one with a quota, one with a maximum, in half of the worlds in a tree; and namespaces
with weights."""

from __future__ import annotations

from typing import Any

from all_features.generator.documents import SCHEDULING, Document, metadata, patch, seconds, times
from all_features.generator.draft import ARRIVALS_END, LAST_DISTURBANCE, Draft

LOCKING, LIMITED, GUARANTEED, PLAIN = "clinic", "limited", "sure", "lab"


def add_queues(draft: Draft) -> None:
    dice = draft.dice
    total = sum(one["status"]["allocatable"]["cpu"] for one in draft.nodes.values())
    draft.tree = draft.chance(0.45)
    for number in range(dice.randint(2, 3)):
        draft.namespaces[f"ns{number}"] = dice.choice((1, 1, 2, 3))
    for name, weight in draft.namespaces.items():
        draft.add({
            "apiVersion": "v1", "kind": "ResourceQuota", "metadata": metadata("weight", name),
            "spec": {"hard": {"volcano.sh/namespace.weight": weight}},
        })  # fmt: skip
    parents = {LOCKING: "", LIMITED: "", GUARANTEED: "", PLAIN: ""}
    if draft.tree:
        for name in ("health", "science"):
            limit = {"capability": {"cpu": dice.randint(total // 2, total)}} if draft.chance(0.5) else {}
            draft.add(_queue(draft, name, **limit))
        parents = {LOCKING: "health", LIMITED: "health", GUARANTEED: "science", PLAIN: "science"}
    specs: dict[str, dict[str, Any]] = {
        LOCKING: {"guarantee": _lock(draft)},
        LIMITED: {"capability": {"cpu": dice.randint(3, max(4, total // 2))}},
        GUARANTEED: {"guarantee": {"resource": {"cpu": dice.randint(1, 4)}}},
        PLAIN: {},
    }
    if draft.chance(0.1):
        specs[dice.choice((LIMITED, PLAIN))]["dequeueStrategy"] = "fifo"
    if draft.chance(0.1):
        specs[dice.choice((LIMITED, PLAIN))]["reclaimable"] = False
    if draft.chance(0.2):
        specs[dice.choice(sorted(specs))]["priority"] = 5
    for name, spec in specs.items():
        if draft.tree:
            least = 8 if name == LOCKING else 2
            deserved = {"cpu": dice.randint(least, max(least, total // 4)), "memory": "16Gi"}
            if "capability" in spec:
                deserved["cpu"] = min(deserved["cpu"], spec["capability"]["cpu"])
            least = spec.get("guarantee", {}).get("resource", {}).get("cpu", 0)
            spec = {**spec, "parent": parents[name], "deserved": {**deserved, "cpu": max(deserved["cpu"], least)}}
        draft.add(_queue(draft, name, **spec))
    draft.queues = [*sorted(specs), *([] if draft.tree else ["default"])]
    _changes(draft)


def _queue(draft: Draft, name: str, **spec: Any) -> Document:
    weight = draft.dice.choice((1, 1, 2, 4))
    return {
        "apiVersion": SCHEDULING, "kind": "Queue", "metadata": metadata(name), "spec": {"weight": weight, **spec}
    }  # fmt: skip


def _lock(draft: Draft) -> Document:
    dice = draft.dice
    guarantee: Document = {"policy": dice.choice(("Best-Effort", "Guaranteed"))}
    if draft.chance(0.6):
        guarantee["resource"] = {"cpu": dice.choice((2, 4, 6, 8))}
    else:
        guarantee["percentage"] = {"value": dice.choice((0.2, 0.25, 0.34))}
    return guarantee


def _changes(draft: Draft) -> None:
    """Somebody edits a guarantee, and in some worlds a queue is closed and opened again."""
    dice = draft.dice
    if draft.chance(0.5):
        at = dice.randint(6, LAST_DISTURBANCE - 6)
        draft.add(patch(at, "Queue", LOCKING, {"spec": {"guarantee": dice.choice((None, _lock(draft)))}}))
    if draft.chance(0.25) and not draft.tree:
        draft.add(patch(dice.randint(6, ARRIVALS_END), "Queue", PLAIN, {"spec": {"weight": dice.choice((1, 3, 8))}}))
    if draft.chance(0.15):
        closes = dice.randint(5, ARRIVALS_END - 8)
        for at, action in ((closes, "CloseQueue"), (closes + dice.randint(3, 8), "OpenQueue")):
            draft.add(_command(at, action, PLAIN))


def _command(at: float, action: str, queue: str) -> Document:
    return {
        "apiVersion": "bus.volcano.sh/v1alpha1", "kind": "Command",
        "metadata": metadata(f"{action.lower()}-{seconds(at)}", "default", None, **times(at=at)),
        "action": action, "target": {"apiVersion": SCHEDULING, "kind": "Queue", "name": queue},
    }  # fmt: skip
