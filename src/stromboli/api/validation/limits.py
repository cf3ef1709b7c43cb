"""Limits on what one object may make us do, all of them.

Kubernetes lets a tenant write a pod with ten thousand terms of affinity or a million replicas. Each costs its author
one request, and everybody a cycle. So each thing of which an object may have many has a limit here, far above what
anybody needs. An object above one is refused with a sentence that names the field, and nothing else changes: a scenario
with such an object is not read, a Job or a PodGroup is not accepted, and a pod waits with the reason `InvalidObject`.
A pod that has a node already uses it, whatever it looks like, and is counted. docs/security.md has the table.

The schemas of our own kinds state the same numbers, where a schema can (`kube.crds`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sized
from typing import Final

from stromboli.api.errors import ApiError, member_path
from stromboli.api.kinds.metadata import LabelSelector, ResourceList
from stromboli.api.kinds.pods import (
    Affinity,
    NodeSelectorTerm,
    Pod,
    PodAffinity,
    PodAffinityTerm,
    PodAntiAffinity,
    PodSpec,
)
from stromboli.api.quantity import format_amount

MAX_JOB_REPLICAS: Final = 50_000
"""How many pods a Job may have. A larger one would fill the API server's memory; `--max-job-replicas` changes it."""
MAX_TASKS: Final = 256  # of a Job
MAX_POLICIES: Final = 32  # of a Job or a task
MAX_JOB_VOLUMES: Final = 128  # of a Job
MAX_MOUNT_PATH: Final = 1024  # characters
MAX_RESOURCES: Final = 64  # names in one list, and in one pod
MAX_QUANTITY_LENGTH: Final = 64  # characters, in our own kinds
MAX_OWNERS: Final = 64  # of a Reservation, each of which is compared with every pod that waits
MAX_SUB_GROUP_POLICIES: Final = 64  # of a PodGroup
MAX_LABEL_KEYS: Final = 16  # by which one of these tells sub-groups apart
MAX_EXPRESSIONS: Final = 64  # of a selector in a kind of ours
MAX_QUEUE_DEPTH: Final = 32  # levels of a tree of queues
MAX_MEMBERS: Final = 5000  # of a HyperNode
MAX_PATTERN: Final = 1000  # characters of the regular expression of a member

MAX_CONTAINERS: Final = 256  # of a pod, with its init containers
MAX_PORTS: Final = 1024  # of a pod
MAX_VOLUMES: Final = 256
MAX_TOLERATIONS: Final = 256
MAX_SPREAD_CONSTRAINTS: Final = 32
MAX_AFFINITY_TERMS: Final = 128  # of nodes and pods, required and preferred, together
MAX_FOREIGN_TERMS: Final = 16  # of affinity between pods, that reach other namespaces than the pod's own
MAX_SELECTOR_VALUES: Final = 2048  # keys and values in all selectors of a pod together
MAX_REQUEST: Final = 2**45
"""Of one resource by one pod: 32 TiB, or 35 thousand million cores. What the pods of a queue request is added up in
64-bit integers, so a quarter of a million pods may be there before a sum wraps around."""

MAX_ANNOTATION: Final = 4096  # characters of an annotation that is copied to a PodGroup
MAX_MESSAGE: Final = 1024  # characters of an event; the server refuses longer ones


def at_most(limit: int, things: Sized, at: str, what: str) -> None:
    if len(things) > limit:
        raise ApiError(at, f"must have at most {limit} {what}, not {len(things)}")


def check_pod(pod: Pod) -> None:
    check_pod_spec(pod.spec, "spec")


def check_pod_spec(spec: PodSpec, at: str) -> None:
    """What a pod may make the scheduler look at. It is asked about every pod that comes, so it counts and looks at
    nothing twice."""
    containers = [*spec.containers, *spec.init_containers]
    at_most(MAX_CONTAINERS, containers, f"{at}.containers", "containers, with its init containers")
    if len(containers) > 1 or any(len(one.resources.requests) + len(one.resources.limits) > 8 for one in containers):
        names = {name for one in containers for part in (one.resources.requests, one.resources.limits) for name in part}
        at_most(MAX_RESOURCES, names | (spec.overhead or {}).keys(), f"{at}.containers", "different resources together")
    ports = sum(len(container.ports) for container in containers)
    if ports > MAX_PORTS:
        raise ApiError(f"{at}.containers", f"must have at most {MAX_PORTS} ports together, not {ports}")
    if spec.volumes:
        at_most(MAX_VOLUMES, spec.volumes, f"{at}.volumes", "volumes")
    if spec.tolerations:
        at_most(MAX_TOLERATIONS, spec.tolerations, f"{at}.tolerations", "tolerations")
    if spec.topology_spread_constraints:
        constraints = spec.topology_spread_constraints
        at_most(MAX_SPREAD_CONSTRAINTS, constraints, f"{at}.topologySpreadConstraints", "constraints")
    if spec.affinity is not None or spec.topology_spread_constraints or len(spec.node_selector) > 8:
        _check_selectors(spec, at)


