"""A namespace's weight: where it comes from, when it counts, and what it is worth in a fight.

The cluster of most stories here has 8 CPUs, all of which are freed or taken at moments the story names, so that who is
served at that moment shows whose weight counted.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from builders import cluster, quota
from fairness.scenes import (
    FAIR_INSIDE,
    Document,
    cores,
    flat,
    in_namespaces,
    job,
    nodes,
    patch,
    pods,
    priority_class,
    queue,
    simulate,
    weight,
)
from stromboli.cluster import Applied, Cluster, Deleted

SHARES = {1: {"q/ns1": 4, "q/ns2": 4}, 3: {"q/ns1": 6, "q/ns2": 2}}
"""What 8 CPUs are worth to ns1 and ns2 (weight 1), by the weight of ns1."""


def contest(folder: Path, *more: Document, at: float = 0) -> dict[str, int]:
    """8 CPUs; two namespaces that want all of them from a moment on."""
    asked = flat(nodes(8), queue("q"), *(pods(f"{ns}/p", 8, queue="q", at=at) for ns in ("ns1", "ns2")), more)
    return in_namespaces(simulate(folder, asked, until=at + 3))


# -- which weight -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("stated", "counts"),
    [
        ("3", 3),
        (3, 3),
        ("0", 1),
        (0, 1),
        ("-3", 1),
        (-3, 1),
        ("2.5", 1),
        (2.5, 1),
        ("3.0", 3),
        ("3000m", 3),
        ("500m", 1),
        ("three", 1),
        ("", 1),
        (None, 1),
    ],
)
def test_what_is_no_positive_whole_number_is_one(tmp_path: Path, stated: Any, counts: int) -> None:
    assert contest(tmp_path, weight("ns1", stated)) == SHARES[counts]


@pytest.mark.parametrize("stated", ["three", ""])
def test_a_weight_that_says_nothing_does_not_hide_another(stated: str) -> None:
    assert known_weight(cluster(quota("ns/abc", weight=stated), quota("ns/def", weight=2))) == 2


def test_without_any_quota_it_is_one(tmp_path: Path) -> None:
    assert contest(tmp_path) == SHARES[1]


@pytest.mark.parametrize("others", [["1"], ["1", "2"], ["-7"], ["0", None, "2.5"]])
def test_of_several_quotas_the_highest_counts(tmp_path: Path, others: list[str | None]) -> None:
    more = [weight("ns1", value, name=f"other-{number}") for number, value in enumerate(others)]
    assert contest(tmp_path, weight("ns1", "3", name="middle"), *more) == SHARES[3]


def test_a_quota_of_another_namespace_is_of_no_account(tmp_path: Path) -> None:
    assert contest(tmp_path, weight("ns3", "3")) == SHARES[1]


def known_weight(known: Cluster) -> int:
    return known.namespaces["ns"].weight


def test_the_life_of_a_weight() -> None:
    known = cluster(quota("ns/abc", weight=123))
    assert known_weight(known) == 123
    for name, value, then in [("abc", 456, 456), ("def", None, 456), ("def", 16, 456), ("ghi", 0, 456)]:
        known.apply(Applied(quota(f"ns/{name}", weight=value)))
        assert known_weight(known) == then
    # What goes is found by its name; what the last news of it said of its weight need not be true any more.
    known.apply(Deleted(quota("ns/abc", weight=7)))
    assert known_weight(known) == 16
    assert set(known.namespaces["ns"].weights) == {"def", "ghi"}
    for name in ("def", "ghi"):
        known.apply(Deleted(quota(f"ns/{name}")))
    assert known_weight(known) == 1


# -- when it counts ---------------------------------------------------------------------------------------------------


def test_a_weight_changed_before_the_cycle_counts_in_it(tmp_path: Path) -> None:
    raised = patch("ResourceQuota", "ns1/weight", {"spec": {"hard": {"volcano.sh/namespace.weight": "3"}}}, at=5)
    assert contest(tmp_path, weight("ns1", "1"), raised, at=5) == SHARES[3]


def test_a_weight_changed_after_the_cycle_does_not(tmp_path: Path) -> None:
    raised = patch("ResourceQuota", "ns1/weight", {"spec": {"hard": {"volcano.sh/namespace.weight": "3"}}}, at=6)
    assert contest(tmp_path, weight("ns1", "1"), raised, at=5) == SHARES[1]


def test_a_weight_taken_out_of_its_quota_is_gone(tmp_path: Path) -> None:
    taken = patch("ResourceQuota", "ns1/weight", {"spec": {"hard": {"volcano.sh/namespace.weight": None}}}, at=5)
    assert contest(tmp_path, weight("ns1", "3"), taken, at=5) == SHARES[1]


@pytest.mark.parametrize(("until", "counts"), [(5, 1), (6, 3)])
def test_a_weight_goes_with_its_quota(tmp_path: Path, until: float, counts: int) -> None:
    assert contest(tmp_path, weight("ns1", "3", until=until), at=5) == SHARES[counts]


# 8 CPUs at 1 : 1 are 4 and 4. At 10 ns1 gets weight 3, and at 20 the first of each namespace end. Nobody is evicted for
# the new weight, but from then on it counts: both have 3, and with two to give ns1 has 3/3 and then 4/3, less than 3.
def test_a_new_weight_is_for_what_is_placed_from_then_on(tmp_path: Path) -> None:
    def ends_early(ns: str) -> list[Document]:
        first, *rest = pods(f"{ns}/p", 8, queue="q")
        first["metadata"]["annotations"]["sim.stromboli.io/run"] = "20s"
        return [first, *rest]

    raised = patch("ResourceQuota", "ns1/weight", {"spec": {"hard": {"volcano.sh/namespace.weight": "3"}}}, at=10)
    asked = flat(nodes(8), queue("q"), ends_early("ns1"), ends_early("ns2"), weight("ns1", "1"), raised)
    assert in_namespaces(simulate(tmp_path, asked, until=19)) == {"q/ns1": 4, "q/ns2": 4}
    assert in_namespaces(simulate(tmp_path, asked, until=20)) == {"q/ns1": 5, "q/ns2": 3}


# -- what it is worth -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [6, 7])
@pytest.mark.parametrize("first", ["ns1", "ns2"])
def test_a_cluster_freed_at_once_goes_half_and_half(tmp_path: Path, count: int, first: str) -> None:
    """An earlier user leaves all CPUs at 10; whoever asked first, both have half of them, give or take one."""
    asks = flat(*(job(f"{ns}/j", 10, queue="q", at=1 if ns == first else 2) for ns in ("ns1", "ns2")))
    report = simulate(tmp_path, nodes(count), queue("q"), pods("old/p", count, queue="q", run=10), asks, until=12)
    has = in_namespaces(report)
    assert has["q/ns1"] + has["q/ns2"] == count
    assert abs(has["q/ns1"] - has["q/ns2"]) <= 1


# ns1 has 2 of 12 CPUs, ns2 has 9 and is of the weight given; one is another's. ns1 wants one more:
#   weight 3: it would have 3/12 / 1 = 0.25, and ns2 would be left with 8/12 / 3 = 0.222, so nothing moves.
#   weight 1: ns2 would be left with 0.667.
# With nothing else to do, it would go on: 4/12 against 7/12 is fine, 5/12 against 6/12 as well, and 6 against 5 is not.
@pytest.mark.parametrize(("its_weight", "wanted", "taken"), [(3, 1, 0), (1, 1, 1), (1, 3, 3), (1, 5, 3)])
def test_shares_are_compared_as_they_would_be_afterwards(
    tmp_path: Path, its_weight: int, wanted: int, taken: int
) -> None:
    running = [("ns1", 2), ("ns2", 9), ("ns3", 1)]
    report = simulate(
        tmp_path, nodes(12), queue("q"), weight("ns2", str(its_weight)),
        *(pods(f"{ns}/p", count, queue="q") for ns, count in running), pods("ns1/new", wanted, queue="q", at=3),
        until=10, config=FAIR_INSIDE,
    )  # fmt: skip
    assert in_namespaces(report) == {"q/ns1": 2 + taken, "q/ns2": 9 - taken, "q/ns3": 1}


def test_without_a_fight_inside_queues_nobody_moves(tmp_path: Path) -> None:
    report = simulate(
        tmp_path, nodes(12), queue("q"), pods("ns1/p", 12, queue="q"), pods("ns2/p", 12, queue="q", at=3), until=10
    )
    assert in_namespaces(report) == {"q/ns1": 12, "q/ns2": 0}


# -- and priorities ---------------------------------------------------------------------------------------------------

WITHIN = """
actions: "enqueue, allocate, backfill"
tiers:
- plugins: [{name: priority}, {name: gang}]
- plugins: [{name: drf, arguments: {namespaceOrderScope: SCOPE}}, {name: predicates}, {name: proportion}]
"""


# 8 CPUs: "busy" has 4 of them for ever, and 4 are freed at 10. busy wants 2 more of high priority and 4 of none, "calm"
# wants 4 of none.
#   beforePriority: calm has less until it has 4, so all four are calm's.
#   withinPriority: first the two that are more important, then the namespace that has less: 2 and 2.
@pytest.mark.parametrize(("scope", "urgent", "calm"), [("beforePriority", 0, 4), ("withinPriority", 2, 2)])
def test_the_order_of_namespaces_and_priorities(tmp_path: Path, scope: str, urgent: int, calm: int) -> None:
    report = simulate(
        tmp_path, nodes(8), queue("q"), priority_class("high", 100),
        pods("busy/old", 4, queue="q"), pods("gone/old", 4, queue="q", run=10),
        pods("busy/urgent", 2, queue="q", priority="high", at=2), pods("busy/more", 4, queue="q", at=2),
        pods("calm/p", 4, queue="q", at=2),
        until=15, config=WITHIN.replace("SCOPE", scope),
    )  # fmt: skip
    started = [name for name, told in report["pods"].items() if told["bound"] == 10.0]
    assert len(started) == 4
    assert sum(name.startswith("busy/urgent") for name in started) == urgent
    assert sum(name.startswith("calm/") for name in started) == calm
    assert cores(report["namespaces"]["q/calm"]["allocated"]) == calm
