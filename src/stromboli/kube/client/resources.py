"""The path of each kind on an API server.

A `Resource` connects a struct with its path, so that a call names the kind once and gets typed objects back.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, cast
from urllib.parse import quote

from stromboli.api import (
    ApiObject,
    BatchJob,
    Command,
    CompositePodGroup,
    CronJob,
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    HyperNode,
    Job,
    JobFlow,
    JobTemplate,
    Namespace,
    Node,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    PodDisruptionBudget,
    PodGroup,
    PriorityClass,
    Queue,
    ReplicaSet,
    Reservation,
    ResourceQuota,
    StatefulSet,
    StorageClass,
    WorkloadPodGroup,
)

from .kinds import Event, Lease

T = TypeVar("T", bound=ApiObject)

_PLAIN = re.compile(r"[a-z0-9.-]+")


@dataclass(frozen=True, slots=True)
class Resource(Generic[T]):
    type: type[T]
    group_version: str
    plural: str
    namespaced: bool
    has_status: bool
    """Whether the status is a subresource: then a write to the object does not change it, and vice versa."""

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """The path of all objects (of a namespace, or of all), of one object, or of a subresource."""
        path = f"/{'api' if self.group_version == 'v1' else 'apis'}/{self.group_version}/"
        if namespace and self.namespaced:
            path += f"namespaces/{_quoted(namespace)}/"
        path += self.plural
        if name:
            path += f"/{_quoted(name)}"
        if subresource:
            path += f"/{subresource}"
        return path

    def path_of(self, key: str, subresource: str = "") -> str:
        """The path of the object with the key `namespace/name`, or `name` if it is cluster-scoped."""
        namespace, _, name = key.rpartition("/")
        if not name or bool(namespace) != self.namespaced:
            expected = "namespace/name" if self.namespaced else "a name without namespace"
            raise ValueError(f"the key of {self.plural} is {expected}, not {key!r}")
        return self.path(namespace, name, subresource)

    def key(self, obj: T) -> str:
        return f"{obj.metadata.namespace}/{obj.metadata.name}" if self.namespaced else obj.metadata.name


def _quoted(name: str) -> str:
    # Names in a cluster need no quotes, and to look costs a fifth of quoting.
    return name if _PLAIN.fullmatch(name) else quote(name, safe="")


PODS = Resource(Pod, "v1", "pods", namespaced=True, has_status=True)
NODES = Resource(Node, "v1", "nodes", namespaced=False, has_status=True)
NAMESPACES = Resource(Namespace, "v1", "namespaces", namespaced=False, has_status=True)
RESOURCE_QUOTAS = Resource(ResourceQuota, "v1", "resourcequotas", namespaced=True, has_status=True)
PRIORITY_CLASSES = Resource(
    PriorityClass, "scheduling.k8s.io/v1", "priorityclasses", namespaced=False, has_status=False
)
POD_DISRUPTION_BUDGETS = Resource(
    PodDisruptionBudget, "policy/v1", "poddisruptionbudgets", namespaced=True, has_status=True
)
# The only version before Kubernetes 1.21.
LEGACY_BUDGETS = Resource(
    PodDisruptionBudget, "policy/v1beta1", "poddisruptionbudgets", namespaced=True, has_status=True
)
REPLICA_SETS = Resource(ReplicaSet, "apps/v1", "replicasets", namespaced=True, has_status=True)
STATEFUL_SETS = Resource(StatefulSet, "apps/v1", "statefulsets", namespaced=True, has_status=True)

QUEUES = Resource(Queue, "scheduling.volcano.sh/v1beta1", "queues", namespaced=False, has_status=True)
POD_GROUPS = Resource(PodGroup, "scheduling.volcano.sh/v1beta1", "podgroups", namespaced=True, has_status=True)
JOBS = Resource(Job, "batch.volcano.sh/v1alpha1", "jobs", namespaced=True, has_status=True)
BATCH_JOBS = Resource(BatchJob, "batch/v1", "jobs", namespaced=True, has_status=True)
CRON_JOBS = Resource(CronJob, "batch.volcano.sh/v1alpha1", "cronjobs", namespaced=True, has_status=True)
JOB_FLOWS = Resource(JobFlow, "flow.volcano.sh/v1alpha1", "jobflows", namespaced=True, has_status=True)
JOB_TEMPLATES = Resource(JobTemplate, "flow.volcano.sh/v1alpha1", "jobtemplates", namespaced=True, has_status=True)
COMMANDS = Resource(Command, "bus.volcano.sh/v1alpha1", "commands", namespaced=True, has_status=False)
RESERVATIONS = Resource(
    Reservation, "scheduling.volcano.sh/v1alpha1", "reservations", namespaced=False, has_status=True
)
HYPER_NODES = Resource(HyperNode, "topology.volcano.sh/v1alpha1", "hypernodes", namespaced=False, has_status=True)

# Kubernetes' own. Servers have them from 1.37 on, and only if their gates are on.
WORKLOAD_POD_GROUPS = Resource(
    WorkloadPodGroup, "scheduling.k8s.io/v1beta1", "podgroups", namespaced=True, has_status=True
)
COMPOSITE_POD_GROUPS = Resource(
    CompositePodGroup, "scheduling.k8s.io/v1alpha3", "compositepodgroups", namespaced=True, has_status=True
)

PERSISTENT_VOLUME_CLAIMS = Resource(
    PersistentVolumeClaim, "v1", "persistentvolumeclaims", namespaced=True, has_status=True
)
PERSISTENT_VOLUMES = Resource(PersistentVolume, "v1", "persistentvolumes", namespaced=False, has_status=True)
STORAGE_CLASSES = Resource(StorageClass, "storage.k8s.io/v1", "storageclasses", namespaced=False, has_status=False)
CSI_NODES = Resource(CSINode, "storage.k8s.io/v1", "csinodes", namespaced=False, has_status=False)
CSI_DRIVERS = Resource(CSIDriver, "storage.k8s.io/v1", "csidrivers", namespaced=False, has_status=False)
CSI_STORAGE_CAPACITIES = Resource(
    CSIStorageCapacity, "storage.k8s.io/v1", "csistoragecapacities", namespaced=True, has_status=False
)

LEASES = Resource(Lease, "coordination.k8s.io/v1", "leases", namespaced=True, has_status=False)
EVENTS = Resource(Event, "v1", "events", namespaced=True, has_status=False)

# Kinds that we write but never read: only the metadata of the response is decoded.
SERVICES = Resource(ApiObject, "v1", "services", namespaced=True, has_status=True)
CONFIG_MAPS = Resource(ApiObject, "v1", "configmaps", namespaced=True, has_status=False)
SECRETS = Resource(ApiObject, "v1", "secrets", namespaced=True, has_status=False)
NETWORK_POLICIES = Resource(ApiObject, "networking.k8s.io/v1", "networkpolicies", namespaced=True, has_status=False)
CUSTOM_RESOURCE_DEFINITIONS = Resource(
    ApiObject, "apiextensions.k8s.io/v1", "customresourcedefinitions", namespaced=False, has_status=True
)

_BY_TYPE: dict[type[ApiObject], Resource[Any]] = {
    resource.type: resource
    for resource in cast(
        tuple[Resource[Any], ...],
        (
            PODS,
            NODES,
            NAMESPACES,
            RESOURCE_QUOTAS,
            PRIORITY_CLASSES,
            POD_DISRUPTION_BUDGETS,
            REPLICA_SETS,
            STATEFUL_SETS,
            QUEUES,
            POD_GROUPS,
            JOBS,
            BATCH_JOBS,
            CRON_JOBS,
            JOB_FLOWS,
            JOB_TEMPLATES,
            COMMANDS,
            RESERVATIONS,
            HYPER_NODES,
            WORKLOAD_POD_GROUPS,
            COMPOSITE_POD_GROUPS,
            PERSISTENT_VOLUME_CLAIMS,
            PERSISTENT_VOLUMES,
            STORAGE_CLASSES,
            CSI_NODES,
            CSI_DRIVERS,
            CSI_STORAGE_CAPACITIES,
            LEASES,
            EVENTS,
        ),
    )
}


def resource_of(kind: type[T]) -> Resource[T]:
    """The resource of a struct; for disruption budgets the newest version (see LEGACY_BUDGETS)."""
    return _BY_TYPE[kind]
