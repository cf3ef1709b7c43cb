"""Random clusters with Reservations, and a checker that knows only the rules, not the code.

A world is a scenario: nodes that come, go, shrink and grow; Reservations of several queues that are created, deleted
and expire; pods, some of which may use them; gangs, priorities, and restarts of everything. After every cycle the
checker reads the objects as an API server would show them and adds up on its own what pods and Reservations have.
"""

from __future__ import annotations

import json
import random
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

import msgspec

from reservations.reservation_scenes import Document, configuration, gang, node, owned, patch, pod, queue, reservation
from reservations.use_rules import UseRules
from starvation.scenes import priority_class, restart
from stromboli.api import Node, Pod, PodGroup, Reservation
from stromboli.controllers import QueueLocks
from stromboli.scheduling.cycle import Scheduler
from stromboli.scheduling.decisions import Evict, PatchReservation
from stromboli.scheduling.queue_locks import lock_rules
from stromboli.scheduling.registry import Registry
from stromboli.simulation.engine import Engine
from stromboli.simulation.journal import Journal
from stromboli.simulation.scenario import check_scenario, read_scenario
from stromboli.simulation.virtual_time import START, Microseconds, microseconds, to_seconds, wall_clock

UNTIL = 30
APPS = ("a", "b", "c")
ANNOTATION = "scheduling.stromboli.io/reservation"


def world(seed: int) -> list[Document]:
    rng = random.Random(seed)
    documents: list[Document] = [
        priority_class("high", 10), priority_class("low", -5), priority_class("meek", 8, preemptionPolicy="Never"),
    ]  # fmt: skip
    if rng.random() < 0.2:
        documents.append(priority_class("usual", 3, globalDefault=True))
    documents += list(_nodes(rng))
    queues = ["default", *[f"q{number}" for number in range(1, rng.randint(2, 3))]]
    for name in queues[1:]:
        spec: dict[str, Any] = {"weight": rng.randint(1, 3)}
        if rng.random() < 0.3:
            spec["capability"] = {"cpu": rng.randint(4, 12)}
        if rng.random() < 0.3:
            spec["dequeueStrategy"] = "fifo"
        documents.append(queue(name, **spec))
    for number in range(rng.randint(2, 6)):
        documents.append(_reservation(rng, f"r{number}", queues))
    for number in range(rng.randint(8, 25)):
        documents.append(_pod(rng, f"p{number}", queues))
    for number in range(rng.randint(0, 3)):
        app, members = rng.choice(APPS), [rng.randint(1, 3) for _ in range(rng.randint(2, 4))]
        made = gang(
            f"g{number}", *members, queue=rng.choice(queues), at=rng.randint(0, 20), run=rng.randint(3, 12),
            priority=rng.choice(["", "", "high"]),
        )  # fmt: skip
        documents += [made[0], *(owned(one, app) if rng.random() < 0.7 else one for one in made[1:])]
    return documents


def _nodes(rng: random.Random) -> Iterator[Document]:
    for number in range(rng.randint(2, 4)):
        name, size = f"n{number}", rng.choice([4, 6, 8])
        leaves = {"until": rng.randint(6, 25)} if rng.random() < 0.25 else {}
        limit = {"pods": rng.randint(3, 6)} if rng.random() < 0.3 else {}
        yield node(name, size, **limit, **leaves)
        if not leaves and rng.random() < 0.35:
            at = rng.randint(3, 15)
            yield patch("Node", name, {"status": {"allocatable": {"cpu": rng.randint(1, 4)}}}, at=at)
            if rng.random() < 0.5:
                yield patch("Node", name, {"status": {"allocatable": {"cpu": size}}}, at=at + rng.randint(1, 8))


def _reservation(rng: random.Random, name: str, queues: list[str]) -> Document:
    spec: dict[str, Any] = {"ttl": rng.choice(["0", "0", f"{rng.randint(2, 20)}s"])}
    if rng.random() < 0.5:
        spec["queue"] = rng.choice(queues)
    if rng.random() < 0.3:
        spec["allocateOnce"] = True
    if rng.random() < 0.25:
        spec["nodeName"] = f"n{rng.randint(0, 3)}"
    priority = rng.choice(["", "", "high", "high", "low", "meek", "nobody"])
    template = {"priorityClassName": priority} if priority else {}
    until = rng.randint(5, 25) if rng.random() < 0.3 else None
    at = rng.randint(0, 4) if until is not None else rng.randint(0, 15)
    return reservation(
        name, rng.randint(1, 6), app=rng.choice(APPS), at=at, until=until, template=template, **spec
    )  # fmt: skip


