"""Queues and groups of nodes: which nodes a queue may use, how good they are for it, and how much it may use there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest
from msgspec.structs import replace

from builders import START, cluster, group, node, plugin, pod, pods, queue, session
from node_queries import refusals, scores, task_of
from stromboli.api import Queue, QueueAffinity
from stromboli.api.kinds.batch import NodeGroupAffinity
from stromboli.cluster import Cluster
from stromboli.scheduling.cycle import Scheduler
from stromboli.scheduling.decisions import Bind
from stromboli.scheduling.registry import Registry
from stromboli.scheduling.session import Session

GROUP = "volcano.sh/nodegroup-name"
LIMITS = "volcano.sh/nodegroup-resource-limits"
CODE = "PredicateNodeGroup"


def grouped(name: str, in_group: str | None, cpu: int = 4):  # type: ignore[no-untyped-def]
    return node(name, cpu=cpu, labels={} if in_group is None else {GROUP: in_group})


def ruled(
    name: str,
    *,
    required: Sequence[str] = (),
    preferred: Sequence[str] = (),
    excluded: Sequence[str] = (),
    avoided: Sequence[str] = (),
    parent: str = "",
    limits: str = "",
) -> Queue:
    affinity = QueueAffinity(
        node_group_affinity=NodeGroupAffinity(
            required_during_scheduling_ignored_during_execution=list(required),
            preferred_during_scheduling_ignored_during_execution=list(preferred),
        ),
        node_group_anti_affinity=NodeGroupAffinity(
            required_during_scheduling_ignored_during_execution=list(excluded),
            preferred_during_scheduling_ignored_during_execution=list(avoided),
        ),
    )
    plain = queue(name, parent=parent)
    metadata = replace(plain.metadata, annotations={LIMITS: limits} if limits else {})
    return replace(plain, metadata=metadata, spec=replace(plain.spec, affinity=affinity))


def scene(*queues: Queue) -> Cluster:
    """A node in each of the groups a, b and c, and one in none; a pod that waits in queue q."""
    return cluster(
        grouped("na", "a"), grouped("nb", "b"), grouped("nc", "c"), grouped("none", None),
        *queues, group("g", queue="q"), pod("p", group="g", cpu=1),
    )  # fmt: skip


def opened(known: Cluster, *, hierarchy: bool = False, **arguments: object) -> Session:
    return session(known, tiers=[[plugin("nodegroup", arguments, hierarchy=hierarchy)]])


def open_nodes(current: Session, known: Cluster) -> str:
    closed = refusals(current, task_of(known, "p"))
    return " ".join(name for name in ("na", "nb", "nc", "none") if name not in closed)


# -- where pods may run ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rules", "may_use"),
    [
        ({"required": ["a"]}, "na"),
        ({"required": ["a"], "preferred": ["b"]}, "na nb"),
        ({"preferred": ["b"]}, "nb"),
        ({"required": ["a", "b"], "excluded": ["b"]}, "na"),  # excluded wins over both lists
        ({"required": ["a", "b"], "avoided": ["c"]}, "na nb nc"),
        ({"excluded": ["a"], "avoided": ["a"]}, "na"),  # whoever only avoids it may use it
        ({"excluded": ["a"]}, ""),  # it names no group that it may use
    ],
)
@pytest.mark.parametrize("strict", [True, False])
def test_a_queue_uses_the_groups_that_it_names_but_for_those_it_excludes(
    rules: Mapping[str, list[str]], may_use: str, strict: bool
) -> None:
    known = scene(ruled("q", **rules))  # type: ignore[arg-type]
    assert open_nodes(opened(known, strict=strict), known) == may_use


@pytest.mark.parametrize("rules", [queue("q"), ruled("q")], ids=["none", "empty lists"])
def test_a_queue_without_rules_uses_no_node_or_those_in_no_group(rules: Queue) -> None:
    known = scene(rules)
    assert open_nodes(opened(known), known) == ""
    assert open_nodes(opened(known, strict=False), known) == "none"
    assert set(refusals(opened(known), task_of(known, "p")).values()) == {CODE}


# -- which of them is best ------------------------------------------------------------------------------------------


def test_scores_follow_the_lists() -> None:
    known = scene(ruled("q", required=["a", "b"], preferred=["b"], avoided=["c"]))
    assert scores(opened(known), task_of(known, "p")) == {"na": 100, "nb": 150, "nc": -1, "none": 0}


# Three preferred groups: 50 x 3/3, 50 x 2/3, 50 x 1/3.
def test_the_order_of_preferred_groups_counts_if_that_is_asked_for() -> None:
    known = scene(ruled("q", preferred=["c", "a", "b"]))
    assert scores(opened(known), task_of(known, "p")) == {"na": 50, "nb": 50, "nc": 50, "none": 0}
    ordered = scores(opened(known, enablePreferredOrder=True), task_of(known, "p"))
    assert ordered == pytest.approx({"nc": 50, "na": 100 / 3, "nb": 50 / 3, "none": 0})


# -- a tree of queues -----------------------------------------------------------------------------------------------


def test_a_queue_inherits_from_the_nearest_queue_above_it_if_there_is_a_hierarchy() -> None:
    above = [ruled("root", required=["a"]), ruled("top", required=["b"])]
    by_middle = scene(*above, queue("middle", parent="top"), queue("q", parent="middle"))
    assert open_nodes(opened(by_middle, hierarchy=True), by_middle) == "nb"
    assert open_nodes(opened(by_middle), by_middle) == ""
    by_root = scene(*above, queue("q"))
    assert open_nodes(opened(by_root, hierarchy=True), by_root) == "na"
    own = scene(*above, ruled("q", required=["c"], parent="top"))
    assert open_nodes(opened(own, hierarchy=True), own) == "nc"


def test_queues_that_are_each_others_parents_have_no_rules() -> None:
    known = scene(queue("x", parent="q"), queue("q", parent="x"))
    assert open_nodes(opened(known, hierarchy=True), known) == ""


# -- limits ---------------------------------------------------------------------------------------------------------

CONFIGURATION = """
actions: "allocate"
tiers:
- plugins: [{name: priority}, {name: gang}]
- plugins: [{name: predicates}, {name: nodegroup}, {name: nodeorder}]
"""


def places(known: Cluster) -> dict[str, str]:
    registry = Registry(installed_plugins=(), installed_actions=())
    cycle = Scheduler(registry.load(CONFIGURATION), registry).run(known, START + 1000)
    return {one.task.split("/")[-1]: one.node for one in cycle.decisions if isinstance(one, Bind)}


# Four CPUs on each of two nodes in a, of which the queue may use five. Two of its pods run there, so three more may,
# although six CPUs are free; the other two go to b. What other queues use there does not count.
def test_a_queue_uses_no_more_of_a_group_than_its_limit() -> None:
    known = cluster(
        grouped("na1", "a"), grouped("na2", "a"), grouped("nb", "b"),
        ruled("q", required=["a"], preferred=["b"], limits='{"a": {"cpu": "5"}}'), ruled("o", required=["a"]),
        group("other", queue="o"), pod("x", group="other", cpu=1, node="na1"),
        group("old", queue="q"),
        pod("old-0", group="old", cpu=1, node="na1"), pod("old-1", group="old", cpu=1, node="na2"),
        group("g", queue="q", min_member=5), pods("p", 5, group="g", cpu=1),
    )  # fmt: skip
    found = places(known)
    assert sorted(name[:2] for name in found.values()) == ["na", "na", "na", "nb", "nb"]


def test_only_what_the_limit_names_is_limited() -> None:
    known = cluster(
        grouped("na", "a"), ruled("q", required=["a"], limits='{"a": {"nvidia.com/gpu": 1}, "b": {"cpu": 0}}'),
        group("g", queue="q", min_member=4), pods("p", 4, group="g", cpu=1),
    )  # fmt: skip
    assert len(places(known)) == 4


@pytest.mark.parametrize("text", ["{", "[]", '{"a": 3}', '{"a": {"cpu": "lots"}}'])
def test_limits_that_cannot_be_read_close_all_nodes_to_the_queue(text: str) -> None:
    known = scene(ruled("q", required=["a"], limits=text))
    closed = refusals(opened(known), task_of(known, "p"))
    assert closed == dict.fromkeys(["na", "nb", "nc", "none"], CODE)


def test_a_limit_that_is_reached_can_be_made_room_in_by_preemption_but_no_rule_can() -> None:
    known = cluster(
        grouped("na", "a"), grouped("nb", "b"), ruled("q", required=["a"], limits='{"a": {"cpu": 1}}'),
        group("old", queue="q"), pod("o", group="old", cpu=1, node="na"),
        group("g", queue="q"), pod("p", group="g", cpu=1),
    )  # fmt: skip
    current = opened(known)
    assert set(refusals(current, task_of(known, "p"))) == {"na", "nb"}
    by_text = {reason.text: reason.resolvable for reason in current.node_reasons}
    assert by_text["in node group a, where queue q may use 1 cpu (1 requested, 1 used)"]
    assert not by_text["not in a node group of queue q"]
