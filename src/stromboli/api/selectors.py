"""Who is meant: labels against selectors, pods against nodes, tolerations against taints.

Every rule here is Kubernetes' own, and the traps are in what is *not* written. An absent selector means
nobody, an empty one everybody. "Not in" is also true of a label that is not there; "greater than" is false
of it. Terms of a node selector are alternatives, what stands inside a term must hold together, and a term
that says nothing matches nothing. A pod affinity term that names no namespace means the namespace of the pod
that carries it.

All functions are pure: structs in, an answer out.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from stromboli.api.kinds.core import Node, Taint
from stromboli.api.kinds.metadata import LabelSelector, LabelSelectorRequirement
from stromboli.api.kinds.pods import (
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    PodAffinityTerm,
    PodSpec,
    Toleration,
    TopologySpreadConstraint,
)

Labels = Mapping[str, str]


def matches_labels(selector: LabelSelector | None, labels: Labels) -> bool:
    if selector is None:
        return False
    for name, value in selector.match_labels.items():
        if labels.get(name) != value:
            return False
    return all(_holds(requirement, labels) for requirement in selector.match_expressions)


def matches_node_selector(selector: NodeSelector, labels: Labels, node_name: str) -> bool:
    """Whether any one of the selector's terms holds for a node."""
    return any(matches_node_term(term, labels, node_name) for term in selector.node_selector_terms)


def matches_node_term(term: NodeSelectorTerm, labels: Labels, node_name: str) -> bool:
    if not term.match_expressions and not term.match_fields:
        return False
    fields = {"metadata.name": node_name}
    return all(_holds(requirement, labels) for requirement in term.match_expressions) and all(
        _holds(requirement, fields) for requirement in term.match_fields
    )


def matches_required_node(spec: PodSpec, node: Node) -> bool:
    """Whether a node is one the pod insists on: its nodeSelector and its required node affinity."""
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


def untolerated(
    tolerations: Sequence[Toleration], taints: Iterable[Taint], effects: Collection[str]
) -> Taint | None:
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
    """Whether a term carried by one pod (`own_…`) means another, by that pod's and its namespace's labels."""
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


def spread_constraint_selects(
    constraint: TopologySpreadConstraint, *, own_labels: Labels, labels: Labels
) -> bool:
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
    """A selector narrowed to pods that agree (or disagree) with our own labels; keys we lack say nothing."""
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
    # Without a key only Exists means anything: an empty Equal would tolerate taints that happen to have no
    # value.
    return toleration.operator in ("", "Equal") and bool(toleration.key) and toleration.value == taint.value


def _holds(requirement: LabelSelectorRequirement | NodeSelectorRequirement, labels: Labels) -> bool:
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
            return _compares(value, requirement)
        case _:
            return False


def _compares(value: str | None, requirement: LabelSelectorRequirement | NodeSelectorRequirement) -> bool:
    """Gt and Lt compare integers; a label or a bound that is none never compares."""
    left = _integer(value)
    right = _integer(requirement.values[0]) if len(requirement.values) == 1 else None
    if left is None or right is None:
        return False
    return left > right if requirement.operator == "Gt" else left < right


def _integer(text: str | None) -> int | None:
    digits = text.removeprefix("-").removeprefix("+") if text else ""
    return int(text) if text and digits.isascii() and digits.isdigit() and len(digits) <= 19 else None
