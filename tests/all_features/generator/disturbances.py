"""Budgets, and what people do to a running cluster: they scale and delete, and components restart or are away."""

from __future__ import annotations

from all_features.generator.documents import Document, metadata, patch, restart
from all_features.generator.draft import ARRIVALS_END, LAST_DISTURBANCE, Draft


def add_budgets(draft: Draft) -> None:
    sets = [one for one in draft.documents if one["kind"] in ("ReplicaSet", "StatefulSet")]
    for owner in draft.dice.sample(sets, draft.dice.randint(1, max(1, len(sets) - 1))):
        replicas, name = owner["spec"]["replicas"], owner["metadata"]["name"]
        kind = draft.dice.choice(("minAvailable", "maxUnavailable"))
        value = draft.dice.randint(0, replicas) if kind == "minAvailable" else draft.dice.randint(0, 1)
        draft.add({
            "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
            "metadata": metadata(name, owner["metadata"]["namespace"]),
            "spec": {"selector": {"matchLabels": {"app": name}}, kind: value},
        })  # fmt: skip


def add_disturbances(draft: Draft) -> None:
    dice = draft.dice
    late = "sim.stromboli.io/at"
    sets = [
        one for one in draft.documents if one["kind"] == "ReplicaSet" and late not in one["metadata"]["annotations"]
    ]
    if sets and draft.chance(0.4):
        one = dice.choice(sets)
        at = dice.randint(6, ARRIVALS_END)
        change = {"spec": {"replicas": dice.randint(1, 4)}}
        draft.add(patch(at, "ReplicaSet", one["metadata"]["name"], change, one["metadata"]["namespace"]))
    for _ in range(dice.randint(1, 3)):
        component = dice.choice(("scheduler", "controllers", "descheduler", "all"))
        away = dice.choice((0, 0, 0, 2, 5))
        draft.add(restart(dice.randint(1, LAST_DISTURBANCE), component, away))
    if draft.chance(0.3):
        draft.add(_run_by_hand(dice.randint(5, LAST_DISTURBANCE)))


def _run_by_hand(at: float) -> Document:
    return {"apiVersion": "sim.stromboli.io/v1", "kind": "Run", "at": f"{at}s", "component": "descheduler"}
