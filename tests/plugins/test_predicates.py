"""Which nodes may take a pod: cordons, selectors, taints and ports."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from builders import cluster, group, node, pod, session
from node_queries import open_nodes, refusals, task_of, texts
from stromboli.api import (
    Affinity,
    Container,
    ContainerPort,
    NodeAffinity,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    Pod,
    Taint,
    Toleration,
)
from stromboli.api.selectors import matches_required_node
from stromboli.cluster import Cluster
from stromboli.scheduling.configuration.arguments import Arguments, ConfigurationError
from stromboli.scheduling.plugins.predicates import Predicates
from stromboli.scheduling.session import Session

GPU_ONLY = Taint(key="dedicated", value="gpu", effect="NoSchedule")


def opened(known: Cluster, **arguments: object) -> Session:
    return session(known, tiers=[[Predicates(Arguments({f"predicate.{k}": v for k, v in arguments.items()}))]])


def one_pod(*nodes: object, **facts: object) -> Cluster:
    return cluster(*nodes, group("pg"), pod("p", group="pg", cpu=1, **facts))  # type: ignore[arg-type]


def required(*terms: NodeSelectorTerm) -> Affinity:
    return Affinity(
        node_affinity=NodeAffinity(
            required_during_scheduling_ignored_during_execution=NodeSelector(node_selector_terms=list(terms))
        )
    )


def wants(key: str, operator: str, *values: str) -> NodeSelectorTerm:
    return NodeSelectorTerm(
        match_expressions=[NodeSelectorRequirement(key=key, operator=operator, values=list(values))]
    )


# -- cordons and taints ---------------------------------------------------------------------------------------------


def test_a_cordoned_node_takes_nobody_but_those_who_say_they_do_not_mind() -> None:
    nodes = [node("n1", cpu=4), node("n2", cpu=4, cordoned=True)]
    known = one_pod(nodes)
    assert refusals(opened(known), task_of(known, "p")) == {"n2": "PredicateNodeUnschedulable"}

    indifferent = Toleration(key="node.kubernetes.io/unschedulable", operator="Exists", effect="NoSchedule")
    known = one_pod(nodes, tolerations=[indifferent])
    assert open_nodes(opened(known), task_of(known, "p")) == ["n1", "n2"]


def test_taints_keep_pods_away_that_do_not_tolerate_them_and_the_reason_names_the_taint() -> None:
    nodes = [
        node("free", cpu=4),
        node("gpu", cpu=4, taints=[GPU_ONLY]),
        node("leaving", cpu=4, taints=[Taint(key="broken", effect="NoExecute")]),
        node("shy", cpu=4, taints=[Taint(key="busy", effect="PreferNoSchedule")]),
    ]
    known = one_pod(nodes)
    opened_session = opened(known)
    assert open_nodes(opened_session, task_of(known, "p")) == ["free", "shy"]
    assert texts(opened_session, task_of(known, "p")) == {
        "with taint dedicated, which the pod does not tolerate",
        "with taint broken, which the pod does not tolerate",
    }

    known = one_pod(nodes, tolerations=[Toleration(key="dedicated", value="gpu")])
    assert refusals(opened(known), task_of(known, "p")) == {"leaving": "PredicateTaintToleration"}

    known = one_pod(nodes, tolerations=[Toleration(operator="Exists")])
    assert open_nodes(opened(known), task_of(known, "p")) == ["free", "gpu", "leaving", "shy"]


def test_a_node_is_closed_by_its_second_taint_when_the_first_is_tolerated() -> None:
    both = node("n1", cpu=4, taints=[GPU_ONLY, Taint(key="team", value="a", effect="NoSchedule")])
    known = one_pod(both, tolerations=[Toleration(key="dedicated", operator="Exists")])
    opened_session = opened(known)
    assert texts(opened_session, task_of(known, "p")) == {"with taint team, which the pod does not tolerate"}


# -- selectors ------------------------------------------------------------------------------------------------------


def test_a_node_selector_and_affinity_must_both_hold_and_terms_are_alternatives() -> None:
    nodes = [
        node("n1", cpu=4, labels={"disk": "ssd", "zone": "a"}),
        node("n2", cpu=4, labels={"disk": "ssd", "zone": "b"}),
        node("n3", cpu=4, labels={"disk": "hdd", "zone": "a"}),
        node("n4", cpu=4, labels={"disk": "ssd", "zone": "c"}),
    ]
    known = one_pod(
        nodes, node_selector={"disk": "ssd"}, affinity=required(wants("zone", "In", "a"), wants("zone", "In", "b"))
    )
    opened_session = opened(known)
    assert open_nodes(opened_session, task_of(known, "p")) == ["n1", "n2"]
    assert set(refusals(opened_session, task_of(known, "p")).values()) == {"PredicateNodeAffinity"}


def test_a_selector_for_a_label_or_value_that_no_node_has_closes_them_all() -> None:
    for selector in ({"disk": "tape"}, {"colour": "red"}):
        known = one_pod([node("n1", cpu=4, labels={"disk": "ssd"}), node("n2", cpu=4)], node_selector=selector)
        assert open_nodes(opened(known), task_of(known, "p")) == []


labels = st.dictionaries(st.sampled_from(["zone", "disk", "size"]), st.sampled_from(["a", "b", "7", "12"]))
requirements = st.builds(
    lambda key, operator, values: NodeSelectorRequirement(
        key=key, operator=operator, values=values[:1] if operator in ("Gt", "Lt") else values
    ),
    key=st.sampled_from(["zone", "disk", "size"]),
    operator=st.sampled_from(["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]),
    values=st.lists(st.sampled_from(["a", "b", "7", "9"]), min_size=1, max_size=2),
)
names = st.builds(
    lambda name: NodeSelectorRequirement(key="metadata.name", operator="In", values=[name]),
    st.sampled_from(["n0", "n1"]),
)
terms = st.builds(
    lambda expressions, fields: NodeSelectorTerm(match_expressions=expressions, match_fields=fields),
    st.lists(requirements, max_size=2),
    st.one_of(st.just([]), st.just([]), st.lists(names, max_size=1)),
)
one_label = st.dictionaries(st.sampled_from(["zone", "disk"]), st.sampled_from(["a", "b"]), max_size=1)


# Selectors are often empty and clusters never tiny, or most answers would be "none" for a reason of no interest.
@settings(max_examples=300)
@given(
    nodes=st.lists(labels, min_size=3, max_size=6),
    selector=st.one_of(st.just({}), st.just({}), one_label),
    alternatives=st.one_of(st.none(), st.lists(terms, max_size=1), st.lists(terms, max_size=3)),
)
def test_columns_of_labels_say_what_a_look_at_each_node_says(
    nodes: list[dict[str, str]], selector: dict[str, str], alternatives: list[NodeSelectorTerm] | None
) -> None:
    affinity = None if alternatives is None else required(*alternatives)
    known = one_pod(
        [node(f"n{number}", cpu=4, labels=given) for number, given in enumerate(nodes)],
        node_selector=selector,
        affinity=affinity,
    )
    task = task_of(known, "p")
    one_by_one = [n.name for n in known.nodes.values() if matches_required_node(task.pod.spec, n.object)]
    assert open_nodes(opened(known), task) == one_by_one


# -- ports ----------------------------------------------------------------------------------------------------------


def listening(key: str, *ports: ContainerPort, **facts: object) -> Pod:
    made = pod(key, **facts)  # type: ignore[arg-type]
    made.spec.containers = [Container(name="main", ports=list(ports))]
    return made


@pytest.mark.parametrize(
    ("wanted", "taken", "collides"),
    [
        (ContainerPort(host_port=80), ContainerPort(host_port=80), True),
        (ContainerPort(host_port=80), ContainerPort(host_port=81), False),
        (ContainerPort(host_port=80), ContainerPort(host_port=80, protocol="UDP"), False),
        (ContainerPort(host_port=80), ContainerPort(host_port=80, host_ip="10.0.0.1"), True),
        (ContainerPort(host_port=80, host_ip="10.0.0.1"), ContainerPort(host_port=80, host_ip="0.0.0.0"), True),
        (ContainerPort(host_port=80, host_ip="10.0.0.1"), ContainerPort(host_port=80, host_ip="10.0.0.2"), False),
        (ContainerPort(host_port=80), ContainerPort(container_port=80), False),
    ],
)
def test_two_pods_on_a_node_cannot_have_the_same_port(
    wanted: ContainerPort, taken: ContainerPort, collides: bool
) -> None:
    known = cluster(
        node("n1", cpu=4), node("n2", cpu=4), group("pg"),
        listening("first", taken, node="n1"),
        listening("p", wanted, group="pg"),
    )  # fmt: skip
    assert refusals(opened(known), task_of(known, "p")) == ({"n1": "PredicateNodePorts"} if collides else {})


def test_on_the_host_network_every_named_port_is_one_of_the_node() -> None:
    first = listening("first", ContainerPort(container_port=80), node="n1")
    first.spec.host_network = True
    known = cluster(node("n1", cpu=4), group("pg"), first, listening("p", ContainerPort(host_port=80), group="pg"))
    assert open_nodes(opened(known), task_of(known, "p")) == []


def test_ports_given_in_this_cycle_are_taken_and_given_back_with_an_undo() -> None:
    known = cluster(
        node("n1", cpu=4), node("n2", cpu=4), group("pg"),
        [listening(f"p{i}", ContainerPort(host_port=80), group="pg") for i in range(3)],
    )  # fmt: skip
    cycle = opened(known)
    first, second, third = (task_of(known, f"p{i}") for i in range(3))
    statement = cycle.statement()
    assert statement.allocate(first, cycle.nodes.nodes[0])
    assert open_nodes(cycle, second) == ["n2"]
    assert statement.allocate(second, cycle.nodes.nodes[1])
    assert open_nodes(cycle, third) == []
    statement.discard()
    assert open_nodes(cycle, third) == ["n1", "n2"]


def test_a_port_is_taken_until_its_owner_is_gone_but_free_for_who_looks_ahead() -> None:
    known = cluster(
        node("n1", cpu=4), group("pg"),
        listening("owner", ContainerPort(host_port=80), group="pg", node="n1"),
        listening("p", ContainerPort(host_port=80), group="pg"),
    )  # fmt: skip
    cycle = opened(known)
    statement = cycle.statement()
    statement.evict(task_of(known, "owner"), reason="Preempted", message="")
    assert open_nodes(cycle, task_of(known, "p")) == []
    assert open_nodes(cycle, task_of(known, "p"), ahead=True) == ["n1"]
    statement.commit()
    later = opened(known)
    assert open_nodes(later, task_of(known, "p")) == []
    assert open_nodes(later, task_of(known, "p"), ahead=True) == ["n1"]


# -- switches -------------------------------------------------------------------------------------------------------


def test_checks_can_be_switched_off_but_a_cordon_always_holds() -> None:
    known = cluster(
        node("n1", cpu=4, taints=[GPU_ONLY]), node("n2", cpu=4, cordoned=True), group("pg"),
        listening("owner", ContainerPort(host_port=80), node="n1"),
        listening("p", ContainerPort(host_port=80), group="pg", node_selector={"disk": "ssd"}),
    )  # fmt: skip
    off = {"NodeAffinityEnable": False, "NodePortsEnable": False, "TaintTolerationEnable": "false"}
    assert open_nodes(opened(known, **off), task_of(known, "p")) == ["n1"]
    for switch, code in (
        ("NodeAffinityEnable", "PredicateNodeAffinity"),
        ("NodePortsEnable", "PredicateNodePorts"),
        ("TaintTolerationEnable", "PredicateTaintToleration"),
    ):
        only = {**off, switch: True}
        assert refusals(opened(known, **only), task_of(known, "p"))["n1"] == code


def test_an_argument_of_the_wrong_type_is_an_error() -> None:
    arguments = Arguments({"predicate.VolumeBindingEnable": False})
    Predicates(arguments)
    assert arguments.warnings() == ()
    with pytest.raises(ConfigurationError, match="PodAffinityEnable"):
        Predicates(Arguments({"predicate.PodAffinityEnable": "perhaps"}))


def test_a_filter_has_nothing_to_say_about_a_plain_pod() -> None:
    known = one_pod([node("n1", cpu=4, labels={"zone": "a"}), node("n2", cpu=4)])
    cycle = opened(known)
    assert all(hook.prepare(task_of(known, "p")) is None for hook in cycle.filters)
    assert all(hook.key is None or hook.key(task_of(known, "p")) is None for hook in cycle.filters)
