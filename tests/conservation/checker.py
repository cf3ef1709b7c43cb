"""Judges whether anything lies idle that somebody waits for.

It reads the description of a world and the JSON report, and shares no code with the scheduler. At the end of a run, if
nothing has happened for `QUIET` seconds:

**room**. No node is used beyond what it has, in any resource and in its number of pods.
**gangs**. Of a group that runs, at least as many pods run or have succeeded as must start together.
**idle**. No pod waits for room that is there. Who is short of its minimum is tried as a whole, who has it with one pod
more. It fits if an exact search finds nodes for all: resources, slots, selectors, taints, ports, and pods that must be
apart. Room that is reserved for others is not counted. Its queue must stay within its capability and leave the
guarantees of others alone; what it deserves is no reason to wait, because what would lie idle is lent. While nodes are
reserved for a job, its queue keeps quota for it, so other jobs of that queue are not judged then.
**reasons**. Every waiting pod has a reason and a message.
**kept**. Who waits for borrowers to finish waits for at least one that ends.

And of the whole run:

**promises**. Once nodes are reserved for a job, it starts when all pods that run there then have ended, two cycles
later at most, if they end, if it holds the nodes until then, and if its queue then has room for it.
**made way**. Who is named in an eviction from lent room starts within two cycles.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from conservation.worlds import Node, Work, World
from together.situations import Report

CYCLE = 1.0
QUIET = 3.0
NEVER = float("inf")

Amounts = dict[str, float]


@dataclass(frozen=True)
class Finding:
    check: str
    time: float
    text: str


@dataclass
class Verdict:
    findings: list[Finding] = field(default_factory=list)
    judged: Counter[str] = field(default_factory=Counter)

    def fail(self, check: str, time: float, text: str) -> None:
        self.findings.append(Finding(check, time, text))


def judge(world: World) -> Verdict:
    verdict = Verdict()
    report = world.situation().run()
    check_run(world, report, verdict)
    check_end(world, report, verdict)
    return verdict


# -- the end ----------------------------------------------------------------------------------------------------------


@dataclass
class State:
    """Who runs where at an instant, read from the report."""

    world: World
    report: Report
    running: dict[str, list[tuple[str, str]]] = field(default_factory=dict)  # work -> (pod, node)
    waiting: dict[str, list[str]] = field(default_factory=dict)
    succeeded: Counter[str] = field(default_factory=Counter)

    @classmethod
    def read(cls, world: World, report: Report) -> State:
        state = cls(world, report)
        for name, told in sorted(report["pods"].items()):
            work = owner(world, name)
            if told["phase"] == "Running":
                state.running.setdefault(work.name, []).append((name, told["node"]))
            elif told["phase"] == "Pending":
                state.waiting.setdefault(work.name, []).append(name)
            elif told["phase"] == "Succeeded":
                state.succeeded[work.name] += 1
        return state

    def work(self, name: str) -> Work:
        return next(work for work in self.world.works if work.name == name)

    def used_on(self, node: str) -> Amounts:
        used: Counter[str] = Counter()
        for name, places in self.running.items():
            number = sum(where == node for _, where in places)
            for resource, amount in self.work(name).request.items():
                used[resource] += amount * number  # type: ignore[assignment]
        return dict(used)

    def used_by(self, queue: str, resource: str) -> float:
        return sum(
            self.work(name).request[resource] * len(places)
            for name, places in self.running.items() if self.work(name).queue == queue
        )  # fmt: skip

    def reserved_for(self, node: str) -> list[str]:
        jobs: list[str] = self.report["nodes"][node]["reservedFor"]
        return jobs


def owner(world: World, pod: str) -> Work:
    """A pod is named as its work, or that and a number, or that and a random ending."""
    names = {work.name: work for work in world.works}
    found = names.get(pod) or names.get(pod.rpartition("-")[0])
    assert found is not None, pod
    return found


def check_end(world: World, report: Report, verdict: Verdict) -> None:
    state, time = State.read(world, report), report["end"]
    _room(state, time, verdict)
    if any(event["t"] > time - QUIET for event in report["events"]):
        verdict.judged["left out: something happens"] += 1
        return
    verdict.judged["quiet ends"] += 1
    _gangs(state, time, verdict)
    for name in sorted(state.waiting):
        _reasons(state, name, time, verdict)
        _idle(state, name, time, verdict)
        _kept(state, name, time, verdict)


def _room(state: State, time: float, verdict: Verdict) -> None:
    for node in state.world.nodes:
        verdict.judged["room"] += 1
        for resource, amount in state.used_on(node.name).items():
            if amount > node.has.get(resource, 0):
                verdict.fail("room", time, f"{node.name}: {amount:g} {resource} used of {node.has.get(resource, 0):g}")


def _gangs(state: State, time: float, verdict: Verdict) -> None:
    for name, places in state.running.items():
        work = state.work(name)
        verdict.judged["gangs"] += 1
        if len(places) + state.succeeded[name] < work.least:
            verdict.fail("gangs", time, f"{len(places)} pods of {name} run, and it needs {work.least}")


def _reasons(state: State, name: str, time: float, verdict: Verdict) -> None:
    verdict.judged["reasons"] += 1
    for pod in state.waiting[name]:
        told = state.report["pods"][pod]
        if not told["reason"] or not told["message"]:
            verdict.fail("reasons", time, f"{pod} waits without a reason: {told['reason']!r}, {told['message']!r}")


def _idle(state: State, name: str, time: float, verdict: Verdict) -> None:
    work = state.work(name)
    have = len(state.running.get(name, ())) + state.succeeded[name]
    number = max(1, work.least - have)
    if number > len(state.waiting[name]):
        return  # some of its pods were evicted and are gone
    if any(_same_queue(state, work, job) for node in state.world.nodes for job in state.reserved_for(node.name)):
        verdict.judged["left out: its queue keeps quota"] += 1
        return
    verdict.judged["idle"] += 1
    if not _queue_allows(state, work, number):
        return
    places = _fit(state, work, number)
    if places is not None:
        told = state.report["pods"][state.waiting[name][0]]
        text = f"{number} of {name} would fit on {', '.join(places)}, and wait: {told['reason']}: {told['message']}"
        verdict.fail("idle", time, text)


def _same_queue(state: State, work: Work, job: str) -> bool:
    """Whether a job that nodes are reserved for is another one of the same queue."""
    other = _named(state.world, job)
    return other is not None and other is not work and other.queue == work.queue


def _named(world: World, job: str) -> Work | None:
    """A group is named as its work, or `podgroup-` and the pod's name and more."""
    for work in world.works:
        namespace, _, bare = work.name.partition("/")
        if job == work.name or job.startswith(f"{namespace}/podgroup-{bare}-"):
            return work
    return None


