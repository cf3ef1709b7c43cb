"""Small clusters with one odd job, run in virtual time by a scheduler that contains errors.

A world is a scenario as users write it. The job named `odd` is the one on which errors are injected; all else must go
on as if nothing had happened. `play` runs a world as a live process would: errors are contained, their objects are put
aside for a growing time, and after a cycle that fails the state is built again.
"""

from __future__ import annotations

import json
import tempfile
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from queue_locks.lock_scenes import locking
from reservations.reservation_scenes import owned, reservation
from starvation.scenes import Document, gang, group, node, pod, priority_class, queue, short
from stromboli.api import Pod
from stromboli.cluster import Cluster, Job, JobKey, Task
from stromboli.containment import ContainedError, ObjectRef, PutAside
from stromboli.controllers import QueueLocks
from stromboli.scheduling.containment import Aside, CycleInputs, NotContained, run_contained
from stromboli.scheduling.cycle import Scheduler
from stromboli.scheduling.decisions import Cycle
from stromboli.scheduling.queue_locks import lock_rules
from stromboli.scheduling.registry import Registry
from stromboli.scheduling.turns import MayGoOn
from stromboli.simulation.engine import Engine, SchedulerProtocol
from stromboli.simulation.journal import Journal
from stromboli.simulation.scenario import check_scenario, read_scenario
from stromboli.simulation.virtual_time import START, microseconds, wall_clock
from volumes.volume_scenes import claim, storage_class, with_claims

ODD = "odd"


def configuration(
    *, reserve: Document | None = None, backfill: Document | None = None, sharing: str = "proportion"
) -> str:
    names = ["enqueue", "reclaim", "allocate", "preempt", "reserve", "backfill"]
    arguments = {"reserve": reserve or {}, "backfill": backfill or {}}
    second = ["overcommit", "drf", "predicates", sharing, "nodeorder", "binpack", "node_reservation", "reservation"]
    document = {
        "actions": [{"name": name, "arguments": arguments.get(name, {})} for name in names],
        "tiers": [
            {"plugins": [{"name": name} for name in ("priority", "gang", "conformance", "pdb")]},
            {"plugins": [{"name": name, **({"enablePreemptable": False} if name == "drf" else {})} for name in second]},
        ],
    }
    return json.dumps(document)


@dataclass(frozen=True)
class World:
    name: str
    documents: list[Document]
    configuration: str = field(default_factory=configuration)
    until: int = 20

    @cached_property
    def without_odd(self) -> World:
        kept = [one for one in self.documents if not is_odd_name(one["metadata"]["name"])]
        return World(f"{self.name} without the odd job", kept, self.configuration, self.until)


def is_odd_name(name: str) -> bool:
    return name.rpartition("/")[2].removeprefix("podgroup-").partition("-")[0] == ODD


def is_odd(value: object) -> bool:
    """Whether a value is the odd job, its group, its Reservation, or one of its tasks."""
    match value:
        case Task():
            return is_odd(value.job)
        case Job():
            return is_odd_name(value.stands_for or (value.name if value.object is not None else ""))
        case _:
            return False


@dataclass
class Played:
    """What became of a world."""

    bound: dict[str, float]  # when each pod was bound for the first time
    pods: dict[str, Document]  # by name: its status condition, and whether it runs
    errors: list[ContainedError]
    failed_cycles: int
    cycles: list[Cycle]

    @property
    def charged(self) -> set[ObjectRef]:
        return {error.subject for error in self.errors}

    def others(self) -> dict[str, float]:
        return {name: at for name, at in self.bound.items() if not is_odd_name(name)}


