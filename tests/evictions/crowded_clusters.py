"""Random clusters that are full, and gangs that want the room of others.

`crowded(seed)` is always the same for the same seed: jobs of several queues, namespaces and priorities run on nodes of
different sizes until little is free. Others wait: gangs of higher priority, and gangs of queues that have less than
they deserve. Some pods are protected by budgets, repel each other, request GPUs or nothing at all.
"""

from __future__ import annotations

from random import Random

from builders import budget, established, group, node, pod, priority_class, queue, quota
from properties.random_clusters import World
from stromboli.api import Affinity, KObject, LabelSelector, PodAffinity, PodAffinityTerm
from stromboli.scheduling.cycle import Scheduler
from stromboli.scheduling.decisions import Decision
from stromboli.scheduling.registry import Registry

QUEUES = ("default", "q1", "q2", "q3")
NAMESPACES = ("ns1", "ns2", "ns3")
CLASSES = {"": 0, "low": 10, "middle": 50, "high": 100}

CONFIGURATIONS = {
    "built-in": """
actions: "enqueue, reclaim, allocate, preempt, reserve, backfill"
tiers:
- plugins: [{name: priority}, {name: gang}, {name: conformance}, {name: pdb}]
- plugins:
  - {name: overcommit}
  - {name: drf, enablePreemptable: false}
  - {name: predicates}
  - {name: proportion}
  - {name: nodeorder}
""",
    "drf preempts": """
actions: "enqueue, reclaim, allocate, preempt, backfill"
tiers:
- plugins: [{name: priority}, {name: gang}, {name: conformance}, {name: pdb}]
- plugins:
  - {name: drf, arguments: {namespaceOrderScope: withinPriority}}
  - {name: predicates}
  - {name: proportion}
  - {name: binpack}
""",
    "capacity": """
actions: "enqueue, allocate, preempt, reclaim, backfill"
tiers:
- plugins: [{name: priority}, {name: gang}, {name: conformance}, {name: pdb}]
- plugins: [{name: drf, enablePreemptable: false}, {name: predicates}, {name: capacity}, {name: nodeorder}]
""",
    "reserve and lending": """
actions: "enqueue, reclaim, allocate, preempt, reserve, backfill"
configurations:
- name: reserve
  arguments: {starvingJobTimeThreshold: 1s, reservedNodePercent: 50}
- name: backfill
  arguments: {backfillNonBestEffort: true}
tiers:
- plugins: [{name: priority}, {name: gang}, {name: conformance}, {name: pdb}]
- plugins: [{name: drf}, {name: predicates}, {name: proportion}, {name: nodeorder}]
""",
    "lending": """
actions: "reclaim, allocate, preempt, backfill"
configurations:
- name: backfill
  arguments: {backfillNonBestEffort: true}
tiers:
- plugins: [{name: priority}, {name: gang}, {name: conformance}, {name: pdb}]
- plugins: [{name: drf}, {name: predicates}, {name: proportion}, {name: nodeorder}]
""",
    "without gangs": """
actions: "allocate, preempt, reclaim, backfill"
tiers:
- plugins: [{name: priority}, {name: pdb}, {name: predicates}, {name: proportion}, {name: nodeorder}]
""",
}


