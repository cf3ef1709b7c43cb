"""Judges what came out of a random world by properties that hold whatever the scheduler's ways are.

It reads the description of the world and the JSON report, and shares no code with the scheduler. A finding is meant to
be a defect, so every bound is computed on the safe side, and what cannot be bounded is left out; `Verdict.judged` says
how much was judged, so that a check that judges nothing does not pass for a good one.

Times are in seconds, and cycles one second apart. R is the longest run in the world plus the longest grace period.

**starts** (a). A gang that could start if the streams stopped starts within

    submission + threshold + F × R + N × (R + 1) + H × (R + timeout + 1) + 2

F is 1 where the first turn is as long as R, and 4 where turns have to grow first. The shortest turn is the timeout of
reservations, but not shorter than the threshold; the longest is 32 times the timeout.

N counts who is before it in line, of higher priority or of equal priority and not younger: the gangs that waited while
it waited, once for each of their starts and at least once, and the pods of streams that waited longer than the
threshold. Where turns have to grow, the last one in vain ends within 2 R, and the gang goes to the end of the line, so
those that come within 2 R are before it, too. H counts the gangs among them that wait for a pod that never ends. It ran
before they came, so their turns are never longer than the timeout, but for what else drains on their nodes.

Left out: gangs in a pool with a service or another pod that never ends; that do not fit the empty pool; that may need
more nodes than may be set aside; in a world with a stream of higher priority, or a gang of higher priority that waits
for a pod that never ends; with runs longer than the longest turn; whose request, with the services of the queue, is
above what the queue is sure to deserve (below); whose queue had more than that at some cycle while they starved, or
whose namespace was then ahead of another one that waited in the same queue; and those whose bound is after the end.
Without the action reserve there is no bound.

**evictions have a purpose** (b). The message of an eviction names somebody, and a pod of that work is bound within the
longest grace period and two cycles.

**evictions stop** (c). After the last arrival, no work is evicted for the same other work at three different times; and
nothing is evicted in the last R if all that ends had ended 2 R before the end.

**shares** (d). A start of a pod is out of turn if another namespace of the queue has less by weight (with its starts of
this cycle, pods promised room and waiting gangs counted; without the starts of this cycle for the one that starts), and
has waited since the cycle before, and still waits, with a pod of a stream for the same pool that is not larger, not of
lower priority, and whose estimate is not longer. In every window of 10 R what starts out of turn is at most one gang of
each namespace that has such starts, the largest in the queue; and one of each that they are ahead of while a gang of
it waits, because a namespace makes room for its own gang that starves, and others may use what its small pods leave
until that starts. Nobody can know that a gang waits for a pod that never ends, so namespaces with such a gang are left
out. Between queues it is one gang, for a queue with more than it can possibly deserve against one with less than it is
sure to deserve. What a queue is sure to deserve: its part by weight of what the guarantees of the others leave, up to
its capability; what it can possibly deserve: what the others' sure parts leave, each up to what it requests.

**order** (e). At every cycle: no node is used beyond what it has, no gang starts with fewer pods than it needs, and no
pod is bound twice.

**no cost** (f). Of the same world without the action reserve: a gang for which nodes were set aside starts at most one
cycle later than there. Closing nodes moves streams to other nodes of the pool, where a lucky hole may close, and no
scheduler can know that. So only gangs that need every node of their pool are judged, and only if nothing was set aside
before their start for others of the same pool, or of a queue that has work in it.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

from together.history import NEVER, History, read, usage
from together.situations import Report
from together.worlds import Work, World

CYCLE = 1.0


@dataclass(frozen=True)
class Finding:
    check: str
    time: float
    text: str


@dataclass
class Verdict:
    findings: list[Finding] = field(default_factory=list)
    judged: Counter[str] = field(default_factory=Counter)  # how many jobs, windows, … each check looked at
    left_out: Counter[str] = field(default_factory=Counter)  # why gangs were not judged

    def fail(self, check: str, time: float, text: str) -> None:
        self.findings.append(Finding(check, time, text))


def check(world: World, report: Report, *, reserve: bool = True) -> Verdict:
    """All but the comparison with the world without reserve; `reserve`: whether the action was on in this run."""
    verdict, history = Verdict(), read(world, report)
    _order(world, history, verdict)
    if reserve:
        _starts(world, history, verdict)
    _purpose(world, history, verdict)
    _stop(world, history, verdict)
    _shares(world, history, verdict)
    return verdict


def longest(world: World) -> float:
    runs = [work.run for work in world.works if work.run is not None]
    return max(runs, default=0) + max(work.grace for work in world.works)


# -- (e) order ------------------------------------------------------------------------------------------------------


def _order(world: World, history: History, verdict: Verdict) -> None:
    for time, pod in history.bound_twice:
        verdict.fail("order", time, f"{pod} is bound again while it runs")
    for time in sorted({life.start for life in history.lives}):
        verdict.judged["order"] += 1
        held = usage([life for life in history.lives if life.start <= time < life.gone])
        for node, cpus in held.items():
            if cpus > world.cpus[node]:
                verdict.fail("order", time, f"{node} has {world.cpus[node]} CPUs, and {cpus} are used")
        for work in {life.work.name: life.work for life in history.lives if life.start == time}.values():
            there = [life for life in history.lives if life.work is work and life.start <= time]
            have = len({life.pod for life in there if life.end > time or life.finished})
            if work.kind in ("gang", "job") and have < work.pods:
                verdict.fail("order", time, f"{work.name} starts with {have} of {work.pods} pods")


# -- (a) starts -----------------------------------------------------------------------------------------------------


def _starts(world: World, history: History, verdict: Verdict) -> None:
    for work in world.works:
        if work.kind not in ("gang", "job"):
            continue
        start = history.first_start(work)
        latest = work.at + world.threshold + growth(world) * longest(world) + 2 * CYCLE
        latest += _line(world, history, work, start)
        why = _cannot_be_judged(world, history, work, latest, start)
        if why:
            verdict.left_out[why] += 1
            continue
        verdict.judged["starts"] += 1
        if start is None or start > latest:
            told = "does not start" if start is None else f"starts at {start:g}"
            verdict.fail("starts", latest, f"{work.name} came at {work.at:g} and {told}, the bound is {latest:g}")


def _line(world: World, history: History, work: Work, start: float | None) -> float:
    """How long the turns of all take who may come before it."""
    until = history.end if start is None else start
    last = work.at + (2 * longest(world) if growth(world) > 1 else 0)
    turns = waits_in_vain = 0
    for other in world.works:
        before = other.priority > work.priority or (other.priority == work.priority and other.at <= last)
        if other is work or other.run is None or other.at > until or not before:
            continue
        begun = history.starts(other)
        if other.kind == "stream":
            first = begun[0] if begun else NEVER
            turns += first > work.at and min(first, until) - other.at > world.threshold
        elif not begun or begun[-1] >= work.at:
            turns += max(1, sum(time >= work.at for time in begun))
            waits_in_vain += _has_endless(world, other.pool)
    return turns * (longest(world) + CYCLE) + waits_in_vain * (longest(world) + shortest_turn(world) + CYCLE)


def growth(world: World) -> int:
    """How many of the longest runs it takes until a turn is long enough, and its own."""
    first = min(max(shortest_turn(world), world.threshold), longest_turn(world))
    return 1 if first >= longest(world) else 4


def shortest_turn(world: World) -> float:
    return world.timeout or world.threshold


def longest_turn(world: World) -> float:
    return 32 * shortest_turn(world)


def _has_endless(world: World, pool: str) -> bool:
    return any(other.kind == "endless" and other.pool == pool for other in world.works)


def _cannot_be_judged(world: World, history: History, work: Work, latest: float, start: float | None) -> str:
    nodes = world.pools[work.pool]
    slots = sorted(cpu // work.cpu for cpu in nodes.values())
    if any(other.run is None and other.pool == work.pool for other in world.works):
        return "a service never ends in its pool"
    if longest(world) > longest_turn(world):
        return "runs are longer than the longest turn"
    if any(other.priority > work.priority and _has_endless(world, other.pool) for other in world.works):
        return "somebody of higher priority waits for a pod that never ends"
    if sum(slots) < work.pods:
        return "larger than its pool"
    if _nodes_at_most(slots, work.pods) > math.ceil(len(world.cpus) * world.percent / 100):
        return "needs more nodes than may be set aside"
    if any(other.kind == "stream" and other.priority > work.priority for other in world.works):
        return "a stream has a higher priority"
    services = sum(other.request for other in world.works if other.run is None and other.queue == work.queue)
    sure = _sure(world, work.queue)
    if work.request + services > sure:
        return "beyond what its queue is sure to deserve"
    if latest > history.end:
        return "the line is too long for the run"
    until = latest if start is None else min(start, latest)
    time = math.floor(work.at + world.threshold)
    while time <= until:
        if _used(history, time, lambda other: other.queue == work.queue) > sure:
            return "its queue has more than it is sure to deserve"
        mine = _used(history, time, _belongs(work.queue, work.namespace)) / world.weights[work.namespace]
        for namespace, weight in world.weights.items():
            theirs = _used(history, time, _belongs(work.queue, namespace)) / weight
            if namespace != work.namespace and theirs < mine and _waits(history, time, work.queue, namespace):
                return "its namespace is ahead of one that waits"
        time += 1
    return ""


def _nodes_at_most(slots: list[int], pods: int) -> int:
    """Of nodes with so many slots each, the smallest taken first."""
    needed = 0
    for number in slots:
        if pods <= 0:
            break
        needed += 1
        pods -= number
    return needed


def _waits(history: History, time: float, queue: str, namespace: str) -> bool:
    return any(
        wait.since <= time < wait.until for wait in history.waits
        if wait.work.queue == queue and wait.work.namespace == namespace
    )  # fmt: skip


# -- (b), (c) evictions ---------------------------------------------------------------------------------------------


def _purpose(world: World, history: History, verdict: Verdict) -> None:
    patience = max(work.grace for work in world.works) + 2 * CYCLE
    for eviction in history.evictions:
        if eviction.time + patience > history.end:
            continue
        verdict.judged["purpose"] += 1
        who = eviction.beneficiary
        if who is None:
            verdict.fail("purpose", eviction.time, f"{eviction.pod} is evicted, and nobody is named for whom")
            continue
        window = (eviction.time, eviction.time + patience)
        if not any(life.work is who and window[0] <= life.start <= window[1] for life in history.lives):
            text = f"{eviction.pod} is evicted for {who.name}, which does not start by {window[1]:g}"
            verdict.fail("purpose", eviction.time, text)


def _stop(world: World, history: History, verdict: Verdict) -> None:
    last = max(work.at for work in world.works)
    verdict.judged["stop"] += 1
    times: dict[tuple[str, str], set[float]] = {}
    for eviction in history.evictions:
        if eviction.time > last and eviction.beneficiary is not None:
            times.setdefault((eviction.work.name, eviction.beneficiary.name), set()).add(eviction.time)
    for (victim, who), when in times.items():
        if len(when) >= 3:
            text = f"{victim} is evicted for {who} {len(when)} times after the last arrival at {last:g}"
            verdict.fail("stop", max(when), text)
    quiet = history.end - 2 * longest(world)
    ends = [life.end for life in history.lives if life.work.run is not None]
    finite = [work for work in world.works if work.run is not None]
    if all(end <= quiet for end in ends) and all(history.starts(work) for work in finite):
        verdict.judged["quiet"] += 1
        for eviction in history.evictions:
            if eviction.time > history.end - longest(world):
                verdict.fail("stop", eviction.time, f"{eviction.pod} is evicted though all work has ended")


# -- (d) shares -----------------------------------------------------------------------------------------------------


def _shares(world: World, history: History, verdict: Verdict) -> None:
    span = 10 * longest(world)
    for queue in world.queues:
        largest: dict[str, int] = {}
        for work in world.works:
            if work.queue == queue:
                largest[work.namespace] = max(work.request, largest.get(work.namespace, 0))
        for kind, out_of_turn in (
            ("namespaces", _namespace_out_of_turn(world, history, queue, verdict)),
            ("queues", _queue_out_of_turn(world, history, queue, verdict)),
        ):
            given = list(out_of_turn)
            for index, (since, _, _) in enumerate(given):
                window = [entry for entry in given[index:] if entry[0] < since + span]
                total = sum(work.cpu for _, work, _ in window)
                most = max(largest.values())
                if kind == "namespaces":
                    counted = {work.namespace for _, work, _ in window}
                    counted |= {other for time, _, other in window if _gang_waits(world, history, queue, other, time)}
                    most = sum(largest[namespace] for namespace in counted)
                if total > most:
                    first = window[0]
                    text = (
                        f"{total} CPUs start out of turn within {span:g} s in {queue}, where no gang has more than "
                        f"{most}; first {first[1].name}, ahead of {first[2]}"
                    )
                    verdict.fail(f"shares of {kind}", since, text)
                    break


OutOfTurn = Iterator[tuple[float, Work, str]]


def _namespace_out_of_turn(world: World, history: History, queue: str, verdict: Verdict) -> OutOfTurn:
    for life in sorted(history.lives, key=lambda each: (each.start, each.pod)):
        work, time = life.work, life.start
        if work.queue != queue or work.run is None:
            continue
        for other, weight in world.weights.items():
            rival = _belongs(queue, other)
            if other == work.namespace or not _could_take(history, work, time, rival):
                continue
            if any(_has_endless(world, gang.pool) for gang in _waiting_gangs(world, history, time, rival)):
                continue
            verdict.judged["starts beside another namespace"] += 1
            mine = _used(history, time, _belongs(queue, work.namespace), least=True)
            theirs = _used(history, time, rival) + _claimed(history, world, time, rival)
            if mine * weight > theirs * world.weights[work.namespace]:
                yield time, work, other
                break


def _queue_out_of_turn(world: World, history: History, queue: str, verdict: Verdict) -> OutOfTurn:
    for life in sorted(history.lives, key=lambda each: (each.start, each.pod)):
        work, time = life.work, life.start
        if work.queue != queue or work.run is None:
            continue
        for other in world.queues:
            if other == queue or not _could_take(history, work, time, _of_queue(other)):
                continue
            verdict.judged["starts beside another queue"] += 1
            mine = _used(history, time, _of_queue(queue), least=True)
            theirs = _used(history, time, _of_queue(other)) + _claimed(history, world, time, _of_queue(other))
            if mine >= _possible(world, history, queue, time) and theirs < _sure(world, other):
                yield time, work, other
                break


def _gang_waits(world: World, history: History, queue: str, namespace: str, time: float) -> bool:
    return bool(_waiting_gangs(world, history, time, _belongs(queue, namespace)))


def _could_take(history: History, work: Work, time: float, among: Callable[[Work], bool]) -> bool:
    """Somebody there has waited since the cycle before, and still waits, with a pod that could be in that place."""
    for wait in history.waits:
        other = wait.work
        if (
            other.kind == "stream" and among(other) and wait.since <= time - CYCLE and wait.until > time
            and other.pool == work.pool and other.cpu <= work.cpu and other.priority >= work.priority
            and (work.estimate is None or (other.estimate is not None and other.estimate <= work.estimate))
        ):  # fmt: skip
            return True
    return False


def _used(history: History, time: float, among: Callable[[Work], bool], *, least: bool = False) -> int:
    """CPUs at a cycle, after it; or at least (`least`): without what starts in it, and what is being evicted."""
    if least:
        return sum(life.work.cpu for life in history.lives if among(life.work) and life.start < time < life.end)
    return sum(life.work.cpu for life in history.lives if among(life.work) and life.start <= time < life.gone)


def _claimed(history: History, world: World, time: float, among: Callable[[Work], bool]) -> int:
    """What waiting gangs ask for, and what is promised to those for whom somebody has just been evicted."""
    gangs = sum(work.request for work in _waiting_gangs(world, history, time, among))
    patience = max(work.grace for work in world.works) + 2 * CYCLE
    served = {
        eviction.beneficiary.name for eviction in history.evictions
        if eviction.beneficiary is not None and time - patience <= eviction.time <= time
    }  # fmt: skip
    promised = sum(
        life.work.cpu for life in history.lives
        if among(life.work) and life.work.name in served and time < life.start <= time + patience
    )  # fmt: skip
    return gangs + promised


def _waiting_gangs(world: World, history: History, time: float, among: Callable[[Work], bool]) -> list[Work]:
    return [
        work for work in world.works
        if work.kind in ("gang", "job") and among(work) and work.at <= time and not history.running(work, time)
        and not history.over(work, time)
    ]  # fmt: skip


def _sure(world: World, queue: str) -> int:
    """What a queue deserves at least, if it requests that much. Queues that nobody uses request nothing."""
    mine = world.queues[queue]
    guarantees = sum(other.guarantee for other in world.queues.values() if other is not mine)
    used = {work.queue for work in world.works}
    weights = sum(other.weight for other in world.queues.values() if other.name in used)
    part = (sum(world.cpus.values()) - guarantees) * mine.weight // weights
    return part if mine.capability is None else min(part, mine.capability)


def _possible(world: World, history: History, queue: str, time: float) -> int:
    total = sum(world.cpus.values())
    for other in world.queues:
        if other != queue:
            asked = _used(history, time, _of_queue(other), least=True)
            asked += sum(w.work.cpu for w in history.waits if w.work.queue == other and w.since <= time < w.until)
            total -= min(asked, _sure(world, other))
    return total


def _belongs(queue: str, namespace: str) -> Callable[[Work], bool]:
    return lambda work: work.queue == queue and work.namespace == namespace


def _of_queue(queue: str) -> Callable[[Work], bool]:
    return lambda work: work.queue == queue


# -- (f) no cost ----------------------------------------------------------------------------------------------------


def served_alone(world: World, history: History) -> list[Work]:
    """Gangs that (f) judges, given the run with reserve. A job that is served elsewhere changes what its queue has, and
    so whether pods of that queue can be reclaimed here."""
    found: list[Work] = []
    for work in world.works:
        queues = {work.queue, *(other.queue for other in world.works if other.pool == work.pool)}
        slots = [cpu // work.cpu for cpu in world.pools[work.pool].values()]
        if work.kind not in ("gang", "job") or sum(slots) < work.pods or sum(slots) - min(slots) >= work.pods:
            continue
        start = history.first_start(work)
        until = history.end if start is None else start
        mine = [time for time, who in history.reserved if who is work and time <= until]
        others = [
            time for time, who in history.reserved
            if who is not work and time <= until and (who.pool == work.pool or who.queue in queues)
        ]  # fmt: skip
        if mine and not others:
            found.append(work)
    return found


def judge(world: World, *, always_without: bool = False) -> Verdict:
    """Runs a world and judges it; without reserve, too, if there is somebody to compare, or `always_without`."""
    report = world.situation().run()
    verdict = check(world, report)
    if always_without or served_alone(world, read(world, report)):
        plain = world.situation(reserve=False).run()
        without, compared = check(world, plain, reserve=False), compare(world, report, plain)
        verdict.findings += [replace(found, check=f"{found.check} (without reserve)") for found in without.findings]
        verdict.findings += compared.findings
        verdict.judged += without.judged + compared.judged
    return verdict


def compare(world: World, report: Report, report_without: Report) -> Verdict:
    """(f): what reserve costs those whom it serves."""
    verdict, history, plain = Verdict(), read(world, report), read(world, report_without)
    for work in served_alone(world, history):
        verdict.judged["no cost"] += 1
        start, before = history.first_start(work), plain.first_start(work)
        if before is not None and (start is None or start > before + CYCLE):
            told = "does not start" if start is None else f"starts at {start:g}"
            text = f"{work.name} {told} with reserve, and at {before:g} without"
            verdict.fail("no cost", NEVER if start is None else start, text)
    return verdict
