"""Thousands of small jobs are decided as if each were looked at alone, cycle by cycle: the short cuts only save time.

A plain scheduler asks about the admission of every job in every cycle, places jobs of one pod as gangs, computes the
keys of queues whenever they are compared, and looks at all jobs in every cycle.
"""

from __future__ import annotations

from random import Random

import pytest
from msgspec.structs import replace

from builders import cluster, established, group, node, pod, priority_class, queue, quota
from evictions.crowded_clusters import CONFIGURATIONS
from properties.random_clusters import World
from stromboli.api import KObject, Pod, PodGroup, key
from stromboli.cluster import Job, Ledger, Queue, queue_index
from stromboli.scheduling.attempt import FailedAttempts
from stromboli.scheduling.attempt.small_jobs import SmallJobs
from stromboli.scheduling.cycle import Scheduler
from stromboli.scheduling.decisions import Bind, Decision
from stromboli.scheduling.plugins.proportion import Proportion
from stromboli.scheduling.registry import Registry
from stromboli.scheduling.session import Session

CYCLES = 5
SEEDS = 8


def small_jobs(seed: int) -> list[KObject]:
    """Jobs mostly of one pod, of a few kinds, and mostly not quite enough room for all of them."""
    random = Random(seed)
    objects: list[KObject] = [priority_class("high", 100)]
    for number in range(random.randint(2, 8)):
        size = random.choice([4, 8, 16])
        objects.append(node(f"n{number}", cpu=size, memory=f"{size}Gi", labels={"zone": random.choice("ab")}))
    queues = [f"q{number}" for number in range(random.randint(1, 4))]
    for name in queues:
        limit = {"cpu": random.randint(4, 16)} if random.random() < 0.2 else None
        objects.append(queue(
            name, weight=random.randint(1, 3), priority=random.choice([0, 0, 1]), capability=limit,
            guarantee={"cpu": 2} if random.random() < 0.2 else None,
            deserved={"cpu": random.randint(2, 16)} if random.random() < 0.7 else None,
            state="Closed" if random.random() < 0.05 else "Open", fifo=random.random() < 0.1,
        ))  # fmt: skip
    objects += [quota(f"ns{number}/w", weight=number) for number in (1, 2) if random.random() < 0.5]
    kinds = [(random.randint(1, 3), random.choice(["", "", "a"])) for _ in range(random.randint(1, 3))]
    for number in range(random.randint(20, 60)):
        objects += small_job(random, f"ns{random.randint(1, 2)}/j{number:02}", queues, kinds)
    return [established(obj, position) for position, obj in enumerate(objects)]


def small_job(random: Random, name: str, queues: list[str], kinds: list[tuple[int, str]]) -> list[KObject]:
    size = 1 if random.random() < 0.8 else random.randint(2, 4)
    cpu, zone = random.choice(kinds)
    of_class = "high" if random.random() < 0.1 else ""
    least = min(size, 2)
    states_minimum = random.random() < 0.8
    made: list[KObject] = [group(
        name, queue=random.choice(queues), min_member=least, priority_class=of_class,
        min_resources={"cpu": cpu * least, "memory": f"{least}Gi"} if states_minimum else None,
        phase=random.choice(["Pending", "Pending", "Inqueue"]),
    )]  # fmt: skip
    for position in range(size if random.random() < 0.9 else 0):
        made.append(pod(
            f"{name}-{position}", cpu=cpu, memory="1Gi", group=name.partition("/")[2], priority_class=of_class,
            node_selector={"zone": zone} if zone else None,
        ))  # fmt: skip
    return made