def _pod(rng: random.Random, name: str, queues: list[str]) -> Document:
    times: dict[str, Any] = {"at": rng.randint(0, 22), "run": rng.randint(1, 12)}
    if rng.random() < 0.2:
        times["until"] = times["at"] + rng.randint(1, 8)
    if rng.random() < 0.4:
        times["grace"] = rng.randint(1, 4)
    made = pod(
        name, rng.randint(1, 4), queue=rng.choice(queues), priority=rng.choice(["", "", "high", "low"]), **times
    )  # fmt: skip
    return owned(made, rng.choice(APPS)) if rng.random() < 0.6 else made


def restarts(seed: int) -> list[Document]:
    rng = random.Random(seed)
    components = ("all", "scheduler", "controllers")
    return [restart(rng.randint(0, UNTIL), rng.choice(components)) for _ in range(rng.randint(1, 6))]


@dataclass
class Checker:
    """What it found wrong, and how often it saw something worth seeing."""

    engine: Engine
    rules: UseRules
    wrong: list[str] = field(default_factory=list)
    seen: dict[str, int] = field(default_factory=dict)

    def check(self, at: Microseconds, *, killed: bool) -> None:
        self.rules.check(at, killed=killed)
        objects = _Objects(self.engine)
        for name, offered in objects.nodes.items():
            self._check_node(to_seconds(at), name, offered, objects, killed=killed)
        self.engine.cluster.snapshot()
        self.engine.cluster.validate()
        for name, known in self.engine.cluster.queues.items():
            self._check_queue(to_seconds(at), name, known.allocated, objects)

    def _check_node(
        self, at: float, name: str, offered: dict[str, Fraction], objects: _Objects, *, killed: bool
    ) -> None:
        used = _total(one.requests for one in objects.pods if one.node == name)
        here = [one for one in objects.reservations if one.node == name]
        held = _total(objects.remainder(one) for one in here)
        for resource, amount in held.items():
            room = offered.get(resource)
            if room is None and resource == "pods":
                continue
            left = max(Fraction(0), (room or Fraction(0)) - used.get(resource, Fraction(0)))
            if amount > left:
                self.wrong.append(f"at {at} {name}: {amount} {resource} are held, {left} are left beside the pods")
            self._see("held", amount > 0)
        for one in here:
            users = [pod.key for pod in objects.pods if objects.uses(pod, one)]
            ended = [owner for owner in one.owners if killed and owner in objects.ended]  # nobody has written it yet
            if sorted([*users, *ended]) != sorted(one.owners):
                self.wrong.append(f"at {at} {one.name}: owners are {one.owners}, its pods are {users}")
            self._see("used", bool(users))

    def _check_queue(self, at: float, name: str, allocated: Any, objects: _Objects) -> None:
        """Every pod counts once, and a Reservation for what none of its pods has."""
        expected = _total(p.requests for p in objects.pods if p.queue == name and not p.terminating and p.node)
        for one in objects.reservations:
            if one.queue == name:
                staying = _total(p.requests for p in objects.pods if objects.uses(p, one) and not p.terminating)
                rest = {r: max(Fraction(0), n - staying.get(r, Fraction(0))) for r, n in one.given.items()}
                expected = _total([expected, rest])
        has = self.engine.cluster.axis.amounts(allocated)
        cpu = Fraction(has.get("cpu", 0), 1000)
        if cpu != expected.get("cpu", Fraction(0)):
            self.wrong.append(f"at {at} queue {name} has {cpu} cpu, not {expected.get('cpu', 0)}")

    def _see(self, what: str, really: bool) -> None:
        self.seen[what] = self.seen.get(what, 0) + really


@dataclass(frozen=True)
class _Pod:
    key: str
    node: str
    queue: str
    requests: dict[str, Fraction]
    names: str
    bound_at: str
    terminating: bool


@dataclass(frozen=True)
class _Held:
    name: str
    uid: str
    node: str
    queue: str
    given: dict[str, Fraction]
    owners: list[str]
    since: str  # when it got its node


