"""Volumes are counted only where they could be too many. The answers are those of counting them on every node."""

from __future__ import annotations

import random

import pytest

from builders import group, node, queue, session
from builders import pod as plain_pod
from stromboli.api import CSINode, KObject, decode
from stromboli.cluster import Cluster, Job, Status
from stromboli.cluster.events import Applied, Deleted
from stromboli.scheduling.session import Session
from volumes.volume_scenes import DRIVER, Document, claim, csi_node, storage_class

LIMITS = [None, 0, 1, 2, 3, 5, 40]


def obj(document: Document) -> KObject:
    meta = {"namespace": "default", "uid": document["metadata"]["name"], **document["metadata"]}
    found = decode({**document, "metadata": meta})
    assert isinstance(found, KObject)
    return found


def filled(chance: random.Random) -> tuple[Cluster, dict[str, int]]:
    """Nodes with and without limits, and gangs whose pods have a claim each, or none; with the limits."""
    known, limits = Cluster(), {}
    for number in range(chance.randint(2, 8)):
        known.apply(Applied(node(f"n{number}", cpu=chance.randint(1, 12), memory="64Gi")))
        limit = chance.choice(LIMITS)
        known.apply(Applied(obj(csi_node(f"n{number}", limit))))
        if limit is not None:
            limits[f"n{number}"] = limit
    known.apply(Applied(obj(storage_class())))
    known.apply(Applied(queue("default")))
    for gang in range(6):
        size = chance.randint(1, 12)
        known.apply(Applied(group(f"g{gang}", min_member=size, phase="Inqueue")))
        has_claims = chance.random() < 0.8
        for number in range(size):
            name = f"g{gang}-{number}"
            one = plain_pod(name, cpu=1, group=f"g{gang}")
            if has_claims:
                one.spec.volumes.append({"name": "v", "persistentVolumeClaim": {"claimName": name}})
                known.apply(Applied(obj(claim(name))))
            known.apply(Applied(one))
    return known, limits


def left(cycle: Session, limits: dict[str, int]) -> list[int]:
    """By row, how many more volumes a node takes."""
    attached = [sum(bool(task.volumes.claims) for task in one.tasks.values()) for one in cycle.nodes.nodes]
    return [limits.get(one.name, 1000) - count for one, count in zip(cycle.nodes.nodes, attached, strict=True)]


@pytest.mark.parametrize("seed", range(60))
def test_placements_respect_the_limits_and_use_them_up(seed: int) -> None:
    chance = random.Random(seed)
    known, limits = filled(chance)
    cycle = session(known, tiers=[["predicates", "nodeorder"]])
    statement = cycle.statement()
    jobs: list[Job] = list(cycle.jobs)
    for _ in range(20):
        job = chance.choice(jobs)
        waiting = [task for task in job.tasks.values() if task.status is Status.PENDING]
        if not waiting or chance.random() < 0.2:
            statement.discard(down_to=chance.randint(0, len(statement)))
            continue
        task, takes = waiting[0], left(cycle, limits)
        has_claim = bool(task.volumes.claims)
        fitting = cycle.placement.fitting(task)
        if has_claim:
            assert fitting.mask.tolist() == [more > 0 for more in takes]
        if len(waiting) > 1 and chance.random() < 0.3:  # after the fitting was updated
            one = chance.randrange(len(takes))
            if fitting.mask[one] and cycle.nodes.idle[one, cycle.axis.index["cpu"]] >= 1000:
                statement.allocate(waiting.pop(), cycle.nodes.nodes[one])
                takes[one] -= has_claim
        idle = (cycle.nodes.idle[:, cycle.axis.index["cpu"]] // 1000).tolist()
        places = [max(0, min(room, more) if has_claim else room) for room, more in zip(idle, takes, strict=True)]
        rows = fitting.choose(task, len(waiting), cycle.placement.room_now(job))
        assert len(rows) == min(len(waiting), sum(places))
        assert all(rows.count(row) <= places[row] for row in rows)
        if rows:
            statement.allocate_many(waiting[: len(rows)], [cycle.nodes.nodes[row] for row in rows])


def test_limits_follow_events() -> None:
    chance = random.Random(1)
    known, there = Cluster(), dict[str, CSINode]()
    for _ in range(300):
        name = f"n{chance.randint(0, 4)}"
        if name in there and chance.random() < 0.4:
            known.apply(Deleted(there.pop(name)))
        else:
            drivers: list[Document] = []
            for each in chance.sample([DRIVER, "other", "third"], 2):
                count = {"allocatable": {"count": chance.randint(0, 9)}} if chance.random() < 0.7 else {}
                drivers.append({"name": each, "nodeID": name, **count})
            changed = obj({**csi_node(name), "spec": {"drivers": drivers}})
            assert isinstance(changed, CSINode)
            there[name] = changed
            known.apply(Applied(changed))
        expected = {
            (driver.name, node_name): driver.allocatable.count
            for node_name, one in there.items()
            for driver in one.spec.drivers
            if driver.allocatable is not None and driver.allocatable.count is not None
        }
        limits = known.snapshot().volumes.limits
        assert {(driver, name): n for driver, nodes in limits.items() for name, n in nodes.items()} == expected
