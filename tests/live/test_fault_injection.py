"""Two schedulers, one lease, and a server with faults of every kind: what must always hold.

A storm is a list of things that happen (gangs arrive, pods are deleted and created again, watches lag and break, the
server is down, cycles fail, the lease changes hands) and a list of fates for the binds and the reads after them. In the
end no pod was bound twice, no node ever had more pods than it has room for, and both schedulers have the right state.
"""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from builders import group, node, pod
from live.fake_api import FakeApi, Fate, broken, done_late, lost_after, lost_before, refused, with_virtual_time
from live.scheduler_harness import Lease, Process, assert_ledger_is_what_is_there, make, running
from stromboli.api import Pod
from stromboli.api.quantity import amounts

NODES, CPU = 3, 4
# Long enough for everything that the old leader has sent to be done, and seen: 5 seconds of patience for a bind, one
# more in which the server may still act, and what watches lag.
INTERREGNUM = 9.0


class Mishap(Exception):
    pass


@dataclass
class Storm:
    api: FakeApi
    processes: list[Process]
    leases: list[Lease]
    leader: int = 0
    troubled: set[str] = field(default_factory=set)
    sizes: dict[str, int] = field(default_factory=dict)
    numbers: itertools.count[int] = field(default_factory=itertools.count)

    def pick(self, number: int) -> Pod | None:
        pods = self.api.all(Pod)
        return pods[number % len(pods)] if pods else None

    async def gang(self, number: int) -> None:
        size, cpu = 1 + number % 4, 1 + number % 3
        name = f"g{next(self.numbers)}"
        self.sizes[name] = size
        self.api.put(group(f"ns/{name}", min_member=size))
        for index in range(size):
            self.api.put(pod(f"ns/{name}-{index}", cpu=cpu, group=name))

    async def delete(self, number: int) -> None:
        chosen = self.pick(number)
        if chosen is not None:
            self.trouble(chosen.metadata.name)
            self.api.remove(Pod, f"ns/{chosen.metadata.name}")

    async def replace(self, number: int) -> None:
        """Another pod takes its name at once, as a StatefulSet's does."""
        chosen = self.pick(number)
        if chosen is not None:
            await self.delete(number)
            name = chosen.metadata.name
            cpu = amounts(chosen.spec.containers[0].resources.requests)["cpu"] // 1000
            self.api.put(pod(f"ns/{name}", cpu=cpu, group=name.partition("-")[0]))

    async def outage(self, number: int) -> None:
        self.troubled.update(self.sizes)
        self.api.go_down()
        await asyncio.sleep(number % 8)
        self.api.down = False

    async def lag(self, number: int) -> None:
        self.api.lag = number % 4 / 2

    async def cut(self, number: int) -> None:
        self.api.cut_watches()

    async def think(self, number: int) -> None:
        for process in self.processes:
            process.thinks = number % 3

    async def crash(self, number: int) -> None:
        """The next cycle fails, before it decided or after."""
        process = self.processes[self.leader]

        def fail() -> None:
            process.before_cycle = process.after_cycle = lambda: None
            raise Mishap

        if number % 2:
            process.before_cycle = fail
        else:
            process.after_cycle = fail

    async def switch(self, number: int) -> None:
        self.troubled.update(self.sizes)
        self.leases[self.leader].is_leader = False
        await asyncio.sleep(INTERREGNUM)
        self.leader = (self.leader + number) % 2
        self.leases[self.leader].is_leader = True

    def trouble(self, pod_name: str) -> None:
        self.troubled.add(pod_name.partition("-")[0])


EVENTS: list[Callable[[Storm, int], object]] = [
    Storm.gang, Storm.gang, Storm.gang, Storm.delete, Storm.replace, Storm.outage, Storm.lag, Storm.cut, Storm.think,
    Storm.crash, Storm.switch,
]  # fmt: skip
FATES = [
    Fate(),
    Fate(),
    Fate(acts=1.0),
    Fate(answers=2.0),
    lost_before(),
    lost_after(),
    done_late(0.9),
    Fate(acts=5.5),  # given up by the client, and done all the same
    refused(403, "Forbidden"),
    refused(429, "TooManyRequests"),
    refused(500, "InternalError"),
    Fate(says=refused(504, "Timeout").says),
    Fate(acts=None, answers=30.0, says=broken()),
]
storms = st.lists(
    st.tuples(st.sampled_from([0.0, 0.02, 0.5, 1.0, 3.0]), st.sampled_from(EVENTS), st.integers(0, 20)),
    min_size=3,
    max_size=15,
)


@settings(max_examples=60)
@given(storm=storms, fates=st.lists(st.sampled_from(FATES), max_size=20))
def test_no_storm_binds_a_pod_twice_or_overfills_a_node(
    storm: list[tuple[float, Callable[[Storm, int], object], int]], fates: list[Fate]
) -> None:
    with_virtual_time(_weather(storm, fates))


async def _weather(happenings: list[tuple[float, Callable[[Storm, int], object], int]], fates: list[Fate]) -> None:
    api = FakeApi()
    for number in range(NODES):
        api.put(node(f"n{number}", cpu=CPU))
    leases = [Lease(True), Lease(False)]
    storm = Storm(api, [make(api, lease) for lease in leases], leases)
    left = iter(fates)

    def fate(verb: str, key: str) -> Fate:
        if verb not in ("bind", "get") or "/" not in key or key.startswith("policy"):
            return Fate()
        chosen = next(left, Fate())
        if chosen != Fate():
            storm.trouble(key.partition("/")[2])
        return chosen

    api.fate = fate
    async with running(storm.processes[0]), running(storm.processes[1]):
        for delay, event, number in happenings:
            await asyncio.sleep(delay)
            await event(storm, number)  # type: ignore[misc]
        api.fate, api.lag = (lambda verb, key: Fate()), 0.005
        await asyncio.sleep(90.0)
        _check_history(api)
        for process in storm.processes:
            assert process.unhealthy_reason() is None
            assert_ledger_is_what_is_there(process, api)
        _check_gangs(storm)


def _check_history(api: FakeApi) -> None:
    assert all(times == 1 for times in Counter(uid for _, uid, _ in api.binds).values())
    for pods in api.pods_over_time():
        used: Counter[str] = Counter()
        for one in pods.values():
            if one.spec.node_name:
                used[one.spec.node_name] += amounts(one.spec.containers[0].resources.requests)["cpu"]
        assert all(millicores <= CPU * 1000 for millicores in used.values()), used


def _check_gangs(storm: Storm) -> None:
    """Whose every bind the server took, and answered, is there as a whole or not at all."""
    bound = Counter(one.metadata.name.partition("-")[0] for one in storm.api.all(Pod) if one.spec.node_name)
    for name, size in storm.sizes.items():
        if name not in storm.troubled:
            assert bound[name] in (0, size), name
