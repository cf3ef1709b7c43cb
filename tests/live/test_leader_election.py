"""One leader at a time, whatever happens to processes, clocks, connections and the API server.

Every contender is like a separate process: it has its own event loop, and a suspended process is one whose loop does
not run. All loops share a clock that only the test moves. Requests are executed and answered when the test says so, or
lost before or after their execution.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import Any

import msgspec
import pytest

from stromboli.api import ObjectMeta
from stromboli.errors import UserError
from stromboli.kube.client import Failure, Lease, LeaseSpec
from stromboli.kube.runtime import LeaderElector, SoleReplica
from stromboli.kube.runtime.leader_election import suspend_aware_clock

DURATION, RENEW_WITHIN, EVERY = 15.0, 10.0, 2.0


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Loop(asyncio.SelectorEventLoop):
    """A loop on the test's clock, run a step at a time."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(selectors.SelectSelector())
        self._test_clock = clock

    def time(self) -> float:
        return self._test_clock()

    def run_what_is_due(self) -> None:
        while self._ready or (self._scheduled and self._scheduled[0].when() <= self.time()):
            self.stop()
            self.run_forever()


class Store:
    """The lease on the server, with its rules: versions grow, and a write based on an old one is refused."""

    def __init__(self) -> None:
        self.lease: Lease | None = None
        self.version = 0
        self.holders: list[str | None] = []  # one after the other

    def carry_out(self, verb: str, lease: Lease | None) -> Lease:
        if verb == "get":
            if self.lease is None:
                raise Failure(404, "not there", reason="NotFound")
            return self.lease
        assert lease is not None
        if verb == "create":
            if self.lease is not None:
                raise Failure(409, "already there", reason="AlreadyExists")
        else:
            if self.lease is None:
                raise Failure(404, "not there", reason="NotFound")
            if lease.metadata.resource_version != self.lease.metadata.resource_version:
                raise Failure(409, "changed meanwhile", reason="Conflict")
        self.version += 1
        meta = msgspec.structs.replace(lease.metadata, resource_version=str(self.version))
        self.lease = msgspec.structs.replace(lease, metadata=meta)
        if self.holders[-1:] != [lease.spec.holder_identity]:
            self.holders.append(lease.spec.holder_identity)
        return self.lease

    @property
    def spec(self) -> LeaseSpec:
        assert self.lease is not None
        return self.lease.spec


@dataclass
class Request:
    verb: str
    lease: Lease | None
    answer: asyncio.Future[Lease]
    outcome: Lease | Failure | None = None  # None: not carried out yet
    arrives: float | None = None  # in a storm: when it is carried out, and when the answer is there
    returns: float | None = None