class ContainedScheduler:
    """The scheduler of a live process, without the process."""

    def __init__(
        self, inner: Scheduler, engine: Engine, put_aside: PutAside, errors: list[ContainedError],
        limit: MayGoOn | None,
    ) -> None:  # fmt: skip
        self._inner = inner
        self._limit = limit
        self._not_reached: dict[str, list[JobKey]] = {}
        self._engine = engine
        self._put_aside = put_aside
        self._errors = errors
        self.failed_cycles = 0

    def run(self, cluster: Cluster, now: float) -> Cycle:
        aside = {ref: Aside(error, entirely) for ref, error, entirely in self._put_aside.at(now)}
        inputs = CycleInputs(aside, self._not_reached)
        try:
            cycle = run_contained(self._inner, cluster, now, inputs, may_go_on=self._limit)
        except NotContained as failure:
            self._charge(failure.errors, now)
            self.failed_cycles += 1
            if not failure.errors:
                raise
            self._engine._restart_scheduler()
            return Cycle()
        self._charge(cycle.contained, now)
        self._not_reached = cycle.not_reached
        cluster.validate()
        return cycle

    def _charge(self, errors: list[ContainedError], now: float) -> None:
        for error in errors:
            self._put_aside.charge(error.subject, error.error, now)
        self._errors += errors


def engine_of(world: World, registry: Registry | None = None) -> Engine:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "scenario.yaml"
        path.write_text("\n---\n".join(json.dumps(document) for document in world.documents), encoding="utf-8")
        scenario = read_scenario([str(path)])
    check_scenario(scenario)
    registry = registry or Registry()
    rules = registry.load(world.configuration, where="scheduler.yaml")
    locks = lock_rules(rules)
    return Engine(
        scenario, Journal(), new_scheduler=lambda: Scheduler(rules, registry), period=microseconds(1),
        until=microseconds(world.until), every_cycle=True,
        new_locks=lambda: QueueLocks(lambda: locks, period=5.0, origin=wall_clock(START), step=1.0, follows_pods=True),
    )  # fmt: skip


def play(world: World, *, registry: Registry | None = None, limit: MayGoOn | None = None) -> Played:
    """`limit`: when cycles are cut."""
    engine = engine_of(world, registry)
    put_aside, errors = PutAside(), list[ContainedError]()
    cycles: list[Cycle] = []
    schedulers: list[ContainedScheduler] = []

    class Counted:
        def __init__(self, inner: SchedulerProtocol) -> None:
            assert isinstance(inner, Scheduler)
            self._inner = ContainedScheduler(inner, engine, put_aside, errors, limit)
            schedulers.append(self._inner)

        def run(self, cluster: Cluster, now: float) -> Cycle:
            cycle = self._inner.run(cluster, now)
            cycles.append(cycle)
            return cycle

    engine.wrap_scheduler(Counted)
    engine.run()
    bound: dict[str, float] = {}
    for event in engine.journal.events:
        if event.type == "Bound":
            bound.setdefault(short(event.object), event.t)
    pods = {one.metadata.name: _told(one) for one in engine.world.store.list(Pod)}
    return Played(bound, pods, errors, sum(one.failed_cycles for one in schedulers), cycles)


def _told(pod: Pod) -> Document:
    said = [condition.message for condition in pod.status.conditions if condition.type == "PodScheduled"]
    return {"phase": pod.status.phase, "node": pod.spec.node_name, "message": said[0] if said else ""}


# -- worlds -----------------------------------------------------------------------------------------------------------


def _spread(documents: list[Document], app: str) -> list[Document]:
    """Pods that look at their neighbours, at ports and at labels."""
    for number, one in enumerate(documents):
        if one["kind"] != "Pod":
            continue
        one["metadata"].setdefault("labels", {})["app"] = app
        selector = {"matchLabels": {"app": app}}
        spec: dict[str, Any] = one["spec"]
        spec["topologySpreadConstraints"] = [
            {"maxSkew": 2, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector}
        ]
        term = {"labelSelector": selector, "topologyKey": "kubernetes.io/hostname"}
        preferred = [{"weight": 1, "podAffinityTerm": term}]
        spec["affinity"] = {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}
        if number == 1:
            spec["containers"][0]["ports"] = [{"containerPort": 80, "hostPort": 8000}]
    return documents


