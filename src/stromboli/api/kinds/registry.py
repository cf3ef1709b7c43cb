"""The table of all kinds: which struct an apiVersion and kind are decoded to, which kinds have a namespace, and the
key of an object.
"""

from __future__ import annotations

from .apps import ControllerRevision, DaemonSet, Deployment, ReplicaSet, StatefulSet
from .batch import Command, CronJob, Job, PodGroup, Queue, Reservation
from .core import Namespace, Node, PodDisruptionBudget, PriorityClass, ResourceQuota
from .flow import JobFlow, JobTemplate
from .jobs import BatchCronJob, BatchJob
from .pods import Pod
from .storage import CSIDriver, CSINode, CSIStorageCapacity, PersistentVolume, PersistentVolumeClaim, StorageClass
from .topology import HyperNode
from .workloads import CompositePodGroup, WorkloadPodGroup

KObject = (
    Node
    | Namespace
    | Pod
    | PriorityClass
    | ResourceQuota
    | PodDisruptionBudget
    | ReplicaSet
    | StatefulSet
    | Deployment
    | DaemonSet
    | ControllerRevision
    | BatchJob
    | BatchCronJob
    | Queue
    | PodGroup
    | Job
    | CronJob
    | JobFlow
    | JobTemplate
    | Command
    | Reservation
    | HyperNode
    | PersistentVolumeClaim
    | PersistentVolume
    | StorageClass
    | CSINode
    | CSIDriver
    | CSIStorageCapacity
    | WorkloadPodGroup
    | CompositePodGroup
)

KINDS: dict[tuple[str, str], type[KObject]] = {
    ("v1", "Node"): Node,
    ("v1", "Namespace"): Namespace,
    ("v1", "Pod"): Pod,
    ("v1", "ResourceQuota"): ResourceQuota,
    ("scheduling.k8s.io/v1", "PriorityClass"): PriorityClass,
    ("policy/v1", "PodDisruptionBudget"): PodDisruptionBudget,
    ("apps/v1", "ReplicaSet"): ReplicaSet,
    ("apps/v1", "StatefulSet"): StatefulSet,
    ("apps/v1", "Deployment"): Deployment,
    ("apps/v1", "DaemonSet"): DaemonSet,
    ("apps/v1", "ControllerRevision"): ControllerRevision,
    ("scheduling.volcano.sh/v1beta1", "Queue"): Queue,
    ("scheduling.volcano.sh/v1beta1", "PodGroup"): PodGroup,
    ("batch.volcano.sh/v1alpha1", "Job"): Job,
    ("batch.volcano.sh/v1alpha1", "CronJob"): CronJob,
    ("flow.volcano.sh/v1alpha1", "JobFlow"): JobFlow,
    ("flow.volcano.sh/v1alpha1", "JobTemplate"): JobTemplate,
    ("batch/v1", "Job"): BatchJob,  # behind Volcano's: who names a Job without a version means that one
    ("batch/v1", "CronJob"): BatchCronJob,
    ("bus.volcano.sh/v1alpha1", "Command"): Command,
    ("scheduling.volcano.sh/v1alpha1", "Reservation"): Reservation,
    ("topology.volcano.sh/v1alpha1", "HyperNode"): HyperNode,
    ("scheduling.k8s.io/v1beta1", "PodGroup"): WorkloadPodGroup,
    ("scheduling.k8s.io/v1alpha3", "CompositePodGroup"): CompositePodGroup,
    ("v1", "PersistentVolumeClaim"): PersistentVolumeClaim,
    ("v1", "PersistentVolume"): PersistentVolume,
    ("storage.k8s.io/v1", "StorageClass"): StorageClass,
    ("storage.k8s.io/v1", "CSINode"): CSINode,
    ("storage.k8s.io/v1", "CSIDriver"): CSIDriver,
    ("storage.k8s.io/v1", "CSIStorageCapacity"): CSIStorageCapacity,
}

_NAMES = {kind: name for (_, name), kind in KINDS.items()}

CLUSTER_SCOPED: frozenset[type[KObject]] = frozenset({
    Node, Namespace, PriorityClass, Queue, Reservation, HyperNode, PersistentVolume, StorageClass, CSINode, CSIDriver,
})  # fmt: skip


def kind_name(kind: type[KObject]) -> str:
    """As users write it: two types may have one name, in different groups."""
    return _NAMES.get(kind, kind.__name__)


def is_namespaced(kind: type[KObject]) -> bool:
    return kind not in CLUSTER_SCOPED


def key(obj: KObject) -> str:
    """The name of an object in logs and reports: `namespace/name`, or `name` for a cluster-scoped kind."""
    if type(obj) in CLUSTER_SCOPED:
        return obj.metadata.name
    return f"{obj.metadata.namespace}/{obj.metadata.name}"
