"""Random claims, classes, zones and limits: what must hold at every moment, checked from the objects alone.

The checker shares no code with the scheduler. It looks at every cycle of a run, after the decisions are carried out.
"""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import pytest

from simulation.scenario_runner import load
from stromboli.api import CSINode, Node, PersistentVolume, PersistentVolumeClaim, Pod, PodGroup
from stromboli.scheduling.cycle import Scheduler
from stromboli.scheduling.registry import Registry
from stromboli.simulation.engine import Engine
from stromboli.simulation.journal import Journal
from stromboli.simulation.store import Store
from stromboli.simulation.virtual_time import microseconds
from volumes.volume_scenes import (
    DRIVER,
    ZONE,
    Document,
    claim,
    csi_node,
    gang,
    node,
    patch,
    play,
    pod,
    restart,
    storage_class,
    volume,
    with_claims,
    zone,
)

CLOSED: list[tuple[Document, Document]] = [
    ({"unschedulable": True}, {"unschedulable": False}),
    ({"taints": [{"key": "broken", "effect": "NoSchedule"}]}, {"taints": []}),
]
"""Ways to close a node to pods, and to open it again."""


def world(seed: int) -> list[Document]:
    """A small cluster in up to three zones, with classes of all kinds, and pods and gangs that bring claims."""
    dice = Random(seed)
    zones = "abc"[: dice.randint(1, 3)]
    nodes = [f"n{number}" for number in range(dice.randint(2, 6))]
    documents: list[Document] = []
    for name in nodes:
        documents.append(node(name, dice.randint(2, 5), labels=zone(dice.choice(zones))))
        if dice.random() < 0.7:
            limit = dice.choice([None, 1, 2, 4])
            documents.append(csi_node(name, limit, keys=(ZONE,) if dice.random() < 0.8 else ()))
    documents.append(storage_class("quick", zones=dice.sample(zones, dice.randint(1, len(zones)))))
    documents.append(storage_class("slow", takes=dice.randint(1, 5), fails=dice.choice(["", "1", nodes[0], "always"])))
    documents.append(storage_class("now", immediate=True, takes=dice.randint(0, 3)))
    documents.append(storage_class("local", provisioner="kubernetes.io/no-provisioner"))
    for number in range(dice.randint(0, 6)):
        where: Document = {"zones": [dice.choice(zones)]} if dice.random() < 0.5 else {"nodes": [dice.choice(nodes)]}
        driver = DRIVER if dice.random() < 0.5 else ""
        documents.append(volume(f"disk-{number}", f"{dice.choice([5, 10, 20])}Gi", of="local", driver=driver, **where))
    shared = []
    for number in range(2):
        documents.append(claim(f"shared-{number}", of=dice.choice(["quick", "slow"]), mode="ReadWriteMany"))
        shared.append(f"shared-{number}")
    documents.append(claim("alone", of="quick", mode="ReadWriteOncePod"))
    for number in range(dice.randint(3, 8)):
        size = dice.choice([1, 1, 2, 3])
        at, run = dice.randint(0, 10), dice.randint(2, 12)
        cpus = [dice.randint(1, 2) for _ in range(size)]
        least = dice.choice([size, size, 1])
        if size > 1:
            head, *pods = gang(f"g{number}", *cpus, least=least, at=at, run=run)
            documents.append(head)
        else:
            pods = [pod(f"p{number}", cpus[0], at=at, run=run)]
        same = dice.choice(["", "", "", *shared, "alone"])
        for one in pods:
            own = one["metadata"]["name"]
            if same:
                documents.append(with_claims(one, same))
            elif dice.random() < 0.8:
                names = [f"{own}-{letter}" for letter in "xy"[: dice.choice([1, 1, 2])]]
                created = [] if dice.random() < 0.1 else names  # some are never created
                documents.append(with_claims(one, *names))
                documents += [claim(name, of=dice.choice(["quick", "slow", "now", "local"])) for name in created]
            else:
                documents.append(one)
    for name in nodes:
        if dice.random() < 0.4:
            begin = dice.randint(1, 15)
            closed, opened = dice.choice(CLOSED)
            documents.append(patch("Node", name, {"spec": closed}, at=begin))
            if dice.random() < 0.7:
                documents.append(patch("Node", name, {"spec": opened}, at=begin + dice.randint(2, 20)))
    if dice.random() < 0.5:
        documents += [restart(dice.randint(1, 20), "scheduler") for _ in range(3)]
    return documents


