"""Who a selector means, and above all what silence in it means."""

from __future__ import annotations

import pytest

from stromboli.api import (
    Affinity,
    LabelSelector,
    LabelSelectorRequirement,
    Node,
    NodeAffinity,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    ObjectMeta,
    PodAffinityTerm,
    PodSpec,
    PreferredSchedulingTerm,
    Taint,
    Toleration,
    TopologySpreadConstraint,
)
from stromboli.api.selectors import (
    affinity_term_selects,
    matches_labels,
    matches_node_selector,
    matches_required_node,
    preferred_node_weight,
    spread_constraint_selects,
    tolerates,
    untolerated,
)


def wants(key: str, operator: str, *values: str) -> NodeSelectorRequirement:
    return NodeSelectorRequirement(key=key, operator=operator, values=list(values))


def node(name: str = "n1", **labels: str) -> Node:
    return Node(metadata=ObjectMeta(name=name, labels=labels))


def test_no_selector_means_nobody_and_an_empty_one_everybody() -> None:
    assert not matches_labels(None, {"a": "1"})
    assert matches_labels(LabelSelector(), {"a": "1"})
    assert matches_labels(LabelSelector(), {})


@pytest.mark.parametrize(
    ("operator", "values", "with_1", "with_2", "without"),
    [
        ("In", ["1"], True, False, False),
        ("NotIn", ["1"], False, True, True),
        ("Exists", [], True, True, False),
        ("DoesNotExist", [], False, False, True),
        ("Near", ["1"], False, False, False),
    ],
)
def test_operators(operator: str, values: list[str], with_1: bool, with_2: bool, without: bool) -> None:
    selector = LabelSelector(match_expressions=[LabelSelectorRequirement(key="a", operator=operator, values=values)])
    answers = [matches_labels(selector, labels) for labels in ({"a": "1"}, {"a": "2"}, {})]
    assert answers == [with_1, with_2, without]


def test_labels_and_expressions_must_hold_together() -> None:
    selector = LabelSelector(
        match_labels={"a": "1"}, match_expressions=[LabelSelectorRequirement(key="b", operator="Exists")]
    )
    assert matches_labels(selector, {"a": "1", "b": ""})
    assert not matches_labels(selector, {"a": "1"})
    assert not matches_labels(selector, {"a": "2", "b": ""})


@pytest.mark.parametrize(
    ("operator", "bound", "label", "holds"),
    [
        ("Gt", "4", "5", True),
        ("Gt", "4", "4", False),
        ("Gt", "4", "10", True),  # as numbers: as text "10" stands before "4"
        ("Lt", "4", "-3", True),
        ("Lt", "4", "4", False),
        ("Gt", "4", "many", False),
        ("Lt", "many", "4", False),
        ("Lt", "4", None, False),
    ],
)
def test_greater_and_less_compare_whole_numbers(operator: str, bound: str, label: str | None, holds: bool) -> None:
    selector = NodeSelector(node_selector_terms=[NodeSelectorTerm(match_expressions=[wants("a", operator, bound)])])
    assert matches_node_selector(selector, {} if label is None else {"a": label}, "n1") is holds


def test_terms_are_alternatives_and_what_is_inside_one_holds_together() -> None:
    selector = NodeSelector(
        node_selector_terms=[
            NodeSelectorTerm(match_expressions=[wants("a", "In", "1"), wants("b", "Exists")]),
            NodeSelectorTerm(match_fields=[wants("metadata.name", "In", "n9")]),
        ]
    )
    assert matches_node_selector(selector, {"a": "1", "b": "x"}, "n1")
    assert not matches_node_selector(selector, {"a": "1"}, "n1")
    assert matches_node_selector(selector, {}, "n9")


def test_a_term_that_says_nothing_matches_nothing() -> None:
    assert not matches_node_selector(NodeSelector(node_selector_terms=[NodeSelectorTerm()]), {"a": "1"}, "n1")
    assert not matches_node_selector(NodeSelector(node_selector_terms=[]), {"a": "1"}, "n1")


def test_a_node_must_suit_both_the_node_selector_and_the_affinity() -> None:
    required = NodeSelector(node_selector_terms=[NodeSelectorTerm(match_expressions=[wants("b", "Exists")])])
    spec = PodSpec(
        node_selector={"a": "1"},
        affinity=Affinity(node_affinity=NodeAffinity(required_during_scheduling_ignored_during_execution=required)),
    )
    assert matches_required_node(spec, node(a="1", b="x"))
    assert not matches_required_node(spec, node(a="1"))
    assert not matches_required_node(spec, node(b="x"))
    assert matches_required_node(PodSpec(), node())


