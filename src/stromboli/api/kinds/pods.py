"""Pods and pod templates, with the fields that scheduling reads."""

from __future__ import annotations

from typing import Any

from msgspec import field

from .metadata import ApiObject, ApiStruct, Condition, LabelSelector, ObjectMeta, ResourceList


class NodeSelectorRequirement(ApiStruct):
    key: str
    operator: str
    values: list[str] = field(default_factory=list)


class NodeSelectorTerm(ApiStruct):
    match_expressions: list[NodeSelectorRequirement] = field(default_factory=list)
    match_fields: list[NodeSelectorRequirement] = field(default_factory=list)


class NodeSelector(ApiStruct):
    node_selector_terms: list[NodeSelectorTerm]


class PreferredSchedulingTerm(ApiStruct):
    weight: int
    preference: NodeSelectorTerm


class NodeAffinity(ApiStruct):
    required_during_scheduling_ignored_during_execution: NodeSelector | None = None
    preferred_during_scheduling_ignored_during_execution: list[PreferredSchedulingTerm] = field(default_factory=list)


class PodAffinityTerm(ApiStruct):
    topology_key: str
    label_selector: LabelSelector | None = None
    namespaces: list[str] = field(default_factory=list)
    namespace_selector: LabelSelector | None = None
    match_label_keys: list[str] = field(default_factory=list)
    mismatch_label_keys: list[str] = field(default_factory=list)


class WeightedPodAffinityTerm(ApiStruct):
    weight: int
    pod_affinity_term: PodAffinityTerm


class PodAffinity(ApiStruct):
    required_during_scheduling_ignored_during_execution: list[PodAffinityTerm] = field(default_factory=list)
    preferred_during_scheduling_ignored_during_execution: list[WeightedPodAffinityTerm] = field(default_factory=list)


class PodAntiAffinity(ApiStruct):
    required_during_scheduling_ignored_during_execution: list[PodAffinityTerm] = field(default_factory=list)
    preferred_during_scheduling_ignored_during_execution: list[WeightedPodAffinityTerm] = field(default_factory=list)


class Affinity(ApiStruct):
    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAntiAffinity | None = None


class Toleration(ApiStruct):
    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    toleration_seconds: int | None = None


class TopologySpreadConstraint(ApiStruct):
    max_skew: int
    topology_key: str
    when_unsatisfiable: str
    label_selector: LabelSelector | None = None
    min_domains: int | None = None
    node_affinity_policy: str = "Honor"
    node_taints_policy: str = "Ignore"
    match_label_keys: list[str] = field(default_factory=list)


class ResourceRequirements(ApiStruct):
    requests: ResourceList = field(default_factory=dict)
    limits: ResourceList = field(default_factory=dict)


class ContainerPort(ApiStruct):
    container_port: int = 0
    host_port: int = 0
    protocol: str = "TCP"
    host_ip: str = field(default="", name="hostIP")
    name: str = ""


class Container(ApiStruct):
    """A container; as an init container with `restart_policy` "Always" it is a sidecar that keeps running."""

    name: str = ""
    image: str = ""
    command: list[str] = field(default_factory=list)
    args: list[str] = field(default_factory=list)
    resources: ResourceRequirements = field(default_factory=ResourceRequirements)
    ports: list[ContainerPort] = field(default_factory=list)
    env: list[dict[str, Any]] = field(default_factory=list)
    volume_mounts: list[dict[str, Any]] = field(default_factory=list)
    restart_policy: str = ""


class PodSchedulingGate(ApiStruct):
    name: str = ""


class PodSchedulingGroup(ApiStruct):
    """The PodGroup of scheduling.k8s.io that a pod is in. It never changes."""

    pod_group_name: str = ""


class PodResourceClaim(ApiStruct):
    """A device that the pod needs, by dynamic resource allocation."""

    name: str = ""
    resource_claim_name: str = ""
    resource_claim_template_name: str = ""


class PodSpec(ApiStruct):
    scheduler_name: str = ""
    node_name: str = ""
    node_selector: dict[str, str] = field(default_factory=dict)
    affinity: Affinity | None = None
    tolerations: list[Toleration] = field(default_factory=list)
    topology_spread_constraints: list[TopologySpreadConstraint] = field(default_factory=list)
    containers: list[Container] = field(default_factory=list)
    init_containers: list[Container] = field(default_factory=list)
    overhead: ResourceList = field(default_factory=dict)
    resources: ResourceRequirements | None = None
    priority: int | None = None
    priority_class_name: str = ""
    preemption_policy: str = ""
    restart_policy: str = ""
    termination_grace_period_seconds: int | None = None
    scheduling_gates: list[PodSchedulingGate] = field(default_factory=list)
    scheduling_group: PodSchedulingGroup | None = None
    volumes: list[dict[str, Any]] = field(default_factory=list)
    resource_claims: list[PodResourceClaim] = field(default_factory=list)
    host_network: bool = False
    hostname: str = ""
    subdomain: str = ""
    service_account_name: str = ""


class ContainerStateTerminated(ApiStruct):
    exit_code: int = 0
    reason: str = ""
    message: str = ""
    finished_at: str | None = None


class ContainerStateWaiting(ApiStruct):
    reason: str = ""
    message: str = ""


class ContainerStateRunning(ApiStruct):
    started_at: str | None = None


class ContainerState(ApiStruct):
    """Exactly one of the three is set."""

    waiting: ContainerStateWaiting | None = None
    running: ContainerStateRunning | None = None
    terminated: ContainerStateTerminated | None = None


class ContainerStatus(ApiStruct):
    name: str = ""
    ready: bool = False
    restart_count: int = 0
    state: ContainerState = field(default_factory=ContainerState)


class PodStatus(ApiStruct):
    phase: str = "Pending"
    conditions: list[Condition] = field(default_factory=list)
    nominated_node_name: str = ""
    container_statuses: list[ContainerStatus] = field(default_factory=list)
    init_container_statuses: list[ContainerStatus] = field(default_factory=list)
    reason: str = ""
    message: str = ""
    start_time: str | None = None
    pod_ip: str = field(default="", name="podIP")


class Pod(ApiObject):
    api_version: str = "v1"
    kind: str = "Pod"
    spec: PodSpec = field(default_factory=PodSpec)
    status: PodStatus = field(default_factory=PodStatus)


class PodTemplateSpec(ApiStruct):
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: PodSpec = field(default_factory=PodSpec)