class Wire:
    """What a LeaderElector takes for a client: the requests of one contender."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.requests: list[Request] = []

    async def get(self, resource: Any, key: str) -> Lease:
        assert key == "kube-system/stromboli"
        return await self._ask("get", None)

    async def create(self, resource: Any, obj: Lease, *, namespace: str) -> Lease:
        assert namespace == "kube-system"
        return await self._ask("create", obj)

    async def replace(self, resource: Any, obj: Lease) -> Lease:
        return await self._ask("replace", obj)

    async def _ask(self, verb: str, lease: Lease | None) -> Lease:
        request = Request(verb, lease, asyncio.get_running_loop().create_future())
        self.requests.append(request)
        return await request.answer

    def carry_out(self, request: Request) -> None:
        if request.outcome is None:
            try:
                request.outcome = self.store.carry_out(request.verb, request.lease)
            except Failure as failure:
                request.outcome = failure

    def answer(self, request: Request) -> None:
        self.requests.remove(request)
        if request.answer.done():
            return  # it was given up
        if isinstance(request.outcome, Lease):
            request.answer.set_result(request.outcome)
        else:
            request.answer.set_exception(request.outcome or Failure(0, "connection lost"))

    def lose(self, request: Request) -> None:
        """Carried out or not, the contender never hears of it."""
        request.outcome = Failure(0, "connection lost")
        self.answer(request)


class Contender:
    def __init__(self, name: str, store: Store, clock: Clock, **timing: float) -> None:
        self.name = name
        self.clock = clock
        self.loop = Loop(clock)
        self.wire = Wire(store)
        self.dice = iter(range(10**9))
        timing = {"duration": DURATION, "renew_within": RENEW_WITHIN, "every": EVERY} | timing
        self.leadership = LeaderElector(
            self.wire, name="stromboli", namespace="kube-system", identity=name, clock=clock,
            random=lambda: next(self.dice) * 0.37 % 1, **timing,
        )  # fmt: skip
        self.task = self.loop.create_task(self.leadership.run())

    @property
    def is_leader(self) -> bool:
        return self.leadership.is_leader

    def run(self, *, answered: bool = True) -> None:
        """Do what is due by now; `answered`: the server answers at once."""
        self.loop.run_what_is_due()
        while answered and self.wire.requests:
            for request in list(self.wire.requests):
                self.wire.carry_out(request)
                self.wire.answer(request)
            self.loop.run_what_is_due()

    def do(self, work: Any) -> None:
        """Await something in this process, with a server that answers at once."""
        task = self.loop.create_task(work)
        while not task.done():
            self.run()
        task.result()

    def end(self) -> None:
        """At once, with nothing put in order."""
        tasks = asyncio.all_tasks(self.loop)
        for task in tasks:
            task.cancel()
        if tasks:
            self.loop.run_until_complete(asyncio.wait(tasks))
        self.loop.close()


class Stage:
    """Contenders, time, and a server that answers at once unless told otherwise."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.store = Store()
        self.contenders: list[Contender] = []
        self.away: set[Contender] = set()  # stopped, or crashed: their loops do not run
        self.server_up = True

    def join(self, name: str, **timing: float) -> Contender:
        contender = Contender(name, self.store, self.clock, **timing)
        self.contenders.append(contender)
        self.settle()
        return contender

    def settle(self) -> None:
        for contender in self.contenders:
            if contender not in self.away:
                contender.run(answered=self.server_up)
        assert len(self.holders()) <= 1

    def holders(self) -> list[str]:
        return [contender.name for contender in self.contenders if contender.is_leader]

    def pass_time(self, seconds: float) -> None:
        until = self.clock.now + seconds
        while self.clock.now < until:
            self.clock.now = min(until, self.clock.now + 0.1)
            self.settle()

    def end(self) -> None:
        for contender in self.contenders:
            contender.end()


@pytest.fixture
def stage() -> Iterator[Stage]:
    stage = Stage()
    yield stage
    stage.end()


# -- the record ---------------------------------------------------------------------------------------------------


def test_the_first_creates_the_lease_as_client_go_would(stage: Stage) -> None:
    stage.join("a")
    spec = stage.store.spec
    assert (spec.holder_identity, spec.lease_duration_seconds, spec.lease_transitions) == ("a", 15, 0)
    for moment in (spec.acquire_time, spec.renew_time):
        assert moment is not None
        assert len(moment) == len("2030-01-01T00:00:00.000000Z")
    assert stage.holders() == ["a"]


def test_renewal_changes_the_renew_time_and_nothing_else(stage: Stage) -> None:
    stage.join("a")
    first = stage.store.spec
    stage.pass_time(EVERY)
    second = stage.store.spec
    assert second.renew_time != first.renew_time
    assert msgspec.structs.replace(second, renew_time=first.renew_time) == first


def test_other_fields_of_the_lease_stay(stage: Stage) -> None:
    meta = ObjectMeta(name="stromboli", namespace="kube-system", labels={"team": "ops"}, resource_version="7")
    stage.store.lease = Lease(metadata=meta)
    stage.join("a")
    assert stage.holders() == ["a"]
    assert stage.store.lease.metadata.labels == {"team": "ops"}


def test_a_lease_nobody_ever_held_is_taken_at_once(stage: Stage) -> None:
    stage.store.lease = Lease(metadata=ObjectMeta(name="stromboli", namespace="kube-system", resource_version="7"))
    stage.join("a")
    assert stage.holders() == ["a"]


# -- taking over ----------------------------------------------------------------------------------------------------


def test_a_standby_waits_as_long_as_the_leader_renews(stage: Stage) -> None:
    stage.join("a")
    stage.join("b")
    stage.pass_time(100)
    assert stage.holders() == ["a"]
    assert stage.store.holders == ["a"]


