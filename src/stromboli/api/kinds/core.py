"""The Kubernetes kinds around a pod: nodes, namespaces, priorities, quotas, and budgets."""

from __future__ import annotations

from typing import Any

from msgspec import field

from .metadata import ApiObject, ApiStruct, Condition, LabelSelector, ResourceList


class Taint(ApiStruct):
    key: str = ""
    value: str = ""
    effect: str = ""


class NodeSpec(ApiStruct):
    unschedulable: bool = False
    taints: list[Taint] = field(default_factory=list)


class ContainerImage(ApiStruct):
    names: list[str] = field(default_factory=list)
    size_bytes: int = 0


class NodeStatus(ApiStruct):
    allocatable: ResourceList = field(default_factory=dict)
    capacity: ResourceList = field(default_factory=dict)
    conditions: list[Condition] = field(default_factory=list)
    images: list[ContainerImage] = field(default_factory=list)


class Node(ApiObject):
    api_version: str = "v1"
    kind: str = "Node"
    spec: NodeSpec = field(default_factory=NodeSpec)
    status: NodeStatus = field(default_factory=NodeStatus)


class NamespaceStatus(ApiStruct):
    phase: str = "Active"


class Namespace(ApiObject):
    api_version: str = "v1"
    kind: str = "Namespace"
    status: NamespaceStatus = field(default_factory=NamespaceStatus)


class PriorityClass(ApiObject, kw_only=True):
    api_version: str = "scheduling.k8s.io/v1"
    kind: str = "PriorityClass"
    value: int
    global_default: bool = False
    preemption_policy: str = ""
    description: str = ""


class ResourceQuotaSpec(ApiStruct):
    hard: ResourceList = field(default_factory=dict)
    scopes: list[str] = field(default_factory=list)
    scope_selector: dict[str, Any] | None = None

    @property
    def has_scopes(self) -> bool:
        """Whether it counts some objects only."""
        return bool(self.scopes or self.scope_selector)


class ResourceQuotaStatus(ApiStruct):
    hard: ResourceList = field(default_factory=dict)
    used: ResourceList = field(default_factory=dict)


class ResourceQuota(ApiObject):
    api_version: str = "v1"
    kind: str = "ResourceQuota"
    spec: ResourceQuotaSpec = field(default_factory=ResourceQuotaSpec)
    status: ResourceQuotaStatus = field(default_factory=ResourceQuotaStatus)


class PodDisruptionBudgetSpec(ApiStruct):
    selector: LabelSelector | None = None
    min_available: int | str | None = None
    max_unavailable: int | str | None = None


class PodDisruptionBudgetStatus(ApiStruct):
    disruptions_allowed: int = 0
    current_healthy: int = 0
    desired_healthy: int = 0
    expected_pods: int = 0
    disrupted_pods: dict[str, str] = field(default_factory=dict)
    observed_generation: int = 0


class PodDisruptionBudget(ApiObject):
    api_version: str = "policy/v1"
    kind: str = "PodDisruptionBudget"
    spec: PodDisruptionBudgetSpec = field(default_factory=PodDisruptionBudgetSpec)
    status: PodDisruptionBudgetStatus = field(default_factory=PodDisruptionBudgetStatus)
