"""Jobs of one pod are decided as if they were gangs, cycle by cycle: the short cut only saves time."""

from __future__ import annotations

from random import Random

import pytest

from builders import established, group, node, pod, priority_class, queue, quota
from evictions.crowded_clusters import CONFIGURATIONS
from properties.random_clusters import World
from stromboli.api import KObject
from stromboli.scheduling.cycle import Scheduler
from stromboli.scheduling.decisions import Decision
from stromboli.scheduling.gang import SmallJobs
from stromboli.scheduling.registry import Registry

CYCLES = 3
SEEDS = 12


def small_jobs(seed: int) -> list[KObject]:
    """Jobs mostly of one pod, of a few kinds, and not quite enough room for all of them."""
    random = Random(seed)
    objects: list[KObject] = [priority_class("high", 100)]
    for number in range(random.randint(2, 8)):
        size = random.choice([4, 8, 16])
        objects.append(node(f"n{number}", cpu=size, memory=f"{size}Gi", labels={"zone": random.choice("ab")}))
    queues = [f"q{number}" for number in range(random.randint(1, 4))]
    for name in queues:
        limit = {"cpu": random.randint(4, 16)} if random.random() < 0.2 else None
        objects.append(queue(name, weight=random.randint(1, 3), capability=limit, fifo=random.random() < 0.1))
    objects += [quota(f"ns{number}/w", weight=number) for number in (1, 2) if random.random() < 0.5]
    kinds = [(random.randint(1, 3), random.choice(["", "", "a"])) for _ in range(random.randint(1, 3))]
    for number in range(random.randint(20, 60)):
        key = f"ns{random.randint(1, 2)}/j{number:02}"
        size = 1 if random.random() < 0.8 else random.randint(2, 4)
        cpu, zone = random.choice(kinds)
        of_class = "high" if random.random() < 0.1 else ""
        objects.append(group(key, queue=random.choice(queues), min_member=min(size, 2), priority_class=of_class))
        for position in range(size):
            objects.append(pod(
                f"{key}-{position}", cpu=cpu, memory="1Gi", group=key.partition("/")[2], priority_class=of_class,
                node_selector={"zone": zone} if zone else None,
            ))  # fmt: skip
    return [established(obj, position) for position, obj in enumerate(objects)]


def decisions(seed: int, text: str) -> list[list[Decision]]:
    world = World(small_jobs(seed), grace=2)
    registry = Registry(installed_plugins=(), installed_actions=())
    scheduler = Scheduler(registry.load(text), registry)
    made = []
    for _ in range(CYCLES):
        made.append(world.cycle(scheduler))
        world.cluster.validate()
        world.carry_out(made[-1])
    return made


@pytest.mark.parametrize("configuration", CONFIGURATIONS)
def test_the_short_cut_decides_alike(configuration: str, monkeypatch: pytest.MonkeyPatch) -> None:
    text = CONFIGURATIONS[configuration]
    placed = 0
    place = SmallJobs.place

    def counted(self: SmallJobs, job: object) -> bool:
        nonlocal placed
        found = place(self, job)  # type: ignore[arg-type]
        placed += found
        return found

    monkeypatch.setattr(SmallJobs, "place", counted)
    short = [decisions(seed, text) for seed in range(SEEDS)]
    monkeypatch.setattr(SmallJobs, "place", lambda self, job: False)
    for seed in range(SEEDS):
        assert short[seed] == decisions(seed, text), f"seed {seed}"
    assert placed > SEEDS, "the short cut was not taken, so nothing was compared"
