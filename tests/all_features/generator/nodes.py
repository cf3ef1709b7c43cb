"""Nodes of several sizes in zones, some with GPUs or a taint; some are lost and return, are cordoned or not ready."""

from __future__ import annotations

from all_features.generator.documents import POOL, ZONE, Document, node, patch
from all_features.generator.draft import LAST_DISTURBANCE, Draft

SPECIAL = "special"  # a taint


def add_nodes(draft: Draft) -> None:
    dice = draft.dice
    zones = "abc"[: dice.randint(1, 3)]
    for number in range(dice.randint(5, 8)):
        name = f"n{number}"
        labels = {ZONE: zones[number % len(zones)], POOL: "gpu" if number < 2 else "plain"}
        taint = SPECIAL if number > 2 and draft.chance(0.12) else ""
        draft.nodes[name] = node(
            name, dice.choice((4, 4, 6, 8)), gpu=4 if number < 2 else 0, memory=dice.choice((16, 32)),
            pods=dice.choice((4, 8, 20, 20)), labels=labels, taint=taint,
        )  # fmt: skip
    disturbed = dice.sample(sorted(draft.nodes), dice.randint(2, 3))
    _lose(draft, disturbed[0])
    for name in disturbed[1:]:
        _close(draft, name)
    draft.add(*draft.nodes.values())


def _lose(draft: Draft, name: str) -> None:
    """A node is deleted with its pods, and in most worlds it returns."""
    gone = draft.dice.randint(8, LAST_DISTURBANCE - 14)
    first = draft.nodes[name]
    draft.nodes[name] = _with(first, until=gone)
    if draft.chance(0.8):
        draft.add(_with(first, at=gone + draft.dice.randint(2, 12)))


def _with(document: Document, **times: float) -> Document:
    notes = {f"sim.stromboli.io/{name}": f"{value}s" for name, value in times.items()}
    return {**document, "metadata": {**document["metadata"], "annotations": notes}}


def _close(draft: Draft, name: str) -> None:
    """A node takes no pods for a while: it is cordoned, tainted or not ready."""
    since = draft.dice.randint(4, LAST_DISTURBANCE - 12)
    kind = draft.dice.choice(("cordon", "cordon", "taint", "unready"))
    if kind == "cordon":
        change, back = {"spec": {"unschedulable": True}}, {"spec": {"unschedulable": False}}
    elif kind == "taint":
        taints = draft.nodes[name].get("spec", {}).get("taints", [])
        change = {"spec": {"taints": [*taints, {"key": "repair", "value": "x", "effect": "NoSchedule"}]}}
        back = {"spec": {"taints": taints}}
    else:
        change = {"status": {"conditions": [{"type": "Ready", "status": "False"}]}}
        back = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}
    draft.add(patch(since, "Node", name, change))
    if draft.chance(0.8):
        draft.add(patch(since + draft.dice.randint(3, 12), "Node", name, back))
