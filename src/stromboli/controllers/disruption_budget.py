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

The pods that each budget covers are counted as they change. A budget over thousands of pods costs no more than one over
a few.
"""

from __future__ import annotations

from collections import Counter
from typing import ClassVar, Final

from msgspec.structs import replace

from stromboli.api import (
    KObject,
    LabelSelector,
    Pod,
    PodDisruptionBudget,
    PodDisruptionBudgetStatus,
    ReplicaSet,
    StatefulSet,
    key,
)
from stromboli.api.selectors import matches_labels

from .changes import Change, Objects, Update
from .pod_index import PodIndex
from .pod_owners import controlling_reference, is_finished, is_terminating
from .work_queue import WorkQueue

_Set = tuple[str, str]
"""The kind and key of the set that has a pod; both are empty for pods of other owners."""

_SETS: Final[dict[str, type[ReplicaSet] | type[StatefulSet]]] = {"ReplicaSet": ReplicaSet, "StatefulSet": StatefulSet}


class DisruptionBudgetController:
    observes: ClassVar = (PodDisruptionBudget, ReplicaSet, StatefulSet, Pod)

    def __init__(self, pods: PodIndex) -> None:
        self._pods = pods
        self._budgets = WorkQueue()
        self._covered: dict[str, dict[str, _CoveredPods]] = {}  # by namespace, then by the key of the budget

    def observe(self, before: KObject | None, after: KObject | None) -> None:
        obj = after if after is not None else before
        assert obj is not None
        if isinstance(obj, PodDisruptionBudget):
            self._observe_budget(obj, exists=after is not None)
            return
        for budget_key, covered in self._covered.get(obj.metadata.namespace, {}).items():
            if isinstance(obj, Pod):
                if covered.count(key(obj), after if isinstance(after, Pod) else None):
                    self._budgets.add(budget_key)
            elif (obj.kind, key(obj)) in covered.by_set:
                self._budgets.add(budget_key)

    def _observe_budget(self, budget: PodDisruptionBudget, *, exists: bool) -> None:
        budget_key, namespace = key(budget), budget.metadata.namespace
        self._budgets.add(budget_key)
        of_namespace = self._covered.setdefault(namespace, {})
        if not exists:
            of_namespace.pop(budget_key, None)
            return
        known = of_namespace.get(budget_key)
        if known is None or known.selector != budget.spec.selector:
            covered = of_namespace[budget_key] = _CoveredPods(budget.spec.selector)
            for pod in self._pods.in_namespace(namespace):
                covered.count(key(pod), pod)

    def next_due(self, now: float) -> float | None:
        return None

    def reconcile(self, objects: Objects, now: float) -> list[Change]:
        changes: list[Change] = []
        for budget_key in self._budgets.take(now):
            budget = objects.get(PodDisruptionBudget, budget_key)
            if budget is not None:
                status = _budget_status(budget, self._covered[budget.metadata.namespace][budget_key], objects)
                if status != budget.status:
                    changes.append(Update(replace(budget, status=status)))
                    self._budgets.add(budget_key)
        return changes


class _CoveredPods:
    """The unfinished pods that a selector matches, in numbers."""

    def __init__(self, selector: LabelSelector | None) -> None:
        self.selector = selector
        self.healthy = 0
        self.by_set: Counter[_Set] = Counter()
        self._counted: dict[str, tuple[_Set, bool]] = {}  # the set of each pod, and whether it is healthy

    @property
    def total(self) -> int:
        return len(self._counted)

    def count(self, pod_key: str, pod: Pod | None) -> bool:
        """Count a pod as it is now, None if it is gone. Returns whether that changes the numbers."""
        before = self._counted.pop(pod_key, None)
        after = self._as_counted(pod)
        if after is not None:
            self._counted[pod_key] = after
        if after == before:
            return False
        for counted, number in ((before, -1), (after, 1)):
            if counted is not None:
                of_set, is_healthy = counted
                self.healthy += number * is_healthy
                self.by_set[of_set] += number
                if not self.by_set[of_set]:
                    del self.by_set[of_set]
        return True

    def _as_counted(self, pod: Pod | None) -> tuple[_Set, bool] | None:
        if pod is None or is_finished(pod) or not matches_labels(self.selector, pod.metadata.labels):
            return None
        owner = controlling_reference(pod.metadata)
        of_set = ("", "")
        if owner is not None and owner.kind in _SETS:
            of_set = (owner.kind, f"{pod.metadata.namespace}/{owner.name}")
        return of_set, pod.status.phase == "Running" and not is_terminating(pod)


def _budget_status(budget: PodDisruptionBudget, covered: _CoveredPods, objects: Objects) -> PodDisruptionBudgetStatus:
    spec = budget.spec
    if spec.max_unavailable is not None:
        expected = _expected_pods(covered, objects)
        desired = max(0, expected - _resolve(spec.max_unavailable, expected))
    elif isinstance(spec.min_available, str):
        expected = _expected_pods(covered, objects)
        desired = _resolve(spec.min_available, expected)
    else:
        expected = covered.total
        desired = spec.min_available or 0
    has_limit = spec.max_unavailable is not None or spec.min_available is not None
    status: PodDisruptionBudgetStatus = replace(
        budget.status,
        expected_pods=expected,
        current_healthy=covered.healthy,
        desired_healthy=desired,
        disruptions_allowed=max(0, covered.healthy - desired) if has_limit and expected else 0,
    )
    return status


def _resolve(count: int | str, expected: int) -> int:
    """A number of pods: the number itself, or a percentage of the expected pods, rounded up."""
    text = str(count)
    if text.endswith("%"):
        return -(-int(text[:-1]) * expected // 100)
    return int(text)


def _expected_pods(covered: _CoveredPods, objects: Objects) -> int:
    """The replicas of the sets that have these pods, plus one for each pod that belongs to none."""
    total = 0
    for (kind, set_key), pods in covered.by_set.items():
        found = objects.get(_SETS[kind], set_key) if kind else None
        total += pods if found is None else found.spec.replicas
    return total