class _Objects:
    """Objects as dictionaries, so that no method of ours is in the way."""

    def __init__(self, engine: Engine) -> None:
        def documents(kind: Any) -> list[Document]:
            return [msgspec.to_builtins(one) for one in engine.world.store.list(kind)]

        groups = {_key(one): one["spec"].get("queue", "default") for one in documents(PodGroup)}
        self.nodes = {
            one["metadata"]["name"]: _amounts(one["status"]["allocatable"]) for one in documents(Node)
        }  # fmt: skip
        pods = documents(Pod)
        self.ended = {_key(one) for one in pods if one.get("status", {}).get("phase") in ("Succeeded", "Failed")}
        self.pods = [self._pod(one, groups) for one in pods if _key(one) not in self.ended]
        self.reservations = [
            self._held(one) for one in documents(Reservation) if one.get("status", {}).get("phase") == "Available"
        ]

    def _pod(self, one: Document, groups: dict[str, str]) -> _Pod:
        notes = one["metadata"].get("annotations", {})
        group = f"{one['metadata']['namespace']}/{notes.get('scheduling.k8s.io/group-name', '')}"
        container = one["spec"]["containers"][0]
        return _Pod(
            _key(one), one["spec"].get("nodeName", ""), groups.get(group, ""),
            {**_amounts(container["resources"]["requests"]), "pods": Fraction(1)}, notes.get(ANNOTATION, ""),
            _time(one, "PodScheduled"),
            "deletionTimestamp" in one["metadata"],
        )  # fmt: skip

    def _held(self, one: Document) -> _Held:
        status = one["status"]
        owners = [f"{owner['namespace']}/{owner['name']}" for owner in status.get("currentOwners", [])]
        meta, spec = one["metadata"], one["spec"]
        return _Held(
            meta["name"], meta["uid"], status["nodeName"], spec.get("queue") or "default",
            _amounts(status["allocatable"]), owners, max(_time(one, "Scheduled"), _time(one, "Ready")),
        )  # fmt: skip

    def uses(self, pod: _Pod, one: _Held) -> bool:
        """A Reservation that gave way, and was on this node before, has no users from that time."""
        return pod.node == one.node and pod.names == f"{one.name}/{one.uid}" and pod.bound_at >= one.since

    def remainder(self, one: _Held) -> dict[str, Fraction]:
        used = _total(pod.requests for pod in self.pods if self.uses(pod, one))
        return {r: max(Fraction(0), n - used.get(r, Fraction(0))) for r, n in one.given.items()}


def _time(one: Document, kind: str) -> str:
    """Since when a condition is true; "" if it is not."""
    conditions = one["status"].get("conditions", [])
    return next((c["lastTransitionTime"] for c in conditions if (c["type"], c["status"]) == (kind, "True")), "")


def _key(one: Document) -> str:
    return f"{one['metadata']['namespace']}/{one['metadata']['name']}"


def _amounts(written: Document) -> dict[str, Fraction]:
    return {
        name: Fraction(str(n).removesuffix("m")) / (1000 if str(n).endswith("m") else 1) for name, n in written.items()
    }


def _total(parts: Any) -> dict[str, Fraction]:
    total: dict[str, Fraction] = {}
    for part in parts:
        for name, amount in part.items():
            total[name] = total.get(name, Fraction(0)) + amount
    return total


class _Killed:
    """A scheduler that is killed while its decisions are written: only some of them are carried out."""

    def __init__(self, inner: Any, rng: random.Random) -> None:
        self._inner, self._rng = inner, rng
        self.happened = False

    def run(self, cluster: Any, now: float) -> Any:
        cycle = self._inner.run(cluster, now)
        for_reservations = [d for d in cycle.decisions if isinstance(d, (Evict, PatchReservation))]
        self.happened = bool(for_reservations) and self._rng.random() < 0.3
        if self.happened:  # writes are sent together, and arrive in any order
            cycle.decisions = [one for one in cycle.decisions if self._rng.random() < 0.6]
        return cycle


def judge(documents: list[Document], *, kills: int | None = None) -> Checker:
    """Run a world, and check it after every cycle. `kills`: a seed, if the scheduler is to be killed now and then."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "scenario.yaml"
        path.write_text("\n---\n".join(json.dumps(document) for document in documents), encoding="utf-8")
        scenario = read_scenario([str(path)])
    check_scenario(scenario)
    registry = Registry()
    rules = registry.load(configuration(), where="scheduler.yaml")
    locks = lock_rules(rules)
    engine = Engine(
        scenario, Journal(), new_scheduler=lambda: Scheduler(rules, registry), period=microseconds(1),
        until=microseconds(UNTIL), every_cycle=True,
        new_locks=lambda: QueueLocks(lambda: locks, period=5.0, origin=wall_clock(START), step=1.0, follows_pods=True),
    )  # fmt: skip
    checker = Checker(engine, UseRules(engine, rules, registry))
    current: list[_Killed] = []
    if kills is not None:
        rng = random.Random(kills)

        def wrapped(scheduler: Any) -> Any:
            current[:] = [_Killed(scheduler, rng)]
            return current[0]

        engine.wrap_scheduler(wrapped)

    def after(at: Microseconds) -> None:
        killed = bool(current) and current[0].happened
        if killed:
            engine._restart_scheduler()
        checker.check(at, killed=killed)

    engine.on_cycle = after
    engine.run()
    checker.wrong += checker.rules.wrong
    for what, number in checker.rules.seen.items():
        checker.seen[what] = checker.seen.get(what, 0) + number
    return checker
