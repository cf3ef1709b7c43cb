"""A month on a GPU cluster, without defragmentation, by thresholds, and for jobs that wait.

Jobs of 1, 2, 4 and 8 GPUs arrive and leave on nodes of 8 GPUs. Small ones are mostly services (notebooks, inference),
which can be moved; large ones are training, which cannot. Free GPUs end up scattered: jobs of 8 GPUs wait although
there would be enough. The same arrivals are simulated four times:

    none         no descheduler
    thresholds   nodes below 30 % are emptied into others, every ten minutes
    pending      room is made for jobs that have waited for half an hour for each move it takes, every ten minutes
    eager        the same for all jobs that wait, at once

    python benchmarks/defragmentation.py [--days 30] [--nodes 200] [--load 0.93] [--seed 1] [--plot month.svg]
    python benchmarks/defragmentation.py --plan                      how long a plan takes, at n and 2n

The scheduler packs (plugin binpack), as such clusters do. Every variant sees the same workload, made from the seed.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import msgspec

from stromboli.api import (
    Container,
    KObject,
    LabelSelector,
    Node,
    NodeStatus,
    ObjectMeta,
    OwnerReference,
    Pod,
    PodGroup,
    PodGroupSpec,
    PodGroupStatus,
    PodSpec,
    PodTemplateSpec,
    Queue,
    QueueStatus,
    ReplicaSet,
    ReplicaSetSpec,
    ResourceRequirements,
    default,
    key,
    names,
)
from stromboli.cluster import Applied, Cluster, Deleted
from stromboli.descheduling import Descheduler, Policy
from stromboli.descheduling import Registry as Plugins
from stromboli.scheduling.cycle import Scheduler
from stromboli.scheduling.registry import Registry
from stromboli.simulation.engine import Engine
from stromboli.simulation.journal import Journal
from stromboli.simulation.scenario import Lifetime, Origin, Scenario, ScenarioObject
from stromboli.simulation.virtual_time import Microseconds, microseconds
from stromboli.simulation.world import World

GPU = "nvidia.com/gpu"
GPUS = 8  # of a node
HOUR = 3600.0
DAY = 24 * HOUR
SIZES = ((1, 0.46), (2, 0.24), (4, 0.16), (8, 0.14))  # GPUs, and the part of all jobs
SERVICES = {1: 0.7, 2: 0.6, 4: 0.0, 8: 0.0}  # the part of each size that can be moved
MEAN_HOURS = {1: 30.0, 2: 24.0, 4: 18.0, 8: 14.0}
LONGEST = 120.0  # hours
PERIOD = 120.0  # seconds between cycles
ROUND = 600  # seconds between runs of the descheduler
VARIANTS = ("none", "thresholds", "pending", "eager")

CONFIGURATION = """
actions: "enqueue, allocate, reserve, backfill"
tiers:
- plugins: [{name: priority}, {name: gang}, {name: conformance}, {name: pdb}]
- plugins:
  - {name: overcommit}
  - {name: drf, enablePreemptable: false}
  - {name: predicates}
  - {name: proportion}
  - {name: nodeorder, arguments: {leastrequested.weight: 0, balancedresource.weight: 0}}
  - {name: binpack, arguments: {binpack.resources: nvidia.com/gpu, binpack.resources.nvidia.com/gpu: 10}}
  - {name: reservation}
