"""Disruption budgets: how many pods may be disrupted right now.

Preemption and defragmentation read the status of a budget and nothing else, so the status must be up to date. The rules
are those of Kubernetes. A percentage that is not a whole number of pods is rounded up, for minAvailable and for
maxUnavailable. Percentages and maxUnavailable refer to the pods that should exist, not to those that do. Otherwise a
set of three with one pod missing would allow the next one to be evicted, and then the next.

    minAvailable: 2      desired 2
    minAvailable: 50%    desired ceil(expected / 2)
    maxUnavailable: 1    desired expected - 1
    maxUnavailable: 30%  desired expected - ceil(expected * 3 / 10)

    allowed = healthy - desired, never below 0
"""

from __future__ import annotations

from msgspec.structs import replace

from stromboli.api import Pod, PodDisruptionBudget, PodDisruptionBudgetStatus, ReplicaSet, key
from stromboli.api.selectors import matches_labels

from .changes import Change, Objects, Update
from .pod_index import PodIndex
from .pod_owners import controlling_reference, is_finished, is_terminating


def reconcile(objects: Objects, pods: PodIndex) -> list[Change]:
    changes: list[Change] = []
    for budget in objects.list(PodDisruptionBudget):
        status = budget_status(budget, pods.in_namespace(budget.metadata.namespace), objects)
        if status != budget.status:
            changes.append(Update(replace(budget, status=status)))
    return changes


def budget_status(budget: PodDisruptionBudget, pods: list[Pod], objects: Objects) -> PodDisruptionBudgetStatus:
    selector = budget.spec.selector
    covered = [pod for pod in pods if not is_finished(pod) and matches_labels(selector, pod.metadata.labels)]
    healthy = sum(pod.status.phase == "Running" and not is_terminating(pod) for pod in covered)
    spec = budget.spec
    if spec.max_unavailable is not None:
        expected = _expected_pods(covered, objects)
        desired = max(0, expected - _resolve(spec.max_unavailable, expected))
    elif isinstance(spec.min_available, str):
        expected = _expected_pods(covered, objects)
        desired = _resolve(spec.min_available, expected)
    else:
        expected = len(covered)
        desired = spec.min_available or 0
    has_limit = spec.max_unavailable is not None or spec.min_available is not None
    status: PodDisruptionBudgetStatus = replace(
        budget.status,
        expected_pods=expected,
        current_healthy=healthy,
        desired_healthy=desired,
        disruptions_allowed=max(0, healthy - desired) if has_limit and expected else 0,
    )
    return status


def _resolve(count: int | str, expected: int) -> int:
    """A number of pods: the number itself, or a percentage of the expected pods, rounded up."""
    text = str(count)
    if text.endswith("%"):
        return -(-int(text[:-1]) * expected // 100)
    return int(text)


def _expected_pods(covered: list[Pod], objects: Objects) -> int:
    """The replicas of the ReplicaSets of these pods, plus one for each pod that has none."""
    total = 0
    sets: set[str] = set()
    for pod in covered:
        reference = controlling_reference(pod.metadata)
        owner = None
        if reference is not None and reference.kind == "ReplicaSet":
            owner = objects.get(ReplicaSet, f"{pod.metadata.namespace}/{reference.name}")
        if owner is None:
            total += 1
        elif key(owner) not in sets:
            sets.add(key(owner))
            total += owner.spec.replicas
    return total
