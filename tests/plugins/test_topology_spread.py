"""Topology spread: stories, and a slow, plain reading of the rules that the fast one must agree with."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from builders import cluster, group, node, pod, session
from node_queries import open_nodes, refusals, scores, task_of, texts
from stromboli.api import LabelSelector, Pod, Taint, Toleration, TopologySpreadConstraint
from stromboli.cluster import Cluster, Status
from stromboli.scheduling.configuration.arguments import Arguments
from stromboli.scheduling.plugins.nodeorder import Nodeorder
from stromboli.scheduling.plugins.predicates import Predicates
from stromboli.scheduling.session import Session

SPREAD_ONLY = {"leastrequested.weight": 0, "balancedresource.weight": 0, "podtopologyspread.weight": 1}
TAINT = Taint(key="dedicated", effect="NoSchedule")


def opened(known: Cluster) -> Session:
    # Taints and node affinity would close nodes by themselves; here only the spread is to speak.
    quiet = Arguments({"predicate.TaintTolerationEnable": False, "predicate.NodeAffinityEnable": False})
    return session(known, tiers=[[Predicates(quiet), Nodeorder(Arguments(SPREAD_ONLY))]])


def spread(topology: str = "zone", *, skew: int = 1, hard: bool = True, **more: object) -> TopologySpreadConstraint:
    return TopologySpreadConstraint(
        max_skew=skew,
        topology_key=topology,
        when_unsatisfiable="DoNotSchedule" if hard else "ScheduleAnyway",
        label_selector=LabelSelector(match_labels={"app": "w"}),
        **more,  # type: ignore[arg-type]
    )


def worker(key: str, *constraints: TopologySpreadConstraint, **facts: object) -> Pod:
    facts.setdefault("labels", {"app": "w"})
    return pod(key, group="pg", spread=constraints, **facts)  # type: ignore[arg-type]


NODES = [
    node("a1", cpu=100, labels={"zone": "a", "host": "a1"}),
    node("a2", cpu=100, labels={"zone": "a", "host": "a2"}),
    node("b1", cpu=100, labels={"zone": "b", "host": "b1"}),
]


def test_a_zone_that_is_ahead_gets_no_more_until_the_other_has_caught_up() -> None:
    # a holds 1, b 0. One more in a: 2 - 0 > 1. In b: 1 - 0. After that 1 and 1: both open.
    known = cluster(NODES, group("pg"), worker("old", node="a1"), [worker(f"p{i}", spread()) for i in range(2)])
    cycle = opened(known)
    first, second = task_of(known, "p0"), task_of(known, "p1")
    assert refusals(cycle, first) == dict.fromkeys(["a1", "a2"], "PredicatePodTopologySpread")
    assert texts(cycle, first) == {"where the pod would exceed its topology maxSkew"}
    statement = cycle.statement()
    statement.allocate(first, cycle.nodes.by_name["b1"])
    assert open_nodes(cycle, second) == ["a1", "a2", "b1"]
    statement.discard()
    assert open_nodes(cycle, second) == ["b1"]


def test_a_node_without_the_label_is_no_place_and_makes_no_domain() -> None:
    known = cluster(NODES, node("bare", cpu=100), group("pg"), worker("p", spread()))
    cycle = opened(known)
    assert refusals(cycle, task_of(known, "p")) == {"bare": "PredicatePodTopologySpread"}
    assert texts(cycle, task_of(known, "p")) == {"without a label that the pod's topology spread constraints require"}


def test_a_pod_the_constraint_does_not_mean_is_not_counted_itself() -> None:
    # a 1, b 0: a pod that does not count leaves a at 1 - 0, which is allowed; one that does makes it 2 - 0.
    known = cluster(
        NODES, group("pg"), worker("old", node="a1"),
        worker("p", spread(), labels={"app": "other"}), worker("q", spread()),
    )  # fmt: skip
    cycle = opened(known)
    assert open_nodes(cycle, task_of(known, "p")) == ["a1", "a2", "b1"]
    assert open_nodes(cycle, task_of(known, "q")) == ["b1"]


def test_fewer_domains_than_asked_for_hold_no_more_than_the_skew_each() -> None:
    # Two zones hold 1 each; with three asked for, the emptiest counts as 0, so 2 - 0 > 1 everywhere.
    known = cluster(
        NODES, group("pg"), worker("x", node="a1"), worker("y", node="b1"),
        worker("p", spread(min_domains=3)), worker("q", spread(min_domains=2)),
    )  # fmt: skip
    cycle = opened(known)
    assert open_nodes(cycle, task_of(known, "p")) == []
    assert open_nodes(cycle, task_of(known, "q")) == ["a1", "a2", "b1"]


def test_nodes_the_pod_cannot_use_make_domains_only_if_told_so() -> None:
    # Zone b is out of reach by selector (or taint). If it counts, it stays at 0 for ever and zone a is stuck at 1.
    nodes = [
        node("a1", cpu=100, labels={"zone": "a", "disk": "ssd"}),
        node("b1", cpu=100, labels={"zone": "b"}, taints=[TAINT]),
    ]
    tolerating = [Toleration(operator="Exists")]
    for facts, more, expected in (
        ({"node_selector": {"disk": "ssd"}}, {}, ["a1"]),
        ({"node_selector": {"disk": "ssd"}}, {"node_affinity_policy": "Ignore"}, []),
        ({}, {}, []),
        ({}, {"node_taints_policy": "Honor"}, ["a1"]),
        ({"tolerations": tolerating}, {"node_taints_policy": "Honor"}, []),
    ):
        known = cluster(nodes, group("pg"), worker("old", node="a1"), worker("p", spread(**more), **facts))  # type: ignore[arg-type]
        assert [n for n in open_nodes(opened(known), task_of(known, "p")) if n == "a1"] == expected


def test_with_match_label_keys_each_revision_is_spread_by_itself() -> None:
    known = cluster(
        NODES, group("pg"), worker("old", node="a1", labels={"app": "w", "rev": "1"}),
        worker("p", spread(match_label_keys=["rev"]), labels={"app": "w", "rev": "2"}),
        worker("q", spread(match_label_keys=["rev"]), labels={"app": "w", "rev": "1"}),
    )  # fmt: skip
    cycle = opened(known)
    assert open_nodes(cycle, task_of(known, "p")) == ["a1", "a2", "b1"]
    assert open_nodes(cycle, task_of(known, "q")) == ["b1"]


def test_pods_on_their_way_out_and_pods_of_other_namespaces_are_not_counted() -> None:
    known = cluster(
        NODES, group("pg"), worker("gone", node="a1", deleted=True), pod("other/w", labels={"app": "w"}, node="a1"),
        worker("p", spread()),
    )  # fmt: skip
    assert open_nodes(opened(known), task_of(known, "p")) == ["a1", "a2", "b1"]


def test_without_enforcement_the_emptier_zone_scores_better() -> None:
    # Two zones: weight log(4). a holds 2, b 1: crowd 2w and 1w; (max + min - crowd) / max: a 50, b 100.
    known = cluster(
        NODES, node("bare", cpu=100), group("pg"),
        worker("x", node="a1"), worker("y", node="a2"), worker("z", node="b1"), worker("p", spread(hard=False)),
    )  # fmt: skip
    cycle = opened(known)
    assert scores(cycle, task_of(known, "p")) == pytest.approx({"a1": 50, "a2": 50, "b1": 100, "bare": 0})
    assert refusals(cycle, task_of(known, "p")) == {}


def test_an_empty_cluster_is_good_everywhere() -> None:
    known = cluster(NODES, group("pg"), worker("p", spread(hard=False)))
    assert scores(opened(known), task_of(known, "p")) == {"a1": 100, "a2": 100, "b1": 100}


# -- against a plain reading of the rules ---------------------------------------------------------------------------

constraints = st.builds(
    TopologySpreadConstraint,
    max_skew=st.integers(1, 2),
    topology_key=st.sampled_from(["zone", "host"]),
    when_unsatisfiable=st.sampled_from(["DoNotSchedule", "ScheduleAnyway"]),
    label_selector=st.sampled_from(
        [None, LabelSelector(), LabelSelector(match_labels={"app": "x"}), LabelSelector(match_labels={"app": "y"})]
    ),
    min_domains=st.sampled_from([None, None, 1, 2, 3]),
    node_affinity_policy=st.sampled_from(["Honor", "Ignore"]),
    node_taints_policy=st.sampled_from(["Honor", "Ignore"]),
    match_label_keys=st.sampled_from([[], [], ["rev"]]),
)


def counted(known: Cluster, constraint: TopologySpreadConstraint, new: Pod, other: Pod) -> bool:
    if new.metadata.namespace != other.metadata.namespace or constraint.label_selector is None:
        return False
    mine, theirs = new.metadata.labels, other.metadata.labels
    for name, value in constraint.label_selector.match_labels.items():
        if theirs.get(name) != value:
            return False
    return all(theirs.get(name) == mine[name] for name in constraint.match_label_keys if name in mine)


def domains(known: Cluster, new: Pod, constraint: TopologySpreadConstraint) -> dict[str, int]:
    """Pods in each domain that counts."""
    same = [
        c.topology_key
        for c in new.spec.topology_spread_constraints
        if c.when_unsatisfiable == constraint.when_unsatisfiable
    ]
    found: dict[str, int] = {}
    for each in known.nodes.values():
        if any(key not in each.labels for key in same):
            continue
        selected = all(each.labels.get(k) == v for k, v in new.spec.node_selector.items())
        if constraint.node_affinity_policy == "Honor" and not selected:
            continue
        tolerated = not each.object.spec.taints or bool(new.spec.tolerations)
        if constraint.node_taints_policy == "Honor" and not tolerated:
            continue
        value = each.labels[constraint.topology_key]
        found.setdefault(value, 0)
        for task in each.tasks.values():
            if task.status is not Status.RELEASING and counted(known, constraint, new, task.pod):
                found[value] += 1
    return found


def expected_open(known: Cluster, new: Pod) -> list[str]:
    hard = [c for c in new.spec.topology_spread_constraints if c.when_unsatisfiable == "DoNotSchedule"]
    answer = []
    for each in known.nodes.values():
        for constraint in hard:
            if constraint.topology_key not in each.labels:
                break
            found = domains(known, new, constraint)
            least = min(found.values(), default=0)
            if len(found) < (constraint.min_domains or 1):
                least = 0
            here = found.get(each.labels[constraint.topology_key], 0)
            if here + counted(known, constraint, new, new) - least > constraint.max_skew:
                break
        else:
            answer.append(each.name)
    return answer


def expected_scores(known: Cluster, new: Pod) -> dict[str, float]:
    soft = [c for c in new.spec.topology_spread_constraints if c.when_unsatisfiable == "ScheduleAnyway"]
    crowd: dict[str, float] = {}
    for each in known.nodes.values():
        if all(c.topology_key in each.labels for c in soft):
            crowd[each.name] = 0.0
            for c in soft:
                found = domains(known, new, c)
                here = found.get(each.labels[c.topology_key], 0)
                crowd[each.name] += here * math.log(len(found) + 2) + c.max_skew - 1
    if not soft or not crowd:
        return dict.fromkeys(known.nodes, 0.0)
    most, least = max(crowd.values()), min(crowd.values())
    return {
        name: 0.0 if name not in crowd else 100.0 if most == 0 else 100 * (most + least - crowd[name]) / most
        for name in known.nodes
    }


@st.composite
def spread_clusters(draw: st.DrawFn) -> Cluster:
    nodes = []
    for number in range(draw(st.integers(1, 4))):
        labels = {"host": f"n{number}"}
        if zone := draw(st.sampled_from(["", "a", "b"])):
            labels["zone"] = zone
        if draw(st.booleans()):
            labels["disk"] = "ssd"
        taints = [TAINT] if draw(st.booleans()) else []
        nodes.append(node(f"n{number}", cpu=100, labels=labels, taints=taints))
    # Few specs and more pods, so that pods of one spec differ in labels and namespace only.
    spec = st.tuples(st.booleans(), st.booleans(), st.lists(constraints, min_size=1, max_size=2))
    specs = draw(st.lists(spec, min_size=1, max_size=2))
    pods = []
    for number in range(draw(st.integers(2, 8))):
        labels = {"app": draw(st.sampled_from("xy"))}
        if draw(st.booleans()):
            labels["rev"] = draw(st.sampled_from("12"))
        on = draw(st.sampled_from(["", "", *(n.metadata.name for n in nodes)]))
        selective, tolerant, wanted = draw(st.sampled_from(specs))
        pods.append(
            pod(
                f"{draw(st.sampled_from('st'))}/p{number}",
                group="pg",
                labels=labels,
                node=on,
                deleted=bool(on) and draw(st.booleans()),
                node_selector={"disk": "ssd"} if selective else {},
                tolerations=[Toleration(operator="Exists")] if tolerant else [],
                spread=wanted,
            )
        )
    return cluster(nodes, group("s/pg"), group("t/pg"), pods)


@settings(max_examples=300, deadline=None)
@given(known=spread_clusters(), data=st.data())
def test_the_fast_counts_agree_with_a_plain_reading_after_any_doing_and_undoing(
    known: Cluster, data: st.DataObject
) -> None:
    cycle = opened(known)
    statement = cycle.statement()

    def agree() -> None:
        for task in known.tasks.values():
            if task.status is Status.PENDING:
                assert open_nodes(cycle, task) == expected_open(known, task.pod)
                assert scores(cycle, task) == pytest.approx(expected_scores(known, task.pod))

    agree()
    for _ in range(data.draw(st.integers(0, 5))):
        step = data.draw(st.sampled_from(["place", "evict", "undo", "ask"]))
        waiting = [t for t in known.tasks.values() if t.status is Status.PENDING]
        running = [t for t in known.tasks.values() if t.status is Status.RUNNING]
        if step == "place" and waiting:
            statement.allocate(data.draw(st.sampled_from(waiting)), data.draw(st.sampled_from(cycle.nodes.nodes)))
        elif step == "evict" and running:
            statement.evict(data.draw(st.sampled_from(running)), reason="Preempted", message="")
        elif step == "undo" and len(statement):
            statement.discard(down_to=len(statement) - 1)
        elif step == "ask":
            agree()
    agree()
    statement.commit()
    agree()
