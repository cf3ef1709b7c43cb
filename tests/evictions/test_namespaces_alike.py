"""Namespaces that hold the same and have nobody to lose fare alike in a search for victims. So as many namespaces as
pods cost no more than one, and the decisions are those of a search for each namespace by itself."""

from __future__ import annotations

from random import Random

import pytest

from builders import established, group, node, pod, priority_class, queue, quota
from stromboli.api import KObject
from stromboli.cluster import Cluster
from stromboli.cluster.events import Applied
from stromboli.scheduling.cycle import Scheduler
from stromboli.scheduling.decisions import Bind, Decision, Evict
from stromboli.scheduling.eviction.victims import VictimSearch
from stromboli.scheduling.eviction.victims_on_node import Planner
from stromboli.scheduling.registry import Registry


def decisions(objects: list[KObject]) -> list[Decision]:
    cluster, registry = Cluster(), Registry()
    for position, one in enumerate(objects):
        cluster.apply(Applied(established(one, position)))
    cycle = Scheduler(registry.default(), registry).run(cluster, 1000.0)
    return [one for one in cycle.decisions if isinstance(one, Bind | Evict)]


def crowded(seed: int) -> list[KObject]:
    """Nodes of 8 CPUs full with pods of low priority, in a few namespaces; others wait, many in namespaces of their
    own."""
    dice = Random(seed)
    places, shared = range(dice.randint(2, 5)), [f"team{number}" for number in range(dice.randint(2, 5))]
    queues = ["a", "b"][: dice.randint(1, 2)]
    made: list[KObject] = [*(node(f"n{place}", cpu=8, memory="64Gi") for place in places), *map(queue, queues)]
    made += [priority_class("low", 1), priority_class("high", 9)]
    made += [quota(f"{name}/weight", weight=dice.choice([1, 2, 3])) for name in shared if dice.random() < 0.5]
    for place in places:
        for number in range(4):
            key = f"{dice.choice(shared)}/r{place}-{number}"
            made.append(group(key, queue=dice.choice(queues), priority_class="low", phase="Running"))
            made.append(pod(key, cpu=2, group=key.split("/")[1], node=f"n{place}"))
    for number in range(dice.randint(4, 12)):
        key = f"{dice.choice([*shared, f'own{number}', f'own{number}'])}/w{number}"
        made.append(group(key, queue=dice.choice(queues), priority_class=dice.choice(["low", "high", "high"])))
        made.append(pod(key, cpu=dice.choice([1, 2, 4]), group=f"w{number}"))
    return made


def test_the_decisions_are_those_of_a_search_for_each_namespace(monkeypatch: pytest.MonkeyPatch) -> None:
    worlds = [crowded(seed) for seed in range(40)]
    alike = [decisions(objects) for objects in worlds]
    monkeypatch.setattr(VictimSearch, "_kind_of_namespace", lambda search: search.job.namespace)
    assert alike == [decisions(objects) for objects in worlds]
    assert sum(isinstance(one, Evict) for found in alike for one in found) > 50


@pytest.mark.parametrize("victims_too", [False, True], ids=["evictors", "evictors and victims"])
def test_plans_do_not_grow_with_namespaces(victims_too: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each waiting pod in a namespace of its own, and perhaps each running one. Then nobody may be evicted, because a
    namespace with one pod would give way to another with one pod."""
    plans = 0
    plain = Planner.plan_on

    def counted(*arguments: object, **options: object) -> object:
        nonlocal plans
        plans += 1
        return plain(*arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(Planner, "plan_on", counted)
    nodes = 15
    objects: list[KObject] = [*(node(f"n{place}", cpu=8, memory="64Gi") for place in range(nodes)), queue("default")]
    objects += [priority_class("low", 1), priority_class("high", 9)]
    for number in range(nodes):
        key = f"{f'r{number}' if victims_too else 'team'}/r{number}"
        objects.append(group(key, queue="default", priority_class="low", phase="Running"))
        objects.append(pod(key, cpu=8, group=f"r{number}", node=f"n{number}"))
    for number in range(nodes):
        objects.append(group(f"w{number}/w", queue="default", priority_class="high"))
        objects.append(pod(f"w{number}/w", cpu=8, group="w"))
    evicted = sum(isinstance(one, Evict) for one in decisions(objects))
    assert evicted == (0 if victims_too else nodes - 1), "the last one would have more than the other namespace"
    assert plans <= 2 * nodes
