"""Pods of a job that should be together or apart: their buckets, who goes first, and which node is best."""

from __future__ import annotations

from collections import Counter

import pytest
from msgspec.structs import replace

from builders import START, cluster, group, node, plugin, pod, pods, session
from node_queries import scores, task_of
from stromboli.api import KObject, PodGroup
from stromboli.cluster import Applied, Cluster
from stromboli.scheduling.configuration.arguments import Arguments, ConfigurationError
from stromboli.scheduling.cycle import Scheduler
from stromboli.scheduling.decisions import Bind
from stromboli.scheduling.plugins.optional.task_buckets import Buckets
from stromboli.scheduling.plugins.optional.task_topology import TaskTopology
from stromboli.scheduling.plugins.optional.task_wishes import wishes_of
from stromboli.scheduling.registry import Registry
from stromboli.scheduling.session import Session

PREFIX = "volcano.sh/task-topology-"


def wishing(together: str = "", apart: str = "", order: str = "", *, min_member: int = 1) -> PodGroup:
    stated = {"affinity": together, "anti-affinity": apart, "task-order": order}
    annotations = {PREFIX + name: text for name, text in stated.items() if text}
    plain = group("g", min_member=min_member)
    return replace(plain, metadata=replace(plain.metadata, annotations=annotations))


def buckets(known: Cluster) -> str:
    """The pods of each bucket, in the order in which they came."""
    opened(known)
    job = known.jobs["default/g"]  # type: ignore[index]
    wishes = wishes_of(job)
    assert wishes is not None
    found: dict[int, list[str]] = {}
    of_task = Buckets(job, wishes).of_task
    for bucket in of_task.values():
        found[bucket.index] = [task.name for task in bucket.tasks]
    return " | ".join(" ".join(found[index]) for index in sorted(found))


def opened(known: Cluster, **arguments: object) -> Session:
    return session(known, tiers=[[plugin("task-topology", arguments)]])


def order(known: Cluster) -> str:
    return " ".join(task.name for task in opened(known).pending_tasks(known.jobs["default/g"]))  # type: ignore[index]


def three_nodes(*objects: KObject | list[KObject]) -> Cluster:
    return cluster(*[node(f"n{number}", cpu=8) for number in range(3)], *objects)


def workers(number: int, **facts: object) -> list[KObject]:
    return list(pods("w", number, group="g", role="worker", **{"cpu": 2} | facts))


def servers(number: int, **facts: object) -> list[KObject]:
    return list(pods("s", number, group="g", role="ps", **{"cpu": 1} | facts))


# -- buckets --------------------------------------------------------------------------------------------------------


# Servers first (apart from each other is most urgent), each alone; then each worker gains one with either, and goes to
# the bucket that requests least: 1 and 1 CPUs, 3 and 1, 3 and 3, 5 and 3.
def test_pods_that_should_be_together_are_divided_among_those_that_should_be_apart() -> None:
    known = three_nodes(wishing("ps,worker", "ps"), workers(4), servers(2))
    assert buckets(known) == "s-0 w-0 w-2 | s-1 w-1 w-3"


@pytest.mark.parametrize(
    ("together", "apart", "expected"),
    [
        ("worker", "", "w-0 w-1 w-2 w-3"),
        ("", "worker", "w-0 | w-1 | w-2 | w-3"),
        ("ps,worker", "", "s-0 w-0 s-1 w-1 w-2 w-3"),
        ("", "ps,worker", "s-0 s-1 | w-0 w-1 w-2 w-3"),
        ("ps;worker", "ps,worker", "s-0 s-1 | w-0 w-1 w-2 w-3"),
        ("worker", "worker", "w-0 w-1 w-2 w-3"),  # who wants both gains nothing, and loses nothing
        ("worker,nobody; worker", "", "w-0 w-1 w-2 w-3"),
    ],
)
def test_lists_of_one_role_and_of_several(together: str, apart: str, expected: str) -> None:
    assert buckets(three_nodes(wishing(together, apart), workers(4), servers(2))) == expected


# Two workers run on n1, one on n2. Both buckets gain by each worker, that of n1 more.
def test_pods_that_have_a_node_are_in_its_bucket() -> None:
    places = {"old-0": "n1", "old-1": "n1", "old-2": "n2"}
    old = [pod(name, group="g", role="worker", cpu=2, node=node) for name, node in places.items()]
    known = three_nodes(wishing("worker"), *old, workers(2))
    assert buckets(known) == "old-0 old-1 w-0 w-1 | old-2"


def test_thousands_of_pods_apart_from_each_other_take_little_time() -> None:
    known = cluster(node("n1", cpu=1), wishing("", "worker"), workers(4000))
    assert buckets(known).count("|") == 3999


# -- who goes first -------------------------------------------------------------------------------------------------


def test_buckets_follow_each_other_and_in_each_the_roles_in_order() -> None:
    known = three_nodes(wishing("ps,worker", "ps", "ps,worker"), workers(3), servers(2), pod("x", group="g", cpu=1))
    assert buckets(known) == "s-0 w-0 w-2 | s-1 w-1"
    assert order(known) == "s-0 w-0 w-2 s-1 w-1 x"


