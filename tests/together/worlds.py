"""Random clusters in which everything is on at once: pools, queues, namespaces, priorities, gangs, streams, services.

`world(seed)` is always the same for the same seed. Beside the documents it keeps a plain description of who asks for
what (`Work`), so that the checker does not read documents back. Nothing here knows how a scheduler decides.

What is random: 2-4 pools of 1-3 nodes; 2-4 queues with weights, some with a guarantee or a capability; 2-4 namespaces
with weights; priorities 0, 10 and 100; gangs as PodGroups with pods and as Jobs; streams of small pods that arrive for
most of the run; services that never end; and the configuration: threshold, percentage of the nodes and number of
holders, `scope`, lending (none, `preemption`, `wait`), estimates.

There are three kinds of pools. A *busy* one has a stream that leaves no hole large enough for a gang, but no backlog.
In a *crowded* one the streams of two namespaces request more than there is: shares are judged there. A *served* one
has services on it, so a gang that needs whole nodes there never starts, and keeps its place in line.

`long_world(seed)` is a world in which pods run for 0.1 to 20 times the threshold. It has a fourth kind of pool: in a
*stuck* one plain pods never end, and nobody can know that. In one with *waves* pods end in two large groups, so that
nothing drains for long.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import Any

from starvation.scenes import Document, gang, node, pod, priority_class, queue
from together.situations import Situation, configuration, in_namespace, job, replica_set, weighted, without

ARRIVALS_END = 55.0  # when the last stream ends
UNTIL = 85.0  # of the run: after the last arrival there is time for what waits
LONGEST_RUNS = (3, 4, 5)  # of anything that ends; drawn for each world
PRIORITIES = {"": 0, "middle": 10, "high": 100}


@dataclass(frozen=True)
class Work:
    """A group of equal pods that start together: a gang, a pod of a stream, or the replicas of a service."""

    name: str  # "namespace/name"; its pods' names start with this
    namespace: str
    queue: str
    pool: str
    cpu: int  # of each pod
    pods: int
    at: float
    run: float | None  # None: for ever
    grace: float
    priority: int
    estimate: float | None
    kind: str  # gang, job, stream, service or endless (a plain pod that never ends)

    @property
    def request(self) -> int:
        return self.cpu * self.pods


@dataclass(frozen=True)
class Queue:
    name: str
    weight: int
    guarantee: int = 0
    capability: int | None = None


@dataclass
class World:
    seed: int
    pools: dict[str, dict[str, int]]  # pool -> node -> CPUs
    queues: dict[str, Queue]
    weights: dict[str, int]  # of namespaces
    threshold: int
    percent: int
    holders: int
    scope: str
    lending: str  # "", "preemption" or "wait"
    estimates: bool
    longest_run: int
    shortest_run: int = 3
    timeout: int = 0  # of reservations; 0: as long as the threshold
    arrivals_end: float = ARRIVALS_END
    until: float = UNTIL
    works: list[Work] = field(default_factory=list)

    @property
    def cpus(self) -> dict[str, int]:
        return {name: cpu for nodes in self.pools.values() for name, cpu in nodes.items()}

    def config(self) -> Document:
        backfill: Document = {"useEstimates": self.estimates}
        if self.lending:
            backfill |= {"backfillNonBestEffort": True, "mode": self.lending}
        reserve = {
            "starvingJobTimeThreshold": self.threshold, "reservedNodePercent": self.percent,
            "maxHolders": self.holders, "scope": self.scope,
        } | ({"reservationTimeout": self.timeout} if self.timeout else {})  # fmt: skip
        return configuration(reserve, backfill)

    def situation(self, *, reserve: bool = True) -> Situation:
        config = self.config() if reserve else without(self.config(), "reserve")
        return Situation(self._documents(), config, self.until)

    def _documents(self) -> list[Document]:
        documents: list[Document] = [priority_class(name, value) for name, value in PRIORITIES.items() if name]
        for pool, nodes in self.pools.items():
            documents += [node(name, cpu, labels={"pool": pool}, pods=50) for name, cpu in nodes.items()]
        for each in self.queues.values():
            limits: dict[str, Any] = {}
            if each.guarantee:
                limits["guarantee"] = {"resource": {"cpu": each.guarantee}}
            if each.capability is not None:
                limits["capability"] = {"cpu": each.capability}
            documents.append(queue(each.name, each.weight, **limits))
        documents += [weighted(name, weight) for name, weight in self.weights.items()]
        for work in self.works:
            documents += in_namespace(work.namespace, _document(work))
        return documents


def _document(work: Work) -> list[Document]:
    bare = work.name.partition("/")[2]
    priority = next(name for name, value in PRIORITIES.items() if value == work.priority)
    where = {"pool": work.pool}
    if work.kind == "service":
        return [replica_set(
            bare, work.pods, work.cpu, queue=work.queue, at=work.at, priority=priority, selector=where, grace=work.grace
        )]  # fmt: skip
    if work.kind == "job":
        return [job(
            bare, work.pods, work.cpu, queue=work.queue, at=work.at, run=work.run, priority=priority, selector=where,
            grace=work.grace, estimate=work.estimate,
        )]  # fmt: skip
    common: dict[str, Any] = {
        "queue": work.queue, "priority": priority, "selector": where, "estimate": work.estimate, "at": work.at,
        "grace": work.grace,
    } | ({} if work.run is None else {"run": work.run})  # fmt: skip
    if work.kind == "gang":
        return gang(bare, *[work.cpu] * work.pods, **common)
    return [pod(bare, work.cpu, **common)]


# -- drawing --------------------------------------------------------------------------------------------------------


def world(seed: int) -> World:
    dice = Random(seed)
    number_of_pools = dice.randint(2, 4)
    pools = {
        f"p{number}": {f"p{number}-{index}": dice.choice((2, 2, 4)) for index in range(dice.choice((1, 1, 2, 3)))}
        for number in range(number_of_pools)
    }
    total = sum(cpu for nodes in pools.values() for cpu in nodes.values())
    drawn = World(
        seed, pools, _queues(dice, total),
        {f"ns{number}": dice.choice((1, 1, 2, 3)) for number in range(dice.randint(2, 4))},
        threshold=dice.choice((3, 5, 8)), percent=dice.choice((50, 100, 100)), holders=dice.choice((1, 2, 4, 4)),
        scope=dice.choice(("node", "node", "amount")), lending=dice.choice(("", "preemption", "wait")),
        estimates=dice.random() < 0.4, longest_run=dice.choice(LONGEST_RUNS),
    )  # fmt: skip
    # One crowd is enough: its pods starve, too, and make every line long. It costs time, so its pool is small.
    small = [pool for pool, nodes in pools.items() if sum(nodes.values()) <= 4]
    crowded = dice.choice(small) if small and dice.random() < 0.4 else ""
    for pool in pools:
        _fill(dice, drawn, pool, "crowded" if pool == crowded else dice.choice(("busy", "busy", "busy", "served")))
        for number in range(dice.choice((1, 1, 2)) if len(pools) < 4 else 1):
            _add_gang(dice, drawn, pool, number)
    return drawn


RATIOS = {0.1: (10,), 0.3: (10,), 1: (3, 5), 2: (2, 3), 3: (2, 3), 5: (1, 2), 10: (1,), 20: (1,)}
"""The longest run as a multiple of the threshold, and the thresholds to choose from."""


def long_world(seed: int) -> World:
    dice = Random(f"long {seed}")
    ratio = dice.choice(sorted(RATIOS))
    threshold = dice.choice(RATIOS[ratio])
    longest = max(1, round(ratio * threshold))
    pools = {
        f"p{number}": {f"p{number}-{index}": dice.choice((2, 3, 4)) for index in range(dice.choice((1, 1, 2)))}
        for number in range(dice.randint(1, 3))
    }
    total = sum(cpu for nodes in pools.values() for cpu in nodes.values())
    until = max(60.0, 16.0 * longest + 3 * threshold)
    # Mostly one queue and one namespace: who is held back by a fair share has no claim to start soon.
    queues = {"q": Queue("q", 1)} if dice.random() < 0.7 else _queues(dice, total)
    drawn = World(
        seed, pools, queues,
        {f"ns{number}": dice.choice((1, 1, 2, 3)) for number in range(dice.choice((1, 1, 1, 2, 3)))},
        threshold=threshold, percent=dice.choice((50, 100, 100)), holders=dice.choice((1, 1, 2, 4)),
        scope=dice.choice(("node", "node", "amount")), lending=dice.choice(("", "", "preemption", "wait")),
        estimates=dice.random() < 0.3, longest_run=longest, shortest_run=max(2, longest // 2) if longest > 1 else 1,
        timeout=dice.choice((0, 0, 0, 1, 2, 10 * threshold)), arrivals_end=until - 2 * longest, until=until,
    )  # fmt: skip
    for pool in pools:
        kinds = ("busy", "busy", "waves", "waves", "waves", "crowded", "served", "stuck")
        _fill(dice, drawn, pool, dice.choice(kinds))
        for number in range(dice.choice((1, 1, 2, 3))):
            _add_gang(dice, drawn, pool, number, first=longest)
    return drawn


def _queues(dice: Random, total: int) -> dict[str, Queue]:
    queues: dict[str, Queue] = {}
    for number in range(dice.randint(2, 4)):
        limit = dice.random()
        guarantee = dice.randint(1, 2) if limit < 0.2 else 0
        capability = dice.randint(min(total, max(4, total // 3)), total) if limit > 0.7 else None
        queues[f"q{number}"] = Queue(f"q{number}", dice.choice((1, 1, 2, 4)), guarantee, capability)
    return queues


def _fill(dice: Random, drawn: World, pool: str, kind: str) -> None:
    cpus = sum(drawn.pools[pool].values())
    where = dice.choice(sorted(drawn.queues))
    run = dice.randint(drawn.shortest_run, drawn.longest_run)
    if kind == "crowded" and len(drawn.weights) > 1:
        # Two namespaces of one queue. Each asks for a quarter of the pool more than its weight gives it.
        pair = dice.sample(sorted(drawn.weights), 2)
        both = sum(drawn.weights[namespace] for namespace in pair)
        for index, namespace in enumerate(pair):
            part = drawn.weights[namespace] / both + 0.25
            _add_stream(dice, drawn, pool, f"{pool}-{index}", namespace, where, run, every=run / (cpus * part))
        return
    namespace = dice.choice(sorted(drawn.weights))
    if kind == "served":
        for name in drawn.pools[pool]:
            _add(dice, drawn, f"service-{name}", namespace, where, pool, 1, 1, 0, None, 0, "service")
        cpus -= len(drawn.pools[pool])
    if kind == "stuck":
        for name in drawn.pools[pool]:
            _add(dice, drawn, f"endless-{name}", namespace, where, pool, 1, 1, 0, None, 0, "endless")
        cpus -= len(drawn.pools[pool])
    # As much as there is, less a part of a CPU: holes are small, and nobody waits for long. Or a bit more than that.
    priority = 10 if dice.random() < 0.06 else 0
    if kind == "waves":
        halves = [cpus // 2, cpus - cpus // 2]
        for start, many in zip((0, run / 2), halves, strict=True):
            for lane in range(many):
                _add_stream(
                    dice, drawn, pool, f"{pool}-{start:g}-{lane}", namespace, where, run, every=run, priority=priority,
                    start=start,
                )  # fmt: skip
        return
    every = run / (cpus + (0.2 if kind == "crowded" else -0.3))
    _add_stream(dice, drawn, pool, pool, namespace, where, run, every=every, priority=priority)


def _add_stream(
    dice: Random, drawn: World, pool: str, label: str, namespace: str, where: str, run: int, *, every: float,
    priority: int = 0, start: float = 0,
) -> None:  # fmt: skip
    told = drawn.estimates and dice.random() < 0.5
    for number in range(int(drawn.arrivals_end / every)):
        at = round(start + number * every, 1)
        _add(dice, drawn, f"small-{label}-{number:03}", namespace, where, pool, 1, 1, at, run, priority, "stream", told)


def _add_gang(dice: Random, drawn: World, pool: str, number: int, *, first: int | None = None) -> None:
    """A gang that needs most of the pool: whole nodes, or all the CPUs of its nodes one by one. `first`: when it comes
    at the earliest, if not soon."""
    cpus = sorted(drawn.pools[pool].values())
    if dice.random() < 0.5:
        cpu, pods = cpus[0], dice.randint(1, len(cpus))
    else:
        cpu, pods = 1, dice.randint(max(2, sum(cpus) // 2), sum(cpus))
    namespace = dice.choice(sorted(drawn.weights))
    # Often in a queue that deserves so much: who is held back by a fair share has no claim to start soon.
    where = dice.choice(sorted(drawn.queues))
    if dice.random() < 0.7:
        where = max(drawn.queues.values(), key=lambda each: (each.capability is None, each.weight, each.name)).name
    run, priority = dice.randint(max(1, drawn.shortest_run - 1), drawn.longest_run), dice.choice((0, 0, 0, 10, 100))
    kind, told = dice.choice(("gang", "job")), drawn.estimates and dice.random() < 0.5
    at = dice.randint(*((3, 10) if first is None else (first, 2 * first)))
    _add(dice, drawn, f"big-{pool}-{number}", namespace, where, pool, cpu, pods, at, run, priority, kind, told)


def _add(
    dice: Random, drawn: World, bare: str, namespace: str, where: str, pool: str, cpu: int, pods: int, at: float,
    run: int | None, priority: int, kind: str, told: bool = False,
) -> None:  # fmt: skip
    grace = dice.choice((0, 0, 2)) if kind != "stream" else 0
    drawn.works.append(Work(
        f"{namespace}/{bare}", namespace, where, pool, cpu, pods, float(at), None if run is None else float(run),
        float(grace), priority, float(run) if told and run is not None else None, kind,
    ))  # fmt: skip