def _zones(*cpus: float) -> list[Document]:
    return [
        node(f"n{number}", cpu, labels={"zone": f"z{number % 2}", "kubernetes.io/hostname": f"n{number}"})
        for number, cpu in enumerate(cpus, start=1)
    ]


def room_for_all() -> World:
    """Everybody starts at once: gangs, pods that look at neighbours, pods without requests, claims."""
    return World(
        "room for all",
        [
            *_zones(8, 8, 8, 8), queue("q1"), queue("q2", 2), storage_class("fast", takes=2),
            claim("odd-0"), claim("a-0"),
            *_spread(with_first_claim(gang("odd", 1, 1, 0, least=2, queue="q1", at=1, run=6), "odd-0"), "odd"),
            *_spread(with_first_claim(gang("a", 1, 1, 0, least=2, queue="q1", at=1, run=6), "a-0"), "a"),
            *_spread(gang("b", 1, 1, queue="q2", at=1, run=6), "b"),
            pod("c", 1, queue="q1", at=1, run=6), pod("d", 1, queue="q2", at=3, run=6), pod("e", 0, at=2, run=6),
            *gang("odd-late", 1, 1, queue="q2", at=4, run=6), *gang("f", 1, 1, queue="q2", at=5, run=6),
        ],
        until=9,
    )  # fmt: skip


def with_first_claim(documents: list[Document], name: str) -> list[Document]:
    first = next(one for one in documents if one["kind"] == "Pod")
    first.update(with_claims(first, name))
    return documents


def contention() -> World:
    """Two queues; jobs of higher priority preempt, and a queue reclaims its share."""
    return World(
        "contention",
        [
            *_zones(4, 4, 4), queue("q1"), queue("q2"), priority_class("high", 10), priority_class("low", 1),
            *[pod(f"old-{n}", 1, queue="q1", priority="low", at=0, run=14) for n in range(12)],
            *gang("odd", 1, 1, 1, least=2, queue="q1", priority="high", at=2, run=3),
            *gang("y", 1, 1, queue="q1", priority="high", at=2, run=3),
            *gang("z", 1, 1, 1, queue="q2", at=3, run=3),
            *gang("odd-too", 1, 1, queue="q2", at=3, run=3),
            pod("small", 1, queue="q2", at=4, run=2),
        ],
        until=10,
    )  # fmt: skip


def victims() -> World:
    """The odd job is what others would evict."""
    return World(
        "victims",
        [
            *_zones(4, 4), queue("q1"), queue("q2"), priority_class("high", 10), priority_class("low", 1),
            *gang("odd", 1, 1, 1, 1, least=2, queue="q1", priority="low", at=0, run=40),
            *[pod(f"old-{n}", 1, queue="q1", priority="low", at=0, run=40) for n in range(4)],
            *gang("y", 1, 1, queue="q1", priority="high", at=2, run=3),
            *gang("z", 1, 1, queue="q2", at=6, run=3),
        ],
        until=12,
    )  # fmt: skip


def huge(name: str, **options: Any) -> Document:
    """A group that is never admitted."""
    made = group(name, 1, at=2, **options)
    made["spec"]["minResources"] = {"cpu": "100"}
    return made