def test_preferences_add_up_and_an_empty_one_adds_nothing() -> None:
    # a holds (10), b does not (20), the empty one is no preference (40): 10
    preferred = [
        PreferredSchedulingTerm(weight=10, preference=NodeSelectorTerm(match_expressions=[wants("a", "Exists")])),
        PreferredSchedulingTerm(weight=20, preference=NodeSelectorTerm(match_expressions=[wants("b", "Exists")])),
        PreferredSchedulingTerm(weight=40, preference=NodeSelectorTerm()),
    ]
    affinity = Affinity(node_affinity=NodeAffinity(preferred_during_scheduling_ignored_during_execution=preferred))
    assert preferred_node_weight(PodSpec(affinity=affinity), node(a="1")) == 10
    assert preferred_node_weight(PodSpec(affinity=affinity), node(a="1", b="1")) == 30
    assert preferred_node_weight(PodSpec(), node(a="1")) == 0


@pytest.mark.parametrize(
    ("toleration", "tolerated"),
    [
        (Toleration(key="k", value="v"), True),
        (Toleration(key="k", operator="Equal", value="v", effect="NoSchedule"), True),
        (Toleration(key="k", value="w"), False),
        (Toleration(key="k", operator="Exists"), True),
        (Toleration(key="other", operator="Exists"), False),
        (Toleration(operator="Exists"), True),
        (Toleration(operator="Exists", effect="NoExecute"), False),
        (Toleration(value="v"), False),
        (Toleration(key="k", operator="Near", value="v"), False),
    ],
)
def test_tolerations(toleration: Toleration, tolerated: bool) -> None:
    assert tolerates([toleration], Taint(key="k", value="v", effect="NoSchedule")) is tolerated


def test_only_the_effects_asked_about_stand_in_the_way() -> None:
    soft = Taint(key="a", effect="PreferNoSchedule")
    hard = Taint(key="b", effect="NoSchedule")
    assert untolerated([], [soft, hard], ("NoSchedule", "NoExecute")) == hard
    assert untolerated([], [soft, hard], ("PreferNoSchedule",)) == soft
    assert untolerated([Toleration(key="b", operator="Exists")], [soft, hard], ("NoSchedule",)) is None


def selects(term: PodAffinityTerm, *, namespace: str = "mine", team: str = "x", **labels: str) -> bool:
    return affinity_term_selects(
        term,
        own_namespace="mine",
        own_labels={"version": "2"},
        namespace=namespace,
        labels=labels,
        namespace_labels={"team": team},
    )


def test_a_term_without_namespaces_means_the_pods_own() -> None:
    term = PodAffinityTerm(topology_key="zone", label_selector=LabelSelector(match_labels={"app": "db"}))
    assert selects(term, app="db")
    assert not selects(term, namespace="theirs", app="db")
    assert not selects(term, app="web")
    assert not selects(PodAffinityTerm(topology_key="zone"), app="db")


def test_named_namespaces_and_selected_ones_are_alternatives() -> None:
    term = PodAffinityTerm(
        topology_key="zone",
        label_selector=LabelSelector(),
        namespaces=["theirs"],
        namespace_selector=LabelSelector(match_labels={"team": "y"}),
    )
    assert selects(term, namespace="theirs")
    assert selects(term, namespace="another", team="y")
    assert not selects(term, namespace="mine")
    everywhere = PodAffinityTerm(
        topology_key="zone", label_selector=LabelSelector(), namespace_selector=LabelSelector()
    )
    assert selects(everywhere, namespace="anywhere")


def test_label_keys_compare_with_the_pods_own_labels_and_keys_it_lacks_say_nothing() -> None:
    same = PodAffinityTerm(topology_key="zone", label_selector=LabelSelector(), match_label_keys=["version", "absent"])
    assert selects(same, version="2")
    assert not selects(same, version="1")
    assert not selects(same)
    different = PodAffinityTerm(
        topology_key="zone", label_selector=LabelSelector(), mismatch_label_keys=["version", "absent"]
    )
    assert not selects(different, version="2")
    assert selects(different, version="1")
    assert selects(different)


def test_spread_counts_the_pods_of_the_same_revision() -> None:
    constraint = TopologySpreadConstraint(
        max_skew=1,
        topology_key="zone",
        when_unsatisfiable="DoNotSchedule",
        label_selector=LabelSelector(match_labels={"app": "web"}),
        match_label_keys=["version"],
    )
    own = {"app": "web", "version": "2"}
    assert spread_constraint_selects(constraint, own_labels=own, labels=own)
    assert not spread_constraint_selects(constraint, own_labels=own, labels={"app": "web", "version": "1"})
