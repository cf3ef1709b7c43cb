"""Random clusters, and a small world that does to them what schedulers' decisions say.

A case is a list of objects as an API server would hand them out: a handful of nodes, queues and namespaces, and jobs of
one to five pods, some running and some waiting. Amounts are small whole numbers on purpose. Tight fits, ties, full pod
counts and gangs that just miss are then the rule and not the exception.

`World` plays API server and kubelets: a bound pod runs, an evicted one leaves a few cycles later (and its owner may put
a new one in its place), and what a cycle writes into statuses is there in the next.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from hypothesis import strategies as st
from msgspec.structs import replace

from builders import GPU, START, established, group, node, pod, priority_class, queue, quota
from stromboli.api import Condition, KObject, Node, Pod, PodGroup, Queue, Taint, Toleration, key
from stromboli.api.pod_requests import pod_requests
from stromboli.api.quantity import amounts, format_amount
from stromboli.api.timestamps import format_timestamp
from stromboli.cluster import Applied, Cluster, ClusterEvent, Deleted
from stromboli.scheduling.cycle import Scheduler
from stromboli.scheduling.decisions import (
    Bind,
    Decision,
    Evict,
    Notice,
    PatchGroup,
    PatchPod,
    PatchQueue,
    Reserve,
    Unreserve,
)
from stromboli.scheduling.registry import Registry

NODES = ("n1", "n2", "n3", "n4", "n5", "n6")
QUEUES = ("default", "q1", "q2", "q3")
NAMESPACES = ("ns1", "ns2", "ns3")
ROLES = ("master", "worker")
KEPT_FOR = Taint(key="team", value="blue", effect="NoSchedule")
TOLERATES = Toleration(key="team", operator="Equal", value="blue", effect="NoSchedule")


def seldom(value: st.SearchStrategy[object], otherwise: object) -> st.SearchStrategy[object]:
    """Mostly the plain thing, now and then the special one."""
    return st.one_of(st.just(otherwise), st.just(otherwise), st.just(otherwise), value)


@st.composite
def nodes(draw: st.DrawFn, name: str) -> Node:
    return node(
        name,
        cpu=draw(st.sampled_from([1, 2, 3, 4, 8])),
        memory=f"{draw(st.sampled_from([1, 2, 4, 8]))}Gi",
        gpu=draw(st.sampled_from([None, None, 1, 2])),
        pods=draw(st.sampled_from([1, 2, 3, 5, 110, 110])),
        labels={"zone": draw(st.sampled_from(["a", "b"]))},
        taints=draw(seldom(st.sampled_from([[], [KEPT_FOR]]), [])),  # type: ignore[arg-type]
        cordoned=draw(seldom(st.booleans(), False)),  # type: ignore[arg-type]
        ready=draw(seldom(st.booleans(), True)),  # type: ignore[arg-type]
    )


@st.composite
def queues(draw: st.DrawFn, name: str, *, whims: bool) -> Queue:
    limits = st.fixed_dictionaries({}, optional={"cpu": st.integers(1, 8), "memory": st.sampled_from(["2Gi", "6Gi"])})
    return queue(
        name,
        weight=draw(st.integers(1, 3)),
        priority=draw(st.sampled_from([0, 0, 1])),
        capability=draw(seldom(limits, None)),  # type: ignore[arg-type]
        guarantee=draw(seldom(st.fixed_dictionaries({"cpu": st.integers(1, 2)}), None)),  # type: ignore[arg-type]
        reclaimable=draw(st.sampled_from([True, True, False])),
        state=draw(seldom(st.sampled_from(["Open", "Closed"]), "Open")) if whims else "Open",  # type: ignore[arg-type]
        fifo=bool(whims and draw(seldom(st.booleans(), False))),
    )


class Room:
    """What is left of the nodes while running pods are dealt out. Most land where there is room, as in life."""

    def __init__(self, machines: Iterable[Node]) -> None:
        self._left = {machine.metadata.name: amounts(machine.status.allocatable) for machine in machines}

    @property
    def names(self) -> list[str]:
        return list(self._left)

    def take(self, name: str, asked: dict[str, int]) -> bool:
        left = self._left[name]
        if any(left.get(resource, 0) < amount for resource, amount in asked.items()):
            return False
        for resource, amount in asked.items():
            left[resource] -= amount
        return True


@st.composite
def waiting_or_running(draw: st.DrawFn, made: Pod, room: Room | None, chance: int) -> Pod:
    """The pod, on a node in `chance` of four cases if there is one for it; a few are on their way out, and a few stand
    where they should not fit."""
    if room is None or draw(st.integers(1, 4)) > chance:
        return made
    where = draw(st.sampled_from(room.names))
    squeezed = draw(st.integers(0, 15)) == 15
    if not room.take(where, {**pod_requests(made.spec), "pods": 1}) and not squeezed:
        return made
    metadata = made.metadata
    if draw(st.integers(0, 7)) == 7:
        metadata = replace(metadata, deletion_timestamp=format_timestamp(START))
    phase = draw(st.sampled_from(["Running", "Running", "Running", "Pending"]))
    return replace(
        made, metadata=metadata, spec=replace(made.spec, node_name=where), status=replace(made.status, phase=phase)
    )


@st.composite
def pod_facts(draw: st.DrawFn) -> dict[str, object]:
    """What the pods of one role have in common."""
    facts: dict[str, object] = {}
    if draw(st.sampled_from([True, True, True, True, False])):
        facts["cpu"] = draw(st.sampled_from(["500m", 1, 1, 2, 3]))
        facts["memory"] = draw(st.sampled_from([None, "512Mi", "1Gi", "2Gi"]))
        facts["gpu"] = draw(seldom(st.integers(1, 2), None))
    facts["priority"] = draw(st.sampled_from([None, None, 5, 50]))
    facts["preemptable"] = draw(st.sampled_from([None, None, None, False]))
    facts["may_preempt"] = draw(seldom(st.booleans(), True))
    facts["gated"] = draw(seldom(st.booleans(), False))
    facts["node_selector"] = draw(seldom(st.sampled_from([{"zone": "a"}, None]), None))
    facts["tolerations"] = draw(st.sampled_from([(), (), (TOLERATES,)]))
    return facts


@st.composite
def jobs(draw: st.DrawFn, number: int, in_queues: Sequence[str], room: Room | None) -> list[KObject]:
    """A group and its pods."""
    space = draw(st.sampled_from(NAMESPACES))
    name = f"j{number}"
    roles = draw(st.sampled_from([[""], [""], ["worker"], ["master", "worker"]]))
    looks = [draw(pod_facts()) for _ in roles]
    members = [draw(st.integers(0, len(roles) - 1)) for _ in range(draw(st.sampled_from([1, 2, 3, 4, 5])))]
    chance = draw(st.sampled_from([0, 0, 2, 4, 4]))
    made: list[KObject] = []
    for index, member in enumerate(members):
        facts = {**looks[member], "role": roles[member]}
        if "cpu" in facts:
            facts["cpu"] = draw(st.sampled_from([facts["cpu"], facts["cpu"], 1, 3]))  # some jobs are a mixed lot
        fresh = pod(f"{space}/{name}-{index}", group=name, **facts)  # type: ignore[arg-type]
        made.append(draw(waiting_or_running(fresh, room, chance)))
    per_role = {}
    if draw(st.booleans()):
        per_role = {r: draw(st.integers(0, members.count(i))) for i, r in enumerate(roles) if r}
    gang = group(
        f"{space}/{name}",
        queue=draw(st.sampled_from(in_queues)),
        min_member=draw(st.sampled_from([1, 1, len(members), draw(st.integers(0, len(members)))])),
        roles=per_role,
        priority_class=draw(st.sampled_from(["", "low", "high", "high"])),
        min_resources=draw(seldom(st.just({"cpu": 2}), None)),  # type: ignore[arg-type]
        phase=draw(st.sampled_from(["Inqueue", "Inqueue", "Pending"])),
    )
    return [gang, *made]


@st.composite
def cases(
    draw: st.DrawFn, *, most_nodes: int = 6, most_jobs: int = 6, running: bool = True, whims: bool = True
) -> list[KObject]:
    """All objects of a cluster. `whims`: closed and first-in-first-out queues, too."""
    count = draw(st.sampled_from([n for n in (1, 2, 2, 3, 4, 6) if n <= most_nodes]))
    machines = [draw(nodes(name)) for name in NODES[:count]]
    lines = [draw(queues(name, whims=whims)) for name in QUEUES[: draw(st.sampled_from([1, 2, 2, 3, 4]))]]
    made: list[KObject] = [*machines, *lines, priority_class("low", 10), priority_class("high", 100)]
    for space in NAMESPACES:
        if draw(seldom(st.booleans(), False)):
            made.append(quota(f"{space}/weight", weight=draw(st.integers(1, 3))))
    room = Room(machines) if running else None
    for number in range(1, draw(st.sampled_from(range(2, most_jobs + 1))) + 1):
        made.extend(draw(jobs(number, [line.metadata.name for line in lines], room)))
    return [established(obj, position) for position, obj in enumerate(made)]


@st.composite
def contests(draw: st.DrawFn) -> list[KObject]:
    """Running gangs that fill the nodes, and others of higher priority, or of a poorer queue, that want their room.
    BestEffort members are here and there, on nodes with few places for pods."""
    machines = [
        node(name, cpu=draw(st.integers(2, 4)), pods=draw(st.sampled_from([1, 2, 3, 5])))
        for name in NODES[: draw(st.integers(1, 3))]
    ]
    lines = QUEUES[: draw(st.integers(1, 2))]
    made: list[KObject] = [*machines, *[queue(name) for name in lines]]
    made += [priority_class("low", 10), priority_class("high", 100)]
    room = Room(machines)
    for number in range(1, draw(st.integers(3, 5)) + 1):
        runs = number <= 3
        name = f"ns1/j{number}"
        roles = draw(st.sampled_from([[""], ["master", "worker"]]))
        members = [draw(st.sampled_from(roles)) for _ in range(draw(st.integers(1, 4)))]
        minimum = draw(st.integers(1, len(members)))
        pods: list[KObject] = []
        for index, role in enumerate(members):
            cpu = draw(st.sampled_from([None, None, 1, 2]))
            fresh = pod(f"{name}-{index}", group=f"j{number}", cpu=cpu, role=role)
            pods.append(draw(waiting_or_running(fresh, room if runs else None, 4)))
        made.append(
            group(
                name,
                queue=draw(st.sampled_from(lines)),
                min_member=minimum,
                roles={role: min(1, members.count(role)) for role in roles if role and draw(st.booleans())},
                priority_class="low" if runs else "high",
            )
        )
        made += pods
    return [established(obj, position) for position, obj in enumerate(made)]


def scheduler(change: Callable[[Registry], None] = lambda registry: None) -> Scheduler:
    """The real one with the built-in configuration."""
    registry = Registry(installed_plugins=(), installed_actions=())
    configuration = registry.default()
    change(registry)
    return Scheduler(configuration, registry)


def known(objects: Iterable[KObject]) -> Cluster:
    """A cluster that has just been told of these objects, as after a start."""
    cluster = Cluster()
    for obj in objects:
        cluster.apply(Applied(obj))
    return cluster


@dataclass(frozen=True)
class Leaving:
    pod: Pod
    cycles: int  # until it is gone
    replaced: bool


class World:
    def __init__(self, objects: Iterable[KObject], *, grace: int = 1, replaces: bool = False) -> None:
        """`grace`: how many cycles an evicted pod stays. `replaces`: whether its owner makes a new one then."""
        self.objects: dict[tuple[str, str], KObject] = {(obj.kind, key(obj)): obj for obj in objects}
        self.cluster = known(self.objects.values())
        self.now = START + 1000.0
        self.grace = grace
        self.replaces = replaces
        self.leaving = [
            Leaving(obj, grace, replaced=False)
            for obj in self.objects.values()
            if isinstance(obj, Pod) and obj.metadata.deletion_timestamp is not None
        ]
        self._born = 0

    def pod(self, name: str) -> Pod:
        found = self.objects["Pod", name]
        assert isinstance(found, Pod)
        return found

    @property
    def pods(self) -> list[Pod]:
        return [obj for obj in self.objects.values() if isinstance(obj, Pod)]

    def put(self, obj: KObject) -> None:
        self.objects[obj.kind, key(obj)] = obj
        self.tell(Applied(obj))

    def remove(self, obj: KObject) -> None:
        del self.objects[obj.kind, key(obj)]
        self.tell(Deleted(obj))

    def tell(self, event: ClusterEvent) -> None:
        self.cluster.apply(event)

    def cycle(self, with_scheduler: Scheduler) -> list[Decision]:
        """One cycle; nothing is carried out yet."""
        self.now += 1.0
        return with_scheduler.run(self.cluster, self.now).decisions

    def carry_out(self, decisions: Iterable[Decision]) -> None:
        """Make decisions true, and let time pass until the next cycle."""
        for decision in decisions:
            self._one(decision)
        staying: list[Leaving] = []
        for departure in self.leaving:
            if departure.cycles > 1:
                staying.append(Leaving(departure.pod, departure.cycles - 1, departure.replaced))
                continue
            gone = self.pod(key(departure.pod))
            self.remove(gone)
            if departure.replaced:
                self._replace(gone)
        self.leaving = staying

    def finish(self, name: str, phase: str) -> None:
        ended = self.pod(name)
        self.put(replace(ended, status=replace(ended.status, phase=phase)))

    def _one(self, decision: Decision) -> None:
        match decision:
            case Bind():
                bound = self.pod(decision.task)
                assert not bound.spec.node_name, f"{decision.task} is bound twice"
                spec = replace(bound.spec, node_name=decision.node)
                self.put(replace(bound, spec=spec, status=replace(bound.status, phase="Running")))
            case Evict():
                leaver = self.pod(decision.task)
                assert leaver.metadata.deletion_timestamp is None, f"{decision.task} is evicted twice"
                metadata = replace(leaver.metadata, deletion_timestamp=format_timestamp(self.now))
                leaver = replace(leaver, metadata=metadata)
                self.put(leaver)
                self.leaving.append(Leaving(leaver, self.grace, self.replaces))
            case PatchPod():
                waits = self.pod(decision.task)
                said = Condition(type="PodScheduled", status="False", reason=decision.reason, message=decision.message)
                status = replace(waits.status, conditions=[said], nominated_node_name=decision.nominated)
                self.put(replace(waits, status=status))
            case PatchGroup():
                found = self.objects["PodGroup", decision.job]
                assert isinstance(found, PodGroup)
                patched = replace(
                    found.status, phase=decision.phase, conditions=list(decision.conditions),
                    running=decision.running, succeeded=decision.succeeded, failed=decision.failed,
                )  # fmt: skip
                self.put(replace(found, status=patched))
            case PatchQueue():
                line = self.objects["Queue", decision.queue]
                assert isinstance(line, Queue)
                has = {name: format_amount(name, amount) for name, amount in decision.allocated.items()}
                self.put(replace(line, status=replace(line.status, allocated=has)))
            case Reserve():
                meta = decision.reservation.metadata
                self.put(replace(decision.reservation, metadata=replace(
                    meta, uid=f"uid-{meta.name}", creation_timestamp=format_timestamp(self.now))))  # fmt: skip
            case Unreserve():
                self.remove(self.objects["Reservation", decision.reservation])
            case Notice():
                pass
            case _:
                raise AssertionError(f"the built-in configuration is not known to decide {decision}")

    def _replace(self, gone: Pod) -> None:
        self._born += 1
        metadata = replace(gone.metadata, uid=f"{gone.metadata.uid}-{self._born}", deletion_timestamp=None)
        waits = replace(gone.status, phase="Pending", conditions=[], nominated_node_name="")
        self.put(replace(gone, metadata=metadata, spec=replace(gone.spec, node_name=""), status=waits))


__all__ = ["GPU", "NAMESPACES", "NODES", "QUEUES", "ROLES", "World", "cases", "known", "nodes", "pod_facts",
           "queues", "scheduler", "seldom"]  # fmt: skip
