"""Matching: labels against selectors, pods against nodes, tolerations against taints.

The rules are those of Kubernetes; the pitfalls are in what is *not* written. A missing selector matches nothing, an
empty one everything. NotIn is true for a missing label; Gt and Lt are false for it. The terms of a node selector are
alternatives, the requirements inside a term must all hold, and an empty term matches nothing. A pod affinity term
without namespaces refers to the namespace of the pod that has the term.

All functions are pure.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

from .kinds.core import Node, Taint
from .kinds.metadata import LabelSelector, LabelSelectorRequirement
from .kinds.pods import (
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    PodAffinityTerm,
    PodSpec,
    Toleration,
    TopologySpreadConstraint,
)

Labels = Mapping[str, str]

KEEPS_AWAY: Final = frozenset({"NoSchedule", "NoExecute"})
"""Effects of taints that close a node to pods that do not tolerate them."""

CORDON: Final = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")
"""A cordoned node is treated as if it had this taint, so a pod can tolerate a cordon."""


def matches_labels(selector: LabelSelector | None, labels: Labels) -> bool:
    if selector is None:
        return False
    for name, value in selector.match_labels.items():
        if labels.get(name) != value:
            return False
    return all(_is_satisfied(requirement, labels) for requirement in selector.match_expressions)


def matches_node_selector(selector: NodeSelector, labels: Labels, node_name: str) -> bool:
    """Whether any of the selector's terms matches a node."""
    return any(matches_node_term(term, labels, node_name) for term in selector.node_selector_terms)


def matches_node_term(term: NodeSelectorTerm, labels: Labels, node_name: str) -> bool:
    if not term.match_expressions and not term.match_fields:
        return False
    fields = {"metadata.name": node_name}
    return all(_is_satisfied(requirement, labels) for requirement in term.match_expressions) and all(
        _is_satisfied(requirement, fields) for requirement in term.match_fields
    )


def matches_required_node(spec: PodSpec, node: Node) -> bool:
    """Whether a node matches the pod's nodeSelector and its required node affinity."""
    labels = node.metadata.labels
    for name, value in spec.node_selector.items():
        if labels.get(name) != value:
            return False
    affinity = spec.affinity.node_affinity if spec.affinity else None
    required = affinity.required_during_scheduling_ignored_during_execution if affinity else None
    return required is None or matches_node_selector(required, labels, node.metadata.name)


def preferred_node_weight(spec: PodSpec, node: Node) -> int:
    """The sum of the weights of the preferences that a node satisfies."""
    affinity = spec.affinity.node_affinity if spec.affinity else None
    if affinity is None:
        return 0
    return sum(
        preferred.weight
        for preferred in affinity.preferred_during_scheduling_ignored_during_execution
        if matches_node_term(preferred.preference, node.metadata.labels, node.metadata.name)
    )


def tolerates(tolerations: Iterable[Toleration], taint: Taint) -> bool:
    return any(_tolerates_one(toleration, taint) for toleration in tolerations)


def untolerated(tolerations: Sequence[Toleration], taints: Iterable[Taint], effects: Collection[str]) -> Taint | None:
    """The first taint with one of these effects that no toleration covers."""
    for taint in taints:
        if taint.effect in effects and not tolerates(tolerations, taint):
            return taint
    return None


def affinity_term_selects(
    term: PodAffinityTerm,
    *,
    own_namespace: str,
    own_labels: Labels,
    namespace: str,
    labels: Labels,
    namespace_labels: Labels,
) -> bool:
    """Whether a term of one pod (`own_…`) selects another pod, by that pod's labels and those of its namespace."""
    return affinity_term_covers_namespace(
        term, own_namespace=own_namespace, namespace=namespace, namespace_labels=namespace_labels
    ) and _selects_with_keys(
        term.label_selector,
        labels,
        own_labels,
        same=term.match_label_keys,
        different=term.mismatch_label_keys,
    )


def affinity_term_covers_namespace(
    term: PodAffinityTerm, *, own_namespace: str, namespace: str, namespace_labels: Labels
) -> bool:
    if not term.namespaces and term.namespace_selector is None:
        return namespace == own_namespace
    return namespace in term.namespaces or matches_labels(term.namespace_selector, namespace_labels)


def spread_constraint_selects(constraint: TopologySpreadConstraint, *, own_labels: Labels, labels: Labels) -> bool:
    """Whether a pod of the same namespace counts for a spread constraint."""
    return _selects_with_keys(
        constraint.label_selector, labels, own_labels, same=constraint.match_label_keys, different=()
    )


def _selects_with_keys(
    selector: LabelSelector | None,
    labels: Labels,
    own_labels: Labels,
    *,
    same: Iterable[str],
    different: Iterable[str],
) -> bool:
    """A selector restricted to pods whose labels equal our own (or differ); keys that we do not have are ignored."""
    if not matches_labels(selector, labels):
        return False
    return all(labels.get(name) == own_labels[name] for name in same if name in own_labels) and all(
        labels.get(name) != own_labels[name] for name in different if name in own_labels
    )


def _tolerates_one(toleration: Toleration, taint: Taint) -> bool:
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator == "Exists":
        return True
    # Without a key only Exists is valid: Equal with an empty value would tolerate all taints without a value.
    return toleration.operator in ("", "Equal") and bool(toleration.key) and toleration.value == taint.value


def _is_satisfied(requirement: LabelSelectorRequirement | NodeSelectorRequirement, labels: Labels) -> bool:
    value = labels.get(requirement.key)
    match requirement.operator:
        case "In":
            return value is not None and value in requirement.values
        case "NotIn":
            return value is None or value not in requirement.values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt" | "Lt":
            return _compare(value, requirement)
        case _:
            return False


def _compare(value: str | None, requirement: LabelSelectorRequirement | NodeSelectorRequirement) -> bool:
    """Gt and Lt compare integers; they are false if the label or the bound is not an integer."""
    left = _integer(value)
    right = _integer(requirement.values[0]) if len(requirement.values) == 1 else None
    if left is None or right is None:
        return False
    return left > right if requirement.operator == "Gt" else left < right


def _integer(text: str | None) -> int | None:
    digits = text.removeprefix("-").removeprefix("+") if text else ""
    return int(text) if text and digits.isascii() and digits.isdigit() and len(digits) <= 19 else None
