"""The rules for pods and pod templates.

These are the API server's rules for the fields that scheduling reads, and only those. A misspelt image does not concern
the scheduler; a port of 70000 would make it look for a node that cannot exist.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from stromboli.api.errors import ApiError, member_path, quote
from stromboli.api.kinds.core import Taint
from stromboli.api.kinds.pods import (
    Affinity,
    Container,
    NodeAffinity,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    PodAffinity,
    PodAffinityTerm,
    PodAntiAffinity,
    PodSpec,
    PodTemplateSpec,
    ResourceRequirements,
    Toleration,
    TopologySpreadConstraint,
)
from stromboli.api.pod_requests import pod_requests, requests_of_containers
from stromboli.api.quantity import amount, format_amount

from . import limits, rules
from .storage import check_described_claim
from .workloads import check_scheduling_group

EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
PREEMPTION_POLICIES = ("", "PreemptLowerPriority", "Never")
NODE_OPERATORS = (*rules.SELECTOR_OPERATORS, "Gt", "Lt")
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def check_template(template: PodTemplateSpec, at: str) -> None:
    rules.annotated(template.metadata, f"{at}.metadata")
    check_pod_spec(template.spec, f"{at}.spec")


def check_pod_spec(spec: PodSpec, at: str) -> None:
    if not spec.containers:
        raise ApiError(f"{at}.containers", "must have at least one container")
    limits.check_pod_spec(spec, at)
    _containers(spec, at)
    if spec.resources is not None:
        _pod_level_resources(spec, spec.resources, f"{at}.resources")
    if spec.overhead:
        rules.quantities(spec.overhead, f"{at}.overhead")
    limits.check_requests(pod_requests(spec), f"{at}.containers")
    if spec.node_name:
        rules.dns_subdomain(spec.node_name, f"{at}.nodeName")
    if spec.node_selector:
        rules.labels(spec.node_selector, f"{at}.nodeSelector")
    if spec.affinity is not None:
        _affinity(spec.affinity, f"{at}.affinity")
    for index, toleration in enumerate(spec.tolerations):
        _toleration(toleration, f"{at}.tolerations[{index}]")
    for index, constraint in enumerate(spec.topology_spread_constraints):
        _spread(constraint, f"{at}.topologySpreadConstraints[{index}]")
    check_scheduling_group(spec.scheduling_group, f"{at}.schedulingGroup")
    for index, gate in enumerate(spec.scheduling_gates):
        rules.label_key(gate.name, f"{at}.schedulingGates[{index}].name")
    for index, volume in enumerate(spec.volumes):
        _volume(volume, f"{at}.volumes[{index}]")
    if spec.priority is not None:
        rules.between(spec.priority, -(2**31), 2**31 - 1, f"{at}.priority")
    if spec.priority_class_name:
        rules.dns_subdomain(spec.priority_class_name, f"{at}.priorityClassName")
    rules.one_of(spec.preemption_policy, PREEMPTION_POLICIES, f"{at}.preemptionPolicy")
    rules.one_of(spec.restart_policy, ("", "Always", "OnFailure", "Never"), f"{at}.restartPolicy")
    if spec.termination_grace_period_seconds is not None and spec.termination_grace_period_seconds < 0:
        raise ApiError(
            f"{at}.terminationGracePeriodSeconds",
            f"must be 0 or more, not {spec.termination_grace_period_seconds}",
        )


def _volume(volume: dict[str, Any], at: str) -> None:
    """Of the many kinds of volumes, those that decide where a pod can run."""
    if not isinstance(volume.get("name", ""), str):
        raise ApiError(f"{at}.name", f"must be text, not {quote(volume['name'])}")
    for kind, name in (("persistentVolumeClaim", "claimName"), ("csi", "driver")):
        source = _part(volume, kind, at)
        if source is not None and (not isinstance(source.get(name), str) or not source[name]):
            raise ApiError(f"{at}.{kind}.{name}", f"must be a name, not {quote(source.get(name))}")
    ephemeral = _part(volume, "ephemeral", at)
    template = None if ephemeral is None else _part(ephemeral, "volumeClaimTemplate", f"{at}.ephemeral")
    if template is not None:
        check_described_claim(template.get("spec") or {}, f"{at}.ephemeral.volumeClaimTemplate.spec")


def _part(value: dict[str, Any], name: str, at: str) -> dict[str, Any] | None:
    part = value.get(name)
    if part is not None and not isinstance(part, dict):
        raise ApiError(f"{at}.{name}", f"must be a mapping, not {quote(part)}")
    return part


def check_taints(taints: Sequence[Taint], at: str) -> None:
    seen = set()
    for index, taint in enumerate(taints):
        here = f"{at}[{index}]"
        rules.required(taint.key, f"{here}.key")
        rules.label_key(taint.key, f"{here}.key")
        rules.label_value(taint.value, f"{here}.value")
        rules.one_of(taint.effect, EFFECTS, f"{here}.effect")
        if (taint.key, taint.effect) in seen:
            raise ApiError(here, f"must not repeat the taint {quote(taint.key)} with effect {taint.effect}")
        seen.add((taint.key, taint.effect))


def _containers(spec: PodSpec, at: str) -> None:
    names: set[str] = set()
    for kind, containers in (("initContainers", spec.init_containers), ("containers", spec.containers)):
        for index, container in enumerate(containers):
            here = f"{at}.{kind}[{index}]"
            if container.name:
                rules.dns_label(container.name, f"{here}.name")
                if container.name in names:
                    raise ApiError(f"{here}.name", f"must not be used twice in a pod: {quote(container.name)}")
                names.add(container.name)
            if container.resources.requests or container.resources.limits:
                _resources(container.resources, f"{here}.resources")
            if container.ports:
                _ports(container, f"{here}.ports", host_network=spec.host_network)
            if kind == "initContainers":
                rules.one_of(container.restart_policy, ("", "Always"), f"{here}.restartPolicy")


def _resources(resources: ResourceRequirements, at: str) -> None:
    rules.quantities(resources.requests, f"{at}.requests")
    rules.quantities(resources.limits, f"{at}.limits")
    for part, resource_list in (("requests", resources.requests), ("limits", resources.limits)):
        for resource, quantity in resource_list.items():
            if resource == "pods":
                raise ApiError(f"{at}.{part}.pods", "must not be given: every pod takes one place on its node")
            if "/" in resource:
                rules.whole(quantity, member_path(f"{at}.{part}", resource))
    rules.within(resources.requests, resources.limits, f"{at}.requests", "the limit")


def _pod_level_resources(spec: PodSpec, resources: ResourceRequirements, at: str) -> None:
    """A pod as a whole requests at least what its containers request, and none of them has a higher limit."""
    _resources(resources, at)
    together = requests_of_containers(spec)
    for resource, quantity in resources.requests.items():
        if amount(resource, quantity) < together.get(resource, 0):
            least = format_amount(resource, together[resource])
            raise ApiError(
                member_path(f"{at}.requests", resource),
                f"must be at least what the containers request, which is {least}, not {quote(quantity)}",
            )
    inside = at.removesuffix(".resources")
    for kind, containers in (("initContainers", spec.init_containers), ("containers", spec.containers)):
        for index, container in enumerate(containers):
            here = f"{inside}.{kind}[{index}].resources.limits"
            rules.within(container.resources.limits, resources.limits, here, "the limit of the pod")
    for part, resource_list in (("requests", resources.requests), ("limits", resources.limits)):
        for resource in resource_list:
            if resource not in ("cpu", "memory") and not resource.startswith("hugepages-"):
                raise ApiError(
                    member_path(f"{at}.{part}", resource),
                    "must be requested by a container: a pod as a whole may request only cpu, memory and hugepages",
                )


def _ports(container: Container, at: str, *, host_network: bool) -> None:
    for index, port in enumerate(container.ports):
        here = f"{at}[{index}]"
        rules.between(port.container_port, 1, 65535, f"{here}.containerPort")
        rules.one_of(port.protocol, ("TCP", "UDP", "SCTP"), f"{here}.protocol")
        if port.host_port:
            rules.between(port.host_port, 1, 65535, f"{here}.hostPort")
        if host_network and port.host_port != port.container_port:
            raise ApiError(
                f"{here}.hostPort",
                f"must equal containerPort ({port.container_port}) with hostNetwork, not {port.host_port}",
            )


def _affinity(affinity: Affinity, at: str) -> None:
    if affinity.node_affinity is not None:
        _node_affinity(affinity.node_affinity, f"{at}.nodeAffinity")
    if affinity.pod_affinity is not None:
        _pod_affinity(affinity.pod_affinity, f"{at}.podAffinity")
    if affinity.pod_anti_affinity is not None:
        _pod_affinity(affinity.pod_anti_affinity, f"{at}.podAntiAffinity")


def _node_affinity(affinity: NodeAffinity, at: str) -> None:
    required = affinity.required_during_scheduling_ignored_during_execution
    if required is not None:
        here = f"{at}.{_REQUIRED}.nodeSelectorTerms"
        if not required.node_selector_terms:
            raise ApiError(here, "must have at least one term")
        for index, term in enumerate(required.node_selector_terms):
            _node_term(term, f"{here}[{index}]")
    for index, preferred in enumerate(affinity.preferred_during_scheduling_ignored_during_execution):
        here = f"{at}.{_PREFERRED}[{index}]"
        rules.between(preferred.weight, 1, 100, f"{here}.weight")
        _node_term(preferred.preference, f"{here}.preference")


def _node_term(term: NodeSelectorTerm, at: str) -> None:
    for index, requirement in enumerate(term.match_expressions):
        here = f"{at}.matchExpressions[{index}]"
        rules.label_key(requirement.key, f"{here}.key")
        rules.one_of(requirement.operator, NODE_OPERATORS, f"{here}.operator")
        rules.operands(requirement.operator, requirement.values, f"{here}.values")
        if requirement.operator in ("Gt", "Lt"):
            _bound(requirement, f"{here}.values")
    for index, requirement in enumerate(term.match_fields):
        here = f"{at}.matchFields[{index}]"
        rules.one_of(requirement.key, ("metadata.name",), f"{here}.key")
        rules.one_of(requirement.operator, ("In", "NotIn"), f"{here}.operator")
        if len(requirement.values) != 1:
            raise ApiError(f"{here}.values", f"must have exactly one value, not {len(requirement.values)}")


def _bound(requirement: NodeSelectorRequirement, at: str) -> None:
    values = requirement.values
    if len(values) != 1 or not re.fullmatch(r"[+-]?[0-9]{1,19}", values[0]):
        raise ApiError(at, f"must be one whole number for {requirement.operator}, not {quote(values)}")


def _pod_affinity(affinity: PodAffinity | PodAntiAffinity, at: str) -> None:
    for index, term in enumerate(affinity.required_during_scheduling_ignored_during_execution):
        _pod_term(term, f"{at}.{_REQUIRED}[{index}]")
    for index, weighted in enumerate(affinity.preferred_during_scheduling_ignored_during_execution):
        here = f"{at}.{_PREFERRED}[{index}]"
        rules.between(weighted.weight, 1, 100, f"{here}.weight")
        _pod_term(weighted.pod_affinity_term, f"{here}.podAffinityTerm")


def _pod_term(term: PodAffinityTerm, at: str) -> None:
    rules.required(term.topology_key, f"{at}.topologyKey")
    rules.label_key(term.topology_key, f"{at}.topologyKey")
    rules.label_selector(term.label_selector, f"{at}.labelSelector")
    rules.label_selector(term.namespace_selector, f"{at}.namespaceSelector")
    for index, namespace in enumerate(term.namespaces):
        rules.dns_label(namespace, f"{at}.namespaces[{index}]")


def _toleration(toleration: Toleration, at: str) -> None:
    rules.one_of(toleration.operator, ("", "Equal", "Exists"), f"{at}.operator")
    rules.one_of(toleration.effect, ("", *EFFECTS), f"{at}.effect")
    if toleration.key:
        rules.label_key(toleration.key, f"{at}.key")
    elif toleration.operator != "Exists":
        raise ApiError(f"{at}.operator", "must be Exists when no key is given")
    if toleration.operator == "Exists" and toleration.value:
        raise ApiError(f"{at}.value", f"must be empty with the operator Exists, not {quote(toleration.value)}")
    if toleration.toleration_seconds is not None and toleration.effect != "NoExecute":
        raise ApiError(f"{at}.effect", "must be NoExecute when tolerationSeconds is given")


def _spread(constraint: TopologySpreadConstraint, at: str) -> None:
    rules.at_least(constraint.max_skew, 1, f"{at}.maxSkew")
    rules.required(constraint.topology_key, f"{at}.topologyKey")
    rules.label_key(constraint.topology_key, f"{at}.topologyKey")
    rules.one_of(constraint.when_unsatisfiable, ("DoNotSchedule", "ScheduleAnyway"), f"{at}.whenUnsatisfiable")
    rules.label_selector(constraint.label_selector, f"{at}.labelSelector")
    rules.one_of(constraint.node_affinity_policy, ("Honor", "Ignore"), f"{at}.nodeAffinityPolicy")
    rules.one_of(constraint.node_taints_policy, ("Honor", "Ignore"), f"{at}.nodeTaintsPolicy")
    if constraint.min_domains is not None:
        rules.at_least(constraint.min_domains, 1, f"{at}.minDomains")
        if constraint.when_unsatisfiable != "DoNotSchedule":
            raise ApiError(f"{at}.minDomains", "must not be given unless whenUnsatisfiable is DoNotSchedule")
