"""Properties of plans on random clusters, judged by a checker that knows nothing of the planner.

The checker has plain numbers: what each node offers, what each pod requests and where it runs. It carries out a plan
move by move, with the successor's place and the old pod both counted until the pod has left, as it really happens.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from random import Random
from typing import Any

import pytest

from builders import budget, group, node, pod
from descheduling.plans import low_nodes, plans_of, policy, replicas
from descheduling.scenes import defragment, run_by_hand, scene
from descheduling.scenes import job as job_document
from descheduling.scenes import node as node_document
from descheduling.scenes import policy as policy_document
from descheduling.scenes import replicas as replica_documents
from stromboli.descheduling import Plan


@dataclass
class World:
    offered: dict[str, int] = field(default_factory=dict)
    where: dict[str, str] = field(default_factory=dict)  # by pod
    size: dict[str, int] = field(default_factory=dict)
    gang: dict[str, str] = field(default_factory=dict)
    minimum: dict[str, int] = field(default_factory=dict)  # by gang
    app: dict[str, str] = field(default_factory=dict)
    allowed: dict[str, int] = field(default_factory=dict)  # disruptions, by app
    waiting: int = 0  # GPUs that the waiting job needs on one node
    objects: list[Any] = field(default_factory=list)

    def used(self, name: str) -> int:
        return sum(self.size[key] for key, on in self.where.items() if on == name)

    def empty_nodes(self) -> int:
        return sum(self.used(name) == 0 for name in self.offered)

    def largest_hole(self) -> int:
        return max(self.offered[name] - self.used(name) for name in self.offered)


def random_world(seed: int) -> World:
    random = Random(seed)
    world = World()
    for number in range(random.randint(3, 8)):
        name = f"n{number}"
        world.offered[name] = random.choice((4, 8, 8))
        world.objects.append(node(name, gpu=world.offered[name], cpu=64))
    for number in range(random.randint(2, 7)):
        app, gpu = f"s{number}", random.choice((1, 1, 1, 2, 4))
        nodes = []
        for _ in range(random.randint(1, 6)):
            fitting = [name for name in world.offered if world.offered[name] - world.used(name) >= gpu]
            if not fitting:
                break
            name = random.choice(fitting)
            key = f"default/{app}-{len(nodes)}"
            world.where[key], world.size[key], world.app[key] = name, gpu, app
            nodes.append(name)
        if not nodes:
            continue
        of_set = replicas(app, len(nodes), on=nodes, gpu=gpu)
        if random.random() < 0.3:
            gang = f"gang-{app}"
            world.minimum[gang] = random.randint(1, len(nodes))
            for obj in of_set:
                if obj.kind == "Pod":
                    obj.metadata.annotations["scheduling.k8s.io/group-name"] = gang
                    world.gang[f"default/{obj.metadata.name}"] = gang
            of_set[1] = group(f"default/{gang}", min_member=world.minimum[gang], phase="Running")
        if random.random() < 0.3:
            world.allowed[app] = random.randint(0, 2)
            world.objects.append(budget(f"default/{app}", allowed=world.allowed[app], selector={"app": app}))
        world.objects += of_set
    if random.random() < 0.7:
        world.waiting = random.choice((2, 3, 4, 6, 8))
        world.objects += [group("default/big"), pod("default/big-0", gpu=world.waiting, group="big")]
    return world


def check(world: World, plans: list[Plan], *, protection: float | None) -> None:
    empty, hole = world.empty_nodes(), world.largest_hole()
    leaving: Counter[str] = Counter()
    disrupted: Counter[str] = Counter()
    sources = {move.source for plan in plans for move in plan.moves}
    targets = {move.target for plan in plans for move in plan.moves}
    assert not sources & targets, "a node has two roles"
    moved = [move.pod for plan in plans for move in plan.moves]
    assert len(moved) == len(set(moved)), "a pod moves twice"
    places: dict[str, str] = {}
    for plan in plans:
        assert plan.moves, "a plan that moves nothing is none"
        for move in plan.moves:  # all places are kept before the first eviction
            assert world.where[move.pod] == move.source
            kept = sum(world.size[key] for key, on in places.items() if on == move.target)
            assert world.used(move.target) + kept + world.size[move.pod] <= world.offered[move.target], "no place"
            places[move.pod] = move.target
            if move.pod in world.gang:
                leaving[world.gang[move.pod]] += 1
            disrupted[world.app[move.pod]] += 1
    for gang, number in leaving.items():
        members = sum(1 for other in world.gang.values() if other == gang)
        assert members - number >= world.minimum[gang], "a gang falls below its minimum"
    for app, number in disrupted.items():
        assert number <= world.allowed.get(app, number), "a budget is exceeded"
    world.where.update(places)
    for plan in plans:
        for name in plan.emptied:
            assert world.used(name) == 0
        for place in plan.places:
            assert world.offered[place.node] - world.used(place.node) >= world.waiting, "no room for the job"
    if protection is not None:
        for name in targets:
            assert 100 * world.used(name) <= protection * world.offered[name], "a target is above protection"
    if plans:
        assert world.empty_nodes() > empty or world.largest_hole() > hole, "nothing is gained"
    assert world.empty_nodes() >= empty or world.largest_hole() >= hole


@pytest.mark.parametrize("seed", range(150))
def test_plans_by_thresholds(seed: int) -> None:
    world = random_world(seed)
    protection = Random(seed).choice((80.0, 95.0, 100.0))
    check(world, plans_of(world.objects, low_nodes(low=50, protection=protection)), protection=protection)


@pytest.mark.parametrize("seed", range(150))
def test_plans_for_a_job(seed: int) -> None:
    world = random_world(seed)
    plans = plans_of(world.objects, policy({"forPending": True}))
    if plans:
        assert world.waiting > world.largest_hole(), "the job fits without moves"
    check(world, plans, protection=None)


def test_enough_of_these_worlds_have_plans() -> None:
    by_thresholds = sum(bool(plans_of(random_world(seed).objects, low_nodes(low=50))) for seed in range(60))
    for_jobs = sum(bool(plans_of(random_world(seed).objects, policy({"forPending": True}))) for seed in range(60))
    assert by_thresholds > 10
    assert for_jobs > 3


@pytest.mark.parametrize("seed", range(20))
def test_plans_that_are_carried_out(seed: int) -> None:
    """In the simulator: afterwards every pod runs, nothing is held, and no node is overcommitted."""
    random = Random(seed)
    nodes = [f"n{number}" for number in range(random.randint(3, 6))]
    free = dict.fromkeys(nodes, 8)
    documents: list[Any] = [node_document(name, gpu=8) for name in nodes]
    total = 0
    for number in range(random.randint(2, 6)):
        gpu, on = random.choice((1, 1, 2)), []
        for _ in range(random.randint(1, 5)):
            fitting = [name for name in nodes if free[name] >= gpu]
            if fitting:
                on.append(random.choice(fitting))
                free[on[-1]] -= gpu
        if on:
            total += len(on)
            documents.append(replica_documents(f"s{number}", on, gpu=gpu, grace=random.choice((0, 1, 3))))
    documents.append(job_document("big", 1, gpu=random.choice((4, 6, 8)), at=3, movable=False))
    plugins = [("Defragmentation", {"forPending": True})] if seed % 2 else [defragment("gpu", low=50)]
    outcome = scene(*documents, run_by_hand(5), policy=policy_document(*plugins, interval=0), until=30).outcome
    running = [key for key, found in outcome.report["pods"].items() if found["phase"] == "Running" and "/s" in key]
    assert len(running) == total
    assert outcome.moves["failed"] == 0
    assert outcome.moves["succeeded"] == outcome.moves["planned"]
    assert [name for name in outcome.held if name.startswith("migration")] == []
    for found in outcome.report["nodes"].values():
        assert int(found["used"]["nvidia.com/gpu"]) <= 8