class Checker:
    """Each bound pod can reach its volumes, nodes have no more volumes than they take, gangs start as a whole, and no
    volume is for two claims. No pod is bound to a node that is closed, and no volume is made for one that a pod waits
    for."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._seen: set[str] = set()  # uids of pods that were found on a node before
        self.judged: Counter[str] = Counter()

    def check(self, at: float) -> None:
        running = [one for one in self._store.list(Pod) if one.spec.node_name and one.status.phase == "Running"]
        for one in running:
            self._reaches(one, at)
        for known in self._store.list(Node):
            self._limits(known, [one for one in running if one.spec.node_name == known.metadata.name], at)
        self._gangs(running, at)
        self._volumes(at)
        self._one_pod(running, at)
        self._closed_nodes(running, at)
        self._seen |= {one.metadata.uid for one in running}

    def _claims(self, one: Pod) -> list[PersistentVolumeClaim]:
        names = [v["persistentVolumeClaim"]["claimName"] for v in one.spec.volumes if "persistentVolumeClaim" in v]
        found = [self._store.get(PersistentVolumeClaim, f"default/{name}") for name in names]
        assert all(found), f"{one.metadata.name} runs without a claim of {names}"
        return [one for one in found if one is not None]

    def _volume(self, of: PersistentVolumeClaim) -> PersistentVolume:
        found = self._store.get(PersistentVolume, of.spec.volume_name)
        assert found is not None, f"claim {of.metadata.name} has no volume"
        ref = found.spec.claim_ref
        assert ref is not None, f"{found.metadata.name} names no claim"
        assert ref.uid == of.metadata.uid, f"{found.metadata.name} is not for {of.metadata.name}"
        return found

    def _reaches(self, one: Pod, at: float) -> None:
        where = self._store.get(Node, one.spec.node_name)
        assert where is not None
        for own in self._claims(one):
            self.judged["volumes of pods"] += 1
            affinity = self._volume(own).spec.node_affinity
            terms = [] if affinity is None or affinity.required is None else affinity.required.node_selector_terms
            fits = [self._matches(term, where) for term in terms]
            assert not fits or any(fits), f"{at}: {one.metadata.name} cannot reach {own.spec.volume_name} from {where}"

    @staticmethod
    def _matches(term: Any, where: Node) -> bool:
        labels = where.metadata.labels
        return all(labels.get(one.key) in one.values for one in term.match_expressions) and all(
            where.metadata.name in one.values for one in term.match_fields
        )

    def _limits(self, where: Node, pods: list[Pod], at: float) -> None:
        csi = self._store.get(CSINode, where.metadata.name)
        for driver in csi.spec.drivers if csi is not None else ():
            if driver.allocatable is None or driver.allocatable.count is None:
                continue
            self.judged["limits"] += 1
            volumes = {self._volume(own).metadata.name: self._volume(own) for one in pods for own in self._claims(one)}
            attached = [v for v in volumes.values() if v.spec.csi is not None and v.spec.csi.driver == driver.name]
            assert len(attached) <= driver.allocatable.count, f"{at}: {where.metadata.name} has {len(attached)} volumes"

    def _gangs(self, running: list[Pod], at: float) -> None:
        new = Counter(one.metadata.annotations["scheduling.k8s.io/group-name"] for one in running
                      if one.metadata.uid not in self._seen
                      and one.metadata.annotations.get("scheduling.k8s.io/group-name", "").startswith("g"))  # fmt: skip
        for name, started in new.items():
            group = self._store.get(PodGroup, f"default/{name}")
            assert group is not None
            members = [one for one in self._store.list(Pod) if one.metadata.name.startswith(f"{name}-")]
            before = sum(bool(one.spec.node_name) for one in members) - started
            self.judged["gangs"] += 1
            assert before + started >= group.spec.min_member, f"{at}: only {started} of {name} started"

    def _volumes(self, at: float) -> None:
        refs = [known.spec.claim_ref for known in self._store.list(PersistentVolume)]
        named = Counter(ref.uid for ref in refs if ref is not None)
        for uid, count in named.items():
            assert count == 1, f"{at}: {count} volumes are for claim {uid}"

    def _one_pod(self, running: list[Pod], at: float) -> None:
        users = Counter(own.metadata.name for one in running for own in self._claims(one)
                        if "ReadWriteOncePod" in own.spec.access_modes)  # fmt: skip
        assert all(count == 1 for count in users.values()), f"{at}: {users}"

    def _closed_nodes(self, running: list[Pod], at: float) -> None:
        closed = {n.metadata.name for n in self._store.list(Node) if n.spec.unschedulable or n.spec.taints}
        for one in running:
            assert one.metadata.uid in self._seen or one.spec.node_name not in closed, f"{at}: {one.metadata.name}"
        pending = [one for one in self._store.list(Pod) if not one.spec.node_name]
        wanted = {v["persistentVolumeClaim"]["claimName"] for one in pending for v in one.spec.volumes}
        for own in self._store.list(PersistentVolumeClaim):
            where = own.metadata.annotations.get("volume.kubernetes.io/selected-node", "")
            if where and not own.spec.volume_name and own.metadata.name in wanted:
                self.judged["selected nodes"] += 1
                assert where not in closed, f"{at}: a volume for {own.metadata.name} is made on {where}"


def run_world(seed: int) -> Counter[str]:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "scenario.yaml"
        file.write_text("\n---\n".join(json.dumps(one) for one in world(seed)), encoding="utf-8")
        scenario = load(file)
    registry = Registry()
    configuration = registry.default()
    engine = Engine(
        scenario, Journal(), new_scheduler=lambda: Scheduler(configuration, registry), period=microseconds(1),
        until=microseconds(60),
    )  # fmt: skip
    checker = Checker(engine.world.store)

    def after_cycle(at: int) -> None:
        engine.cluster.validate()
        checker.check(at / 1e6)

    engine.on_cycle = after_cycle
    engine.run()
    return checker.judged


@pytest.mark.parametrize("first", range(0, 60, 10))
def test_random_worlds(first: int) -> None:
    judged: Counter[str] = Counter()
    for seed in range(first, first + 10):
        judged += run_world(seed)
    assert min(judged[what] for what in ("volumes of pods", "limits", "gangs", "selected nodes")) > 0


@pytest.mark.parametrize("first", range(0, 60, 10))
def test_restarts_in_every_second_change_nothing_in_random_worlds(first: int) -> None:
    failures = 0
    for seed in [*range(first, first + 10), *([139] if first == 0 else [])]:
        documents = [document for document in world(seed) if document["kind"] != "Restart"]
        failures += len(play(documents, until=40).gave_back())
    assert failures > 0
