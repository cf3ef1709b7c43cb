"""Existing volumes by groups, against the plain rule: of all volumes that are left and can be reached, the smallest."""

from __future__ import annotations

from collections import Counter
from random import Random

import numpy as np
import pytest

from builders import node as node_object
from stromboli.api import NodeSelectorRequirement, NodeSelectorTerm, PersistentVolume
from stromboli.api.selectors import matches_node_term
from stromboli.api.volumes.topology import reaches
from stromboli.cluster import Cluster, Node
from stromboli.cluster.events import Applied
from stromboli.controllers import volume_provisioner
from stromboli.scheduling.plugins.node_filters.node_facts import NodeFacts
from stromboli.scheduling.plugins.node_filters.volume_filters import VolumeFilters
from stromboli.scheduling.volumes.free_volumes import FreeVolumes, order
from volumes.test_held_pods import obj
from volumes.volume_scenes import claim, node, pod, run, storage_class, volume, with_claims, zone


def nodes(count: int) -> list[Node]:
    cluster = Cluster()
    for number in range(count):
        labels = {"topology.kubernetes.io/zone": "abc"[number % 3]} if number % 4 else {}
        cluster.apply(Applied(node_object(f"n{number}", cpu=4, labels=labels)))
    return list(cluster.snapshot().ledger.table.nodes)


def some_volume(name: str, dice: Random) -> PersistentVolume:
    size = f"{dice.choice([5, 10, 10, 20])}Gi"
    where = dice.choice(["zones", "nodes", "label", ""])
    if where == "zones":
        document = volume(name, size, zones=dice.sample("abc", dice.randint(1, 2)))
    elif where == "nodes":
        document = volume(name, size, nodes=dice.sample([f"n{number}" for number in range(8)], dice.randint(1, 2)))
    else:
        document = volume(name, size, labels=zone(dice.choice("abc")) if where else {})
    found = obj(document)
    assert isinstance(found, PersistentVolume)
    return found


@pytest.mark.parametrize("seed", range(20))
def test_the_smallest_volume_that_is_left(seed: int) -> None:
    dice, known = Random(seed), Cluster()
    volumes = sorted([some_volume(f"v{number:02}", dice) for number in range(dice.randint(1, 25))], key=order)
    for one in volumes:
        known.apply(Applied(one))
    zones, there, left = dice.random() < 0.5, nodes(7), {one.metadata.name for one in volumes}
    free = FreeVolumes(volumes, known.volumes.reaches, zones=zones)
    groups = {reach for reach, _ in free.any_of_each_group()}
    changes = free.view()
    for _ in range(60):
        name = dice.choice(volumes).metadata.name
        if name in left:
            left.remove(name)
            free.take(name)
        else:
            left.add(name)
            free.give_back(name)
        besides = set(dice.sample([one.metadata.name for one in volumes], min(2, len(volumes))))
        for where in there:
            possible = [
                one for one in volumes
                if one.metadata.name in left - besides and reaches(one, where.labels, where.name, zones=zones)
            ]  # fmt: skip
            assert free.smallest(where, besides) == min(possible, key=order, default=None)
        for reach, change in changes.news():
            (groups.add if change > 0 else groups.discard)(reach)
        assert groups == {known.volumes.reaches[name] for name in left}


@pytest.mark.parametrize("seed", range(20))
def test_terms_of_node_selectors_on_all_nodes(seed: int) -> None:
    dice, there = Random(seed), nodes(9)
    facts = NodeFacts(there)

    def requirement(key: str, values: list[str]) -> NodeSelectorRequirement:
        other = [] if key == "metadata.name" else ["Exists", "DoesNotExist"]
        operator = dice.choice(["In", "In", "NotIn", *other])
        return NodeSelectorRequirement(key=key, operator=operator, values=values if "In" in operator else [])

    for _ in range(20):
        term = NodeSelectorTerm(
            match_expressions=[
                requirement("topology.kubernetes.io/zone", dice.choices("abcd", k=dice.randint(1, 3)))
                for _ in range(dice.randint(0, 2))
            ],
            match_fields=[
                requirement("metadata.name", dice.choices([f"n{number}" for number in range(12)], k=dice.randint(1, 4)))
                for _ in range(dice.randint(0, 2))
            ],
        )
        expected = [matches_node_term(term, one.labels, one.name) for one in there]
        assert np.flatnonzero(facts.satisfying(term)).tolist() == np.flatnonzero(expected).tolist()


@pytest.mark.parametrize("immediate", [False, True])
def test_the_work_grows_with_the_volumes(immediate: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not with volumes times claims: twice as many of both are twice as many steps."""
    steps: Counter[str] = Counter()

    def count(owner: object, name: str) -> None:
        plain = getattr(owner, name)

        def call(*arguments: object) -> object:
            steps[name] += 1
            return plain(*arguments)

        monkeypatch.setattr(owner, name, call)

    count(VolumeFilters, "_reaching")
    count(volume_provisioner.VolumeProvisioner, "_visit")
    count(volume_provisioner, "is_bound")
    totals = []
    for size in (30, 60):
        steps.clear()
        local = storage_class(provisioner="kubernetes.io/no-provisioner", immediate=immediate)
        documents = [node("a1", 100, labels=zone("a")), node("b1", 100, labels=zone("b")), local]
        for number in range(size):
            documents.append(volume(f"v{number}", zones=["ab"[number % 2]]))
            documents += [claim(f"c{number}"), with_claims(pod(f"p{number}"), f"c{number}")]
        assert len(run(documents, until=4).started) == size
        totals.append(steps.total())
    assert totals[1] < 2.5 * totals[0]
