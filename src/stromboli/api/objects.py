"""Every kind we understand: the names to import, the table to decode by, and what an object is called.

The structs themselves live beside this module, grouped as a reader looks for them: metadata (what every
object is made of), pods, core (the other Kubernetes kinds) and batch (queues, groups, jobs,
reservations).
"""

from __future__ import annotations

from stromboli.api.kinds.batch import (
    Command,
    DependsOn,
    Guarantee,
    GuaranteePercentage,
    Job,
    JobCondition,
    JobSpec,
    JobState,
    JobStatus,
    LifecyclePolicy,
    MigrationInfo,
    MigrationState,
    NetworkTopology,
    NodeGroupAffinity,
    PartitionPolicy,
    PodGroup,
    PodGroupCondition,
    PodGroupSpec,
    PodGroupStatus,
    Queue,
    QueueAffinity,
    QueueReservation,
    QueueSpec,
    QueueStatus,
    Reservation,
    ReservationController,
    ReservationOwner,
    ReservationSpec,
    ReservationStatus,
    SubGroupPolicy,
    TaskSpec,
    TaskState,
)
from stromboli.api.kinds.core import (
    ContainerImage,
    Namespace,
    NamespaceStatus,
    Node,
    NodeSpec,
    NodeStatus,
    PodDisruptionBudget,
    PodDisruptionBudgetSpec,
    PodDisruptionBudgetStatus,
    PriorityClass,
    ReplicaSet,
    ReplicaSetSpec,
    ReplicaSetStatus,
    ResourceQuota,
    ResourceQuotaSpec,
    ResourceQuotaStatus,
    Taint,
)
from stromboli.api.kinds.metadata import (
    ApiObject,
    ApiStruct,
    Condition,
    LabelSelector,
    LabelSelectorRequirement,
    ObjectMeta,
    ObjectReference,
    OwnerReference,
    ResourceList,
)
from stromboli.api.kinds.pods import (
    Affinity,
    Container,
    ContainerPort,
    ContainerState,
    ContainerStateRunning,
    ContainerStateTerminated,
    ContainerStateWaiting,
    ContainerStatus,
    NodeAffinity,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    Pod,
    PodAffinity,
    PodAffinityTerm,
    PodAntiAffinity,
    PodSchedulingGate,
    PodSpec,
    PodStatus,
    PodTemplateSpec,
    PreferredSchedulingTerm,
    ResourceRequirements,
    Toleration,
    TopologySpreadConstraint,
    WeightedPodAffinityTerm,
)

KObject = (
    Node
    | Namespace
    | Pod
    | PriorityClass
    | ResourceQuota
    | PodDisruptionBudget
    | ReplicaSet
    | Queue
    | PodGroup
    | Job
    | Command
    | Reservation
)

KINDS: dict[tuple[str, str], type[KObject]] = {
    ("v1", "Node"): Node,
    ("v1", "Namespace"): Namespace,
    ("v1", "Pod"): Pod,
    ("v1", "ResourceQuota"): ResourceQuota,
    ("scheduling.k8s.io/v1", "PriorityClass"): PriorityClass,
    ("policy/v1", "PodDisruptionBudget"): PodDisruptionBudget,
    ("apps/v1", "ReplicaSet"): ReplicaSet,
    ("scheduling.volcano.sh/v1beta1", "Queue"): Queue,
    ("scheduling.volcano.sh/v1beta1", "PodGroup"): PodGroup,
    ("batch.volcano.sh/v1alpha1", "Job"): Job,
    ("bus.volcano.sh/v1alpha1", "Command"): Command,
    ("scheduling.volcano.sh/v1alpha1", "Reservation"): Reservation,
}

CLUSTER_SCOPED: frozenset[type[KObject]] = frozenset({Node, Namespace, PriorityClass, Queue, Reservation})


def is_namespaced(kind: type[KObject]) -> bool:
    return kind not in CLUSTER_SCOPED


def key(obj: KObject) -> str:
    """What an object is called everywhere, from logs to reports: `namespace/name`, or `name` cluster-wide."""
    if type(obj) in CLUSTER_SCOPED:
        return obj.metadata.name
    return f"{obj.metadata.namespace}/{obj.metadata.name}"


__all__ = [
    "CLUSTER_SCOPED",
    "KINDS",
    "Affinity",
    "ApiObject",
    "ApiStruct",
    "Command",
    "Condition",
    "Container",
    "ContainerImage",
    "ContainerPort",
    "ContainerState",
    "ContainerStateRunning",
    "ContainerStateTerminated",
    "ContainerStateWaiting",
    "ContainerStatus",
    "DependsOn",
    "Guarantee",
    "GuaranteePercentage",
    "Job",
    "JobCondition",
    "JobSpec",
    "JobState",
    "JobStatus",
    "KObject",
    "LabelSelector",
    "LabelSelectorRequirement",
    "LifecyclePolicy",
    "MigrationInfo",
    "MigrationState",
    "Namespace",
    "NamespaceStatus",
    "NetworkTopology",
    "Node",
    "NodeAffinity",
    "NodeGroupAffinity",
    "NodeSelector",
    "NodeSelectorRequirement",
    "NodeSelectorTerm",
    "NodeSpec",
    "NodeStatus",
    "ObjectMeta",
    "ObjectReference",
    "OwnerReference",
    "PartitionPolicy",
    "Pod",
    "PodAffinity",
    "PodAffinityTerm",
    "PodAntiAffinity",
    "PodDisruptionBudget",
    "PodDisruptionBudgetSpec",
    "PodDisruptionBudgetStatus",
    "PodGroup",
    "PodGroupCondition",
    "PodGroupSpec",
    "PodGroupStatus",
    "PodSchedulingGate",
    "PodSpec",
    "PodStatus",
    "PodTemplateSpec",
    "PreferredSchedulingTerm",
    "PriorityClass",
    "Queue",
    "QueueAffinity",
    "QueueReservation",
    "QueueSpec",
    "QueueStatus",
    "ReplicaSet",
    "ReplicaSetSpec",
    "ReplicaSetStatus",
    "Reservation",
    "ReservationController",
    "ReservationOwner",
    "ReservationSpec",
    "ReservationStatus",
    "ResourceList",
    "ResourceQuota",
    "ResourceQuotaSpec",
    "ResourceQuotaStatus",
    "ResourceRequirements",
    "SubGroupPolicy",
    "Taint",
    "TaskSpec",
    "TaskState",
    "Toleration",
    "TopologySpreadConstraint",
    "WeightedPodAffinityTerm",
    "is_namespaced",
    "key",
]