def _queue_allows(state: State, work: Work, number: int) -> bool:
    world, queue = state.world, state.world.queues[work.queue]
    need = work.cpu * number
    if not need:
        return True
    after = state.used_by(queue.name, "cpu") + need
    if queue.capability is not None and after > queue.capability:
        return False
    total = sum(node.has["cpu"] for node in world.nodes)
    others = sum(
        max(state.used_by(other.name, "cpu"), other.guarantee) for other in world.queues.values() if other is not queue
    )
    guaranteed = sum(other.guarantee for other in world.queues.values() if other is not queue)
    return after <= total - guaranteed and (not guaranteed or others + after <= total)


def _fit(state: State, work: Work, number: int) -> list[str] | None:
    """Nodes for so many pods together, by an exact search."""
    open_nodes = [node for node in state.world.nodes if _may_use(state, work, node)]
    left = {node.name: _left(state, node) for node in open_nodes}
    mine = [where for _, where in state.running.get(work.name, ())]
    return _search(open_nodes, left, work, number, [node for node in state.world.nodes if node.name in mine])


def _search(
    nodes: list[Node], left: Mapping[str, Amounts], work: Work, number: int, beside: Iterable[Node]
) -> list[str] | None:
    """Equal pods: after one on a node, the others go there or further down the list."""
    if not number:
        return []
    for index, node in enumerate(nodes):
        if any(_excludes(work, node, other) for other in beside):
            continue
        if all(left[node.name].get(name, 0) >= amount for name, amount in work.request.items() if amount):
            after = {name: amount - work.request.get(name, 0) for name, amount in left[node.name].items()}
            rest = _search(nodes[index:], {**left, node.name: after}, work, number - 1, [*beside, node])
            if rest is not None:
                return [node.name, *rest]
    return None


def _excludes(work: Work, node: Node, other: Node) -> bool:
    if work.port and node is other:
        return True
    return bool(work.apart) and node.labels.get(work.apart) == other.labels.get(work.apart)


