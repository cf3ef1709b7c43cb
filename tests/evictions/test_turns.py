"""A long line of searches for victims is spread over several cycles, and everybody has a turn."""

from __future__ import annotations

import pytest

from builders import cluster, group, node, pod, priority_class
from stromboli.cluster import Applied, Cluster
from stromboli.scheduling.cycle import Scheduler
from stromboli.scheduling.decisions import Cycle, Evict
from stromboli.scheduling.eviction import search_turns
from stromboli.scheduling.registry import Registry

CONFIGURATION = """
actions: "allocate, preempt"
tiers:
- plugins: [{name: priority}, {name: gang}, {name: predicates}, {name: proportion}, {name: nodeorder}]
"""


def line_of_jobs() -> Cluster:
    """Four full nodes of four CPUs. Their pods may not go, but for one of four. Three jobs of different sizes search in
    vain; the fourth, last in line, needs the room of that one pod."""
    return cluster(
        priority_class("low", 1),
        priority_class("high", 100),
        [node(f"n{n}", cpu=4) for n in range(4)],
        group("runs", priority_class="high", phase="Running"),
        [pod(f"runs-{n}", group="runs", cpu=4, node=f"n{n}") for n in range(3)],
        group("low", priority_class="low", phase="Running", min_member=0),
        pod("low-0", group="low", cpu=1, node="n3"),
        group("kept", priority_class="high", phase="Running"),
        pod("kept-0", group="kept", cpu=3, node="n3"),
        [group(f"w{n}", priority_class="high", created=n) for n in range(4)],
        [pod(f"w{n}-0", group=f"w{n}", cpu=cpu) for n, cpu in enumerate((4, 3, 2, 1))],
    )


def evicted(cycle: Cycle) -> list[str]:
    return [made.task for made in cycle.decisions if isinstance(made, Evict)]


def scheduler() -> Scheduler:
    registry = Registry(installed_plugins=(), installed_actions=())
    return Scheduler(registry.load(CONFIGURATION), registry)


def test_within_the_limit_all_jobs_have_their_turn_in_one_cycle() -> None:
    cycle = scheduler().run(line_of_jobs(), 1.0)
    assert (evicted(cycle), cycle.postponed_searches) == (["default/low-0"], 0)


# Each of the first three jobs makes four plans, one for each node, though none is of use. With a limit of five, the
# first two have their turn, then the third and the fourth.
def test_beyond_the_limit_the_next_cycle_goes_on_where_the_last_one_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search_turns, "MOST_PLANS", 5)
    known, deciding = line_of_jobs(), scheduler()
    first = deciding.run(known, 1.0)
    assert (evicted(first), first.postponed_searches, first.next_due) == ([], 2, 1.0)
    known.apply(Applied(node("n9", cpu=0, created=0)))  # a change: what failed could be tried again
    second = deciding.run(known, 2.0)
    assert (evicted(second), second.postponed_searches) == (["default/low-0"], 0)
    assert second.next_due == 2.0  # the first two were passed over, and have their turn again


def test_when_everybody_had_a_turn_the_first_may_try_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search_turns, "MOST_PLANS", 5)
    known, deciding = line_of_jobs(), scheduler()
    for now in (1.0, 2.0):
        deciding.run(known, now)
    known.apply(Applied(group("runs", priority_class="low", phase="Running", created=0)))  # now it may be evicted
    third = deciding.run(known, 3.0)
    assert "default/runs-2" in evicted(third)