def test_an_order_alone_is_followed() -> None:
    known = three_nodes(wishing(order="ps,worker"), pod("x", group="g", cpu=1), workers(2), servers(1))
    assert order(known) == "s-0 w-0 w-1 x"


def test_jobs_without_wishes_cost_nothing() -> None:
    current = opened(three_nodes(group("g"), workers(3)))
    assert not current.points.task_order.calls
    assert not current.scores


# -- which node is best ---------------------------------------------------------------------------------------------


# Three workers of two CPUs and two servers of one are one bucket of five. n0 has room for all of them (8), n1 (5 free)
# for this one (1) and the servers and one more worker in their order: w-0 2, w-1 4, then w-2 does not fit. n2 has none.
def test_a_node_has_a_point_for_each_pod_of_the_bucket_that_fits() -> None:
    known = three_nodes(
        pod("x1", cpu=3, node="n1"), pod("x2", cpu=8, node="n2"),
        wishing("ps,worker", order="worker"), workers(3), servers(2),
    )  # fmt: skip
    assert scores(opened(known), task_of(known, "w-0")) == {"n0": 100, "n1": 40, "n2": 0}
    assert scores(opened(known, **{"task-topology.weight": 5}), task_of(known, "w-0"))["n1"] == 200
    # The first is the server, then the workers: 1, 3, 5.
    assert scores(opened(known), task_of(known, "s-0"))["n1"] == 60


# A worker of the bucket runs on n1, and a server from which workers should be apart. The bucket of n1 has both, and the
# new workers lose as much there as they gain, so they choose it all the same: one there, two that fit, less one.
def test_pods_that_are_there_count_and_those_to_be_apart_from_count_against() -> None:
    known = three_nodes(
        wishing("worker", "ps,worker"),
        pod("w-9", group="g", role="worker", cpu=2, node="n1"), pod("s-9", group="g", role="ps", cpu=1, node="n1"),
        workers(2),
    )  # fmt: skip
    assert buckets(known) == "s-9 w-9 w-0 w-1"
    assert scores(opened(known), task_of(known, "w-0")) == {"n0": 50, "n1": (2 + 2 - 1) * 25, "n2": 50}


# Neither the pods of other jobs nor those that terminate count.
def test_only_pods_of_the_job_that_stay_count() -> None:
    known = three_nodes(
        wishing("", "worker"), group("other"),
        pod("gone", group="g", role="worker", cpu=2, node="n1", deleted=True),
        pod("theirs", group="other", role="worker", cpu=2, node="n2"), workers(1),
    )  # fmt: skip
    assert scores(opened(known), task_of(known, "w-0")) == {"n0": 100, "n1": 100, "n2": 100}


# -- together with gangs --------------------------------------------------------------------------------------------

CONFIGURATION = """
actions: "allocate"
tiers:
- plugins: [{name: priority}, {name: gang}]
- plugins: [{name: predicates}, {name: task-topology, arguments: {task-topology.weight: 10}}, {name: nodeorder}]
"""


def places(known: Cluster, now: float = 1000) -> dict[str, str]:
    registry = Registry(installed_plugins=(), installed_actions=())
    cycle = Scheduler(registry.load(CONFIGURATION), registry).run(known, START + now)
    return {one.task.split("/")[-1]: one.node for one in cycle.decisions if isinstance(one, Bind)}


def test_each_bucket_of_a_gang_gets_a_node() -> None:
    known = three_nodes(wishing("ps,worker", "ps", min_member=6), workers(4), servers(2))
    found = places(known)
    assert found["s-0"] == found["w-0"] == found["w-2"] != found["s-1"] == found["w-1"] == found["w-3"]


def test_pods_apart_from_each_other_are_spread_and_share_nodes_only_where_there_are_too_few() -> None:
    known = three_nodes(wishing("", "worker", min_member=4), workers(4))
    assert sorted(Counter(places(known).values()).values()) == [1, 1, 2]


# The worker that is made again goes back to the others, although other nodes are emptier.
def test_a_pod_that_is_replaced_goes_back_to_its_siblings() -> None:
    known = three_nodes(wishing("worker", min_member=3), workers(2, node="n2"))
    known.apply(Applied(pod("w-7", group="g", role="worker", cpu=2, created=100)))
    assert places(known) == {"w-7": "n2"}


# A gang of another job is tried first and given up: n0 is free again when this one is placed.
def test_places_that_are_given_back_do_not_count() -> None:
    known = three_nodes(wishing("worker", min_member=5), workers(5, cpu=8))
    assert places(known) == {}
    known.apply(Applied(node("n3", cpu=16)))
    assert sorted(places(known).values()) == ["n0", "n1", "n2", "n3", "n3"]


def test_an_argument_that_is_no_number_is_an_error() -> None:
    with pytest.raises(ConfigurationError, match=r"task-topology\.weight"):
        TaskTopology(Arguments({"task-topology.weight": "heavy"}))
