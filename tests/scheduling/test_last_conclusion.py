"""A cycle in which nothing is different says what the last one said, without looking for the reasons again.

A gang of two pods is too large for the only node. The first cycle says why it waits, the second one sees that all
objects say it; from then on nothing is looked for until something changes. Whether the answers are those of a scheduler
that remembers nothing is tested in `evictions/test_failed_attempts.py`.
"""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from builders import START, cluster, group, node, pod, queue
from stromboli.api import Condition, KObject
from stromboli.cluster import Applied, Cluster, JobKey, TaskKey
from stromboli.scheduling.conclusion.explainer import Explainer, Finding
from stromboli.scheduling.cycle import Scheduler
from stromboli.scheduling.decisions import Cycle, PatchGroup, PatchPod
from stromboli.scheduling.registry import Registry
from stromboli.scheduling.session import Session

POLICY = """
actions: [{name: allocate}]
tiers: [{plugins: [{name: priority}, {name: gang}, {name: predicates}]}]
"""
NOW = START + 100


@pytest.fixture
def looked_for(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The jobs whose reasons were looked for, in order."""
    found: list[str] = []
    original = Explainer.find

    def find(self: Explainer, job: object) -> Finding:
        found.append(job.key)  # type: ignore[attr-defined]
        return original(self, job)  # type: ignore[arg-type]

    monkeypatch.setattr(Explainer, "find", find)
    return found


class World:
    """At rest: all objects say why the gang waits."""

    def __init__(self, kind: type[Scheduler] = Scheduler) -> None:
        registry = Registry(installed_plugins=(), installed_actions=())
        gang = group("ns/g", queue="q", min_member=2, phase="Inqueue")
        self.node = node("n1", cpu=4)
        self.cluster: Cluster = cluster(
            self.node, queue("q"), gang, *(pod(f"ns/g-{n}", group="g", cpu=8) for n in (0, 1))
        )
        self.scheduler = kind(registry.load(POLICY, where="test"), registry)
        self.at = NOW
        self.write(self.cycle())
        self.cycle()

    def cycle(self) -> Cycle:
        self.at += 1
        return self.scheduler.run(self.cluster, self.at)

    def write(self, cycle: Cycle) -> None:
        for one in cycle.decisions:
            if isinstance(one, PatchGroup):
                known = self.cluster.jobs[one.job].object
                assert known is not None
                self.apply(one.applied_to(known))
            elif isinstance(one, PatchPod):
                waits = self.cluster.tasks[one.task].pod
                said = Condition(type="PodScheduled", status="False", reason=one.reason, message=one.message)
                self.apply(replace(waits, status=replace(waits.status, conditions=[said])))

    def apply(self, obj: KObject) -> None:
        self.cluster.apply(Applied(obj))


def test_nothing_is_looked_for_while_nothing_changes(looked_for: list[str]) -> None:
    world = World()
    before = world.cycle()
    assert {code.code for code in before.waiting.values()} == {"InsufficientNode"}
    looked_for.clear()
    again = world.cycle()
    assert looked_for == []
    assert again.decisions == []
    assert (again.waiting, again.reasons) == (before.waiting, before.reasons)


def test_a_heartbeat_of_a_node_is_no_reason_to_look(looked_for: list[str]) -> None:
    world = World()
    looked_for.clear()
    world.apply(replace(world.node, metadata=replace(world.node.metadata, resource_version="17")))
    world.cycle()
    assert looked_for == []


def test_what_somebody_else_wrote_is_said_again() -> None:
    world = World()
    waits = world.cluster.tasks[TaskKey("ns/g-0")].pod
    world.apply(replace(waits, status=replace(waits.status, conditions=[])))
    assert [one.task for one in world.cycle().decisions if isinstance(one, PatchPod)] == ["ns/g-0"]


def test_a_status_of_a_group_that_somebody_else_wrote_is_written_again() -> None:
    world = World()
    known = world.cluster.jobs[JobKey("ns/g")].object
    assert known is not None
    world.apply(replace(known, status=replace(known.status, conditions=[])))
    assert [one.job for one in world.cycle().decisions if isinstance(one, PatchGroup)] == ["ns/g"]


def test_a_write_that_was_lost_is_decided_again() -> None:
    world = World()
    world.apply(pod("ns/g-2", group="g", cpu=8))
    for _ in range(3):
        assert [one.task for one in world.cycle().decisions if isinstance(one, PatchPod)] == ["ns/g-2"]


def test_what_is_due_is_looked_for_again(looked_for: list[str]) -> None:
    """Something reads the clock, and says that it answers otherwise from a moment on."""

    class Patient(Scheduler):
        def open(self, *about: Any) -> Session:
            session = super().open(*about)
            if session.now < NOW + 10:
                session.due(NOW + 10)
            return session

    world = World(Patient)
    looked_for.clear()
    while world.at < NOW + 9:
        assert world.cycle().next_due == NOW + 10
    assert looked_for == []
    assert world.cycle().next_due is None
    assert looked_for == ["ns/g"]
