"""Pods that run on nodes we do not know are nobody's victims."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from builders import cluster, group, node, pod, pods, priority_class, queue
from evictions.crowded_clusters import CONFIGURATIONS
from stromboli.api import KObject
from stromboli.scheduling.cycle import Scheduler
from stromboli.scheduling.decisions import Evict
from stromboli.scheduling.registry import Registry


def evicted(*objects: KObject | Iterable[KObject]) -> list[str]:
    registry = Registry(installed_plugins=(), installed_actions=())
    made = Scheduler(registry.load(CONFIGURATIONS["built-in"]), registry).run(cluster(*objects), 0.0).decisions
    return [decision.task for decision in made if isinstance(decision, Evict)]


@pytest.mark.parametrize("claimant", ["first", "second"])
def test_only_pods_on_known_nodes_are_evicted(claimant: str) -> None:
    """Two of the four pods have to go: by preemption in their own queue, by reclaim in the other."""
    found = evicted(
        node("n1", cpu=4),
        queue("first"),
        queue("second"),
        priority_class("high", 100),
        group("lost", queue="first", min_member=0, phase="Running"),
        [pod(f"lost-{number}", group="lost", cpu=1, node="unknown") for number in range(3)],
        group("runs", queue="first", min_member=0, phase="Running"),
        [pod(f"runs-{number}", group="runs", cpu=1, node="n1") for number in range(4)],
        group("waits", queue=claimant, min_member=2, priority_class="high", phase="Inqueue"),
        pods("waits", 2, group="waits", cpu=1),
    )
    assert len(found) == 2
    assert all(key.startswith("default/runs-") for key in found)


def test_of_a_gang_that_goes_as_a_whole_only_pods_on_known_nodes_are_evicted() -> None:
    """A node was deleted, and its pods are not yet. The rest of the gang has to go for one that is urgent."""
    found = evicted(
        node("n1", cpu=2),
        queue("q"),
        priority_class("high", 100),
        group("runs", queue="q", min_member=4, phase="Running"),
        [pod(f"runs-{number}", group="runs", cpu=1, node="n1") for number in range(2)],
        [pod(f"runs-{number}", group="runs", cpu=1, node="gone") for number in range(2, 4)],
        group("waits", queue="q", priority_class="high", phase="Inqueue"),
        pod("waits-0", group="waits", cpu=1),
    )
    assert found == ["default/runs-0", "default/runs-1"]