def test_a_standby_takes_over_when_the_lease_expires(stage: Stage) -> None:
    a, b = stage.join("a"), stage.join("b")
    stage.pass_time(1)
    stage.away.add(a)  # b saw a's only renewal at 0 s, so it may take the lease from 15 s on
    stage.pass_time(13.8)
    assert stage.holders() == []
    stage.pass_time(0.5)
    assert stage.holders() == [b.name]
    assert stage.store.spec.lease_transitions == 1


def test_the_clocks_of_other_machines_do_not_matter(stage: Stage) -> None:
    """A time in the object that is long past, or far in the future, says nothing about the lease's life."""
    for moment in ("1999-01-01T00:00:00.000000Z", "2199-01-01T00:00:00.000000Z"):
        meta = ObjectMeta(name="stromboli", namespace="kube-system", resource_version="7")
        spec = LeaseSpec(holder_identity="elsewhere", lease_duration_seconds=15, renew_time=moment)
        stage.store.lease = Lease(metadata=meta, spec=spec)
        contender = stage.join(f"after {moment}")
        stage.pass_time(14.9)
        assert not contender.is_leader
        stage.pass_time(0.5)
        assert contender.is_leader
        stage.away.add(contender)
        stage.pass_time(RENEW_WITHIN)


def test_the_duration_in_the_lease_counts(stage: Stage) -> None:
    meta = ObjectMeta(name="stromboli", namespace="kube-system", resource_version="7")
    spec = LeaseSpec(holder_identity="elsewhere", lease_duration_seconds=60)
    stage.store.lease = Lease(metadata=meta, spec=spec)
    stage.join("a")
    stage.pass_time(59)
    assert stage.holders() == []
    stage.pass_time(2)
    assert stage.holders() == ["a"]


def test_of_two_standbys_one_wins(stage: Stage) -> None:
    a, b, c = stage.join("a"), stage.join("b"), stage.join("c")
    stage.away.add(a)
    stage.pass_time(20)
    assert len(stage.holders()) == 1
    assert stage.store.holders in (["a", "b"], ["a", "c"])
    assert b.is_leader != c.is_leader


def test_a_lease_deleted_under_its_holder_is_not_free(stage: Stage) -> None:
    a, b = stage.join("a"), stage.join("b")
    stage.pass_time(1)
    stage.store.lease = None
    b.run()
    stage.clock.now += 2.9  # b looks, before a does
    b.run()
    assert not b.is_leader
    a.run()
    assert a.is_leader
    assert stage.store.spec.holder_identity == "a"


def test_lost_leadership_can_be_won_again(stage: Stage) -> None:
    a, b = stage.join("a"), stage.join("b")
    stage.away.add(a)
    stage.pass_time(20)
    assert b.is_leader
    stage.away = {b}
    stage.pass_time(20)
    assert stage.holders() == ["a"]
    assert stage.store.holders == ["a", "b", "a"]


# -- the fence ------------------------------------------------------------------------------------------------------


def test_a_suspended_process_knows_at_once_that_it_is_not_the_leader(stage: Stage) -> None:
    a, b = stage.join("a"), stage.join("b")
    stage.away.add(a)
    stage.pass_time(60)
    assert b.is_leader
    assert not a.is_leader  # before its loop has run at all
    stage.away.clear()
    a.loop.run_what_is_due()
    assert not a.is_leader
    stage.pass_time(10)
    assert stage.holders() == ["b"]


def test_a_lease_changed_by_hand_is_lost_when_it_is_read(stage: Stage) -> None:
    a = stage.join("a")
    assert stage.store.lease is not None
    stage.store.carry_out("replace", msgspec.structs.replace(stage.store.lease, spec=LeaseSpec(holder_identity="z")))
    stage.pass_time(EVERY + 0.2)
    assert not a.is_leader
    stage.pass_time(DURATION)
    assert a.is_leader


