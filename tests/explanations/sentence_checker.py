"""Computes again, from the description of a world and the JSON report, every number in the sentences of waiting pods.

It shares no code with the scheduler. All numbers must be those at the end of the run and of the whole gang:

- the numbers of nodes add up to the nodes there are, and each count and each "at most ... free" is right;
- what a gang requests is the sum over the pods that must still start; what a queue has and may have is true;
- how many pods of a gang of equal pods fit is true;
- a gang that is too large for its queue, or has a pod that is too large for every node it may use, says so first, and
  nobody else says it.

`Checker.findings` are meant to be defects; `Checker.judged` counts what was judged.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from explanations.worlds import Machine, Work, World

Report = dict[str, Any]
Amounts = dict[str, int]  # CPUs in millicores, memory in bytes

_NODES = re.compile(
    r"(\d+) of (\d+) nodes (?:(?:is|are) available|ha(?:s|ve) room for some of them)(?:: (.*?))?\.(?: |$)"
)
_PART = re.compile(
    r"(\d+) (not ready|cordoned|not matching|with taint|at the maximum|reserved for|with free|with resources"
    r"|with insufficient (\S+) \((\S+) requested, at most (\S+) free\))"
)
_SHORT = re.compile(r"Only (\d+) of the (\d+) pods that must start together(?: \(of (\d+) in the group\))? fit now")
_QUEUE = re.compile(
    r"Queue (\S+) would exceed its (quota|deserved share): (\S+) (\S+) requested, (\S+) allocated"
    r"(?: \((\S+) of it can be taken back\))?(?:, \S+ promised to other pods of this job)?"
    r"(?:, (\S+) kept for other pods(?: \([^)]*\))?)?, (?:at most (\S+) allowed|(\S+) deserved)"
)
_NEVER_QUEUE = re.compile(r"can never start: (\S+) (\S+) requested, and queue (\S+) may have at most (\S+?)[.;] ")
_NEVER_NODE = re.compile(
    r"can never start: (\S+) (\S+) requested for one pod, and nodes that it may use have at most (\S+)\."
)
_NEVER_NODES = re.compile(r"can never start: it needs (\d+) equal pods, and empty nodes have room for only (\d+)\.")
_NEVER_CLUSTER = re.compile(r"can never start: (\S+) (\S+) requested, and the cluster has (\S+)\.")
_GANG = re.compile(r"(\d+)/(\d+) tasks in gang unschedulable: ")
_ADMISSION = re.compile(
    r"insufficient (\S+): (\S+) requested, and of (\S+) that may be promised(?: \([^)]*\))?, (\S+) is left"
    r"(?:, and (\S+) is promised to admitted jobs)?"
)
_ADMITTED_LATER = re.compile(
    r"insufficient (\S+): (\S+) requested, and at most (\S+) can be admitted(?: \([^)]*\))?; "
    r"(\S+) more when nodes that take no pods now are ready"
)


def amount(text: str, resource: str = "cpu") -> int:
    """Of CPU in millicores, of memory in bytes."""
    if resource == "memory" and text.isdigit():
        return int(text)
    if text.endswith("Gi"):
        return int(float(text[:-2]) * 2**30)
    if text.endswith("Mi"):
        return int(float(text[:-2]) * 2**20)
    return int(text[:-1]) if text.endswith("m") else round(float(text) * 1000)


# What would be if other pods ended is not what is now.
_IF_DRAINED = re.compile(r"if all other pods that end were gone.*?(?:available|room for some of them): .*?\.(?= |$)")


def _is_rounded(said: object, true: object) -> bool:
    """Whether an amount in bytes is right to three digits: `3.2Gi` for 3435973837."""
    large = isinstance(said, int) and isinstance(true, int) and true >= 10**6
    return large and abs(said - true) <= true / 200  # type: ignore[operator]


@dataclass
class Checker:
    world: World
    report: Report
    findings: list[str] = field(default_factory=list)
    judged: Counter[str] = field(default_factory=Counter)

    def check(self) -> Checker:
        for name, told in sorted(self.report["pods"].items()):
            work = self.world.work_of(name)
            if told["phase"] == "Pending" and told["message"] and work is not None:
                self._check(name, work, told["message"])
        for name, told in sorted(self.report["podGroups"].items()):
            said = [c["message"] for c in told["conditions"] if c["type"] == "Unschedulable"]
            works = [w for w in self.world.works if name == w.name or name.startswith(f"{w.name}-{w.name[4:]}")]
            work = works[0] if works else None
            if told.get("admitted") == self.report["end"]:
                continue  # in the last cycle: what it says is of the one before, as its pods had no part in any yet
            if said and work is not None and told["phase"] in ("Pending", "Inqueue"):
                self._group(name, work, said[0])
        return self

    def _group(self, name: str, work: Work, message: str) -> None:
        """The condition of a PodGroup; before it is admitted, a Job has no pods that could say it."""
        if found := _GANG.match(message):
            self.judged["group"] += 1
            if (int(found[1]), int(found[2])) != (self._missing(work), self._members(work)):
                self.findings.append(f"seed {self.world.seed}: {name}: is {self._missing(work)}: {message}")
            message = message[found.end() :]
        self._check(name, work, message)

    def _check(self, name: str, work: Work, message: str) -> None:
        def expect(kind: str, said: object, true: object) -> None:
            self.judged[kind] += 1
            if said != true and not _is_rounded(said, true):
                self.findings.append(f"seed {self.world.seed}: {name}: {kind} {said}, is {true}: {message}")

        self._never(work, message, expect)
        message = _IF_DRAINED.sub("", message)
        if found := _NODES.search(message):
            self._nodes(work, message, found, expect)
        if found := _SHORT.search(message):
            expect("needed", int(found[2]), self._missing(work))
            expect("pods", int(found[3] or found[2]), self._members(work))
            expect("short", int(found[1]) < int(found[2]), True)
        if found := _QUEUE.search(message):
            self._queue(work, found, expect)
        if found := _ADMISSION.search(message):
            self._admission(work, found, expect)
        if found := _ADMITTED_LATER.search(message):
            self._admitted_later(work, found, expect)

    # -- the gang -----------------------------------------------------------------------------------------------

    def _running(self, work: Work) -> list[str]:
        """Pods that count as started."""
        pods = self.report["pods"]
        return [name for name in work.pod_names() if pods.get(name, {}).get("phase") in ("Running", "Succeeded")]

    def _members(self, work: Work) -> int:
        """How many pods it has, and at least its minimum. Those that were evicted and are not replaced are gone."""
        pods = self.report["pods"]
        return max(work.least, sum(pods.get(name, {}).get("phase") != "Evicted" for name in work.pod_names()))

    def _missing(self, work: Work) -> int:
        """How many pods must still start together; 1 if the gang has started."""
        return max(1, work.least - len(self._running(work)))

    def _needed(self, work: Work) -> list[int]:
        """What these pods request, in CPUs: the first ones that wait."""
        pods = self.report["pods"]
        waiting = [
            cpu
            for name, cpu in zip(work.pod_names(), work.cpus, strict=True)
            if pods.get(name, {}).get("phase", "Pending") == "Pending"
        ]
        return waiting[: self._missing(work)]

    def _request(self, work: Work, resource: str) -> int:
        needed = self._needed(work)
        return sum(needed) * 1000 if resource == "cpu" else len(needed) * work.memory * 2**30

    def _limit(self, queue: str, *, ever: bool = False) -> int:
        """How much CPU a queue may have: its capability, and what the guarantees of the others leave. What is idle on a
        cordoned node counts only for what it may `ever` have."""
        total = sum(
            machine.cpu
            if ever or not machine.cordoned
            else amount(self.report["nodes"][machine.name]["used"].get("cpu", "0")) // 1000
            for machine in self.world.machines
        )
        specs = self.world.queues
        guarantees = {name: spec.get("guarantee", {}).get("resource", {}).get("cpu", 0) for name, spec in specs.items()}
        left = max(0, total - sum(guarantees.values())) + guarantees[queue]
        return min(left, specs[queue].get("capability", {}).get("cpu", left)) * 1000

    def _usable(self, work: Work) -> list[Machine]:
        """Nodes that the pods may use, by their labels and taints."""
        return [
            machine
            for machine in self.world.machines
            if (not work.zone or machine.zone == work.zone) and (not machine.tainted or work.tolerates)
        ]

    # -- what can never start -----------------------------------------------------------------------------------

    def _never(self, work: Work, message: str, expect: Any) -> None:
        total = sum(machine.cpu for machine in self.world.machines) * 1000
        own = sum(
            cpu * 1000
            for name, cpu in zip(work.pod_names(), work.cpus, strict=True)
            if self.report["pods"].get(name, {}).get("phase") == "Running"
        )
        started = len(self._running(work)) >= work.least
        whole = self._request(work, "cpu") + (0 if started else own)
        limit = self._limit(work.queue, ever=True)
        usable = [machine for machine in self._usable(work) if not machine.cordoned]
        open_ = [machine for machine in self.world.machines if not machine.cordoned]
        largest = max((machine.cpu for machine in self._usable(work)), default=0)
        if found := _NEVER_QUEUE.search(message):
            expect("never: requested", amount(found[1], found[2]), whole)
            if open_:
                expect("never: limit", amount(found[4]), limit)
            expect("never: queue", whole > limit, True)
        elif not open_:
            pass  # there is nothing that guarantees could limit, so it is told about its nodes, or its capability
        elif limit < total and whole > limit and not message.startswith(("Waiting for term", "The job can never")):
            expect("never: says so", message.startswith("The "), True)
        if found := _NEVER_NODE.search(message):
            resource = 1000 if found[2] == "cpu" else 2**30
            most = max(machine.cpu if found[2] == "cpu" else machine.memory for machine in self._usable(work))
            expect("never: largest node", amount(found[3], found[2]), most * resource)
            expect("never: too large", amount(found[1], found[2]) > most * resource, True)
        elif not any(name in self.report["pods"] for name in work.pod_names()):
            pass  # admission knows only what its pods request together
        elif usable and min(self._needed(work), default=0) > largest and len(set(work.cpus)) == 1:
            expect("never: too large said", "can never" in message[:40], True)
        if found := _NEVER_NODES.search(message):
            expect("never: pods", int(found[1]) > int(found[2]), True)
            room = sum(_times(machine, work) for machine in self._usable(work))
            if len(set(work.cpus)) == 1:
                expect("never: empty nodes", int(found[2]), room)
        if found := _NEVER_CLUSTER.search(message):
            there = total if found[2] == "cpu" else sum(m.memory for m in self.world.machines) * 2**30
            expect("never: cluster", amount(found[3], found[2]), there)
            expect("never: beyond", amount(found[1], found[2]) > there, True)

    # -- nodes --------------------------------------------------------------------------------------------------

    def _free(self, machine: Machine) -> Amounts:
        node = self.report["nodes"][machine.name]
        return {
            resource: amount(node["allocatable"][resource], resource)
            - amount(node["used"][resource], resource)
            - amount(node["held"][resource], resource)
            for resource in ("cpu", "memory")
        }

    def _nodes(self, work: Work, message: str, found: re.Match[str], expect: Any) -> None:
        parts = _PART.findall(found[3] or "")
        counts: Counter[str] = Counter()
        for number, kind, *_ in parts:
            counts[kind.split(" (")[0]] += int(number)
        expect("nodes", int(found[2]), len(self.world.machines))
        expect("sum of nodes", int(found[1]) + sum(counts.values()), len(self.world.machines))
        expect("cordoned", counts["cordoned"], sum(machine.cordoned for machine in self.world.machines))
        open_ = [machine for machine in self.world.machines if not machine.cordoned]
        unmatched = [machine for machine in open_ if work.zone and machine.zone != work.zone]
        expect("selector", counts["not matching"], len(unmatched))
        matching = [machine for machine in open_ if machine not in unmatched]
        tainted = [machine for machine in matching if machine.tainted and not work.tolerates]
        expect("taints", counts["with taint"], len(tainted))
        left = [machine for machine in matching if machine not in tainted]
        sizes = {amount(part[3]) // 1000 for part in parts if part[2] == "cpu"}
        if len(set(work.cpus)) > 1 and len(sizes) != 1:
            return  # it does not say which of its pods it is about
        cpu = sizes.pop() if sizes else work.cpus[0]
        if sizes or cpu not in work.cpus:
            expect("requested", cpu, work.cpus)
        if self._evicted_last():
            return  # the report is without these pods, which were still there in the last cycle
        closed = counts["reserved for"] + counts["at the maximum"]
        self._amounts(work, cpu, parts, left, closed, expect)
        memory = work.memory * 2**30
        enough = [m for m in left if self._free(m)["cpu"] >= cpu * 1000 and self._free(m)["memory"] >= memory]
        if not closed:
            expect("available", int(found[1]) + counts["with free"], len(enough))
            if (short := _SHORT.search(message)) and not counts["with free"] and len(set(work.cpus)) == 1:
                room = sum(self._times_now(machine, work) for machine in enough)
                expect("fit now", int(short[1]), min(self._missing(work), room))

    def _evicted_last(self) -> bool:
        return any(event["type"] == "Evicted" and event["t"] == self.report["end"] for event in self.report["events"])

    def _amounts(self, work: Work, cpu: int, parts: list[Any], left: list[Machine], closed: int, expect: Any) -> None:
        short_cpu = [machine for machine in left if self._free(machine)["cpu"] < cpu * 1000]
        short_memory = [
            machine for machine in left
            if machine not in short_cpu and self._free(machine)["memory"] < work.memory * 2**30
        ]  # fmt: skip
        for number, _, resource, requested, most in parts:
            if not resource:
                continue
            nodes = short_cpu if resource == "cpu" else short_memory
            free = [self._free(machine)[resource] for machine in nodes]
            expect("requested", amount(requested, resource), cpu * 1000 if resource == "cpu" else work.memory * 2**30)
            if closed:
                expect("free", amount(most, resource) in [0, *free], True)
            else:
                expect(f"short of {resource}", int(number), len(nodes))
                expect("free", amount(most, resource), max(free, default=-1))

    def _times_now(self, machine: Machine, work: Work) -> int:
        free = self._free(machine)
        times = free["cpu"] // (work.cpus[0] * 1000)
        if work.memory:
            times = min(times, free["memory"] // (work.memory * 2**30))
        if machine.slots is not None:
            running = [pod for pod in self.report["pods"].values() if pod["phase"] == "Running"]
            times = min(times, machine.slots - sum(pod["node"] == machine.name for pod in running))
        return times

    # -- queues -------------------------------------------------------------------------------------------------

    def _queue(self, work: Work, found: re.Match[str], expect: Any) -> None:
        queue, resource = found[1], found[4]
        told = self.report["queues"][queue]
        expect("queue", queue, work.queue)
        expect("requested of the queue", amount(found[3], resource), self._request(work, resource))
        expect("allocated", amount(found[5], resource), amount(told["allocated"].get(resource, "0"), resource))
        if found[2] == "quota" and resource == "cpu":
            expect("quota", amount(found[8], resource), self._limit(queue))
        if found[2] != "quota":
            expect("deserved", amount(found[9], resource), amount(told["deserved"].get(resource, "0"), resource))
        most = amount(found[8] or found[9], resource)
        counted = amount(found[3], resource) + amount(found[5], resource)
        counted += amount(found[7] or "0", resource) - amount(found[6] or "0", resource)
        expect("exceeds", counted > most, True)

    def _admission(self, work: Work, found: re.Match[str], expect: Any) -> None:
        if found[1] == "cpu":
            most, left, promised = amount(found[3]), amount(found[4]), amount(found[5] or "0")
            expect("admission: total", most in self._admitted_at_most(), True)
            expect("admission: requested", amount(found[2]), sum(work.cpus) * 1000)
            expect("admission: exceeds", amount(found[2]) > left, True)
            # What pods use that could be preempted does not count, so more may be left, but never less.
            expect("admission: adds up", left >= most - self._used() - promised, True)
            expect("admission: promised", promised <= self._requested_by_admitted(), True)

    def _admitted_later(self, work: Work, found: re.Match[str], expect: Any) -> None:
        if found[1] == "cpu":
            most, more = amount(found[3]), amount(found[4])
            closed = self._cpus(cordoned=True) - self._used(cordoned=True)
            expect("admitted later: requested", amount(found[2]), sum(work.cpus) * 1000)
            expect("admitted later: total", most in self._admitted_at_most(), True)
            expect("admitted later: more", closed <= more <= self._cpus(cordoned=True) * 12 // 10, True)
            expect("admitted later: exceeds", most < amount(found[2]) <= most + more, True)

    def _admitted_at_most(self) -> set[int]:
        """What there is for queues: all of the nodes that take pods; to some plugins what pods use on others, too; with
        the overcommit factor or without."""
        open_ = self._cpus(cordoned=False)
        return {open_, open_ * 12 // 10, open_ + self._used(cordoned=True)}

    def _cpus(self, *, cordoned: bool) -> int:
        """Millicores that nodes have."""
        return 1000 * sum(machine.cpu for machine in self.world.machines if machine.cordoned is cordoned)

    def _used(self, *, cordoned: bool | None = None) -> int:
        """Millicores that running pods request."""
        names = [one.name for one in self.world.machines if cordoned is None or one.cordoned is cordoned]
        return sum(amount(self.report["nodes"][name]["used"].get("cpu", "0")) for name in names)

    def _requested_by_admitted(self) -> int:
        """Millicores that pods request which are admitted and wait."""
        pods = self.report["pods"]
        return 1000 * sum(
            cpu
            for work in self.world.works
            for name, cpu in zip(work.pod_names(), work.cpus, strict=True)
            if pods.get(name, {}).get("phase") == "Pending"
        )


def _times(machine: Machine, work: Work) -> int:
    """How many pods of a gang of equal pods fit on an empty node."""
    times = machine.cpu // work.cpus[0]
    if work.memory:
        times = min(times, machine.memory // work.memory)
    return times if machine.slots is None else min(times, machine.slots)