def _may_use(state: State, work: Work, node: Node) -> bool:
    if node.taint and node.taint != work.tolerates:
        return False
    if any(node.labels.get(label) != value for label, value in work.selector.items()):
        return False
    others = [job for job in state.reserved_for(node.name) if _named(state.world, job) is not work]
    return not others


def _left(state: State, node: Node) -> Amounts:
    used = state.used_on(node.name)
    return {name: amount - used.get(name, 0) for name, amount in node.has.items()}


def _kept(state: State, name: str, time: float, verdict: Verdict) -> None:
    told = state.report["pods"][state.waiting[name][0]]
    if told["reason"] != "ConditionallyReady":
        return
    verdict.judged["kept"] += 1
    borrowers = re.findall(r"ns\d+/[a-z0-9-]*[a-z0-9]", told["message"].partition("Waiting for")[2])
    if not any(owner(state.world, pod).kind != "service" for pod in borrowers):
        verdict.fail("kept", time, f"{name} waits for pods that never end: {told['message']}")
    if not any(state.work(name) is _named(state.world, job)
               for node in state.world.nodes for job in state.reserved_for(node.name)):  # fmt: skip
        verdict.fail("kept", time, f"{name} keeps room, and no node says so")


# -- the whole run --------------------------------------------------------------------------------------------------


@dataclass
class Life:
    work: Work
    node: str
    start: float
    end: float = NEVER


def check_run(world: World, report: Report, verdict: Verdict) -> None:
    lives: list[Life] = []
    running: dict[str, Life] = {}
    for event in report["events"]:
        time, kind, pod = event["t"], event["type"], event["object"]
        if kind == "Bound":
            work = owner(world, pod)
            running[pod] = Life(work, event["node"], time, NEVER if work.run is None else time + work.run)
            lives.append(running[pod])
        elif kind in ("Finished", "Evicted", "Deleted") and pod in running:
            running.pop(pod).end = time
    _promises(world, report, lives, verdict)
    _made_way(world, report, lives, verdict)


def _promises(world: World, report: Report, lives: list[Life], verdict: Verdict) -> None:
    held: dict[str, dict[str, str]] = {}  # work -> pod -> node
    since: dict[str, float] = {}
    events = [event for event in report["events"] if event["type"] in ("Reserved", "Unreserved")]
    for event in [*events, {"t": report["end"], "type": "End", "object": "", "node": "", "message": ""}]:
        if event["type"] == "Reserved":
            work = owner(world, event["object"])
            held.setdefault(work.name, {})[event["object"]] = event["node"]
            since[work.name] = event["t"]
        elif event["type"] == "Unreserved":
            work = owner(world, event["object"])
            nodes = set(held.pop(work.name, {}).values())
            if nodes and event["message"] == "the pod starts":
                _promise_kept(world, lives, work, nodes, since[work.name], event["t"], verdict)
    for name, places in held.items():
        work = next(one for one in world.works if one.name == name)
        _promise_kept(world, lives, work, set(places.values()), since[name], report["end"], verdict)


def _promise_kept(
    world: World, lives: list[Life], work: Work, nodes: set[str], since: float, start: float, verdict: Verdict
) -> None:
    there = [life for life in lives if life.node in nodes and life.start <= since < life.end and life.work is not work]
    latest = max([life.end for life in there], default=since)
    if latest == NEVER or not _always_allowed(world, work):
        return
    verdict.judged["promises"] += 1
    if start > latest + 2 * CYCLE:
        text = f"{work.name} has {', '.join(sorted(nodes))} from {since:g} on, free at {latest:g}; start: {start:g}"
        verdict.fail("promises", start, text)


def _always_allowed(world: World, work: Work) -> bool:
    """Whether no queue has a limit: then nothing but room is in the way."""
    return all(not queue.guarantee and queue.capability is None for queue in world.queues.values())


def _made_way(world: World, report: Report, lives: list[Life], verdict: Verdict) -> None:
    for event in report["events"]:
        if event["type"] != "Evicted" or "lent" not in event["message"] or event["t"] + 3 * CYCLE > report["end"]:
            continue
        names = re.findall(r"ns\d+/[a-z0-9-]*[a-z0-9]", event["message"])
        who = next((work for name in names if (work := _named(world, name)) is not None), None)
        verdict.judged["made way"] += 1
        if who is None or not any(
            life.work is who and event["t"] <= life.start <= event["t"] + 2 * CYCLE for life in lives
        ):
            verdict.fail("made way", event["t"], f"{event['object']} is evicted in vain: {event['message']}")
