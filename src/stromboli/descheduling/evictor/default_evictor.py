"""The default evictor, with the arguments of the Kubernetes descheduler's.

Some rules cannot be switched off, because a move would lose the pod or break its job: a pod must have an owner that
replaces it, belong to our scheduler, and not be bound to its node. The others are arguments. The annotation
`descheduler.alpha.kubernetes.io/evict` overrides those, as it does there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, Final

from stromboli.api import LabelSelector, LabelSelectorRequirement, names
from stromboli.api.selectors import matches_labels
from stromboli.api.timestamps import parse_timestamp
from stromboli.cluster import OCCUPYING, Status, Task
from stromboli.descheduling.planning import View
from stromboli.descheduling.planning.planned_cluster import belongs_to_node
from stromboli.descheduling.plugin import EvictorPlugin
from stromboli.grammar import plural
from stromboli.scheduling.configuration import Arguments

from .owners import Owners

EVICT: Final = "descheduler.alpha.kubernetes.io/evict"
PREFER_NO_EVICTION: Final = "descheduler.alpha.kubernetes.io/prefer-no-eviction"
CRITICAL_PRIORITY: Final = 2_000_000_000
_VOLCANO: Final = "batch.volcano.sh/"
_CRITICAL_CLASSES: Final = ("system-cluster-critical", "system-node-critical")

_DISABLED: Final = {
    "PodsWithLocalStorage": "evictLocalStoragePods",
    "SystemCriticalPods": "evictSystemCriticalPods",
    "DaemonSetPods": "evictDaemonSetPods",
    "FailedBarePods": "evictFailedBarePods",
}
_EXTRA: Final = {
    "PodsWithPVC": "ignorePvcPods",
    "PodsWithoutPDB": "ignorePodsWithoutPDB",
    "PodsWithResourceClaims": "",
}


class DefaultEvictor(EvictorPlugin):
    name: ClassVar[str] = "DefaultEvictor"

    def __init__(self, arguments: Arguments) -> None:
        super().__init__(arguments)
        disabled, extra = self._protections(arguments)
        self._local_storage = arguments.boolean("evictLocalStoragePods", "PodsWithLocalStorage" in disabled)
        self._critical = arguments.boolean("evictSystemCriticalPods", "SystemCriticalPods" in disabled)
        arguments.boolean("evictDaemonSetPods", False)  # accepted: such pods belong to their node
        self._bare_failed = arguments.boolean("evictFailedBarePods", "FailedBarePods" in disabled)
        arguments.boolean("nodeFit", True)  # accepted: a place is always found first
        self._keep_pvc = arguments.boolean("ignorePvcPods", "PodsWithPVC" in extra)
        self._keep_without_budget = arguments.boolean("ignorePodsWithoutPDB", "PodsWithoutPDB" in extra)
        self._keep_claims = "PodsWithResourceClaims" in extra
        self._min_replicas = arguments.integer("minReplicas", 0, minimum=0)
        self._min_age = arguments.duration("minPodAge", 0.0, minimum=0)
        self._mandatory = (
            arguments.text("noEvictionPolicy", "Preferred", choices=("Preferred", "Mandatory")) == "Mandatory"
        )
        self._selector = read_selector(arguments, "labelSelector")
        self._namespace_selector = read_selector(arguments, "namespaceLabelSelector")
        self._namespaces = read_namespaces(arguments, "namespaces")
        self._threshold_value, self._threshold_class = self._threshold(arguments)
        self._view: View | None = None
        self._threshold_priority = self._threshold_value

    def _protections(self, arguments: Arguments) -> tuple[set[str], set[str]]:
        given = arguments.get("podProtections")
        if given is None:
            return set(), set()
        if any(name and name in arguments for name in (*_DISABLED.values(), *_EXTRA.values())):
            raise arguments.error("podProtections", "cannot be combined with evictLocalStoragePods and the like")
        if not isinstance(given, dict):
            raise arguments.error("podProtections", "must be a mapping")
        found = []
        for key, known in (("defaultDisabled", _DISABLED), ("extraEnabled", _EXTRA)):
            listed = given.get(key) or []
            if not isinstance(listed, list) or any(name not in known for name in listed):
                raise arguments.error("podProtections", f"{key} must be a list of {', '.join(known)}")
            found.append(set(listed))
        return found[0], found[1]

    def _threshold(self, arguments: Arguments) -> tuple[int | None, str]:
        given = arguments.get("priorityThreshold")
        if given is None:
            return None, ""
        if not isinstance(given, dict) or len(given) != 1 or not set(given) <= {"value", "name"}:
            raise arguments.error("priorityThreshold", "must have either a value or a name")
        value, name = given.get("value"), given.get("name")
        if name is not None:
            return None, str(name)
        if isinstance(value, bool) or not isinstance(value, int):
            raise arguments.error("priorityThreshold", "must have a whole number as its value")
        return value, ""

    # -- a run --------------------------------------------------------------------------------------------------

    def open(self, view: View) -> None:
        self._view = view
        self._owners = Owners(view)
        self._threshold_priority = self._threshold_value
        if self._threshold_class:
            from stromboli.api import PriorityClass

            known = view.objects.get(PriorityClass, self._threshold_class)
            # An unknown class protects everybody: nobody can say who is below it.
            self._threshold_priority = -(2**31) if known is None else known.value
        self._checks: list[Callable[[Task], str | None]] = [
            self._preference, self._priority, self._storage, self._labels, self._replicas, self._age,
        ]  # fmt: skip

    def filter(self, task: Task) -> str | None:
        if task.status in (Status.SUCCEEDED, Status.FAILED):
            return self._finished_refusal(task)
        why = self._must_stay(task)
        if why is not None or EVICT in task.pod.metadata.annotations:
            return why
        for check in self._checks:
            why = check(task)
            if why is not None:
                return why
        return None

    def prefers_to_stay(self, task: Task) -> bool:
        return PREFER_NO_EVICTION in task.pod.metadata.annotations

    def _finished_refusal(self, task: Task) -> str | None:
        """Why a pod that has finished must not be deleted."""
        meta = task.pod.metadata
        if names.MIRROR in meta.annotations:
            return "it belongs to its node"
        if any(owner.controller and owner.api_version.startswith(_VOLCANO) for owner in meta.owner_references):
            return "its Job counts it"
        if not meta.owner_references and not self._bare_failed:
            return "it has no owner (evictFailedBarePods)"
        return None if EVICT in meta.annotations else self._priority(task) or self._labels(task)

    def _must_stay(self, task: Task) -> str | None:
        if task.status is Status.RELEASING:
            return "it is terminating"
        if task.status not in OCCUPYING or task.status is Status.BINDING:
            return "it does not run yet"
        if belongs_to_node(task):
            return "it belongs to its node"
        if task.job is None or task.pod.spec.scheduler_name != self._scheduler_name(task):
            return "it belongs to another scheduler"
        if not task.preemptable:
            return f'it has the annotation {names.PREEMPTABLE}: "false"'
        return self._owners.refusal(task)

    def _scheduler_name(self, task: Task) -> str:
        assert self._view is not None
        return self._view.scheduler_name or task.pod.spec.scheduler_name

    def _preference(self, task: Task) -> str | None:
        if self._mandatory and PREFER_NO_EVICTION in task.pod.metadata.annotations:
            return "it asks not to be evicted"
        return None

    def _priority(self, task: Task) -> str | None:
        spec = task.pod.spec
        priority = spec.priority or 0
        critical = priority >= CRITICAL_PRIORITY or spec.priority_class_name in _CRITICAL_CLASSES
        if critical and not self._critical:
            return "its priority is critical"
        if self._threshold_priority is not None and priority >= self._threshold_priority:
            return f"its priority {priority} is not below the threshold"
        return None

    def _storage(self, task: Task) -> str | None:
        for volume in task.pod.spec.volumes:
            if not self._local_storage and ("emptyDir" in volume or "hostPath" in volume):
                return f'its volume "{volume.get("name", "")}" is local'
            if self._keep_pvc and ("persistentVolumeClaim" in volume or "ephemeral" in volume):
                return f'its volume "{volume.get("name", "")}" is persistent'
        return None

    def _labels(self, task: Task) -> str | None:
        assert self._view is not None
        meta = task.pod.metadata
        if not self._namespaces(task.namespace):
            return f"pods of namespace {task.namespace} are not moved"
        if self._selector is not None and not matches_labels(self._selector, meta.labels):
            return "the label selector does not match it"
        if self._namespace_selector is not None:
            known = self._view.session.namespaces.get(task.namespace)
            if not matches_labels(self._namespace_selector, {} if known is None else known.labels):
                return "the label selector does not match its namespace"
        if self._keep_without_budget and not self._has_budget(task):
            return "it has no PodDisruptionBudget"
        return None

    def _has_budget(self, task: Task) -> bool:
        assert self._view is not None
        return any(
            budget.metadata.namespace == task.namespace
            and matches_labels(budget.spec.selector, task.pod.metadata.labels)
            for budget in self._view.session.budgets.values()
        )

    def _replicas(self, task: Task) -> str | None:
        if self._min_replicas > 1 and len(task.pod.metadata.owner_references) == 1:
            replicas = self._owners.replicas(task)
            if replicas < self._min_replicas:
                return f"its owner has {plural(replicas, 'pod')}, fewer than {self._min_replicas}"
        return None

    def _age(self, task: Task) -> str | None:
        if not self._min_age:
            return None
        assert self._view is not None
        started = task.pod.status.start_time
        if started is None or self._view.now - parse_timestamp(started) < self._min_age:
            return "it has just started"
        return None


def read_selector(arguments: Arguments, key: str) -> LabelSelector | None:
    given = arguments.get(key)
    if given is None:
        return None
    problem = "must be a label selector with matchLabels and matchExpressions"
    if not isinstance(given, dict) or not set(given) <= {"matchLabels", "matchExpressions"}:
        raise arguments.error(key, problem)
    labels, expressions = given.get("matchLabels") or {}, given.get("matchExpressions") or []
    if not isinstance(labels, dict) or not isinstance(expressions, list):
        raise arguments.error(key, problem)
    requirements = []
    for each in expressions:
        operator = each.get("operator") if isinstance(each, dict) else None
        if operator not in ("In", "NotIn", "Exists", "DoesNotExist") or not isinstance(each.get("key"), str):
            raise arguments.error(key, problem)
        values = [str(value) for value in each.get("values") or []]
        requirements.append(LabelSelectorRequirement(key=each["key"], operator=operator, values=values))
    return LabelSelector(match_labels={str(k): str(v) for k, v in labels.items()}, match_expressions=requirements)


def read_namespaces(arguments: Arguments, key: str) -> Callable[[str], bool]:
    """`include` or `exclude`, not both: whether pods of a namespace may be moved."""
    given = arguments.get(key)
    if given is None:
        return lambda namespace: True
    if not isinstance(given, dict) or not set(given) <= {"include", "exclude"}:
        raise arguments.error(key, "must have include or exclude, a list of namespaces")
    include, exclude = given.get("include"), given.get("exclude")
    if include and exclude:
        raise arguments.error(key, "must have either include or exclude, not both")
    for listed in (include, exclude):
        if listed is not None and not (isinstance(listed, list) and all(isinstance(name, str) for name in listed)):
            raise arguments.error(key, "must have lists of namespaces")
    if include:
        return lambda namespace: namespace in include
    return lambda namespace: namespace not in (exclude or ())
