"""Binds are sent while later actions of their cycle still run.

A hunt is an action that takes long and decides nothing. Here it ends, or fails, when the server has got the binds that
were decided before it. Cycles are run in a thread, in real time.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence

from builders import group, node, pod, priority_class
from live.fake_api import FakeApi, Fate, until, with_virtual_time
from live.scheduler_harness import InThread, assert_ledger_is_what_is_there, component, make, running
from stromboli.api import ObjectMeta, ObjectReference, Pod, Reservation, ReservationStatus, key
from stromboli.cluster import Applied, Cluster, JobKey, Status, TaskKey
from stromboli.kube.scheduler.cycle_runner import Send, _Outbox
from stromboli.kube.scheduler.dispatcher import TargetedDecision
from stromboli.scheduling.cycle import Scheduler
from stromboli.scheduling.decisions import Bind, Cycle, Decision, DropUsers, Evict, PatchReservation
from stromboli.scheduling.plugin import Action
from stromboli.scheduling.registry import Registry
from stromboli.scheduling.session import Session

PATIENCE = 20.0  # seconds; only a scheduler that sends nothing makes a test wait so long

CONFIGURATION = """
actions: "enqueue, allocate, preempt, hunt"
tiers:
- plugins: [{name: priority}, {name: gang}]
- plugins: [{name: predicates}, {name: nodeorder}]
"""


class Mishap(Exception):
    pass


class Server(FakeApi):
    """Says in other threads, too, which requests it got."""

    def __init__(self) -> None:
        super().__init__(fate=self._note)
        self._got = threading.Condition()

    def _note(self, verb: str, key: str) -> Fate:
        with self._got:
            self._got.notify_all()
        return Fate()

    def got_binds(self, wanted: int) -> bool:
        """Wait until so many binds have come; False if they do not."""
        with self._got:
            return self._got.wait_for(lambda: self.count("bind") >= wanted, PATIENCE)


def hunting(hunt: Callable[[Session, int], None]) -> Scheduler:
    """A scheduler whose last action calls `hunt` in each cycle that has decided binds, with their number."""

    class Hunt(Action):
        def execute(self, session: Session) -> None:
            binds = sum(isinstance(decision, Bind) for decision in session.cycle.decisions)
            if binds:
                hunt(session, binds)

    registry = Registry(installed_plugins=(), installed_actions=())
    registry.register_action("hunt", Hunt)
    return Scheduler(registry.load(CONFIGURATION), registry)


def gang_of_three(api: FakeApi) -> None:
    api.put(group("ns/g", min_member=3))
    for index in range(3):
        api.put(pod(f"ns/g-{index}", cpu=1, group="g"))


def bound(api: FakeApi) -> dict[str, str]:
    return {key(one): one.spec.node_name for one in api.all(Pod) if one.spec.node_name}


def test_a_gang_is_bound_while_the_hunt_of_its_cycle_goes_on() -> None:
    binds_in_hunt: list[bool] = []

    async def story() -> None:
        api = Server()
        api.put(node("n1", cpu=4))
        gang_of_three(api)
        process = component(InThread, api, hunting(lambda _, binds: binds_in_hunt.append(api.got_binds(binds))))
        async with running(process):
            await until(lambda: [task.true_status for task in process.cluster.tasks.values()] == [Status.BOUND] * 3)
        assert_ledger_is_what_is_there(process, api)
        assert api.count("bind") == 3

    asyncio.run(story())
    assert binds_in_hunt == [True]


def test_a_hunt_that_fails_loses_no_bind_and_repeats_none() -> None:
    """The next gang would fit where the first one is, if its binds were forgotten."""
    failures = [Mishap()]

    async def story() -> None:
        api = Server()
        api.put(node("n1", cpu=4))
        gang_of_three(api)

        def fail(_: Session, binds: int) -> None:
            if failures and api.got_binds(binds):
                raise failures.pop()

        process = component(InThread, api, hunting(fail))
        async with running(process):
            before = process.cluster
            await until(lambda: process.cluster is not before)
            api.put(group("ns/late", min_member=2))
            for index in range(2):
                api.put(pod(f"ns/late-{index}", cpu=1, group="late"))
            await until(lambda: [one for one in api.patches if one[1] == "ns/late-0"])
        assert_ledger_is_what_is_there(process, api)
        assert api.count("bind") == 3
        assert bound(api) == {"ns/g-0": "n1", "ns/g-1": "n1", "ns/g-2": "n1"}

    asyncio.run(story())
    assert failures == []


def test_an_eviction_waits_for_the_end_of_its_cycle() -> None:
    """Or a scheduler that is killed in the hunt would have made room that nobody is nominated for."""
    seen: list[tuple[bool, int]] = []

    async def story() -> None:
        api = Server()
        api.put(node("n1", cpu=4))
        api.put(node("n2", cpu=1))
        api.put(priority_class("high", 10))
        api.put(group("ns/old", min_member=1, phase="Running"))
        api.put(pod("ns/old-0", cpu=4, group="old", node="n1", phase="Running"))
        api.put(group("ns/small", min_member=1))
        api.put(pod("ns/small-0", cpu=1, group="small"))
        api.put(group("ns/new", min_member=1, priority_class="high"))
        api.put(pod("ns/new-0", cpu=4, group="new", priority_class="high", priority=10))

        def hunt(session: Session, binds: int) -> None:
            assert "Evict" in [type(decision).__name__ for decision in session.cycle.decisions]
            seen.append((api.got_binds(binds), api.count("evict")))

        process = component(InThread, api, hunting(hunt))
        async with running(process):
            await until(lambda: api.count("evict") == 1)
        assert bound(api)["ns/small-0"] == "n2"

    asyncio.run(story())
    assert seen == [(True, 0)]


def test_all_decisions_of_a_cycle_are_sent_once_and_binds_first() -> None:
    decided: list[Sequence[Decision]] = []
    sent: list[Decision] = []

    async def story() -> None:
        api = FakeApi()
        api.put(node("n1", cpu=4))
        gang_of_three(api)
        api.put(group("ns/waits", min_member=1))
        api.put(pod("ns/waits-0", cpu=3, group="waits"))
        process = make(api)
        really = process._really_decide

        def decide(events: list[object], send: Send) -> Cycle:
            def note(decisions: Sequence[TargetedDecision]) -> None:
                sent.extend(one.decision for one in decisions)
                send(decisions)

            cycle = really(events, note)  # type: ignore[arg-type]
            decided.append(cycle.decisions)
            return cycle

        process._really_decide = decide  # type: ignore[assignment]
        async with running(process):
            await until(lambda: process.cycles >= 3)

    with_virtual_time(story())
    assert {type(decision).__name__ for decision in decided[0]} >= {"Bind", "PatchPod", "PatchGroup"}
    binds_first = [sorted(cycle, key=lambda decision: not isinstance(decision, Bind)) for cycle in decided]
    assert sent == [decision for cycle in binds_first for decision in cycle]


class Sent(list[Decision]):
    def __call__(self, decisions: Sequence[TargetedDecision]) -> None:
        self.extend(one.decision for one in decisions)


def test_a_reservation_that_gives_way_leaves_with_the_binds() -> None:
    """They wait for it on its node."""
    gives_way = PatchReservation("r", "u1", "Pending", "", {}, ())
    binds = [Bind(TaskKey(f"ns/{name}"), "n1", JobKey("ns/g")) for name in "ab"]
    evicts = Evict(TaskKey("ns/old"), "n1", "Preempted", "for ns/a")
    cycle, sent = Cycle(), Sent()
    outbox = _Outbox(Cluster(), sent)
    cycle.decisions += [binds[0], evicts, gives_way, binds[1]]
    outbox.send_binds(cycle)
    assert sent == [binds[0], gives_way, binds[1]]
    outbox.send_rest(cycle, ())
    assert sent == [binds[0], gives_way, binds[1], evicts]


def test_a_pod_that_a_reservation_lists_is_bound_at_the_end_of_the_cycle() -> None:
    """Only then it is known whether it stays on the list, and it is removed before it is bound."""
    known = Cluster()
    held = Reservation(
        metadata=ObjectMeta(name="r", uid="u1"),
        status=ReservationStatus(
            phase="Available", node_name="n1",
            current_owners=[ObjectReference(kind="Pod", namespace="ns", name="a", uid="a")],
        ),
    )  # fmt: skip
    known.apply(Applied(held))
    binds = [Bind(TaskKey(f"ns/{name}"), "n1", JobKey("ns/g")) for name in "ab"]
    drops = DropUsers("r", "u1", (), ())
    cycle, sent = Cycle(), Sent()
    outbox = _Outbox(known, sent)
    cycle.decisions += binds
    outbox.send_binds(cycle)
    assert sent == [binds[1]]
    cycle.decisions.append(drops)
    outbox.send_rest(cycle, ())
    assert sent == [binds[1], drops, binds[0]]
