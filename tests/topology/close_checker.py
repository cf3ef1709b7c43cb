"""Judges a run of a world of close groups by its report, with accounts of its own.

It knows the world as it was meant (`close_world`) and what happened (events). Nothing else is read: where a pod is,
what is free and which domain that makes follow from these two.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from topology.close_search import Lacks, Nodes, Unit, has_room
from topology.close_world import FOREVER, UNTIL, CloseWorld, Document, DomainFact, GroupFact, PodFact, Report

BY_SCHEDULER = ("Preempted", "Reclaimed", "GangDeadlock", "DomainOutgrown")


@dataclass
class PodState:
    fact: PodFact
    node: str = ""  # where it runs
    leaving: int = 0  # it terminates, and is gone then
    left_from: str = ""
    waits: bool = False
    done: bool = False  # it has succeeded
    bound_at: int = -1


@dataclass
class Judge:
    world: CloseWorld
    report: Report
    judged: Counter[str] = field(default_factory=Counter)
    findings: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._pods: dict[str, PodState] = {}
        self._facts = self.world.pods
        self._names = sorted(node.name for node in self.world.nodes)
        self._row = {name: row for row, name in enumerate(self._names)}
        self._disturbed = 0  # when anything was last done to the cluster

    def fail(self, time: int, text: str) -> None:
        self.findings.append(f"at {time} s: {text}")

    # -- the course of events ---------------------------------------------------------------------------------------

    def run(self) -> list[str]:
        by_time: dict[int, list[Document]] = defaultdict(list)
        for event in self.report["events"]:
            by_time[int(event["t"])].append(event)
        times = sorted({*by_time, *self._changes()})
        for time, following in zip(times, [*times[1:], UNTIL + 1], strict=True):
            self._cycle(time, by_time[time])
            rests_at = following - 1
            if rests_at > time and all(pod.leaving < rests_at for pod in self._pods.values()):
                self._at_rest(rests_at)
        self._beneficiaries()
        return self.findings

    def _changes(self) -> set[int]:
        """When nodes come, go or move."""
        times = {0} | {time for node in self.world.nodes for time in (node.lost, node.returns) if time < UNTIL}
        return times | ({self.world.moved[0]} if self.world.moved is not None else set())

    def _cycle(self, time: int, events: list[Document]) -> None:
        ours = [event for event in events if event["type"] == "Bound" or event["reason"] in BY_SCHEDULER]
        first = next((index for index, event in enumerate(events) if event in ours), len(events))
        for event in events[:first]:
            self._apply(time, event)
        before = {key: pod.node for key, pod in self._pods.items() if pod.node}
        free = self._free(time)
        for event in events[first:]:
            self._apply(time, event)
        evicted = [event["object"] for event in ours if event["type"] == "Evicted"]
        if len(events) > len(ours) or time in self._changes():
            self._disturbed = time
        self._full_nodes(time)
        for group in self.world.groups:
            started = [
                pod for pod in self._members(group) if pod.bound_at == time and pod.fact.name and pod.node
            ]  # fmt: skip
            if started:
                self._start(time, group, started, before)
                if {event["object"] for event in ours} == {self._key(pod) for pod in started}:
                    self._choice(time, group, started, before, free)
        if evicted:
            self._evictions(time, evicted, before)

    def _apply(self, time: int, event: Document) -> None:
        kind, name = event["type"], event["object"]
        if kind == "Submitted":
            fact = self._fact(name)
            self._pods[name] = PodState(fact, fact.node, waits=not fact.node)
        elif name in self._pods and kind in ("Bound", "Finished", "Evicted", "Deleted"):
            pod = self._pods[name]
            if kind == "Bound":
                pod.node, pod.waits, pod.bound_at = event["node"], False, time
                return
            if kind == "Finished":
                pod.done, pod.node, pod.waits = event["reason"] == "Succeeded", "", False
            elif pod.node:
                lost = event["reason"] == "NodeLost"
                stays = max(pod.fact.grace, 1 if event["reason"] in BY_SCHEDULER else 0)
                pod.leaving, pod.left_from = (0, "") if lost else (time + stays, pod.node)
                pod.node, pod.waits = "", False
            else:
                pod.waits = False

    def _fact(self, name: str) -> PodFact:
        return self._facts[name]

    def _key(self, pod: PodState) -> str:
        return f"lab/{pod.fact.name}"

    def _members(self, group: GroupFact) -> list[PodState]:
        return [pod for fact in group.pods if (pod := self._pods.get(f"lab/{fact.name}")) is not None]

    def _free(self, time: int) -> dict[str, int]:
        free = {node.name: node.cpu for node in self.world.nodes if node.exists(time)}
        for pod in self._pods.values():
            for node in (pod.node, pod.left_from if pod.leaving > time else ""):
                if node in free:
                    free[node] -= pod.fact.cpu
        return free

    def _full_nodes(self, time: int) -> None:
        for node, left in self._free(time).items():
            if left < 0:
                self.fail(time, f"{node} has {-left} CPUs less than its pods request")

    # -- starts -----------------------------------------------------------------------------------------------------

    def _start(self, time: int, group: GroupFact, started: list[PodState], before: dict[str, str]) -> None:
        members = self._members(group)
        self.judged["starts"] += 1
        count = sum(bool(pod.node) or pod.done for pod in members)
        if count < group.least:
            self.fail(time, f"{group.name} starts with {count} of {group.least} pods")
        for policy in group.policies:
            whole = sum(
                self._counted(unit) >= policy.size
                for name, unit in self._units(group).items()
                if name.startswith(f"{policy.name}/")
            )
            if whole < policy.least:
                self.fail(time, f"{group.name} starts with {whole} of {policy.least} sub-groups of {policy.name}")
        self._inside(time, group.name, group.close, members, started, before)
        for name, unit in self._units(group).items():
            begun = [pod for pod in unit if pod in started]
            if begun:
                policy = group.policy(name.partition("/")[0])
                self.judged["sub-groups started"] += 1
                if self._counted(unit) < policy.size:
                    self.fail(time, f"{group.name}: {self._counted(unit)} of {policy.size} pods of {name} run")
                self._inside(time, f"{group.name} {name}", policy.close, unit, begun, before)

    def _units(self, group: GroupFact) -> dict[str, list[PodState]]:
        found: dict[str, list[PodState]] = {}
        for pod in self._members(group):
            if pod.fact.unit:
                found.setdefault(pod.fact.unit, []).append(pod)
        return found

    @staticmethod
    def _counted(pods: Iterable[PodState]) -> int:
        return sum(bool(pod.node) or pod.done for pod in pods)

    def _inside(
        self, time: int, name: str, close: object, members: list[PodState], started: list[PodState],
        before: dict[str, str],
    ) -> None:  # fmt: skip
        """A hard group is inside one domain. If the tree has changed under it, new pods join most of the others."""
        if close is None or not close.hard:  # type: ignore[attr-defined]
            return
        domains = self.world.allowed(close, time)  # type: ignore[arg-type]
        others = [pod.node for pod in members if pod.node and pod not in started]
        nodes = {pod.node for pod in started}
        self.judged["hard starts"] += 1
        if not others or any(set(others) <= domain for domain in domains):
            if not any(nodes | set(others) <= domain for domain in domains):
                self.fail(time, f"{name} is on {sorted(nodes | set(others))}, across domains")
            return
        widest = [one for one in self._of_highest_tier(close, time) if one.nodes & set(others)]
        most = max((sum(node in one.nodes for node in others) for one in widest), default=0)
        self.judged["joins after the tree changed"] += 1
        if widest and not any(
            nodes <= one.nodes for one in widest if sum(node in one.nodes for node in others) == most
        ):
            self.fail(time, f"{name}: {sorted(nodes)} join none of the domains with most of {sorted(others)}")

    def _of_highest_tier(self, close: object, time: int) -> list[DomainFact]:
        tree = [one for one in self.world.tree(time) if close.tier is None or one.tier <= close.tier]  # type: ignore[attr-defined]
        highest = max((one.tier for one in tree), default=0)
        return [one for one in tree if one.tier == highest]

    def _choice(
        self, time: int, group: GroupFact, started: list[PodState], before: dict[str, str], free: dict[str, int]
    ) -> None:
        """The lowest tier with room for all; if no domain has it, the lowest with room for the minimum."""
        if group.close is None or group.policies or not group.is_equal or self.world.queues:
            return
        if any(before.get(self._key(pod)) for pod in self._members(group)) or any(
            pod.leaving >= time for pod in self._pods.values()
        ):
            return
        if any(pod.done for pod in self._members(group)):
            return
        cpu = group.pods[0].cpu
        waiting = len(started) + sum(pod.waits for pod in self._members(group))
        tree = self.world.tree(time)
        if group.hard:
            tree = [one for one in tree if group.close.tier is None or one.tier <= group.close.tier]

        def places(nodes: Iterable[str]) -> int:
            return sum(free[node] // cpu for node in nodes)

        for wanted in (waiting, group.least):
            tiers = [one.tier for one in tree if places(one.nodes) >= wanted]
            if tiers:
                # Pods of a soft group for which its domain has no room go anywhere.
                inside = len(started) if group.hard else wanted
                chosen = min(
                    (one.tier for one in tree if sum(pod.node in one.nodes for pod in started) >= inside), default=99
                )
                self.judged["choices of a tier"] += 1
                if chosen > min(tiers):
                    self.fail(time, f"{group.name} starts in tier {chosen}, and tier {min(tiers)} has room")
                if len(started) < wanted:
                    self.fail(time, f"{group.name} starts with {len(started)} pods, and {wanted} have room")
                return

    # -- evictions --------------------------------------------------------------------------------------------------

    def _evictions(self, time: int, evicted: list[str], before: dict[str, str]) -> None:
        """A sub-group goes whole; a gang keeps its minimum or goes whole."""
        for group in self.world.groups:
            gone = [pod for pod in self._members(group) if self._key(pod) in evicted]
            if not gone:
                continue
            self.judged["evictions of members"] += 1
            members = self._members(group)
            left = [pod for pod in members if pod.node]
            if not left or not self._started(group, members, before):
                continue  # the rest of a gang that has lost pods may go one by one
            if not self._lacks(group).nothing:
                self.fail(time, f"{len(gone)} pods of {group.name} go, and {len(left)} stay: {self._lacks(group)}")
            for name, unit in self._units(group).items():
                ran = sum(pod.done or self._key(pod) in before for pod in unit)
                if ran >= group.policy(name.partition("/")[0]).size and self._counted(unit) not in (0, ran):
                    self.fail(time, f"{group.name}: a part of {name} is evicted")

    def _started(self, group: GroupFact, members: list[PodState], before: dict[str, str]) -> bool:
        return sum(pod.done or self._key(pod) in before for pod in members) >= group.least

    def _beneficiaries(self) -> None:
        """Whoever others are evicted for starts, unless something happens in between."""
        events = self.report["events"]
        for index, event in enumerate(events):
            if event["reason"] not in ("Preempted", "Reclaimed"):
                continue
            name = next(
                (key for key in self._facts if f" {key}," in event["message"].replace(":", ",").replace(".", ",")), ""
            )
            if not name:
                self.fail(int(event["t"]), f"for whom: {event['message']}")
                continue
            self.judged["evictions"] += 1
            time = int(event["t"])
            started = next(
                (int(one["t"]) for one in events[index:] if one["type"] == "Bound" and one["object"] == name), None
            )
            leave = max(time + 1, time + self._facts[event["object"]].grace)
            by = started if started is not None else UNTIL
            if by > leave + 1 and leave + 1 < UNTIL and not self._anything_else(events, time, leave + 1):
                when = "never starts" if started is None else f"starts at {started} s"
                self.fail(time, f"{event['object']} is evicted for {name}, which {when}")

    def _anything_else(self, events: list[Document], since: int, until: int) -> bool:
        """Something that people or faults did, or other evictions whose pods need time to leave."""
        return any(since < time <= until for time in self._changes()) or any(
            since <= one["t"] <= until and (one["type"] == "Submitted" or one["reason"] in BY_SCHEDULER)
            and (one["t"] > since or self._fact(one["object"]).grace > until - since - 1)
            for one in events
        )  # fmt: skip

    # -- at rest ----------------------------------------------------------------------------------------------------

    def _at_rest(self, time: int) -> None:
        free = self._free(time)
        row_free = tuple(free.get(name, 0) for name in self._names)
        for group in self.world.groups:
            members = self._members(group)
            waiting = [pod for pod in members if pod.waits]
            if not waiting or not group.is_equal:
                continue
            lacks = self._lacks(group)
            starts = not lacks.nothing
            if not starts:
                lacks = Lacks(1, ())
            if not self._queue_may(group, waiting, lacks, time):
                continue
            domains = [frozenset(self._row[name] for name in nodes) for nodes in self._domains_for(group, time)]
            units = self._waiting_units(group, time)
            loose = [pod.fact.cpu for pod in waiting if not pod.fact.unit]
            self.judged["waiting groups"] += 1
            domain = has_room(row_free, domains, units, loose, lacks)
            if domain is not None:
                names = sorted(self._names[row] for row in domain)
                self.fail(time, f"{group.name} waits ({lacks}), and {names} have room for it: {row_free}")
            elif group.priority and starts and "preempt" in self.world.actions and not self.world.queues:
                self._could_preempt(time, group, domains, units, loose, lacks)

    def _could_preempt(
        self, time: int, group: GroupFact, domains: list[Nodes], units: list[Unit], loose: list[int], lacks: Lacks
    ) -> None:
        """If all plain pods of lower priority were gone."""
        free = self._free(time)
        for pod in self._pods.values():
            if pod.node in free and not pod.fact.group and pod.fact.priority < group.priority:
                free[pod.node] += pod.fact.cpu
        row_free = tuple(free.get(name, 0) for name in self._names)
        self.judged["waiting groups that may preempt"] += 1
        if has_room(row_free, domains, units, loose, lacks) is not None:
            self.fail(time, f"{group.name} waits ({lacks}), and could preempt: {row_free}")

    def _lacks(self, group: GroupFact) -> Lacks:
        units = []
        for policy in group.policies:
            whole = sum(
                self._counted(unit) >= policy.size
                for name, unit in self._units(group).items() if name.startswith(f"{policy.name}/")
            )  # fmt: skip
            units.append((policy.name, policy.least - whole))
        return Lacks(group.least - self._counted(self._members(group)), tuple(units))

    def _domains_for(self, group: GroupFact, time: int) -> list[frozenset[str]]:
        domains = self.world.allowed(group.close, time)
        return self._around(domains, group.close, self._members(group))

    def _around(self, domains: list[frozenset[str]], close: object, members: list[PodState]) -> list[frozenset[str]]:
        """Those with all members that run; after a change of the tree there may be none, and nothing is said then."""
        if close is None or not close.hard:  # type: ignore[attr-defined]
            return domains
        nodes = {pod.node for pod in members if pod.node}
        return [domain for domain in domains if nodes <= domain]

    def _waiting_units(self, group: GroupFact, time: int) -> list[Unit]:
        found = []
        for name, unit in self._units(group).items():
            policy = group.policy(name.partition("/")[0])
            waiting = [pod.fact.cpu for pod in unit if pod.waits]
            missing = policy.size - self._counted(unit)
            if 0 < missing <= len(waiting):
                domains = self._around(self.world.allowed(policy.close, time), policy.close, unit)
                pods = tuple(sorted(waiting, reverse=True)[:missing])
                rows = tuple(frozenset(self._row[node] for node in nodes) for nodes in domains)
                found.append(Unit(policy.name, pods, rows))
        return found

    def _queue_may(self, group: GroupFact, waiting: list[PodState], lacks: Lacks, time: int) -> bool:
        """Whether all its pods would be within the part that the weight of its queue is of everything."""
        if not self.world.queues:
            return True
        whole = sum(node.cpu for node in self.world.nodes if node.exists(time))
        part = whole * self.world.queues[group.queue] / sum(self.world.queues.values())
        used = sum(pod.fact.cpu for pod in self._pods.values() if pod.node and pod.fact.queue == group.queue)
        return used + sum(pod.fact.cpu for pod in waiting) <= part


def judge(world: CloseWorld, report: Report) -> Judge:
    found = Judge(world, report)
    found.run()
    return found


__all__ = ["FOREVER", "judge"]