def test_the_fence_starts_before_the_renewal_is_sent(stage: Stage) -> None:
    """The answer comes nine seconds late: one second of the ten is left."""
    a = stage.join("a")
    stage.clock.now += EVERY
    a.run(answered=False)
    [read] = a.wire.requests
    a.wire.carry_out(read)
    a.wire.answer(read)
    a.run(answered=False)
    [renewal] = a.wire.requests
    a.wire.carry_out(renewal)
    stage.clock.now += 9  # stopped: its patience has run out too, but the answer is there first
    a.wire.answer(renewal)
    a.run(answered=False)
    assert a.is_leader
    stage.clock.now += 1
    assert not a.is_leader


def test_without_the_api_server_nobody_leads_for_longer_than_the_fence(stage: Stage) -> None:
    a = stage.join("a")
    stage.join("b")
    stage.server_up = False
    stage.pass_time(RENEW_WITHIN - 0.2)
    assert a.is_leader
    stage.pass_time(0.4)
    assert not a.is_leader
    stage.pass_time(60)
    assert stage.holders() == []
    stage.server_up = True
    stage.pass_time(5)
    assert stage.holders() in (["a"], ["b"])


def test_a_short_outage_does_not_lose_the_lease(stage: Stage) -> None:
    a = stage.join("a")
    stage.server_up = False
    stage.pass_time(6)
    stage.server_up = True
    for _ in range(40):
        assert a.is_leader
        stage.pass_time(1)


# -- giving up ------------------------------------------------------------------------------------------------------


def test_a_released_lease_is_taken_without_waiting_for_its_end(stage: Stage) -> None:
    a, b = stage.join("a"), stage.join("b")
    a.do(a.leadership.release())
    assert not a.is_leader
    assert stage.store.spec.holder_identity in ("", None)
    assert stage.store.spec.lease_duration_seconds == 1
    stage.pass_time(EVERY * 1.5 + 0.2)
    assert stage.holders() == [b.name]
    assert stage.store.spec.lease_transitions == 1


def test_release_ends_the_leadership_before_it_is_written(stage: Stage) -> None:
    a = stage.join("a")
    task = a.loop.create_task(a.leadership.release())
    a.run(answered=False)
    assert not a.is_leader
    a.run()
    assert task.done()


def test_release_during_a_renewal_ends_the_leadership(stage: Stage) -> None:
    a = stage.join("a")
    stage.clock.now += EVERY
    a.run(answered=False)
    a.do(a.leadership.release())
    assert not a.is_leader
    stage.pass_time(30)
    assert stage.holders() == []
    assert a.task.done()
    a.task.result()


def test_release_does_not_change_the_lease_of_another(stage: Stage) -> None:
    a, b = stage.join("a"), stage.join("b")
    b.do(b.leadership.release())
    assert stage.store.spec.holder_identity == "a"
    assert a.is_leader


def test_release_without_a_server_gives_up_in_time(stage: Stage) -> None:
    a = stage.join("a")
    stage.server_up = False
    task = a.loop.create_task(a.leadership.release())
    stage.pass_time(RENEW_WITHIN)
    assert task.done()
    task.result()
    assert not a.is_leader


def test_after_a_cancellation_the_lease_stays_until_its_end(stage: Stage) -> None:
    a, b = stage.join("a"), stage.join("b")
    a.task.cancel()
    stage.pass_time(14)
    assert not b.is_leader
    stage.pass_time(4)
    assert b.is_leader


# -- waiting --------------------------------------------------------------------------------------------------------


def test_waiters_continue_when_the_lease_is_acquired(stage: Stage) -> None:
    a, b = stage.join("a"), stage.join("b")
    waiting = [b.loop.create_task(b.leadership.wait_until_leader()) for _ in range(2)]
    stage.pass_time(10)
    assert not any(task.done() for task in waiting)
    stage.away.add(a)
    stage.pass_time(20)
    assert all(task.done() for task in waiting)


def test_a_sole_replica_is_always_the_leader() -> None:
    async def story() -> None:
        alone = SoleReplica()
        assert alone.is_leader
        await alone.wait_until_leader()
        await alone.release()
        running = asyncio.create_task(alone.run())
        await asyncio.sleep(0)
        assert not running.done()
        running.cancel()

    asyncio.run(story())


def test_inconsistent_durations_are_refused() -> None:
    for timing in ({"renew_within": 15.0}, {"every": 10.0}, {"every": 0.0}):
        with pytest.raises(UserError, match="the first must be the longest"):
            LeaderElector(Wire(Store()), name="stromboli", namespace="kube-system", identity="a", **timing)


