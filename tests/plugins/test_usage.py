"""Real load: which nodes take no more pods, which are better, and what pods count that are not measured yet."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from builders import START, cluster, group, node, plugin, pod, pods, session
from node_queries import refusals, scores, task_of, texts
from stromboli.api import Container, Pod, ResourceRequirements
from stromboli.api.timestamps import format_timestamp
from stromboli.cluster import Cluster, NodesMeasured, NodeUse
from stromboli.scheduling.configuration.arguments import Arguments, ConfigurationError
from stromboli.scheduling.cycle import Scheduler
from stromboli.scheduling.decisions import Bind
from stromboli.scheduling.plugins.optional.usage import Usage
from stromboli.scheduling.registry import Registry
from stromboli.scheduling.session import Session

NOW = START + 1000
GB = 1 << 30


def opened(known: Cluster, now: float = NOW, **arguments: Any) -> Session:
    return session(known, tiers=[[plugin("usage", arguments)]], now=now)


def measured(known: Cluster, *, until: float | None = None, window: float = 0, **use: tuple[int, int]) -> Cluster:
    """CPUs and Gi of memory that are in use, by node; measured at NOW."""
    amounts = {name: {"cpu": cpu * 1000, "memory": memory * GB} for name, (cpu, memory) in use.items()}
    known.apply(NodesMeasured({name: NodeUse(one, NOW, window, until) for name, one in amounts.items()}))
    return known


def four_nodes(*objects: Any) -> Cluster:
    return cluster(
        *[node(f"n{number}", cpu=10, memory="100Gi") for number in range(4)], group("g"), *objects,
        pod("p", group="g", cpu=1, memory="10Gi"),
    )  # fmt: skip


def started(one: Pod, at: float) -> Pod:
    return replace(one, status=replace(one.status, start_time=format_timestamp(NOW + at)))


# -- thresholds -----------------------------------------------------------------------------------------------------


# n0 uses 8 of 10 CPUs, which is no more than 80 percent; n1 uses 9; n2 uses 81 of 100 Gi; n3 is not measured.
def test_nodes_with_too_much_load_take_no_more_pods() -> None:
    known = measured(four_nodes(), n0=(8, 10), n1=(9, 10), n2=(1, 81))
    current = opened(known)
    assert refusals(current, task_of(known, "p")) == dict.fromkeys(["n1", "n2"], "PredicateNodeLoad")
    assert texts(current, task_of(known, "p")) == {
        "where more than 80 % of the cpu is really in use", "where more than 80 % of the memory is really in use",
    }  # fmt: skip
    assert set(refusals(opened(known, thresholds={"cpu": 70, "mem": 90}), task_of(known, "p"))) == {"n0", "n1"}


def test_the_flag_of_predicates_opens_all_nodes() -> None:
    known = measured(four_nodes(), n1=(9, 10))
    current = session(known, tiers=[[plugin("usage", predicate=False)]], now=NOW)
    assert refusals(current, task_of(known, "p")) == {}
    assert scores(current, task_of(known, "p"))["n1"] > 0


def test_measurements_count_until_they_are_too_old() -> None:
    known = measured(four_nodes(), until=NOW + 300, n1=(9, 10))
    current = opened(known, NOW + 300)
    assert set(refusals(current, task_of(known, "p"))) == {"n1"}
    assert current.cycle.next_due == NOW + 300  # then the node is open, and pods that wait are tried again
    later = opened(known, NOW + 301)
    assert not later.filters
    assert not later.scores


def test_without_measurements_the_plugin_costs_nothing() -> None:
    current = opened(four_nodes())
    assert not current.filters
    assert not current.scores


# -- scores ---------------------------------------------------------------------------------------------------------


# Not in use: n0 0.8 and 0.6, n1 0.5 and 0.9, in the mean 0.7 each; times 500. With CPU three times: 0.75 and 0.6.
def test_nodes_are_better_the_less_is_in_use() -> None:
    known = measured(four_nodes(), n0=(2, 40), n1=(5, 10), n2=(0, 0))
    assert scores(opened(known), task_of(known, "p")) == pytest.approx({"n0": 350, "n1": 350, "n2": 500, "n3": 0})
    heavy = scores(opened(known, **{"usage.weight": 1, "cpu.weight": 3}), task_of(known, "p"))
    assert heavy == pytest.approx({"n0": 75, "n1": 60, "n2": 100, "n3": 0})
    assert not opened(known, **{"usage.weight": 0}).scores


# n0 is measured as idle. Its pod of 4 CPUs and 40 Gi has no place in the measurement yet: 0.7 of it is 2.8 CPUs and
# 28 Gi, in the mean 0.28 of the node. So 72 points are left.
@pytest.mark.parametrize(
    ("there", "points"),
    [
        (pod("x", cpu=4, memory="40Gi", node="n0", phase="Pending"), 72),  # bound, and not started
        (started(pod("x", cpu=4, memory="40Gi", node="n0"), 1), 72),
        (started(pod("x", cpu=4, memory="40Gi", node="n0"), -29), 72),  # in the 30 s of which it is the mean
        (started(pod("x", cpu=4, memory="40Gi", node="n0"), -31), 100),
        (pod("x", cpu=4, memory="40Gi", node="n0"), 100),
        (pod("x", cpu=4, memory="40Gi", node="n0", phase="Pending", deleted=True), 100),
    ],
)
def test_pods_that_are_not_measured_yet_count_by_estimates(there: Pod, points: float) -> None:
    known = measured(four_nodes(there), window=30, n0=(0, 0))
    assert scores(opened(known, **{"usage.weight": 1}), task_of(known, "p"))["n0"] == pytest.approx(points)


def limited(cpu: int, most: int) -> Pod:
    resources = ResourceRequirements(requests={"cpu": cpu}, limits={"cpu": most})
    return pod("x", node="n0", phase="Pending", containers=[Container(name="main", resources=resources)])


# CPU alone counts here. Requests of 2 with a limit of 6: 1.4, and 0.5 of the other 4.
@pytest.mark.parametrize(
    ("there", "estimator", "used"),
    [
        (limited(2, 6), {}, 1.4),
        (limited(2, 6), {"burst_ratio": 0.5}, 3.4),
        (limited(2, 6), {"request_ratio": 1, "burst_ratio": 1}, 6),
        (pod("x", cpu=2, node="n0", phase="Pending"), {"burst_ratio": 1}, 1.4),  # without a limit
        (pod("x", node="n0", phase="Pending"), {}, 0.25),
        (pod("x", node="n0", phase="Pending"), {"be_cpu": 2000}, 2),
        (limited(5, 5), {"risk_threshold": 0.3}, 3.5 * 1.2),
        (limited(5, 5), {"risk_threshold": 0.36}, 3.5),
    ],
)
def test_estimates_follow_requests_limits_and_risk(there: Pod, estimator: dict[str, Any], used: float) -> None:
    known = measured(four_nodes(there), n0=(0, 0))
    arguments = {"usage.weight": 1, "memory.weight": 0, "estimator": estimator}
    assert scores(opened(known, **arguments), task_of(known, "p"))["n0"] == pytest.approx(100 - 10 * used)


CONFIGURATION = """
actions: "allocate"
tiers:
- plugins: [{name: priority}, {name: gang}]
- plugins: [{name: predicates}, {name: usage}]
"""


# Each pod that is placed makes its node worse: by turns, although nothing is measured in between.
def test_pods_of_a_gang_are_spread_by_what_they_will_use() -> None:
    nodes = [node(f"n{number}", cpu=10, memory="100Gi") for number in range(2)]
    known = cluster(nodes, group("g", min_member=6), pods("p", 6, group="g", cpu=1, memory="10Gi"))
    registry = Registry(installed_plugins=(), installed_actions=())
    scheduler = Scheduler(registry.load(CONFIGURATION), registry)
    cycle = scheduler.run(measured(known, n0=(2, 20), n1=(0, 0)), NOW)
    places = [one.node for one in cycle.decisions if isinstance(one, Bind)]
    # n0 has a lead of 0.2, almost three pods of 0.07: three go to n1, then they alternate.
    assert sorted(places) == ["n0"] * 2 + ["n1"] * 4


# -- arguments ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"thresholds": {"cpu": 101}}, '"thresholds": argument "cpu" must be from 0 to 100, not 101'),
        ({"estimator": {"risk_factor": 0.5}}, '"risk_factor" must be 1 or more'),
        ({"estimator": {"be_mem": "much"}}, '"be_mem" must be an amount such as 200Mi, not "much"'),
        ({"estimator": {"be_cpu": -1}}, '"be_cpu" must be an amount such as 250m'),
    ],
)
def test_mistakes_in_arguments_name_what_is_wrong(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        Usage(Arguments(arguments))
    assert message in str(caught.value)
