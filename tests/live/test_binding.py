"""Binds and evictions: sent at most once, behind the fence, and nothing is said of them that is not known."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from builders import pod
from live.pretend_api import (
    Fate,
    PretendApi,
    done_late,
    lost_after,
    lost_before,
    refused,
    until,
    with_pretended_time,
)
from stromboli.api import Pod, names
from stromboli.cluster import BindFailed, EvictFailed, TaskKey
from stromboli.kube.client.errors import Failure
from stromboli.kube.client.rate_limit import TokenBucket
from stromboli.kube.scheduler.binder import Binding, BindOrder, EvictOrder, Order


class Fence:
    held = True


class Office:
    """A binding at work, and everything it said."""

    def __init__(self, api: PretendApi, workers: int = 8) -> None:
        self.api = api
        self.fence = Fence()
        self.said: list[str] = []
        self.reasons: list[str] = []
        self.reported: list[tuple[str, str]] = []
        self.watched: dict[str, Pod] = {}
        self.binding = Binding(
            api,  # type: ignore[arg-type]
            fence=self.fence,
            binds=TokenBucket(1e6, 1000),
            evictions=TokenBucket(1e6, 1000),
            report=self.report,
            outcomes=self,
            known=self.watched.get,
            patience=5.0,
            workers=workers,
        )

    def report(self, event: BindFailed | EvictFailed, uid: str) -> None:
        self.said.append(f"{type(event).__name__} {event.task}")
        self.reported.append((event.task, uid))

    def bound(self, order: BindOrder, seconds: float) -> None:
        self.said.append(f"bound {order.task}")

    def bind_failed(self, order: BindOrder, why: str) -> None:
        self.reasons.append(why)

    def evicted(self, order: EvictOrder) -> None:
        self.said.append(f"evicted {order.task}")

    def evict_failed(self, order: EvictOrder, why: str) -> None:
        self.reasons.append(why)

    def uid(self, key: str) -> str:
        found = self.api.stored(Pod, key)
        assert found is not None
        return found.metadata.uid

    def bind(self, key: str = "ns/a", node: str = "n1", *, uid: str = "", backfill: bool = False) -> BindOrder:
        return BindOrder(TaskKey(key), uid or self.uid(key), node, backfill)

    def evict(self, key: str = "ns/r", *, uid: str = "") -> EvictOrder:
        return EvictOrder(TaskKey(key), uid or self.uid(key), "n1", "Preempted", "for somebody more important")

    def watch_shows(self, key: str) -> None:
        found = self.api.stored(Pod, key)
        assert found is not None
        self.watched[key] = found


Story = Callable[[PretendApi, Office], Awaitable[None]]


def tell(story: Story, *, workers: int = 8, **facts: Any) -> None:
    async def run() -> None:
        api = PretendApi(**facts)
        for name in "abcd":
            api.put(pod(f"ns/{name}", cpu=1))
        api.put(pod("ns/r", cpu=1, node="n1"))
        office = Office(api, workers)
        running = asyncio.create_task(office.binding.run())
        try:
            await story(api, office)
            assert not running.done()
        finally:
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running

    with_pretended_time(run())


async def carried_out(office: Office, *orders: Order) -> None:
    office.binding.send(list(orders))
    assert office.binding.outstanding == len(orders)
    async with asyncio.timeout(600):
        await office.binding.idle()
    assert office.binding.outstanding == 0
    await office.api.settle()


def of(verb: str, *fates: Fate) -> Callable[[str, str], Fate]:
    """The next requests by this verb have these fates; all others go well."""
    left = iter(fates)
    return lambda asked, key: next(left, Fate()) if asked == verb else Fate()


def test_what_the_server_takes_is_said_once_and_is_no_event() -> None:
    async def story(api: PretendApi, office: Office) -> None:
        await carried_out(office, office.bind("ns/a"), office.bind("ns/b", "n2"), office.evict())
        assert sorted(office.said) == ["bound ns/a", "bound ns/b", "evicted ns/r"]
        assert sorted(node for _, _, node in api.binds) == ["n1", "n2"]
        assert api.count("get") == 0

    tell(story)


def test_a_bind_on_lent_room_marks_the_pod_in_the_same_write() -> None:
    async def story(api: PretendApi, office: Office) -> None:
        await carried_out(office, office.bind(backfill=True))
        bound = api.stored(Pod, "ns/a")
        assert bound is not None
        assert bound.metadata.annotations[names.BACKFILL] == "true"

    tell(story)


@pytest.mark.parametrize("status", [400, 403, 404, 422, 429])
def test_a_no_is_a_no_and_is_not_asked_about(status: int) -> None:
    async def story(api: PretendApi, office: Office) -> None:
        await carried_out(office, office.bind())
        assert office.said == ["BindFailed ns/a"]
        assert office.reported == [("ns/a", office.uid("ns/a"))]
        assert api.count("get") == 0
        assert api.count("bind") == 1

    tell(story, fate=of("bind", refused(status, "No")))


@pytest.mark.parametrize("failure", [(0, ""), (500, "InternalError"), (503, ""), (504, "Timeout")])
@pytest.mark.parametrize("acted", [True, False])
def test_after_a_lost_answer_the_pod_is_asked(failure: tuple[int, str], acted: bool) -> None:
    async def story(api: PretendApi, office: Office) -> None:
        await carried_out(office, office.bind())
        assert office.said == (["bound ns/a"] if acted else ["BindFailed ns/a"])
        assert api.count("bind") == 1
        assert api.count("get") >= 1

    status, reason = failure
    tell(story, fate=of("bind", Fate(acts=0.001 if acted else None, says=Failure(status, "?", reason=reason))))


def test_a_server_that_acts_after_the_connection_broke_is_waited_for() -> None:
    async def story(api: PretendApi, office: Office) -> None:
        await carried_out(office, office.bind())
        assert office.said == ["bound ns/a"]

    tell(story, fate=of("bind", done_late(0.5)))


def test_the_pod_is_asked_until_somebody_answers() -> None:
    async def story(api: PretendApi, office: Office) -> None:
        def cut(verb: str, key: str) -> Fate:
            api.down = True
            return lost_after()

        api.fate = cut
        office.binding.send([office.bind()])
        await until(lambda: api.count("get") >= 5)
        assert office.said == []
        assert office.binding.outstanding == 1
        api.down = False
        api.fate = lambda verb, key: Fate()
        await office.binding.idle()
        assert office.said == ["bound ns/a"]

    tell(story)


def test_a_bind_that_takes_too_long_is_given_up_and_asked_about() -> None:
    """A standby may have the lease by the time it is carried out; nothing may be sent again by then."""

    async def story(api: PretendApi, office: Office) -> None:
        began = asyncio.get_running_loop().time()
        await carried_out(office, office.bind())
        assert asyncio.get_running_loop().time() - began < 10.0
        assert office.said == ["BindFailed ns/a"]
        assert api.count("bind") == 1

    tell(story, fate=of("bind", Fate(acts=None, answers=90.0, says=Failure(429, "later", retry_after=30.0))))


def test_a_conflict_with_ourselves_is_a_success() -> None:
    async def story(api: PretendApi, office: Office) -> None:
        await api.bind("ns/a", office.uid("ns/a"), "n1")
        await carried_out(office, office.bind("ns/a", "n1"))
        assert office.said == ["bound ns/a"]

    tell(story)


def test_a_conflict_with_another_scheduler_is_none() -> None:
    async def story(api: PretendApi, office: Office) -> None:
        await api.bind("ns/a", office.uid("ns/a"), "n2")
        await carried_out(office, office.bind("ns/a", "n1"))
        assert office.said == ["BindFailed ns/a"]

    tell(story)


@pytest.mark.parametrize("fate", [Fate(), lost_before(), lost_after()])
def test_another_pod_of_the_name_is_not_bound_in_its_place(fate: Fate) -> None:
    async def story(api: PretendApi, office: Office) -> None:
        order = office.bind()
        api.remove(Pod, "ns/a")
        api.put(pod("ns/a", cpu=1))
        assert office.uid("ns/a") != order.uid
        await carried_out(office, order)
        assert office.said == ["BindFailed ns/a"]
        assert office.reported == [("ns/a", order.uid)]
        assert api.binds == []

    tell(story, fate=of("bind", fate))


def test_a_pod_that_is_gone_has_not_been_bound() -> None:
    async def story(api: PretendApi, office: Office) -> None:
        order = office.bind()
        api.remove(Pod, "ns/a")
        await carried_out(office, order)
        assert office.said == ["BindFailed ns/a"]

    tell(story, fate=of("bind", lost_before()))


def test_no_order_leaves_once_the_fence_has_fallen_and_each_is_given_back() -> None:
    async def story(api: PretendApi, office: Office) -> None:
        def falls(verb: str, key: str) -> Fate:
            if api.count("bind") == 2:
                office.fence.held = False
            return Fate()

        api.fate = falls
        orders: list[Order] = [office.bind(f"ns/{name}") for name in "abcd"]
        await carried_out(office, *orders, office.evict())
        failed = ["BindFailed ns/c", "BindFailed ns/d", "EvictFailed ns/r"]
        assert office.said == ["bound ns/a", "bound ns/b", *failed]
        assert [key for key, _, _ in api.binds] == ["ns/a", "ns/b"]
        assert api.count("evict") == 0

    tell(story, workers=1)


def test_what_was_not_sent_can_be_recalled_and_what_was_is_waited_for() -> None:
    async def story(api: PretendApi, office: Office) -> None:
        office.binding.send([office.bind(f"ns/{name}") for name in "abc"])
        await until(lambda: api.count("bind") == 1)
        office.binding.recall("the scheduler stops")
        assert office.said == ["BindFailed ns/b", "BindFailed ns/c"]
        assert office.reasons == ["the scheduler stops"] * 2
        assert office.binding.outstanding == 1
        await office.binding.idle()
        assert office.said[2:] == ["bound ns/a"]

    tell(story, workers=1, fate=lambda verb, key: Fate(acts=1.0))


def test_a_recall_with_nothing_under_way_leaves_nothing_to_wait_for() -> None:
    async def story(api: PretendApi, office: Office) -> None:
        office.binding.send([office.bind()])
        office.binding.recall("the scheduler stops")
        await office.binding.idle()
        assert office.said == ["BindFailed ns/a"]
        assert api.binds == []

    tell(story)


def test_a_gang_goes_out_together() -> None:
    """100 binds that take a second each: 32 at a time, so the last is done after ceil(100 / 32) = 4 seconds."""

    async def story(api: PretendApi, office: Office) -> None:
        for number in range(100):
            api.put(pod(f"gang/p{number}", cpu=1))
        began = asyncio.get_running_loop().time()
        await carried_out(office, *(office.bind(f"gang/p{number}") for number in range(100)))
        assert len(api.binds) == 100
        assert asyncio.get_running_loop().time() - began < 4.5

    tell(story, workers=32, fate=lambda verb, key: Fate(acts=1.0))


# -- evictions ------------------------------------------------------------------------------------------------------


def test_an_eviction_that_a_budget_forbids_did_not_happen() -> None:
    async def story(api: PretendApi, office: Office) -> None:
        await carried_out(office, office.evict())
        assert office.said == ["EvictFailed ns/r"]
        assert api.count("evict") == 1

    tell(story, fate=of("evict", refused(429, "TooManyRequests", cause="DisruptionBudget")))


def test_a_pod_that_went_by_itself_needs_no_eviction() -> None:
    async def story(api: PretendApi, office: Office) -> None:
        order = office.evict()
        api.remove(Pod, "ns/r")
        await carried_out(office, order)
        assert office.said == []

    tell(story)


@pytest.mark.parametrize(
    ("fate", "said"), [(lost_after(), ["evicted ns/r"]), (lost_before(), ["EvictFailed ns/r"])]
)
def test_after_a_lost_answer_to_an_eviction_the_pod_is_asked(fate: Fate, said: list[str]) -> None:
    async def story(api: PretendApi, office: Office) -> None:
        await carried_out(office, office.evict())
        assert office.said == said

    tell(story, fate=of("evict", fate))


def test_another_pod_of_the_name_is_not_evicted_in_its_place() -> None:
    async def story(api: PretendApi, office: Office) -> None:
        order = office.evict()
        api.remove(Pod, "ns/r")
        api.put(pod("ns/r", cpu=1, node="n1"))
        await carried_out(office, order)
        assert office.reported == [("ns/r", order.uid)]
        assert api.stored(Pod, "ns/r").metadata.deletion_timestamp is None  # type: ignore[union-attr]

    tell(story)


# -- until it is known ----------------------------------------------------------------------------------------------


def test_settled_is_when_the_watch_has_shown_what_came_of_it() -> None:
    async def story(api: PretendApi, office: Office) -> None:
        for key in ("ns/a", "ns/b", "ns/r"):
            office.watch_shows(key)
        await carried_out(office, office.bind("ns/a"), office.bind("ns/b"), office.evict())
        settled = asyncio.create_task(office.binding.settled())
        await asyncio.sleep(1.0)
        assert not settled.done()
        office.watch_shows("ns/a")
        office.watch_shows("ns/r")
        await asyncio.sleep(1.0)
        assert not settled.done()
        del office.watched["ns/b"]  # bound, and deleted before anybody saw it
        await settled

    tell(story)


def test_what_the_watch_showed_before_the_answer_came_is_settled() -> None:
    async def story(api: PretendApi, office: Office) -> None:
        office.watch_shows("ns/a")
        office.binding.send([office.bind()])
        await until(lambda: api.binds)
        office.watch_shows("ns/a")
        async with asyncio.timeout(10):
            await office.binding.settled()

    tell(story, fate=of("bind", Fate(answers=2.0)))


def test_what_was_refused_leaves_nothing_to_wait_for() -> None:
    async def story(api: PretendApi, office: Office) -> None:
        for key in ("ns/a", "ns/r"):
            office.watch_shows(key)
        office.fence.held = False
        await carried_out(office, office.bind(), office.evict())
        async with asyncio.timeout(1):
            await office.binding.settled()

    tell(story)


def test_it_is_busy_until_a_moment_after_the_last_order() -> None:
    async def story(api: PretendApi, office: Office) -> None:
        assert not office.binding.busy
        await carried_out(office, office.bind("ns/a"))
        assert office.binding.outstanding == 0
        assert office.binding.busy
        await asyncio.sleep(1.0)
        assert not office.binding.busy

    tell(story)


def test_the_next_cycle_waits_until_a_worker_is_free() -> None:
    async def story(api: PretendApi, office: Office) -> None:
        office.binding.send([office.bind(f"ns/{name}") for name in "abc"])
        assert office.binding.outstanding == 3
        await office.binding.nearly_idle()
        assert office.binding.outstanding < 2

    tell(story, workers=2)