"""


@dataclass(frozen=True)
class Work:
    name: str
    gpus: int
    at: float
    hours: float
    service: bool


@dataclass
class Outcome:
    variant: str
    jobs: int
    allocation: float  # of all GPUs, over the month
    waits: dict[int, dict[str, float]]  # by size: mean, p95, max, in minutes
    moves: dict[str, float]
    idle_with_waiting: float  # GPUs that were idle on average while a job of 8 waited
    seconds: float  # processor time of the simulation
    by_day: list[float]  # mean wait of jobs of 8 GPUs by the day of their submission, in minutes


def generate(*, days: float, nodes: int, load: float, seed: int) -> list[Work]:
    """Arrivals by chance, at a rate that requests this part of all GPUs on average. What arrived earlier and has not
    ended is there at the start, with the rest of its time."""
    random = Random(seed)
    mean = sum(part * gpus * MEAN_HOURS[gpus] for gpus, part in SIZES) * HOUR  # GPU-seconds of a job
    gap = mean / (load * nodes * GPUS)
    works: list[Work] = []
    at = -LONGEST * HOUR
    while at < days * DAY:
        at += random.expovariate(1 / gap)
        gpus = random.choices([size for size, _ in SIZES], [part for _, part in SIZES])[0]
        hours = min(LONGEST, random.expovariate(1 / MEAN_HOURS[gpus]) + 0.25)
        service = random.random() < SERVICES[gpus]
        if at + hours * HOUR > 0:
            hours += min(0.0, at) / HOUR
            works.append(Work(f"w{len(works):05d}", gpus, max(0.0, round(at)), hours, service))
    return works


def _pod_spec(gpus: int) -> PodSpec:
    container = Container(name="main", resources=ResourceRequirements(requests={GPU: gpus, "cpu": gpus * 8}))
    return PodSpec(containers=[container], scheduler_name=names.DEFAULT_SCHEDULER)


def _objects(works: Sequence[Work], nodes: int) -> list[ScenarioObject]:
    origin = Origin("benchmark", 1, 1)
    found = []
    for number in range(nodes):
        node = Node(
            metadata=ObjectMeta(name=f"node-{number:03d}"),
            status=NodeStatus(allocatable={"cpu": 128, "memory": "1Ti", GPU: GPUS, "pods": 110}),
        )
        default(node)
        found.append(ScenarioObject(node, Lifetime(), origin))
    for work in works:
        start, run = microseconds(work.at), work.hours * HOUR
        obj: KObject
        if work.service:
            labels = {"app": work.name}
            template = PodTemplateSpec(metadata=ObjectMeta(labels=labels), spec=_pod_spec(work.gpus))
            spec = ReplicaSetSpec(replicas=1, selector=LabelSelector(match_labels=labels), template=template)
            obj = ReplicaSet(metadata=ObjectMeta(name=work.name, namespace="default"), spec=spec)
            lifetime = Lifetime(start, microseconds(work.at + run))
        else:
            notes = {names.SIM_RUN: f"{run:.0f}s"}
            meta = ObjectMeta(name=work.name, namespace="default", annotations=notes)
            obj = Pod(metadata=meta, spec=_pod_spec(work.gpus))
            lifetime = Lifetime(start)
        default(obj)
        found.append(ScenarioObject(obj, lifetime, origin))
    return found


def policy_of(variant: str) -> Policy | None:
    mode, value, more = (*variant.split(":"), "", "")[:3]
    if mode == "none":
        return None
    arguments = []
    if mode in ("thresholds", "both"):
        arguments.append(_by_thresholds(value))
    if mode in ("pending", "both"):
        arguments.append(_for_pending(value if mode == "pending" else more))
    elif mode == "eager":
        arguments.append(_for_pending("0", value))
    document = {
        "apiVersion": "descheduler/v1alpha2", "kind": "DeschedulerPolicy", "deschedulingInterval": f"{ROUND}s",
        "profiles": [
            {
                "name": f"{variant}-{number}", "pluginConfig": [{"name": "Defragmentation", "args": each}],
                "plugins": {"balance": {"enabled": ["Defragmentation"]}},
            }
            for number, each in enumerate(arguments)
        ],
    }  # fmt: skip
    return Plugins(installed=()).load(json.dumps(document))


def _by_thresholds(low: str) -> dict[str, Any]:
    """Low nodes are emptied; beyond the defaults, others may be filled."""
    if not low:
        return {"ResourceType": "gpu"}
    return {
        "ResourceType": "gpu", "lowThresholds": {"gpu": float(low)}, "protectionThresholds": {"gpu": 100},
        "defragmentThresholds": {"gpu": max(75.0, float(low) + 1)},
    }  # fmt: skip


def _for_pending(minutes: str, most: str = "") -> dict[str, Any]:
    """`minutes`: how long a job waits for each move; `most`: how many moves it gets."""
    return {
        "ResourceType": "gpu", "forPending": True, "minPendingTimePerMove": float(minutes or 30) * 60,
        "maxMovesForPending": int(most or 8),
    }  # fmt: skip


class _Idle:
    """GPUs that are idle while a job of 8 GPUs waits, added up over time."""

    def __init__(self, engine: Engine, nodes: int) -> None:
        self.engine, self.total = engine, nodes * GPUS
        self.seconds = self.gpu_seconds = 0.0
        self._last: tuple[float, int] | None = None

    def __call__(self, at: Microseconds) -> None:
        now = at / 1e6
        if self._last is not None:
            span, idle = now - self._last[0], self._last[1]
            self.seconds += span
            self.gpu_seconds += span * idle
        self._last = (now, self._idle()) if self._large_waits() else None

    def _large_waits(self) -> bool:
        return any(
            self.engine.cluster.tasks[task].request.max() and self._gpus(task) == GPUS
            for task in self.engine.cycle.waiting
            if task in self.engine.cluster.tasks
        )

    def _gpus(self, task: Any) -> int:
        cluster = self.engine.cluster
        return int(cluster.tasks[task].request[cluster.axis.index[GPU]])

    def _idle(self) -> int:
        table, axis = self.engine.cluster.ledger.table, self.engine.cluster.axis
        return int(table.idle[:, axis.index[GPU]].clip(min=0).sum())


class _PodGarbageCollector:
    """Deletes pods that have finished, as Kubernetes does. A month of them would slow every pass down."""

    def __init__(self, engine: Engine) -> None:
        self._world = engine.world
        self._finished: dict[str, Pod] = {}

    def observe(self, event: Applied | Deleted) -> None:
        pod = event.object
        if isinstance(pod, Pod) and isinstance(event, Applied) and pod.status.phase in ("Succeeded", "Failed"):
            self._finished[key(pod)] = pod

    def __call__(self, at: Microseconds) -> None:
        for name in sorted(self._finished):
            pod = self._world.store.current(self._finished[name])
            if pod is not None:
                self._world.delete(pod, at)
        self._finished.clear()


def simulate(works: Sequence[Work], nodes: int, days: float, variant: str) -> Outcome:
    registry = Registry(installed_plugins=(), installed_actions=())
    configuration = registry.load(CONFIGURATION)
    policy = policy_of(variant)

    def new_descheduler(world: World) -> Descheduler:
        assert policy is not None
        return Descheduler(
            lambda: policy, Plugins(installed=()), lambda: Scheduler(configuration, registry),
            everything=world.store.everything,
        )  # fmt: skip

    scenario = Scenario(objects=_objects(works, nodes))
    engine = Engine(
        scenario, Journal(), new_scheduler=lambda: Scheduler(configuration, registry), period=microseconds(PERIOD),
        until=microseconds(days * DAY), new_descheduler=None if policy is None else new_descheduler,
    )  # fmt: skip
    idle, collector = _Idle(engine, nodes), _PodGarbageCollector(engine)

    def on_cycle(at: Microseconds) -> None:
        idle(at)
        collector(at)

    engine.on_cycle = on_cycle
    engine.on_event = collector.observe
    began = time.process_time()
    engine.run()
    return _outcome(engine, works, nodes, days, variant, idle, time.process_time() - began)


def _outcome(
    engine: Engine, works: Sequence[Work], nodes: int, days: float, variant: str, idle: _Idle, seconds: float
) -> Outcome:
    first: dict[str, float] = {}  # when each work ran for the first time
    for event in engine.journal.events:
        if event.type == "Bound":
            name = event.object.removeprefix("default/").partition("-")[0]
            first.setdefault(name, event.t)
    waits: dict[int, list[float]] = {size: [] for size, _ in SIZES}
    by_day: dict[int, list[float]] = {}
    for work in works:
        if work.at == 0.0:
            continue  # it was there at the start
        gave_up = work.service and work.name not in first
        end = min(days * DAY, work.at + work.hours * HOUR) if gave_up else days * DAY
        waited = (first.get(work.name, end) - work.at) / 60
        waits[work.gpus].append(waited)
        if work.gpus == GPUS:
            by_day.setdefault(int(work.at // DAY), []).append(waited)
    meter = engine.world.meter
    used = sum(pod.get(GPU, 0) for pod in meter.used.values())
    counts = {kind: sum(e.type == f"Migration{kind}" for e in engine.journal.events) for kind in (
        "Planned", "Succeeded", "Failed",
    )}  # fmt: skip
    return Outcome(
        variant,
        len(works),
        used / meter.offered[GPU],
        {size: _figures(found) for size, found in waits.items()},
        {kind.lower(): number for kind, number in counts.items()},
        idle.gpu_seconds / idle.seconds if idle.seconds else 0.0,
        seconds,
        [sum(found) / len(found) for _, found in sorted(by_day.items())],
    )


def _figures(waits: list[float]) -> dict[str, float]:
    ordered = sorted(waits)
    if not ordered:
        return {"jobs": 0, "mean": 0.0, "p95": 0.0, "max": 0.0}
    return {
        "jobs": len(ordered),
        "mean": sum(ordered) / len(ordered),
        "p95": ordered[min(len(ordered) - 1, int(0.95 * len(ordered)))],
        "max": ordered[-1],
    }


def print_table(outcomes: Sequence[Outcome]) -> None:
    """Savings are in comparison with the first."""
    base = outcomes[0]
    print(f"{'':14} {'allocated':>9} {'idle*':>6} {'wait of 8 GPUs: mean':>21} {'p95':>6} {'max':>6} "
          f"{'of 4':>6} {'of 2':>6} {'of 1':>6} {'moves':>6} {'saved per move**':>17} {'GPU h***':>8}")  # fmt: skip
    for outcome in outcomes:
        wait, moves = outcome.waits[GPUS], outcome.moves["succeeded"]
        large = saved_minutes(base, outcome) / moves if moves else 0.0
        hours = saved_gpu_hours(base, outcome) / moves if moves else 0.0
        others = " ".join(f"{outcome.waits[size]['mean']:6.1f}" for size in (4, 2, 1))
        print(
            f"{outcome.variant:14} {outcome.allocation:9.1%} {outcome.idle_with_waiting:6.1f} {wait['mean']:17.1f} min "
            f"{wait['p95']:6.0f} {wait['max']:6.0f} {others} {moves:6.0f} {large:17.0f} {hours:8.0f}"
        )
    print("* GPUs that are idle on average while a job of 8 GPUs waits. ** Minutes that jobs of 8 GPUs wait less, in "
          "all, per move. *** Hours that all jobs wait less, times their GPUs, per move. "
          f"{base.jobs} jobs; processor time of the simulations: "
          + ", ".join(f"{outcome.seconds:.0f} s" for outcome in outcomes))  # fmt: skip


def saved_minutes(base: Outcome, outcome: Outcome, size: int = GPUS) -> float:
    """How much less the jobs of a size wait, in all."""
    return outcome.waits[size]["jobs"] * (base.waits[size]["mean"] - outcome.waits[size]["mean"])


def saved_gpu_hours(base: Outcome, outcome: Outcome) -> float:
    """How much less all jobs wait, by the GPUs that they wait for."""
    return sum(size * saved_minutes(base, outcome, size) for size, _ in SIZES) / 60


def plot(outcomes: Sequence[Outcome], path: Path) -> None:
    """Waits by day, and what the moves of each variant saved. Needs the extra `reports`."""
    import matplotlib

    matplotlib.use("agg")
    matplotlib.rcParams["svg.hashsalt"] = "stromboli"  # the same figures make the same file
    from matplotlib import pyplot

    figure, (left, right) = pyplot.subplots(1, 2, figsize=(11, 3.8), width_ratios=(2, 1))
    for outcome in outcomes:
        left.plot(range(1, len(outcome.by_day) + 1), outcome.by_day, label=outcome.variant)
        hours = saved_minutes(outcomes[0], outcome) / 60
        right.plot(outcome.moves["succeeded"], hours, "o")
        right.annotate(outcome.variant, (outcome.moves["succeeded"], hours), textcoords="offset points", xytext=(5, 5))
    left.set_xlabel("day of submission")
    left.set_ylabel("mean wait of 8-GPU jobs, minutes")
    left.set_ylim(bottom=0)
    left.legend(frameon=False)
    right.set_xlabel("moves")
    right.set_ylabel("hours that 8-GPU jobs wait less")
    right.set_xlim(left=0, right=max(1.0, 1.3 * max(outcome.moves["succeeded"] for outcome in outcomes)))
    right.set_ylim(bottom=0)
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)


# -- how long a plan takes --------------------------------------------------------------------------------------------


def plan_seconds(nodes: int, *, repeat: int = 3, pending: bool = False) -> tuple[int, int, float]:
    """Pods, moves, and the processor time of one plan on a cluster with ten pods on each node; the best of several."""
    objects = _large_cluster(nodes, pending=pending)
    registry = Registry(installed_plugins=(), installed_actions=())
    configuration = registry.load(CONFIGURATION)
    policy = policy_of("eager" if pending else "thresholds")
    assert policy is not None
    found = Descheduler(lambda: policy, Plugins(installed=()), lambda: Scheduler(configuration, registry))
    found.cluster = Cluster(scheduler_name=names.DEFAULT_SCHEDULER)
    for obj in objects:
        found.cluster.apply(Applied(obj))
    known = _Known(objects)
    best, moves = float("inf"), 0
    for _ in range(repeat):
        began = time.process_time()
        plans = found.plan(known, 1_900_000_000.0)
        best = min(best, time.process_time() - began)
        moves = sum(len(plan.moves) for plan in plans)
    return sum(isinstance(obj, Pod) for obj in objects), moves, best


class _Known:
    def __init__(self, objects: Sequence[KObject]) -> None:
        self._objects: dict[type, dict[str, Any]] = {}
        for obj in objects:
            self._objects.setdefault(type(obj), {})[key(obj)] = obj

    def get(self, kind: Any, name: str) -> Any:
        return self._objects.get(kind, {}).get(name)

    def list(self, kind: Any) -> Any:
        return [obj for _, obj in sorted(self._objects.get(kind, {}).items())]


def _large_cluster(nodes: int, *, pending: bool) -> list[KObject]:
    random = Random(nodes)
    objects: list[KObject] = [Queue(metadata=ObjectMeta(name="default"), status=QueueStatus(state="Open"))]
    sets: dict[tuple[int, int], list[str]] = {}
    for number in range(nodes):
        name = f"node-{number:05d}"
        offered = {"cpu": 128, "memory": "1Ti", GPU: GPUS, "pods": 110}
        objects.append(Node(metadata=ObjectMeta(name=name), status=NodeStatus(allocatable=offered)))
        devices = random.choice((6, 6, 7, 7)) if pending else random.choice((1, 1, 2, 6, 6, 6, 7, 7, 7, 8, 8))
        for slot in range(10):
            gpus = 1 if slot < devices else 0
            sets.setdefault((number // 10, gpus), []).append(name)
    for (number, gpus), where in sorted(sets.items()):
        _add_set(objects, f"set-{number}-{gpus}", gpus, where)
    if pending:
        group = PodGroup(
            metadata=ObjectMeta(name="big", namespace="default", uid="big"),
            spec=PodGroupSpec(min_member=1, queue="default"), status=PodGroupStatus(phase="Inqueue"),
        )  # fmt: skip
        pod = Pod(
            metadata=ObjectMeta(name="big-0", namespace="default", uid="big-0", annotations={names.GROUP_NAME: "big"}),
            spec=_pod_spec(GPUS),
        )
        objects += [group, pod]
    return objects


def _add_set(objects: list[KObject], name: str, gpus: int, where: Sequence[str]) -> None:
    owner = OwnerReference(api_version="apps/v1", kind="ReplicaSet", name=name, uid=name, controller=True)
    meta = ObjectMeta(name=name, namespace="default", uid=name)
    objects.append(ReplicaSet(metadata=meta, spec=ReplicaSetSpec(replicas=len(where))))
    group = f"podgroup-{name}"
    objects.append(
        PodGroup(
            metadata=ObjectMeta(name=group, namespace="default", uid=group, owner_references=[owner]),
            spec=PodGroupSpec(min_member=1, queue="default"), status=PodGroupStatus(phase="Running"),
        )
    )  # fmt: skip
    requests: dict[str, Any] = {"cpu": "500m", **({GPU: gpus} if gpus else {})}
    container = Container(name="main", resources=ResourceRequirements(requests=requests))
    for number, node in enumerate(where):
        pod = Pod(
            metadata=ObjectMeta(
                name=f"{name}-{number}", namespace="default", uid=f"{name}-{number}", owner_references=[owner],
                annotations={names.GROUP_NAME: group},
            ),
            spec=PodSpec(scheduler_name=names.DEFAULT_SCHEDULER, node_name=node, containers=[container]),
        )  # fmt: skip
        pod.status.phase = "Running"
        objects.append(pod)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--days", type=float, default=30)
    parser.add_argument("--nodes", type=int, default=200)
    parser.add_argument("--load", type=float, default=0.93)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--variant", action="append",
        help="none, thresholds, pending, eager or both; may be given several times. thresholds:60 empties nodes below "
        "60 %% and fills others; pending:15 makes a move for every 15 minutes that a job has waited; eager:2 moves at "
        "most 2 pods for a job; both:60:15 does both",
    )  # fmt: skip
    parser.add_argument("--read", action="append", type=Path, help="show results of --output json instead")
    parser.add_argument("--plot", type=Path, help="an SVG or PNG file")
    parser.add_argument("--output", choices=("table", "json"), default="table")
    parser.add_argument("--plan", action="store_true", help="measure how long plans take instead")
    options = parser.parse_args(arguments)
    if options.plan:
        print(f"{'nodes':>6} {'pods':>7} {'':11} {'moves':>6} {'seconds':>8}")
        for pending in (False, True):
            for nodes in (1000, 2000):
                pods, moves, seconds = plan_seconds(nodes, pending=pending)
                print(f"{nodes:6} {pods:7} {'pending' if pending else 'thresholds':11} {moves:6} {seconds:8.2f}")
        return 0
    if options.read:
        outcomes = [msgspec.json.decode(path.read_bytes(), type=list[Outcome]) for path in options.read]
        outcomes = [outcome for each in outcomes for outcome in each]
    else:
        works = generate(days=options.days, nodes=options.nodes, load=options.load, seed=options.seed)
        outcomes = [simulate(works, options.nodes, options.days, variant) for variant in options.variant or VARIANTS]
    if options.output == "json":
        print(msgspec.json.format(msgspec.json.encode(outcomes)).decode())
    else:
        print_table(outcomes)
    if options.plot:
        plot(outcomes, options.plot)
    return 0


if __name__ == "__main__":
    sys.exit(main())
