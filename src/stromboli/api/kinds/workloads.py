"""Kubernetes' own groups of pods: PodGroup of `scheduling.k8s.io/v1beta1`, which servers have from 1.37 on behind the
gate GenericWorkload, and CompositePodGroup of `v1alpha3`, a group of such groups.

Our own kinds are those of Volcano, and one of them is called PodGroup, too. `stromboli.api.upstream` shows these as
groups of that kind to the rest of the program.
"""

from __future__ import annotations

from msgspec import field

from .metadata import ApiObject, ApiStruct, Condition


class Unrestricted(ApiStruct):
    """Says by being there what is meant: there is nothing more to say."""


class GangSchedulingPolicy(ApiStruct):
    min_count: int = 0


class PodGroupSchedulingPolicy(ApiStruct):
    """Exactly one of the two is set. `basic`: each pod starts when it can."""

    basic: Unrestricted | None = None
    gang: GangSchedulingPolicy | None = None


class CompositeGangSchedulingPolicy(ApiStruct):
    min_group_count: int = 0


class CompositeSchedulingPolicy(ApiStruct):
    """Exactly one of the two is set. `basic`: each child starts when it can."""

    basic: Unrestricted | None = None
    gang: CompositeGangSchedulingPolicy | None = None


class TopologyConstraint(ApiStruct):
    """All pods run on nodes that have the same value of this label."""

    key: str = ""


class PodGroupSchedulingConstraints(ApiStruct):
    topology: list[TopologyConstraint] = field(default_factory=list)


class DisruptionMode(ApiStruct):
    """Exactly one of the two is set. `all`: all pods, or all children, are evicted or none."""

    single: Unrestricted | None = None
    all: Unrestricted | None = None


class WorkloadReference(ApiStruct):
    workload_name: str = ""
    template_name: str = ""


class WorkloadGroupSpec(ApiStruct):
    """What both kinds have. The priority is filled in by the server, from the class."""

    parent_composite_pod_group_name: str = ""
    workload_ref: WorkloadReference | None = None
    scheduling_constraints: PodGroupSchedulingConstraints | None = None
    disruption_mode: DisruptionMode | None = None
    priority_class_name: str = ""
    priority: int | None = None
    preemption_policy: str = ""


class WorkloadPodGroupSpec(WorkloadGroupSpec):
    scheduling_policy: PodGroupSchedulingPolicy = field(default_factory=PodGroupSchedulingPolicy)


class CompositePodGroupSpec(WorkloadGroupSpec):
    scheduling_policy: CompositeSchedulingPolicy = field(default_factory=CompositeSchedulingPolicy)


class WorkloadGroupStatus(ApiStruct):
    conditions: list[Condition] = field(default_factory=list)


class WorkloadPodGroup(ApiObject):
    """`kind: PodGroup`; the name of the class tells it from Volcano's."""

    api_version: str = "scheduling.k8s.io/v1beta1"
    kind: str = "PodGroup"
    spec: WorkloadPodGroupSpec = field(default_factory=WorkloadPodGroupSpec)
    status: WorkloadGroupStatus = field(default_factory=WorkloadGroupStatus)


class CompositePodGroup(ApiObject):
    api_version: str = "scheduling.k8s.io/v1alpha3"
    kind: str = "CompositePodGroup"
    spec: CompositePodGroupSpec = field(default_factory=CompositePodGroupSpec)
    status: WorkloadGroupStatus = field(default_factory=WorkloadGroupStatus)