def check_requests(amounts: dict[str, int], at: str) -> None:
    """The effective requests of a pod."""
    for name, amount in amounts.items():
        if not 0 <= amount <= MAX_REQUEST:
            most, given = format_amount(name, MAX_REQUEST), format_amount(name, amount)
            raise ApiError(member_path(at, name), f"must be between 0 and {most} for a pod, not {given}")


def check_list(resources: ResourceList, at: str) -> None:
    at_most(MAX_RESOURCES, resources, at, "resources")


def fits_in_list(amounts: ResourceList) -> ResourceList:
    """As many of these as a list of resources may have: cpu and memory, and the first by name of the others."""
    if len(amounts) <= MAX_RESOURCES:
        return amounts
    ordered = sorted(amounts, key=lambda name: (name not in ("cpu", "memory"), name))
    return {name: amounts[name] for name in ordered[:MAX_RESOURCES]}


# -- selectors --------------------------------------------------------------------------------------------------------


def _check_selectors(spec: PodSpec, at: str) -> None:
    terms, values = 0, len(spec.node_selector)
    if spec.affinity is not None:
        node_terms, pod_terms = _terms(spec.affinity)
        terms = len(node_terms) + len(pod_terms)
        foreign = [one for one in pod_terms if one.namespaces or one.namespace_selector is not None]
        at_most(MAX_FOREIGN_TERMS, foreign, f"{at}.affinity", "terms about pods of other namespaces")
        values += sum(_size_of_node_term(term) for term in node_terms) + sum(_size_of_pod_term(t) for t in pod_terms)
    if terms > MAX_AFFINITY_TERMS:
        raise ApiError(f"{at}.affinity", f"must have at most {MAX_AFFINITY_TERMS} terms together, not {terms}")
    constraints = spec.topology_spread_constraints
    values += sum(_size(one.label_selector) + len(one.match_label_keys) for one in constraints)
    if values > MAX_SELECTOR_VALUES:
        raise ApiError(
            at, f"must have at most {MAX_SELECTOR_VALUES} keys and values in its selectors together, not {values}"
        )


def _terms(affinity: Affinity) -> tuple[list[NodeSelectorTerm], list[PodAffinityTerm]]:
    node_terms: list[NodeSelectorTerm] = []
    pod_terms: list[PodAffinityTerm] = []
    of_nodes = affinity.node_affinity
    if of_nodes is not None:
        required = of_nodes.required_during_scheduling_ignored_during_execution
        node_terms += [] if required is None else required.node_selector_terms
        node_terms += [one.preference for one in of_nodes.preferred_during_scheduling_ignored_during_execution]
    of_pods: Iterable[PodAffinity | PodAntiAffinity | None] = (affinity.pod_affinity, affinity.pod_anti_affinity)
    for part in of_pods:
        if part is not None:
            pod_terms += part.required_during_scheduling_ignored_during_execution
            preferred = part.preferred_during_scheduling_ignored_during_execution
            pod_terms += [one.pod_affinity_term for one in preferred]
    return node_terms, pod_terms


def _size_of_node_term(term: NodeSelectorTerm) -> int:
    return sum(1 + len(one.values) for one in (*term.match_expressions, *term.match_fields))


def _size_of_pod_term(term: PodAffinityTerm) -> int:
    selected = _size(term.label_selector) + _size(term.namespace_selector) + len(term.namespaces)
    return selected + len(term.match_label_keys) + len(term.mismatch_label_keys)


def _size(selector: LabelSelector | None) -> int:
    if selector is None:
        return 0
    return len(selector.match_labels) + sum(1 + len(one.values) for one in selector.match_expressions)
