"""The kind of a task's claim is kept up to date by events: whatever happened before, it is what a new index finds."""

from __future__ import annotations

import random
from itertools import combinations
from typing import Any

import pytest

from stromboli.api import KObject, PersistentVolumeClaim, decode, key
from stromboli.api.volumes.pod_volumes import pod_volumes
from stromboli.cluster import Cluster
from stromboli.cluster.events import Applied, Deleted

CLAIMS = [f"c{number}" for number in range(9)]
VOLUMES = [f"v{number}" for number in range(3)]
PODS = [f"p{number}" for number in range(5)]


def obj(kind: str, name: str, spec: dict[str, Any], status: dict[str, Any], **metadata: Any) -> KObject:
    meta = {"name": name, "uid": f"{kind}-{name}", "creationTimestamp": "2026-01-01T00:00:00Z", **metadata}
    found = decode({"apiVersion": "v1", "kind": kind, "metadata": meta, "spec": spec, "status": status})
    assert isinstance(found, KObject)
    return found


def claim(chance: random.Random, name: str) -> KObject:
    volume = chance.choice(["", "", "", *VOLUMES])
    spec: dict[str, Any] = {
        "storageClassName": chance.choice(["fast", "slow"]),
        "accessModes": [chance.choice(["ReadWriteOnce", "ReadWriteOnce", "ReadWriteOncePod"])],
        "resources": {"requests": {"storage": "1Gi"}},
    }
    if volume:
        spec["volumeName"] = volume
    chosen = {"volume.kubernetes.io/selected-node": "n1"} if chance.random() < 0.2 else {}
    bound = {"pv.kubernetes.io/bind-completed": "yes"} if volume and chance.random() < 0.8 else {}
    phase = chance.choice(["Bound", "Bound", "Lost"]) if bound else "Pending"
    return obj("PersistentVolumeClaim", name, spec, {"phase": phase}, namespace="ns", annotations=chosen | bound)


def volume(chance: random.Random, name: str) -> KObject:
    spec: dict[str, Any] = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"]}
    named = chance.choice(["", *CLAIMS])
    if named:
        spec["claimRef"] = {"namespace": "ns", "name": named, "uid": f"PersistentVolumeClaim-{named}"}
    zone = chance.choice(["a", "b"])
    return obj("PersistentVolume", name, spec, {}, labels={"topology.kubernetes.io/zone": zone})


def pod(chance: random.Random, name: str) -> KObject:
    claims = chance.sample(CLAIMS, chance.choice([0, 1, 1, 1, 1, 2]))
    volumes = [{"name": one, "persistentVolumeClaim": {"claimName": one}} for one in claims]
    spec = {"schedulerName": "stromboli", "containers": [{"name": "main"}], "volumes": volumes}
    return obj("Pod", name, spec, {"phase": "Pending"}, namespace="ns")


def alike(cluster: Cluster) -> tuple[set[str], set[tuple[str, str]]]:
    """The tasks that have a kind, and which of them have the same."""
    kinds = {task.name: task.claim_kind for task in cluster.tasks.values() if task.claim_kind is not None}
    return set(kinds), {(one, other) for one, other in combinations(sorted(kinds), 2) if kinds[one] == kinds[other]}


@pytest.mark.parametrize("seed", range(20))
def test_the_kinds_of_claims_follow_events(seed: int) -> None:
    chance = random.Random(seed)
    cluster, objects = Cluster(), dict[str, KObject]()
    for _ in range(200):
        make, name = chance.choice(
            [(claim, chance.choice(CLAIMS)), (volume, chance.choice(VOLUMES)), (pod, chance.choice(PODS))]
        )
        known = objects.pop(name, None)
        if known is not None and (make is pod or chance.random() < 0.4):
            cluster.apply(Deleted(known))
        else:
            objects[name] = make(chance, name)
            cluster.apply(Applied(objects[name]))
        new = Cluster()
        shuffled = list(objects.values())
        chance.shuffle(shuffled)
        for each in shuffled:
            new.apply(Applied(each))
        assert alike(cluster) == alike(new)


def test_only_pods_with_one_claim_of_their_own_have_a_kind() -> None:
    chance = random.Random(1)
    seen = 0
    for _ in range(300):
        objects = [claim(chance, name) for name in CLAIMS] + [pod(chance, name) for name in PODS]
        cluster = Cluster()
        for each in objects:
            cluster.apply(Applied(each))
        for task in cluster.tasks.values():
            own = pod_volumes(task.pod).claims
            users = [other for other in cluster.tasks.values() if set(own) & set(pod_volumes(other.pod).claims)]
            if task.claim_kind is not None:
                seen += 1
                assert len(own) == 1
                assert len(users) == 1
                wanted = next(one for one in objects if key(one) == own[0])
                assert isinstance(wanted, PersistentVolumeClaim)
                assert wanted.spec.access_modes == ["ReadWriteOnce"]
    assert seen > 80