class Crowd:
    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.objects: list[KObject] = []
        self.free: dict[str, dict[str, int]] = {}
        self.mixed = self.random.random() < 0.5  # pods of one job differ

    def build(self) -> list[KObject]:
        random = self.random
        gpus = random.random() < 0.3
        for number in range(random.randint(2, 9)):
            name = f"n{number}"
            offer = {"cpu": random.choice([4, 8, 8, 16]), "memory": random.choice([8, 16, 32]), "gpu": 4 if gpus else 0}
            slots = random.choice([3, 6, 110, 110])
            self.objects.append(node(
                name, cpu=offer["cpu"], memory=f"{offer['memory']}Gi", gpu=offer["gpu"], pods=slots,
                labels={"zone": random.choice("ab")},
            ))  # fmt: skip
            self.free[name] = {**offer, "pods": slots}
        self.queues = QUEUES[: random.randint(1, 4)]
        for name in self.queues:
            limit = {"cpu": random.randint(8, 32)} if random.random() < 0.2 else None
            least = {"cpu": random.randint(1, 4)} if random.random() < 0.2 else None
            self.objects.append(queue(
                name, weight=random.randint(1, 3), capability=limit, guarantee=least,
                deserved={"cpu": random.randint(2, 24), "memory": f"{random.randint(4, 48)}Gi"},
                reclaimable=random.random() < 0.85, fifo=random.random() < 0.1,
            ))  # fmt: skip
        self.objects += [priority_class(name, value) for name, value in CLASSES.items() if name]
        for space in NAMESPACES:
            if random.random() < 0.3:
                self.objects.append(quota(f"{space}/w", weight=random.randint(1, 3)))
            if random.random() < 0.35:
                self.objects.append(
                    budget(f"{space}/b", allowed=random.randint(0, 4), selector={"app": random.choice("xy")})
                )
        spaces = NAMESPACES[: random.randint(1, 3)]
        for number in range(random.randint(3, 10)):
            self._job(f"{random.choice(spaces)}/r{number}", runs=True)
        for number in range(random.randint(1, 5)):
            self._job(f"{random.choice(spaces)}/w{number}", runs=False)
        return [established(obj, position) for position, obj in enumerate(self.objects)]

    def _job(self, name: str, *, runs: bool) -> None:
        random = self.random
        size = random.choice([1, 2, 3, 4, 6, 8])
        roles = random.choice([[""], [""], ["master", "worker"]])
        pods = []
        app = random.choice("xyz")
        facts = self._facts()
        for index in range(size):
            if self.mixed and random.random() < 0.5:
                facts = self._facts()
            where = self._place(facts) if runs else ""
            if runs and not where:
                continue
            pods.append(pod(
                f"{name}-{index}", group=name.split("/")[1], node=where, role=random.choice(roles),
                cpu=facts["cpu"] or None, memory=f"{facts['memory']}Gi" if facts["memory"] else None,
                gpu=facts["gpu"] or None, labels={"app": app},
                priority=random.choice([None, None, 1, 5]),
                preemptable=random.choice([None, None, None, None, False]) if runs else None,
                may_preempt=random.random() < 0.95,
                affinity=_apart(app) if random.random() < 0.05 else None,
                node_selector={"zone": random.choice("ab")} if random.random() < 0.1 else None,
            ))  # fmt: skip
        if pods:
            least = random.choice([1, 1, len(pods), random.randint(1, len(pods))])
            self.objects.append(group(
                name, queue=random.choice(self.queues), min_member=least,
                priority_class=random.choice(["", "low", "low"] if runs else ["", "low", "middle", "high", "high"]),
                roles={role: 1 for role in roles if role and random.random() < 0.2},
                phase="Running" if runs else "Inqueue",
            ))  # fmt: skip
            self.objects += pods

    def _facts(self) -> dict[str, int]:
        random = self.random
        if random.random() < 0.07:
            return {"cpu": 0, "memory": 0, "gpu": 0}
        return {
            "cpu": random.choice([1, 1, 2, 2, 4]),
            "memory": random.choice([0, 1, 2, 4, 8]),
            "gpu": random.choice([0, 0, 0, 1, 2]),
        }

    def _place(self, facts: dict[str, int]) -> str:
        """A random node with room, or none."""
        wanted = {**facts, "pods": 1}
        fits = [
            name for name, left in self.free.items() if all(left[kind] >= amount for kind, amount in wanted.items())
        ]
        if not fits:
            return ""
        chosen = self.random.choice(fits)
        for kind, amount in wanted.items():
            self.free[chosen][kind] -= amount
        return chosen


def _apart(app: str) -> Affinity:
    term = PodAffinityTerm(topology_key="zone", label_selector=LabelSelector(match_labels={"app": app}))
    return Affinity(pod_anti_affinity=PodAffinity(required_during_scheduling_ignored_during_execution=[term]))


def crowded(seed: int) -> list[KObject]:
    return Crowd(seed).build()


def decisions(seed: int, configuration: str, *, cycles: int) -> list[list[Decision]]:
    """What is decided on such a cluster, with time for what was evicted to leave and to come back."""
    world = World(crowded(seed), grace=2, replaces=seed % 2 == 0)
    registry = Registry(installed_plugins=(), installed_actions=())
    deciding = Scheduler(registry.load(configuration), registry)
    made = []
    for _ in range(cycles):
        made.append(world.cycle(deciding))
        world.cluster.validate()
        world.carry_out(made[-1])
    return made
