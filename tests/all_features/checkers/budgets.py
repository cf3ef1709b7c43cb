"""Disruption budgets: none is broken by our own evictions (decisions 19, 21)."""

from __future__ import annotations

from all_features.case import Case
from all_features.history import BY_US
from all_features.scenario import key
from all_features.verdict import Verdict
from all_features.world import Document


def check(case: Case, verdict: Verdict) -> None:
    for budget in case.scenario.of("PodDisruptionBudget"):
        _judge(case, budget, verdict)


def _judge(case: Case, budget: Document, verdict: Verdict) -> None:
    namespace, spec = key(budget).partition("/")[0], budget["spec"]
    labels = spec["selector"]["matchLabels"]
    lives = [
        life for life in case.history.lives
        if life.pod.namespace == namespace and all(life.pod.labels.get(name) == value for name, value in labels.items())
    ]  # fmt: skip
    for time in sorted({life.stop for life in lives if life.reason in BY_US}):
        evicted = [life for life in lives if life.stop == time and life.reason in BY_US]
        first = min(life.until for life in evicted)
        healthy = sum(life.runs(time, first - 1) for life in lives)
        least = _least(case, spec, lives[0].pod.owner, time)
        if case.away(time, "controllers"):
            continue  # nobody keeps the numbers of budgets while the controllers are away
        verdict.judged["budgets: evictions"] += 1
        if healthy - len(evicted) < least:
            names = ", ".join(life.pod.key for life in evicted)
            text = f"{evicted[0].reason}: {names} of {healthy} pods go, and {key(budget)} wants {least}"
            verdict.fail("budgets", time, text)


def _least(case: Case, spec: Document, owner: str, time: float) -> int:
    if "minAvailable" in spec:
        return int(spec["minAvailable"])
    kind, _, name = owner.partition(" ")
    namespace, _, bare = name.partition("/")
    found = case.scenario.object_at(kind, bare, time, namespace)
    wanted = 0 if found is None else found["spec"]["replicas"]
    return int(wanted) - int(spec["maxUnavailable"])