def starvation() -> World:
    """Nodes are reserved for jobs that are too large for the holes between small ones."""
    small = [pod(f"s-{n:02}", 1, at=n // 3, run=3, estimate=3) for n in range(18)]
    return World(
        "starvation",
        [
            *_zones(3, 3, 3), *small,
            *[pod(f"old-{n}", 1, on=f"n{n % 3 + 1}", run=4 + n) for n in range(6)], huge("odd-huge"), huge("huge"),
            *gang("odd", 3, 3, at=1, run=3), *gang("y", 3, at=2, run=3), *gang("w", 2, 2, at=3, run=3),
        ],
        configuration(
            reserve={"starvingJobTimeThreshold": "2s", "maxHolders": 2, "reservedNodePercent": 100},
            backfill={"backfillNonBestEffort": True, "useEstimates": True},
        ),
        until=20,
    )  # fmt: skip


def _moved(name: str, source: str, target: str) -> list[Document]:
    """A running pod, and the place that is kept for its successor."""
    running = pod(name, 1, on=source, run=30)
    running["metadata"]["uid"] = f"uid-{name}"
    replaced = {"namespace": "default", "name": name, "uid": f"uid-{name}"}
    place = reservation(f"{name}-place", 1, replaces=replaced, nodeName=target, at=3)
    place["metadata"]["annotations"]["scheduling.stromboli.io/migration-source"] = source
    return [running, place]


def reservations() -> World:
    """Reservations with owners, one of which is odd itself; queues in a tree, with nodes of their own."""
    return World(
        "reservations",
        [
            *_zones(6, 6, 6, 6), queue("q1"), locking("q2", {"cpu": 4}, policy="Guaranteed"),
            reservation("r", 2, queue="q1"), reservation("odd-r", 1, queue="q1", app="odd"),
            reservation("late", 2, at=2),
            *[owned(one, "r") if one["kind"] == "Pod" else one for one in gang("a", 1, 1, queue="q1", at=2, run=5)],
            *[owned(one, "odd") if one["kind"] == "Pod" else one for one in gang("odd", 1, 1, queue="q1", at=2, run=5)],
            owned(pod("l", 2, at=4, run=3), "late"), *gang("z", 1, 1, queue="q2", at=3, run=5),
            *[pod(f"old-{n}", 1, on=f"n{n % 4 + 1}", run=8) for n in range(4)],
            *gang("b", 2, 2, queue="q1", at=5, run=5), *_moved("odd-mover", "n1", "n2"), *_moved("mover", "n3", "n4"),
        ],
        configuration(sharing="capacity"),
        until=14,
    )  # fmt: skip


def half_gangs() -> World:
    """Gangs of which one pod runs and one waits, and no room for both of them."""
    halves = [gang(name, 2, 2, run=40) for name in ("odd", "half", "odd-too")]
    for number, (_, first, _) in enumerate(halves, start=1):
        first["spec"]["nodeName"] = f"n{number}"
    return World(
        "half gangs",
        [
            *_zones(3, 3, 3), *[one for half in halves for one in half], pod("small", 1, at=1, run=3),
            *gang("g", 1, 1, at=2, run=3), *[pod(f"s-{n}", 1, at=5 + n, run=3) for n in range(4)],
            node("n4", 2, at=8), node("n5", 2, at=8), node("n6", 2, at=8),
        ],
        configuration().replace('{"name": "gang"}', '{"name": "gang", "arguments": {"gangDeadlockTimeout": "3s"}}'),
        until=16,
    )  # fmt: skip


def _gated(documents: list[Document]) -> list[Document]:
    for one in documents:
        if one["kind"] == "Pod":
            one["metadata"]["annotations"]["scheduling.volcano.sh/queue-allocation-gate"] = "true"
    return documents


def queue_gates() -> World:
    """Pods that keep a gate until their queue has room for them, beside some that have none."""
    nowhere = pod("nowhere", 1, queue="q1", at=1, selector={"zone": "none"})
    return World(
        "queue gates",
        [
            *_zones(8, 8), queue("q1", capability={"cpu": 5}), queue("q2"), priority_class("high", 10),
            *_gated([*gang("a", 1, 1, queue="q1", at=1, run=3), *gang("odd", 1, 1, queue="q1", at=1, run=3), nowhere]),
            *_gated(gang("b", 1, 1, 1, least=2, queue="q1", at=2, run=3)),
            *_gated([pod("odd-single", 1, queue="q2", at=2, run=3), pod("c", 1, queue="q2", at=2, run=3)]),
            pod("plain", 1, queue="q1", at=3, run=3), pod("d", 1, queue="q1", at=4, run=3, priority="high"),
        ],
        until=20,
    )  # fmt: skip


WORLDS = (victims, room_for_all, contention, reservations, half_gangs, starvation, queue_gates)