def disturb(world: World, random: Random, cycle: int) -> None:
    """What happens between two cycles: pods end or vanish, groups vanish, somebody writes statuses, new jobs come."""
    for running in [one for one in world.pods if one.status.phase == "Running"]:
        chance = random.random()
        if chance < 0.15:
            world.finish(key(running), random.choice(["Succeeded", "Succeeded", "Failed"]))
        elif chance < 0.2:
            world.remove(running)
    for found in [obj for obj in world.objects.values() if isinstance(obj, PodGroup)]:
        chance = random.random()
        if chance < 0.03:
            world.remove(found)
        elif chance < 0.1:
            world.put(replace(found, status=replace(found.status, phase=random.choice(["Pending", "Running"]))))
        elif chance < 0.15:
            world.put(replace(found, spec=replace(found.spec, queue=random.choice(["q0", "q1"]))))
        elif chance < 0.25:
            world.put(replace(found, status=replace(found.status, running=7, conditions=[])))
        elif chance < 0.3:
            world.put(replace(found, metadata=replace(found.metadata, annotations={"cycle": str(cycle)})))
    for number in range(random.randint(0, 4)):
        for obj in small_job(random, f"ns1/new{cycle}{number}", ["q0"], [(1, "")]):
            world.put(established(obj, 1000 * (cycle + 1) + 10 * number + isinstance(obj, Pod)))


def decisions(seed: int, text: str) -> list[list[Decision]]:
    world = World(small_jobs(seed), grace=2)
    registry = Registry(installed_plugins=(), installed_actions=())
    scheduler = Scheduler(registry.load(text), registry)
    random = Random(seed)
    made = []
    for cycle in range(CYCLES):
        made.append(world.cycle(scheduler))
        world.cluster.validate()
        world.carry_out(made[-1])
        if cycle % 2:
            disturb(world, random, cycle)
    return made


def be_plain(monkeypatch: pytest.MonkeyPatch) -> None:
    def order(self: Proportion, queue: Queue) -> object:
        return (-queue.priority, self._share(queue, self._promises.held_by(queue).tolist()))

    def bind(self: Ledger, task: object, node: object) -> None:
        raise AssertionError("gangs are placed by statements")

    monkeypatch.setattr(SmallJobs, "place", lambda self, job: False)
    monkeypatch.setattr(Ledger, "bind", bind)
    monkeypatch.setattr(Session, "all_enqueueable", lambda self, minimums: False)
    monkeypatch.setattr(FailedAttempts, "repeat", lambda self, way, job: False)
    monkeypatch.setattr(Proportion, "_order", order)
    monkeypatch.setattr(Job, "is_at_rest", False)
    monkeypatch.setattr(queue_index, "group_status", lambda group: "unlike any")


@pytest.mark.parametrize("configuration", CONFIGURATIONS)
def test_short_cuts_decide_alike(configuration: str, monkeypatch: pytest.MonkeyPatch) -> None:
    text = CONFIGURATIONS[configuration]
    taken = {"placed": 0, "admitted": 0, "at rest": 0}
    place, admit, recorded = SmallJobs.place, Session.all_enqueueable, Ledger.all_recorded

    def counted_place(self: SmallJobs, job: Job) -> bool:
        found = place(self, job)
        taken["placed"] += found
        return found

    def counted_admit(self: Session, minimums: object) -> bool:
        found = admit(self, minimums)  # type: ignore[arg-type]
        taken["admitted"] += found
        return found

    def counted_recorded(self: Ledger) -> None:
        taken["at rest"] += sum(job.is_at_rest for job in self.active_jobs())
        recorded(self)

    with monkeypatch.context() as counting:
        counting.setattr(SmallJobs, "place", counted_place)
        counting.setattr(Session, "all_enqueueable", counted_admit)
        counting.setattr(Ledger, "all_recorded", counted_recorded)
        short = [decisions(seed, text) for seed in range(SEEDS)]
    be_plain(monkeypatch)
    for seed in range(SEEDS):
        assert short[seed] == decisions(seed, text), f"seed {seed}"
    if "enqueue" not in text:
        del taken["admitted"]
    assert min(taken.values()) > SEEDS, f"short cuts were not taken, so nothing was compared: {taken}"


@pytest.mark.parametrize("role", ["worker", "master"])
def test_a_job_of_one_pod_waits_if_it_needs_a_pod_of_another_role(role: str) -> None:
    """Its group needs a worker."""
    known = cluster(
        node("n", cpu=4), queue("q"), group("j", queue="q", min_member=1, roles={"worker": 1}),
        pod("p", cpu=1, group="j", role=role),
    )  # fmt: skip
    registry = Registry(installed_plugins=(), installed_actions=())
    cycle = Scheduler(registry.load(next(iter(CONFIGURATIONS.values()))), registry).run(known, 1.0)
    assert [type(one) for one in cycle.decisions].count(Bind) == (role == "worker")
