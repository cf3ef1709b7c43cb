"""The rules for PodGroups and CompositePodGroups of `scheduling.k8s.io`: those of the API server."""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from stromboli.api.errors import ApiError
from stromboli.api.kinds.pods import PodSchedulingGroup
from stromboli.api.kinds.workloads import (
    CompositePodGroup,
    CompositeSchedulingPolicy,
    DisruptionMode,
    GangSchedulingPolicy,
    PodGroupSchedulingConstraints,
    PodGroupSchedulingPolicy,
    WorkloadPodGroup,
    WorkloadReference,
)
from stromboli.api.rules.reservations import HIGHEST_USER_PRIORITY

from . import rules

_PREEMPTION_POLICIES: Final = ("", "PreemptLowerPriority", "Never")


def check_workload_group(group: WorkloadPodGroup | CompositePodGroup) -> None:
    spec = group.spec
    _policy(spec.scheduling_policy, "spec.schedulingPolicy")
    if spec.scheduling_constraints is not None:
        _constraints(spec.scheduling_constraints, "spec.schedulingConstraints.topology")
    _mode(spec.disruption_mode, "spec.disruptionMode")
    if spec.priority_class_name:
        rules.dns_subdomain(spec.priority_class_name, "spec.priorityClassName")
    if spec.priority is not None:
        rules.between(spec.priority, -(2**31), HIGHEST_USER_PRIORITY, "spec.priority")
    rules.one_of(spec.preemption_policy, _PREEMPTION_POLICIES, "spec.preemptionPolicy")
    if spec.parent_composite_pod_group_name:
        rules.dns_subdomain(spec.parent_composite_pod_group_name, "spec.parentCompositePodGroupName")
    _reference(spec.workload_ref, "spec.workloadRef")
    if spec.workload_ref is None and (spec.parent_composite_pod_group_name or isinstance(group, CompositePodGroup)):
        raise ApiError("spec.workloadRef", "is required in a tree of groups")


def check_group_update(old: WorkloadPodGroup | CompositePodGroup, new: WorkloadPodGroup | CompositePodGroup) -> None:
    """Only `minCount` of a gang may change."""
    before, after = old.spec, new.spec
    if isinstance(old, WorkloadPodGroup) and isinstance(new, WorkloadPodGroup):
        was, now = old.spec.scheduling_policy, new.spec.scheduling_policy
        if was.gang is not None and now.gang is not None:
            same = GangSchedulingPolicy(min_count=was.gang.min_count)
            after = replace(new.spec, scheduling_policy=PodGroupSchedulingPolicy(gang=same))
    if before != after:
        raise ApiError("spec", "must not change, except for schedulingPolicy.gang.minCount")


def check_scheduling_group(group: PodSchedulingGroup | None, at: str) -> None:
    if group is not None:
        rules.required(group.pod_group_name, f"{at}.podGroupName")
        rules.dns_subdomain(group.pod_group_name, f"{at}.podGroupName")


def _policy(policy: PodGroupSchedulingPolicy | CompositeSchedulingPolicy, at: str) -> None:
    if (policy.basic is None) == (policy.gang is None):
        raise ApiError(at, "must have either basic or gang")
    if isinstance(policy, PodGroupSchedulingPolicy):
        if policy.gang is not None:
            rules.at_least(policy.gang.min_count, 1, f"{at}.gang.minCount")
    elif policy.gang is not None:
        rules.at_least(policy.gang.min_group_count, 1, f"{at}.gang.minGroupCount")


def _constraints(constraints: PodGroupSchedulingConstraints, at: str) -> None:
    if len(constraints.topology) > 1:
        raise ApiError(at, f"must have at most one item, not {len(constraints.topology)}")
    for constraint in constraints.topology:
        rules.required(constraint.key, f"{at}[0].key")
        rules.label_key(constraint.key, f"{at}[0].key")


def _mode(mode: DisruptionMode | None, at: str) -> None:
    if mode is not None and (mode.single is None) == (mode.all is None):
        raise ApiError(at, "must have either single or all")


def _reference(reference: WorkloadReference | None, at: str) -> None:
    if reference is not None:
        for name, field in ((reference.workload_name, "workloadName"), (reference.template_name, "templateName")):
            rules.required(name, f"{at}.{field}")
            rules.dns_subdomain(name, f"{at}.{field}")
