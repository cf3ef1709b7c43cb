"""Pods that ask for nothing, by cases whose answers are known beforehand (BF1, BF2)."""

from __future__ import annotations

import pytest

from builders import group, node, pod, pods, priority_class
from oracles.stories import Story

TIERS = [["priority", "gang"], ["drf", "predicates", "proportion", "nodeorder"]]


# BF1. Of two jobs the more important one goes first, and in each the more important pods: 4, 3, 2, 1. Pods with
# requests are not this action's business.
def test_bf1_pods_without_requests_go_in_the_order_of_jobs_and_pods() -> None:
    story = Story(
        priority_class("one", 1),
        priority_class("two", 2),
        node("n1", cpu=8),
        group("pg1", min_member=0, priority_class="one"),
        group("pg2", min_member=0, priority_class="two"),
        [pod(f"{job}-t{p}", group=job, priority=p) for job in ("pg1", "pg2") for p in (1, 2, 3, 4)],
        [pod(f"{job}-asks-{p}", group=job, cpu=1, priority=p) for job in ("pg1", "pg2") for p in (1, 2)],
        actions="backfill",
        tiers=TIERS,
    ).run()
    assert list(story.binds) == [f"{job}-t{p}" for job in ("pg2", "pg1") for p in (4, 3, 2, 1)]


# BF2. 2 CPUs for two pods of 1, and two pods that ask for nothing: the gang of 4 is complete.
def test_bf2_a_gang_of_pods_with_and_without_requests_starts() -> None:
    story = Story(
        node("n1", cpu=2),
        group("pg1", min_member=4),
        pods("asks", 2, group="pg1", cpu=1),
        pods("free", 2, group="pg1"),
        actions="allocate, backfill",
        tiers=TIERS,
    ).run()
    assert set(story.binds) == {"asks-0", "asks-1", "free-0", "free-1"}
    assert "Scheduled" in story.conditions("pg1")


# BF2'. The node takes 3 pods and the gang is of 4; or the pods without requests have no node that takes them. Then the
# others would run for nothing: nobody starts.
@pytest.mark.parametrize(("places", "selector"), [(3, {}), (110, {"disk": "ssd"})])
def test_bf2_a_gang_does_not_start_without_its_pods_that_ask_for_nothing(places: int, selector: dict[str, str]) -> None:
    story = Story(
        node("n1", cpu=2, pods=places),
        group("pg1", min_member=4),
        pods("asks", 2, group="pg1", cpu=1),
        pods("free", 2, group="pg1", node_selector=selector),
        actions="allocate, backfill",
        tiers=TIERS,
    ).run()
    assert story.binds == {}
    assert "Unschedulable" in story.conditions("pg1")


# The gang of 2 has one pod that asks for nothing and one that asks for 9 of 2 CPUs: the first alone is no gang.
def test_a_pod_that_asks_for_nothing_does_not_start_ahead_of_its_gang() -> None:
    story = Story(
        node("n1", cpu=2),
        group("pg1", min_member=2),
        pod("asks", group="pg1", cpu=9),
        pod("free", group="pg1"),
        actions="allocate, backfill",
        tiers=TIERS,
    ).run()
    assert story.binds == {}


# The gang is the older job and finds 2 CPUs for its two pods, but no place for the pod that asks for nothing. Nothing
# is leaving, so waiting would not help it: the 2 CPUs go to the next job, in the same cycle.
@pytest.mark.parametrize("gated", [False, True])
def test_a_gang_that_lacks_a_pod_without_requests_holds_no_room(gated: bool) -> None:
    story = Story(
        node("n1", cpu=2),
        group("pg1", min_member=3),
        pods("asks", 2, group="pg1", cpu=1),
        pod("free", group="pg1", gated=gated, node_selector={} if gated else {"disk": "ssd"}),
        group("pg2"),
        pod("next", group="pg2", cpu=2),
        actions="allocate, backfill",
        tiers=TIERS,
    ).run()
    assert story.binds == {"next": "n1"}
