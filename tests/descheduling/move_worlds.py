"""Random worlds in which pods are moved while components restart, and a checker of its own.

The checker knows nothing of the descheduler. It reads the events of a run: who was bound where, who was evicted and
why, and which places were kept at that moment.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from random import Random
from typing import Any

from descheduling.scenes import (
    FOR_PENDING,
    Document,
    Outcome,
    Scene,
    budget,
    defragment,
    job,
    node,
    patch,
    pod,
    policy,
    replicas,
    restart,
    run_by_hand,
    scene,
)

RUNS = (5, 10, 15, 20, 25)  # seconds at which plans are made
COMPONENTS = ("scheduler", "controllers", "descheduler")
BUSY = 60  # seconds in which something happens
UNTIL = 400  # a place that is not found is given up after five minutes


@dataclass
class World:
    documents: list[Document] = field(default_factory=list)
    offered: dict[str, int] = field(default_factory=dict)  # CPUs by node
    size: dict[str, int] = field(default_factory=dict)  # CPUs of a pod, by its workload
    wanted: dict[str, int] = field(default_factory=dict)  # replicas by workload
    minimum: dict[str, int] = field(default_factory=dict)  # of those that are gangs
    cordoned: list[tuple[str, float, float]] = field(default_factory=list)  # nodes, from when, until when
    is_calm: bool = True  # nothing but moves and restarts happens, and no budget may refuse
    policy: Document = field(default_factory=dict)

    def scene(self, *more: Document) -> Scene:
        return scene(self.documents, *more, policy=self.policy, until=UNTIL)


def random_world(seed: int) -> World:
    random = Random(seed)
    world = World(is_calm=random.random() < 0.5)
    free: dict[str, int] = {}
    for number in range(random.randint(3, 5)):
        name = f"n{number}"
        world.offered[name] = free[name] = random.choice((8, 10, 12))
        world.documents.append(node(name, cpu=world.offered[name]))
    kinds = random.choices(("ReplicaSet", "StatefulSet"), (3, 1), k=random.randint(2, 4))
    for number, kind in enumerate(kinds):
        _add_set(world, random, f"s{number}", kind, free)
    if not world.is_calm:
        _add_trouble(world, random)
    if random.random() < 0.5:
        low, cooldown = random.choice((30, 45, 60)), random.choice((0, 5, 60))
        plugin = defragment(low=low, middle=70, high=100, coolDownTime=cooldown)
    else:
        world.documents.append(job("big", 1, cpu=random.choice((4, 6, 8)), at=3, run=15, movable=False))
        plugin = (FOR_PENDING[0], {"forPending": True, "coolDownTime": random.choice((0, 5, 60))})
    world.documents += [run_by_hand(at) for at in RUNS]
    world.policy = policy(plugin, interval=0)
    return world


def _near_a_run(random: Random) -> float:
    """Most of what could go wrong with a move is over three seconds after its run. The first run has most plans."""
    return random.choices(RUNS[:3], (3, 1, 1))[0] + random.choice((-1, 1, 1, 2, 2, 3, 4, 5, 7, 9, 12)) / 4


def _add_set(world: World, random: Random, name: str, kind: str, free: dict[str, int]) -> None:
    cpu, nodes = random.choice((1, 1, 2)), []
    for _ in range(random.randint(1, 6)):
        fitting = [each for each, left in free.items() if left >= cpu]
        if not fitting:
            break
        nodes.append(random.choices(fitting, [1 if each == "n0" else 4 for each in fitting])[0])
        free[nodes[-1]] -= cpu
    if not nodes:
        return
    world.size[name], world.wanted[name] = cpu, len(nodes)
    group = ""
    # The pods of a StatefulSet come one by one, so a gang of them would wait for ever if its minimum was lost.
    if random.random() < 0.4 and (world.is_calm or kind != "StatefulSet"):
        group, world.minimum[name] = f"gang-{name}", random.randint(1, len(nodes))
        world.documents.append({
            "apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup", "metadata": {"name": group},
            "spec": {"minMember": world.minimum[name]},
        })  # fmt: skip
    documents = replicas(name, nodes, cpu=cpu, group=group, kind=kind, grace=random.choice((0, 1, 2, 4)))
    if not world.is_calm:
        for each in documents[1:]:
            if random.random() < 0.25:  # its user deletes it
                each["metadata"]["annotations"]["sim.stromboli.io/until"] = f"{_near_a_run(random)}s"
        if random.random() < 0.3:
            world.documents.append(budget(name, name, minAvailable=random.randint(0, len(nodes))))
    world.documents += documents


def _add_trouble(world: World, random: Random) -> None:
    """Nodes are cordoned for a while, sets are scaled, pods arrive."""
    for name in random.sample(sorted(world.offered), random.randint(0, 2)):
        at = _near_a_run(random)
        end = at + random.randint(1, 12)
        world.cordoned.append((name, at, end))
        world.documents.append(patch(at, "Node", name, {"spec": {"unschedulable": True}}))
        world.documents.append(patch(end, "Node", name, {"spec": {"unschedulable": False}}))
    sets = [document["metadata"]["name"] for document in world.documents if document["kind"] == "ReplicaSet"]
    if random.random() < 0.5 and sets:
        name = random.choice(sets)
        world.wanted[name] = max(0, world.wanted[name] + random.choice((-1, 1)))
        change = {"spec": {"replicas": world.wanted[name]}}
        world.documents.append(patch(_near_a_run(random), "ReplicaSet", name, change))
        world.minimum.pop(name, None)
    for number in range(random.randint(0, 3)):
        at = _near_a_run(random)
        world.documents.append(pod(f"p{number}", cpu=random.choice((1, 2)), at=at, run=random.randint(2, 20)))
        world.size[f"p{number}"] = 0


def outages(seed: int) -> list[Document]:
    """Each component is stopped now and then, for up to four seconds. The descheduler is often away after its plan."""
    random = Random(seed)
    found = [restart(at + 0.25, "descheduler", away=3.5) for at in RUNS if random.random() < 0.7]
    for component in COMPONENTS:
        at = 3.0
        while at < BUSY - 20:
            at += random.randint(1, 60) / 4
            found.append(restart(at, component, away=random.randint(1, 16) / 4))
            at += 4
    return found


def restarts_in_every_second(*components: str) -> list[Document]:
    return [restart(at, component) for at in range(1, BUSY) for component in components]


# -- the checker ----------------------------------------------------------------------------------------------------


@dataclass
class _Running:
    where: dict[str, str] = field(default_factory=dict)  # by pod, also while it terminates
    leaving: set[str] = field(default_factory=set)


def check(world: World, outcome: Outcome, *, crashed: bool = False) -> None:
    """Raises AssertionError. `crashed`: between two writes, so that an event may be lost, or be there twice."""
    moves = outcome.moves
    assert crashed or moves["planned"] == moves["succeeded"] + moves["failed"], moves
    taken = {"ReservationTaken", "PlaceLost"} & set(outcome.reasons("MigrationFailed"))
    assert not taken, taken
    _check_evictions(world, outcome)
    _check_targets(world, outcome)
    _check_plans(world, outcome)
    _check_end(world, outcome)


def _workload(name: str) -> str:
    return name.rpartition("-")[0]


def _check_evictions(world: World, outcome: Outcome) -> None:
    """A pod is moved only while its place is kept, and its gang has its minimum without it."""
    now = _Running()
    pods: dict[str, Any] = outcome.report["pods"]
    bound = {event["object"] for event in outcome.report["events"] if event["type"] == "Bound"}
    for key, found in pods.items():
        if key not in bound and found["node"]:
            now.where[key.removeprefix("default/")] = found["node"]
    kept: set[str] = set()
    for event in outcome.report["events"]:
        name = event["object"].removeprefix("default/")
        match event["type"]:
            case "Bound":
                now.where[name] = event["node"]
                now.leaving.discard(name)
            case "Evicted" | "Deleted" if name in now.where:
                if event["type"] == "Evicted" and event["reason"] == "Migrated":
                    assert any(each.startswith(f"migration-{name}-") for each in kept), f"no place: {event}"
                now.leaving.add(name)
                workload = _workload(name)
                if event["type"] == "Evicted" and workload in world.minimum:
                    left = [each for each in now.where if _workload(each) == workload and each not in now.leaving]
                    assert len(left) >= world.minimum[workload], f"{workload} has {len(left)} pods: {event}"
            case "Finished":
                now.where.pop(name, None)
            case "ReservationAvailable":
                kept.add(event["object"])
            case "ReservationSucceeded" | "ReservationExpired" | "ReservationFailed":
                kept.discard(event["object"])


def _check_targets(world: World, outcome: Outcome) -> None:
    """Nobody is evicted for a plan while one of its targets takes no pods. The plan is the last one with that pod."""
    targets: dict[str, set[str]] = {}  # by pod: those of its plan
    plans: dict[tuple[float, str], set[str]] = defaultdict(set)
    for event in outcome.report["events"]:
        name = event["object"].removeprefix("default/")
        if event["type"] == "MigrationPlanned":
            of_plan = plans[event["t"], event["message"].rpartition(": this ")[2]]
            of_plan.add(event["node"])
            targets[name] = of_plan
        elif event["type"] == "Evicted" and event["reason"] == "Migrated":
            for node_name, start, end in world.cordoned:
                closed = start <= event["t"] - 1 and event["t"] < end
                assert not (closed and node_name in targets.get(name, ())), f"{node_name} is cordoned: {event}"


def _check_plans(world: World, outcome: Outcome) -> None:
    """Where nothing but moves and restarts happens, the moves of a plan are all made, or none of them."""
    if not world.is_calm:
        return
    evicted: dict[str, list[float]] = defaultdict(list)
    for at, _, name, _ in outcome.events("Evicted"):
        evicted[name].append(at)
    plans: dict[tuple[float, str], list[str]] = defaultdict(list)
    for event in outcome.report["events"]:
        if event["type"] == "MigrationPlanned":
            goal = event["message"].rpartition(": this ")[2]
            plans[event["t"], goal].append(event["object"].removeprefix("default/"))
    ends = sorted(outcome.times("MigrationSucceeded") + outcome.times("MigrationFailed"))
    for (at, goal), moves in plans.items():
        end = next((each for each in ends if each > at), float(UNTIL))
        made = [name for name in moves if any(at <= each <= end + 30 for each in evicted[name])]
        assert len(made) in (0, len(moves)), f"{goal} at {at}: {made} of {moves}"


def _check_end(world: World, outcome: Outcome) -> None:
    """Nothing is kept, no group says that a move runs, no pod is lost, and no node is overfull."""
    migrations = [name for name in outcome.held if name.startswith("migration-")]
    assert migrations == [], migrations
    states = {key: group["migrationState"] for key, group in outcome.report["podGroups"].items()}
    assert not set(states.values()) & {"Pending", "Running"}, states
    alive: Counter[str] = Counter()
    used: Counter[str] = Counter()
    for key, found in outcome.report["pods"].items():
        workload = _workload(key.removeprefix("default/"))
        if found["phase"] in ("Running", "Pending"):
            alive[workload] += 1
        if found["phase"] == "Running" and workload in world.wanted:
            used[found["node"]] += world.size[workload]
    for name, count in world.wanted.items():
        assert alive[name] == count, f"{name} has {alive[name]} of {count} pods"
    for name, amount in used.items():
        assert amount <= world.offered[name], f"{name} has {amount} of {world.offered[name]}"
