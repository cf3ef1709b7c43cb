"""Affinity between pods: stories, and a slow, plain reading of the rules that the fast one must agree with."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from builders import cluster, group, namespace, node, pod, session
from node_queries import open_nodes, refusals, scores, task_of, texts
from stromboli.api import (
    Affinity,
    LabelSelector,
    LabelSelectorRequirement,
    Node,
    PodAffinity,
    PodAffinityTerm,
    PodAntiAffinity,
    WeightedPodAffinityTerm,
)
from stromboli.cluster import Cluster, Status, Task
from stromboli.scheduling.configuration.arguments import Arguments
from stromboli.scheduling.plugins.nodeorder import Nodeorder
from stromboli.scheduling.plugins.predicates import Predicates
from stromboli.scheduling.session import Session

ONLY_POD_AFFINITY = {
    "leastrequested.weight": 0,
    "balancedresource.weight": 0,
    "podaffinity.weight": 1,
}


def opened(known: Cluster) -> Session:
    return session(known, tiers=[[Predicates(Arguments()), Nodeorder(Arguments(ONLY_POD_AFFINITY))]])


def term(app: str | None, topology: str = "zone", **more: object) -> PodAffinityTerm:
    """Pods with this label `app`; None for all pods."""
    selector = LabelSelector(match_labels={} if app is None else {"app": app})
    return PodAffinityTerm(topology_key=topology, label_selector=selector, **more)  # type: ignore[arg-type]


def near(*terms: PodAffinityTerm) -> Affinity:
    return Affinity(pod_affinity=PodAffinity(required_during_scheduling_ignored_during_execution=list(terms)))


def far(*terms: PodAffinityTerm) -> Affinity:
    return Affinity(pod_anti_affinity=PodAntiAffinity(required_during_scheduling_ignored_during_execution=list(terms)))


def rather(*, near: dict[str, int] | None = None, far: dict[str, int] | None = None) -> Affinity:
    """Preferences by app and weight, over zones."""

    def weighted(apps: dict[str, int] | None) -> list[WeightedPodAffinityTerm]:
        return [WeightedPodAffinityTerm(weight=w, pod_affinity_term=term(app)) for app, w in (apps or {}).items()]

    return Affinity(
        pod_affinity=PodAffinity(preferred_during_scheduling_ignored_during_execution=weighted(near)),
        pod_anti_affinity=PodAntiAffinity(preferred_during_scheduling_ignored_during_execution=weighted(far)),
    )


def zones(**zone_of: str) -> list[Node]:
    return [node(name, cpu=100, labels={"zone": zone} if zone else {}) for name, zone in zone_of.items()]


THREE = zones(a1="a", a2="a", b1="b", bare="")


# -- required -------------------------------------------------------------------------------------------------------


def test_affinity_opens_the_whole_zone_of_the_wanted_pod_and_nothing_else() -> None:
    known = cluster(
        THREE, group("pg"), pod("db", labels={"app": "db"}, node="a1"),
        pod("p", group="pg", affinity=near(term("db"))),
    )  # fmt: skip
    cycle = opened(known)
    assert open_nodes(cycle, task_of(known, "p")) == ["a1", "a2"]
    assert set(refusals(cycle, task_of(known, "p")).values()) == {"PredicateInterPodAffinity"}


def test_the_first_pod_of_its_kind_may_go_anywhere_with_a_zone_and_the_next_ones_follow_it() -> None:
    known = cluster(
        THREE, group("pg"),
        [pod(f"p{i}", group="pg", labels={"app": "w", "i": str(i)}, affinity=near(term("w"))) for i in range(2)],
    )  # fmt: skip
    cycle = opened(known)
    first, second = task_of(known, "p0"), task_of(known, "p1")
    assert open_nodes(cycle, first) == ["a1", "a2", "b1"]
    statement = cycle.statement()
    statement.allocate(first, cycle.nodes.by_name["b1"])
    assert open_nodes(cycle, second) == ["b1"]
    statement.discard()
    assert open_nodes(cycle, second) == ["a1", "a2", "b1"]


def test_a_pod_that_wants_others_only_waits_until_there_is_one() -> None:
    known = cluster(THREE, group("pg"), pod("p", group="pg", labels={"app": "w"}, affinity=near(term("db"))))
    assert open_nodes(opened(known), task_of(known, "p")) == []


def test_two_terms_may_be_met_by_two_pods() -> None:
    known = cluster(
        THREE, group("pg"), pod("db", labels={"app": "db"}, node="a1"), pod("web", labels={"app": "web"}, node="a2"),
        pod("p", group="pg", affinity=near(term("db"), term("web"))),
    )  # fmt: skip
    assert open_nodes(opened(known), task_of(known, "p")) == ["a1", "a2"]


def test_anti_affinity_spreads_a_gang_over_zones_while_it_is_placed() -> None:
    known = cluster(
        THREE, group("pg"), [pod(f"p{i}", group="pg", labels={"app": "w"}, affinity=far(term("w"))) for i in range(3)]
    )
    cycle = opened(known)
    first, second, third = (task_of(known, f"p{i}") for i in range(3))
    statement = cycle.statement()
    statement.allocate(first, cycle.nodes.by_name["a1"])
    assert open_nodes(cycle, second) == ["b1", "bare"]
    statement.pipeline(second, cycle.nodes.by_name["b1"])
    assert open_nodes(cycle, third) == ["bare"]
    assert "near pods that the pod's anti-affinity excludes" in texts(cycle, third)


def test_a_pod_without_terms_is_kept_away_by_those_who_do_not_want_it() -> None:
    known = cluster(
        THREE, group("pg"), pod("loner", labels={"app": "l"}, node="a1", affinity=far(term("noisy"))),
        pod("noisy", group="pg", labels={"app": "noisy"}), pod("quiet", group="pg", labels={"app": "quiet"}),
        pod("elsewhere/noisy", labels={"app": "noisy"}),
    )  # fmt: skip
    cycle = opened(known)
    assert open_nodes(cycle, task_of(known, "noisy")) == ["b1", "bare"]
    assert texts(cycle, task_of(known, "noisy")) == {"near pods whose anti-affinity excludes this pod"}
    assert open_nodes(cycle, task_of(known, "quiet")) == ["a1", "a2", "b1", "bare"]
    assert open_nodes(cycle, task_of(known, "elsewhere/noisy")) == ["a1", "a2", "b1", "bare"]


def test_a_pod_placed_in_this_cycle_keeps_away_whom_it_does_not_want() -> None:
    known = cluster(
        THREE, group("pg"), pod("loner", group="pg", affinity=far(term(None))), pod("p", group="pg"),
    )  # fmt: skip
    cycle = opened(known)
    assert len(open_nodes(cycle, task_of(known, "p"))) == 4
    cycle.statement().allocate(task_of(known, "loner"), cycle.nodes.by_name["a2"])
    assert open_nodes(cycle, task_of(known, "p")) == ["b1", "bare"]


def test_a_leaving_pod_is_a_neighbour_until_it_is_gone_except_for_who_looks_ahead() -> None:
    known = cluster(
        THREE, group("pg"),
        pod("old", labels={"app": "w"}, node="a1", deleted=True),
        pod("victim", group="pg", labels={"app": "w"}, node="b1"),
        pod("p", group="pg", labels={"app": "w"}, affinity=far(term("w"))),
    )  # fmt: skip
    cycle = opened(known)
    p = task_of(known, "p")
    before = open_nodes(cycle, p, ahead=True)
    assert open_nodes(cycle, p) == ["bare"]
    assert "b1" not in before
    statement = cycle.statement()
    statement.evict(task_of(known, "victim"), reason="Preempted", message="")
    assert open_nodes(cycle, p) == ["bare"]
    assert open_nodes(cycle, p, ahead=True) == sorted([*before, "b1"])
    statement.commit()
    assert open_nodes(opened(known), p) == ["bare"]
    assert open_nodes(opened(known), p, ahead=True) == sorted([*before, "b1"])


def test_terms_reach_into_other_namespaces_only_if_they_say_so() -> None:
    by_name = PodAffinityTerm(
        topology_key="zone",
        label_selector=LabelSelector(),
        namespace_selector=LabelSelector(match_labels={"kubernetes.io/metadata.name": "other"}),
    )
    by_label = PodAffinityTerm(
        topology_key="zone",
        label_selector=LabelSelector(),
        namespace_selector=LabelSelector(match_labels={"team": "x"}),
    )
    for wish, expected in (
        (term("w"), []),
        (term("w", namespaces=["other"]), ["b1"]),
        (by_name, ["b1"]),
        (by_label, ["b1"]),
    ):
        known = cluster(
            THREE, namespace("other", labels={"team": "x"}), group("pg"),
            pod("other/w", labels={"app": "w"}, node="b1"), pod("p", group="pg", affinity=near(wish)),
        )  # fmt: skip
        assert open_nodes(opened(known), task_of(known, "p")) == expected


def test_match_label_keys_mean_pods_of_the_same_revision() -> None:
    same = term("w", match_label_keys=["rev"])
    other = term("w", mismatch_label_keys=["rev"])
    for wish, expected in ((same, ["b1"]), (other, ["a1", "a2"])):
        known = cluster(
            THREE, group("pg"),
            pod("one", labels={"app": "w", "rev": "1"}, node="a1"),
            pod("two", labels={"app": "w", "rev": "2"}, node="b1"),
            pod("p", group="pg", labels={"app": "w", "rev": "2"}, affinity=near(wish)),
        )  # fmt: skip
        assert open_nodes(opened(known), task_of(known, "p")) == expected


def test_pods_of_one_spec_differ_in_whether_they_are_the_first_of_their_kind() -> None:
    known = cluster(
        THREE, group("pg"),
        pod("other", group="pg", labels={"app": "x"}, affinity=near(term("w"))),
        pod("first", group="pg", labels={"app": "w"}, affinity=near(term("w"))),
    )  # fmt: skip
    cycle = session(known, tiers=[[Predicates(Arguments())]])
    assert open_nodes(cycle, task_of(known, "other")) == []
    assert open_nodes(cycle, task_of(known, "first")) == ["a1", "a2", "b1"]


def test_a_term_first_asked_about_after_a_placement_counts_what_was_placed() -> None:
    known = cluster(
        THREE, group("pg"), pod("x", labels={"app": "x"}, node="a1"), pod("w", group="pg", labels={"app": "w"}),
        pod("near-x", group="pg", affinity=near(term("x"))), pod("near-w", group="pg", affinity=near(term("w"))),
    )  # fmt: skip
    cycle = opened(known)
    assert open_nodes(cycle, task_of(known, "near-x")) == ["a1", "a2"]
    cycle.statement().allocate(task_of(known, "w"), cycle.nodes.by_name["b1"])
    assert open_nodes(cycle, task_of(known, "near-x")) == ["a1", "a2"]
    assert open_nodes(cycle, task_of(known, "near-w")) == ["b1"]


# -- preferred ------------------------------------------------------------------------------------------------------


def test_preferences_add_up_per_pod_and_run_from_0_to_100() -> None:
    # Weights times pods: zone a has one db (+10) and two webs (-2 each) = 6, zone b one web = -2, bare 0.
    # (raw + 2) / 8 * 100: a 100, b 0, bare 25.
    known = cluster(
        THREE, group("pg"), pod("db", labels={"app": "db"}, node="a1"),
        pod("web1", labels={"app": "web"}, node="a1"), pod("web2", labels={"app": "web"}, node="a2"),
        pod("web3", labels={"app": "web"}, node="b1"),
        pod("p", group="pg", affinity=rather(near={"db": 10}, far={"web": 2})),
    )  # fmt: skip
    assert scores(opened(known), task_of(known, "p")) == pytest.approx({"a1": 100, "a2": 100, "b1": 0, "bare": 25})


def test_the_preferences_of_others_pull_a_pod_that_has_none() -> None:
    # zone a holds a pod that would like this one near (+5); the one in zone b needs it (+1): 100, 20, 0.
    known = cluster(
        THREE, group("pg"), pod("fan", node="a1", affinity=rather(near={"star": 5})),
        pod("needy", node="b1", affinity=near(term("star"))),
        pod("star", group="pg", labels={"app": "star"}),
    )  # fmt: skip
    assert scores(opened(known), task_of(known, "star")) == pytest.approx({"a1": 100, "a2": 100, "b1": 20, "bare": 0})


# -- against a plain reading of the rules ---------------------------------------------------------------------------


@dataclass
class Written:
    """A pod as a test writes it: its terms stay readable beside the object made from them."""

    name: str
    space: str
    labels: dict[str, str]
    wanted: list[PodAffinityTerm] = field(default_factory=list)
    unwanted: list[PodAffinityTerm] = field(default_factory=list)
    liked: list[tuple[int, PodAffinityTerm]] = field(default_factory=list)
    disliked: list[tuple[int, PodAffinityTerm]] = field(default_factory=list)
    node: str = ""

    def affinity(self) -> Affinity:
        def weighted(pairs: Iterable[tuple[int, PodAffinityTerm]]) -> list[WeightedPodAffinityTerm]:
            return [WeightedPodAffinityTerm(weight=w, pod_affinity_term=t) for w, t in pairs]

        return Affinity(
            pod_affinity=PodAffinity(
                required_during_scheduling_ignored_during_execution=self.wanted,
                preferred_during_scheduling_ignored_during_execution=weighted(self.liked),
            ),
            pod_anti_affinity=PodAntiAffinity(
                required_during_scheduling_ignored_during_execution=self.unwanted,
                preferred_during_scheduling_ignored_during_execution=weighted(self.disliked),
            ),
        )


def means(t: PodAffinityTerm, carrier: Written, other: Written) -> bool:
    if t.namespaces or t.namespace_selector is not None:
        # Namespaces have no labels here, so a selector means all of them (empty) or none.
        everywhere = t.namespace_selector is not None and not t.namespace_selector.match_labels
        if other.space not in t.namespaces and not everywhere:
            return False
    elif other.space != carrier.space:
        return False
    if t.label_selector is None:
        return False
    for name, value in t.label_selector.match_labels.items():
        if other.labels.get(name) != value:
            return False
    for need in t.label_selector.match_expressions:
        has = other.labels.get(need.key)
        if need.operator == "In" and (has is None or has not in need.values):
            return False
        if need.operator == "NotIn" and has in need.values:
            return False
        if need.operator == "Exists" and has is None:
            return False
    for name in t.match_label_keys:
        if name in carrier.labels and other.labels.get(name) != carrier.labels[name]:
            return False
    return True


Nodes = dict[str, dict[str, str]]  # labels by name
Placed = list[tuple[Written, str]]  # who is on which node


def same_domain(nodes: Nodes, topology: str, here: str, there: str) -> bool:
    return topology in nodes[here] and nodes[here][topology] == nodes[there].get(topology)


def allowed(nodes: Nodes, placed: Placed, new: Written, here: str) -> bool:
    for t in new.wanted:
        if t.topology_key not in nodes[here]:
            return False
        meant = [where for other, where in placed if means(t, new, other) and t.topology_key in nodes[where]]
        is_first = not meant and means(t, new, new)
        if not is_first and not any(same_domain(nodes, t.topology_key, here, where) for where in meant):
            return False
    for other, where in placed:
        for t in new.unwanted:
            if means(t, new, other) and same_domain(nodes, t.topology_key, here, where):
                return False
        for t in other.unwanted:
            if means(t, other, new) and same_domain(nodes, t.topology_key, here, where):
                return False
    return True


def preference(nodes: Nodes, placed: Placed, new: Written, here: str) -> int:
    total = 0
    for other, where in placed:
        mine = [*new.liked, *((-w, t) for w, t in new.disliked)]
        theirs = [*other.liked, *((-w, t) for w, t in other.disliked), *((1, t) for t in other.wanted)]
        total += sum(w for w, t in mine if means(t, new, other) and same_domain(nodes, t.topology_key, here, where))
        total += sum(w for w, t in theirs if means(t, other, new) and same_domain(nodes, t.topology_key, here, where))
    return total


selectors = st.one_of(
    st.none(),
    st.just(LabelSelector()),
    st.builds(lambda app: LabelSelector(match_labels={"app": app}), st.sampled_from("xy")),
    st.builds(
        lambda key, operator, values: LabelSelector(
            match_expressions=[LabelSelectorRequirement(key=key, operator=operator, values=values)]
        ),
        st.sampled_from(["app", "rev"]),
        st.sampled_from(["In", "NotIn", "Exists"]),
        st.lists(st.sampled_from("xy12"), min_size=1, max_size=2),
    ),
)
written_terms = st.builds(
    PodAffinityTerm,
    topology_key=st.sampled_from(["zone", "host"]),
    label_selector=selectors,
    namespaces=st.sampled_from([[], [], ["s"], ["t"]]),
    namespace_selector=st.sampled_from([None, None, LabelSelector(), LabelSelector(match_labels={"no": "where"})]),
    match_label_keys=st.sampled_from([[], [], ["rev"]]),
)
weighted_terms = st.tuples(st.integers(1, 5), written_terms)
few = st.lists(written_terms, max_size=1)
few_weighted = st.lists(weighted_terms, max_size=1)


@st.composite
def clusters(draw: st.DrawFn) -> tuple[Nodes, list[Written]]:
    nodes: Nodes = {}
    for number in range(draw(st.integers(1, 4))):
        zone = draw(st.sampled_from(["", "a", "b"]))
        nodes[f"n{number}"] = {"host": f"n{number}"} | ({"zone": zone} if zone else {})
    # Few specs and more pods, so that pods of one spec differ in labels and namespace only.
    specs = [(draw(few), draw(few), draw(few_weighted), draw(few_weighted)) for _ in range(draw(st.integers(1, 2)))]
    people = []
    for number in range(draw(st.integers(2, 8))):
        labels = {"app": draw(st.sampled_from("xy"))}
        if draw(st.booleans()):
            labels["rev"] = draw(st.sampled_from("12"))
        where = draw(st.sampled_from(["", "", *nodes]))
        space = draw(st.sampled_from("st"))
        wanted, unwanted, liked, disliked = draw(st.sampled_from([*specs, ([], [], [], [])]))
        people.append(Written(f"p{number}", space, labels, wanted, unwanted, liked, disliked, node=where))
    return nodes, people


@settings(max_examples=300, deadline=None)
@given(made=clusters(), data=st.data())
def test_the_fast_counts_agree_with_a_plain_reading_after_any_doing_and_undoing(
    made: tuple[Nodes, list[Written]], data: st.DataObject
) -> None:
    nodes, people = made
    known = cluster(
        [node(name, cpu=100, labels=given) for name, given in nodes.items()],
        group("s/pg"), group("t/pg"),
        [pod(f"{w.space}/{w.name}", group="pg", labels=w.labels, affinity=w.affinity(), node=w.node) for w in people],
    )  # fmt: skip
    cycle = opened(known)
    written = {f"{w.space}/{w.name}": w for w in people}
    tasks = [task_of(known, key) for key in written]
    statement = cycle.statement()

    def agree() -> None:
        for ahead in (False, True):
            gone = {Status.RELEASING} if ahead else set()
            placed = [(written[t.key], t.node.name) for t in tasks if t.node is not None and t.status not in gone]
            for task in tasks:
                if task.status is Status.PENDING:
                    judged_alike(task, placed, ahead)

    def judged_alike(task: Task, placed: Placed, ahead: bool) -> None:
        new = written[task.key]
        assert open_nodes(cycle, task, ahead=ahead) == [n for n in nodes if allowed(nodes, placed, new, n)]
        raw = {n: preference(nodes, placed, new, n) for n in nodes}
        low, high = min(raw.values()), max(raw.values())
        expected = {n: (value - low) * 100 / (high - low) if high > low else 0.0 for n, value in raw.items()}
        assert scores(cycle, task, ahead=ahead) == pytest.approx(expected)

    agree()
    for _ in range(data.draw(st.integers(0, 5))):
        step = data.draw(st.sampled_from(["place", "place", "promise", "try to evict", "evict", "undo", "ask"]))
        waiting = [t for t in tasks if t.status is Status.PENDING]
        running: list[Task] = [t for t in tasks if t.status is Status.RUNNING]
        if step in ("place", "promise") and waiting:
            task = data.draw(st.sampled_from(waiting))
            place = statement.allocate if step == "place" else statement.pipeline
            place(task, data.draw(st.sampled_from(cycle.nodes.nodes)))
        elif step == "try to evict" and running:
            statement.evict(data.draw(st.sampled_from(running)), reason="Preempted", message="")
        elif step == "evict" and running:
            meant = cycle.statement()
            meant.evict(data.draw(st.sampled_from(running)), reason="Preempted", message="")
            meant.commit()
        elif step == "undo" and len(statement):
            statement.discard(down_to=len(statement) - 1)
        elif step == "ask":
            agree()
    agree()
    statement.discard()
    agree()


def test_pods_that_no_term_is_about_share_one_fitting_whatever_their_labels() -> None:
    known = cluster(
        THREE, group("pg"), pod("loner", node="a1", affinity=far(term("l"))),
        [pod(f"p{i}", group="pg", labels={"app": "v", "index": str(i)}) for i in range(3)],
        [pod(f"q{i}", group="pg", labels={"app": "w", "index": str(i)}, affinity=near(term("w"))) for i in range(3)],
    )  # fmt: skip
    cycle = opened(known)
    plain = {id(cycle.placement.fitting(task_of(known, f"p{i}"))) for i in range(3)}
    gang = {id(cycle.placement.fitting(task_of(known, f"q{i}"))) for i in range(3)}
    assert len(plain) == len(gang) == 1
    assert not cycle.placement.fitting(task_of(known, "p0")).alone
