"""Disruption budgets: how many pods may be disturbed right now.

Whoever evicts (preemption, defragmentation) asks a budget's status and nothing else, so the status must be
true. The rules are Kubernetes': a share that is not a whole number of pods is rounded up, on both sides;
and a share, or a number of pods that may be missing, is measured against the pods there should be, not
those there are. Measured against what is left, a set of three with one pod gone would let the next go, and
the next.

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
from .pod_owners import PodIndex, controlling_reference, is_finished, is_leaving


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
    healthy = sum(pod.status.phase == "Running" and not is_leaving(pod) for pod in covered)
    spec = budget.spec
    if spec.max_unavailable is not None:
        expected = _pods_there_should_be(covered, objects)
        desired = max(0, expected - _pods_of(spec.max_unavailable, expected))
    elif isinstance(spec.min_available, str):
        expected = _pods_there_should_be(covered, objects)
        desired = _pods_of(spec.min_available, expected)
    else:
        expected = len(covered)
        desired = spec.min_available or 0
    says_anything = spec.max_unavailable is not None or spec.min_available is not None
    status: PodDisruptionBudgetStatus = replace(
        budget.status,
        expected_pods=expected,
        current_healthy=healthy,
        desired_healthy=desired,
        disruptions_allowed=max(0, healthy - desired) if says_anything and expected else 0,
    )
    return status


def _pods_of(stated: int | str, expected: int) -> int:
    """A number of pods: as stated, or a percentage of those expected, rounded up."""
    text = str(stated)
    if text.endswith("%"):
        return -(-int(text[:-1]) * expected // 100)
    return int(text)


def _pods_there_should_be(covered: list[Pod], objects: Objects) -> int:
    """What the sets of these pods ask for, and each other pod for itself."""
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