def test_the_clock_goes_forward() -> None:
    assert suspend_aware_clock() <= suspend_aware_clock()


# -- what the log says ----------------------------------------------------------------------------------------------


def test_every_change_is_logged_once(stage: Stage, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "stromboli.leadership")
    a, b = stage.join("a"), stage.join("b")
    stage.pass_time(10)
    stage.away.add(a)
    stage.pass_time(20)
    stage.away.clear()
    stage.pass_time(20)
    stage.server_up = False
    stage.pass_time(60)
    assert b.name == "b"
    assert [record.getMessage() for record in caplog.records] == [
        "became the leader",  # a
        "another process is the leader",  # seen by b
        "became the leader",  # b
        "another process is the leader",  # seen by a
        "no longer the leader",  # a, when it is back
        "cannot acquire or renew the lease",
        "cannot acquire or renew the lease",
        "no longer the leader",  # b
    ]


# -- storms ---------------------------------------------------------------------------------------------------------


class Storm:
    """Three contenders, and bad luck of every kind: requests take their time or get lost on either way, processes are
    stopped for a while, crash and come back under another name, release the lease, and the server has outages."""

    def __init__(self, seed: int) -> None:
        self.dice = Random(seed)
        self.clock = Clock()
        self.store = Store()
        self.contenders: list[Contender] = []
        self.stopped_until: dict[Contender, float] = {}
        self.server_back = 0.0
        self.started = 0
        self.leaders: list[str] = []  # one after the other
        for _ in range(3):
            self.start_another()

    def start_another(self) -> None:
        self.started += 1
        self.contenders.append(Contender(f"p{self.started}", self.store, self.clock))

    def happens(self, seconds: float) -> bool:
        """Whether something happens in this step that happens about once in so many seconds."""
        return self.dice.random() < STEP / seconds

    def step(self) -> None:
        self.clock.now += STEP
        if self.happens(60):
            self.server_back = self.clock.now + self.dice.uniform(1, 20)
        for contender in self.dice.sample(self.contenders, len(self.contenders)):
            self.move(contender)
        leaders = [contender.name for contender in self.contenders if contender.is_leader]
        assert len(leaders) <= 1, f"{' and '.join(leaders)} both lead"
        if leaders and self.leaders[-1:] != leaders:
            self.leaders += leaders

    def move(self, contender: Contender) -> None:
        if self.happens(30):
            self.stopped_until[contender] = self.clock.now + self.dice.uniform(1, 25)
        if self.happens(90):
            return self.replace(contender)
        if self.happens(90) and contender.is_leader:
            task = contender.loop.create_task(contender.leadership.release())
            contender.run()
            assert task.done()
            return self.replace(contender)
        if self.stopped_until.get(contender, 0.0) <= self.clock.now:
            contender.run(answered=False)
        if self.clock.now >= self.server_back:
            for request in list(contender.wire.requests):
                self.serve(contender, request)
        return None

    def serve(self, contender: Contender, request: Request) -> None:
        if request.arrives is None:
            request.arrives = self.clock.now + self.delay()
            request.returns = request.arrives + self.delay()
        if self.clock.now >= request.arrives:
            contender.wire.carry_out(request)
        if self.dice.random() < 0.03:
            contender.wire.lose(request)
        elif request.returns is not None and self.clock.now >= request.returns:
            contender.wire.answer(request)

    def delay(self) -> float:
        return self.dice.uniform(0, 6) if self.dice.random() < 0.2 else 0.0

    def replace(self, contender: Contender) -> None:
        for request in contender.wire.requests:  # what it had sent arrives all the same
            contender.wire.carry_out(request)
        self.contenders.remove(contender)
        contender.end()
        self.start_another()

    def end(self) -> None:
        for contender in self.contenders:
            contender.end()


STEP = 0.25


@pytest.mark.parametrize("seed", range(20))
def test_nobody_ever_sees_two_leaders(seed: int) -> None:
    storm = Storm(seed)
    try:
        for _ in range(int(600 / STEP)):
            storm.step()
    finally:
        storm.end()
    # Or it would be easy: ten minutes of this have seen many leaders come and go.
    assert len(storm.leaders) >= 5
