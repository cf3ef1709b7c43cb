"""Random clusters in which queues lend each other room, and a checker of what is lent in the end.

The checker reads pods, groups and queues as a user would, and shares no code with the scheduler. Everything is small,
so it finds by trying all subsets which pods and gangs of a queue fit together within what the queue deserves. The
others are on lent room. A waiting gang that could start within what its queue deserves, if all that is on lent room
were evicted, should have started; unless its queue would then hold no more within what it deserves, because in other
resources it has its due already.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import product
from random import Random

from msgspec.structs import replace as edited

from builders import GPU, group, node, pod, priority_class, queue
from builders import plugin as part
from fairness.fair_division import Demand, level
from oracles.stories import Entry, Story
from stromboli.api import KObject, Queue, names
from stromboli.api.pod_requests import pod_requests
from stromboli.scheduling.configuration.configuration_file import PluginOption

RESOURCES = ("cpu", "memory", GPU)
Size = dict[str, int]


@dataclass
class World:
    """What a random cluster is made of. Amounts are small whole numbers of each resource."""

    kind: str  # proportion, capacity or tree
    nodes: dict[str, Size]
    queues: list[Queue]
    weights: dict[str, int]
    deserved: dict[str, Size]  # of leaf queues that state it
    waves: list[list[KObject]]
    story: Story = field(init=False)

    def start(self) -> Story:
        machines = [
            node(name, cpu=size["cpu"], memory=size["memory"], gpu=size[GPU]) for name, size in self.nodes.items()
        ]
        entry: Entry = "proportion"
        if self.kind != "proportion":
            option = part("capacity", {}, hierarchy=self.kind == "tree")
            assert isinstance(option, PluginOption)
            entry = option
        unfair = part("drf", preemptable=False)
        assert isinstance(unfair, PluginOption)
        self.story = Story(
            machines, self.queues, priority_class("high", 100),
            actions="enqueue, reclaim, allocate, preempt, backfill",
            tiers=[["priority", "gang", "conformance"], [unfair, entry, "predicates", "nodeorder"]],
        )  # fmt: skip
        return self.story


def world(seed: int) -> World:
    """Two to four queues. One or two resources are scarce: pods request so much of them that they run out."""
    random = Random(seed)
    kind = random.choice(["proportion", "capacity", "capacity", "tree"])
    nodes = {
        f"n{number}": {"cpu": random.choice([8, 12]), "memory": random.choice([8, 12]), GPU: random.choice([4, 8])}
        for number in range(random.randint(2, 4))
    }
    scarce = random.sample(RESOURCES, random.choice([1, 1, 2]))
    leaves = [f"q{number}" for number in range(random.randint(2, 4))]
    weights = {name: random.randint(1, 3) for name in leaves}
    total = {r: sum(size[r] for size in nodes.values()) for r in RESOURCES}
    deserved: dict[str, Size] = {name: {} for name in leaves}
    if kind != "proportion":
        for name in leaves:
            for resource in RESOURCES:
                if resource in scarce or random.random() < 0.5:
                    deserved[name][resource] = max(total[resource] * weights[name] // sum(weights.values()), 1)
    queues = [queue(name, weight=weights[name], deserved=deserved[name] or None) for name in leaves]
    if kind == "tree":
        parents = random.choice([["top"], ["left", "right"]])
        queues = [edited(q, spec=edited(q.spec, parent=random.choice(parents))) for q in queues]
        queues += [queue(name) for name in parents]
    hogs = leaves[: random.choice([1, 1, 2])]
    waves = [
        [obj for n in range(random.randint(3, 8)) for obj in _job(random, f"early{n}", random.choice(hogs), scarce)],
        [obj for n in range(random.randint(2, 5)) for obj in _job(random, f"middle{n}", random.choice(leaves), scarce)],
        [obj for n in range(random.randint(1, 4)) for obj in _job(random, f"late{n}", random.choice(leaves), scarce)],
    ]
    return World(kind, nodes, queues, weights, deserved, waves)


def _job(random: Random, name: str, owner: str, scarce: Sequence[str]) -> Iterator[KObject]:
    """Small pods, gangs of several, and large pods; of what is not scarce they request little."""
    count, large = random.choice([(1, True), (1, False), (2, True), (3, False), (4, False), (6, False)])
    size = {r: random.choice([2, 3, 4, 5, 6] if large else [1, 1, 2]) for r in scarce if random.random() < 0.8}
    size = size or {scarce[0]: random.choice([1, 2, 4])}
    for resource in RESOURCES:
        if resource not in scarce and random.random() < 0.3:
            size[resource] = 1
    least = random.choice([1, count, count, (count + 1) // 2])
    stays = random.random() < 0.1
    urgent = "high" if random.random() < 0.15 else ""
    yield group(name, queue=owner, min_member=least, priority_class=urgent)
    for number in range(count):
        yield pod(f"{name}-{number}", group=name, resources=size, preemptable=False if stays else None)


# -- the checker ------------------------------------------------------------------------------------------------------


@dataclass
class Work:
    """A group, read from the objects."""

    name: str
    queue: str
    least: int
    size: Size
    stays: bool
    running: list[str] = field(default_factory=list)  # the nodes of its pods
    waiting: int = 0


def read(told: Story) -> dict[str, Work]:
    works: dict[str, Work] = {}
    for job in told.known.jobs.values():
        if job.object is not None:
            spec = job.object.spec
            works[job.object.metadata.name] = Work(job.object.metadata.name, spec.queue, spec.min_member, {}, False)
    for task in told.known.tasks.values():
        found = task.pod
        work = works[found.metadata.annotations[names.GROUP_NAME]]
        asked = pod_requests(found.spec)
        work.size = {r: asked[r] // (1000 if r == "cpu" else 1) for r in RESOURCES if asked.get(r)}
        work.stays |= found.metadata.annotations.get("volcano.sh/preemptable") == "false"
        if found.spec.node_name:
            work.running.append(found.spec.node_name)
        else:
            work.waiting += 1
    return works


def due(made: World, works: dict[str, Work]) -> dict[str, dict[str, Fraction]]:
    """What each queue deserves, by resource; a resource is missing if the queue states nothing."""
    if made.kind != "proportion":
        return {name: {r: Fraction(n) for r, n in size.items()} for name, size in made.deserved.items()}
    shares: dict[str, dict[str, Fraction]] = {name: {} for name in made.weights}
    for resource in RESOURCES:
        asked: Counter[str] = Counter()
        for work in works.values():
            asked[work.queue] += work.size.get(resource, 0) * (len(work.running) + work.waiting)
        total = sum(size[resource] for size in made.nodes.values())
        demands = {name: Demand(weight, asked[name]) for name, weight in made.weights.items()}
        for name, amount in level(total, demands).items():
            shares[name][resource] = amount
    return shares


def held(works: dict[str, Work], owner: str) -> Size:
    return {
        r: sum(work.size.get(r, 0) * len(work.running) for work in works.values() if work.queue == owner)
        for r in RESOURCES
    }


def kept(mine: Sequence[Work], limits: dict[str, Fraction], total: Size) -> dict[str, int]:
    """How many pods of each work are in the best packing of a queue within these limits. Pods that nobody may evict are
    kept in any case."""
    _, counts = best_packing(mine, limits, total)
    return {work.name: len(work.running) if work.stays else n for work, n in zip(mine, counts, strict=True)}


def best_packing(mine: Sequence[Work], limits: dict[str, Fraction], total: Size) -> tuple[Fraction, tuple[int, ...]]:
    """(its value in shares of the cluster, how many pods of each work)."""
    choices = [
        [n for n in range(len(work.running) + 1) if n == 0 or n >= work.least or len(work.running) < work.least]
        for work in mine
    ]
    best: tuple[Fraction, tuple[int, ...]] = (Fraction(-1), ())
    for counts in product(*choices):
        used = {r: sum(n * work.size.get(r, 0) for n, work in zip(counts, mine, strict=True)) for r in limits}
        if all(used[r] <= limits[r] for r in limits):
            best = max(best, (sum((Fraction(used[r], total[r]) for r in limits), Fraction(0)), counts))
    return best


def running(works: dict[str, Work], owner: str) -> list[Work]:
    return [work for work in works.values() if work.queue == owner and work.running]


def helpless(made: World) -> list[str]:
    """Waiting groups that could start if all that is on lent room were evicted."""
    works = read(made.story)
    shares = due(made, works)
    total = {r: sum(size[r] for size in made.nodes.values()) for r in RESOURCES}
    keeps = {owner: kept(running(works, owner), shares[owner], total) for owner in made.weights}
    return [
        work.name
        for work in works.values()
        if work.waiting and len(work.running) < work.least and _could_start(made, works, work, shares, keeps)
    ]


def _could_start(
    made: World, works: dict[str, Work], work: Work, shares: dict[str, dict[str, Fraction]],
    keeps: dict[str, dict[str, int]],
) -> bool:  # fmt: skip
    missing = work.least - len(work.running)
    has, mine = held(works, work.queue), shares[work.queue]
    lacks = [r for r in work.size if r in mine and has[r] < mine[r]]
    strict = list(work.size) if made.kind == "proportion" else lacks
    if not lacks or any(has[r] + missing * work.size[r] > mine[r] for r in strict if r in mine):
        return False
    total = {r: sum(size[r] for size in made.nodes.values()) for r in RESOURCES}
    with_it = [other for other in running(works, work.queue) if other is not work]
    with_it.append(replace(work, running=work.running + ["somewhere"] * missing))
    if best_packing(with_it, mine, total)[0] <= best_packing(running(works, work.queue), mine, total)[0]:
        return False
    free = {name: dict(size) for name, size in made.nodes.items()}
    for other in works.values():
        theirs, has_too = shares[other.queue], held(works, other.queue)
        over = [r for r in lacks if r in other.size and r in theirs and has_too[r] > theirs[r] + 1]
        stay = other.running
        if other.queue != work.queue and over and other.running and not other.stays:
            stay = other.running[: keeps[other.queue][other.name]]
        for where in stay:
            for resource, amount in other.size.items():
                free[where][resource] -= amount
    places = sum(min(room[r] // amount for r, amount in work.size.items()) for room in free.values())
    return places >= missing
