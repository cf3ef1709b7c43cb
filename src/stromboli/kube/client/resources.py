"""Where each kind lives on an API server.

A `Resource` ties a struct to its address, so that a call site names the kind once and gets typed objects back.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generic, TypeVar, cast
from urllib.parse import quote

from stromboli.api import (
    ApiObject,
    Command,
    Job,
    Namespace,
    Node,
    Pod,
    PodDisruptionBudget,
    PodGroup,
    PriorityClass,
    Queue,
    ReplicaSet,
    Reservation,
    ResourceQuota,
)

from .kinds import Event, Lease

T = TypeVar("T", bound=ApiObject)


@dataclass(frozen=True, slots=True)
class Resource(Generic[T]):
    type: type[T]
    group_version: str
    plural: str
    namespaced: bool
    has_status: bool
    """Whether the status is a subresource: then a write to the object leaves it alone, and the other way round."""

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """Where the objects (of a namespace, or of all) are, or one of them, or a part of it."""
        steps = ["api" if self.group_version == "v1" else "apis", self.group_version]
        if namespace and self.namespaced:
            steps += ["namespaces", quote(namespace, safe="")]
        steps.append(self.plural)
        if name:
            steps.append(quote(name, safe=""))
        if subresource:
            steps.append(subresource)
        return "/" + "/".join(steps)

    def path_of(self, key: str, subresource: str = "") -> str:
        """Where the object called `namespace/name` (or `name`, cluster-wide) is."""
        namespace, _, name = key.rpartition("/")
        if not name or bool(namespace) != self.namespaced:
            wanted = "namespace/name" if self.namespaced else "a name without namespace"
            raise ValueError(f"{self.plural} are called by {wanted}, not {key!r}")
        return self.path(namespace, name, subresource)

    def key(self, obj: T) -> str:
        return f"{obj.metadata.namespace}/{obj.metadata.name}" if self.namespaced else obj.metadata.name


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
# All there is before Kubernetes 1.21.
LEGACY_BUDGETS = Resource(
    PodDisruptionBudget, "policy/v1beta1", "poddisruptionbudgets", namespaced=True, has_status=True
)
REPLICA_SETS = Resource(ReplicaSet, "apps/v1", "replicasets", namespaced=True, has_status=True)

QUEUES = Resource(Queue, "scheduling.volcano.sh/v1beta1", "queues", namespaced=False, has_status=True)
POD_GROUPS = Resource(PodGroup, "scheduling.volcano.sh/v1beta1", "podgroups", namespaced=True, has_status=True)
JOBS = Resource(Job, "batch.volcano.sh/v1alpha1", "jobs", namespaced=True, has_status=True)
COMMANDS = Resource(Command, "bus.volcano.sh/v1alpha1", "commands", namespaced=True, has_status=False)
RESERVATIONS = Resource(
    Reservation, "scheduling.volcano.sh/v1alpha1", "reservations", namespaced=False, has_status=True
)

LEASES = Resource(Lease, "coordination.k8s.io/v1", "leases", namespaced=True, has_status=False)
EVENTS = Resource(Event, "v1", "events", namespaced=True, has_status=False)

# Kinds we write but never look into: what comes back is metadata, and that is all we ask of it.
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
            QUEUES,
            POD_GROUPS,
            JOBS,
            COMMANDS,
            RESERVATIONS,
            LEASES,
            EVENTS,
        ),
    )
}


def resource_of(kind: type[T]) -> Resource[T]:
    """Where the objects of a struct's kind live; for budgets the newest address (see LEGACY_BUDGETS)."""
    return _BY_TYPE[kind]
