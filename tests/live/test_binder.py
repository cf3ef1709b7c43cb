"""The binder: requests are sent at most once and only by the leader, and only known outcomes are reported."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from builders import pod
from live.fake_api import (
    FakeApi,
    Fate,
    done_late,
    lost_after,
    lost_before,
    refused,
    until,
    with_virtual_time,
)
from stromboli.api import Pod, is_backfill, names
from stromboli.cluster import BindFailed, EvictFailed, TaskKey
from stromboli.kube.client import Failure, TokenBucket
from stromboli.kube.runtime import ErrorReporter
from stromboli.kube.scheduler.binder import CROWD, RETRYING_WORKERS, Binder, BindRequest, EvictRequest, Request


class Fence:
    is_leader = True


class BinderHarness:
    """A running binder, and everything it reported."""

    def __init__(self, api: FakeApi, workers: int = 8) -> None:
        self.api = api
        self.fence = Fence()
        self.said: list[str] = []
        self.reasons: list[str] = []
        self.reported: list[tuple[str, str]] = []
        self.refused_on: list[str] = []  # the nodes of binds that the server refused, "" for other failures
        self.watched: dict[str, Pod] = {}
        self.binder = Binder(
            api,  # type: ignore[arg-type]
            fence=self.fence,
            binds=TokenBucket(1e6, 1000),
            evictions=TokenBucket(1e6, 1000),
            report=self.report,
            listener=self,
            cached_pod=self.watched.get,
            contain=ErrorReporter("test", None).contain,
            timeout=5.0,
            workers=workers,
        )

    def report(self, event: BindFailed | EvictFailed, uid: str) -> None:
        self.said.append(f"{type(event).__name__} {event.task}")
        self.reported.append((event.task, uid))
        if isinstance(event, BindFailed):
            self.refused_on.append(event.node)

    def bound(self, request: BindRequest, seconds: float) -> None:
        self.said.append(f"bound {request.task}")

    def bind_failed(self, request: BindRequest, why: str) -> None:
        self.reasons.append(why)

    def evicted(self, request: EvictRequest) -> None:
        self.said.append(f"evicted {request.task}")

    def evict_failed(self, request: EvictRequest, why: str) -> None:
        self.reasons.append(why)

    def uid(self, key: str) -> str:
        found = self.api.stored(Pod, key)
        assert found is not None
        return found.metadata.uid

    def bind(self, key: str = "ns/a", node: str = "n1", *, uid: str = "", backfill: bool = False) -> BindRequest:
        return BindRequest(TaskKey(key), uid or self.uid(key), node, backfill)

    def evict(self, key: str = "ns/r", *, uid: str = "") -> EvictRequest:
        return EvictRequest(TaskKey(key), uid or self.uid(key), "n1", "Preempted", "for somebody more important")

    def watch_shows(self, key: str) -> None:
        found = self.api.stored(Pod, key)
        assert found is not None
        self.watched[key] = found


Story = Callable[[FakeApi, BinderHarness], Awaitable[None]]


def play(story: Story, *, workers: int = 8, **facts: Any) -> None:
    async def run() -> None:
        api = FakeApi(**facts)
        for name in "abcd":
            api.put(pod(f"ns/{name}", cpu=1))
        api.put(pod("ns/r", cpu=1, node="n1"))
        harness = BinderHarness(api, workers)
        running = asyncio.create_task(harness.binder.run())
        try:
            await story(api, harness)
            assert not running.done()
        finally:
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running

    with_virtual_time(run())


def test_pods_that_were_refused_before_come_after_all_others_and_few_at_a_time() -> None:
    refusing = True

    def fate(verb: str, key: str) -> Fate:
        return refused(403, "Forbidden") if verb == "bind" and refusing else Fate(acts=1.0)

    async def story(api: FakeApi, harness: BinderHarness) -> None:
        nonlocal refusing
        many = [f"ns/m{number}" for number in range(20)]
        for name in many:
            api.put(pod(name, cpu=1))
            harness.watch_shows(name)
        await submit_and_wait(harness, *(harness.bind(name) for name in many))
        assert sorted(harness.said) == sorted(f"BindFailed {name}" for name in many)
        refusing = False
        before = len(api.asked)
        harness.binder.submit([*(harness.bind(name) for name in many), harness.bind("ns/a")])
        await asyncio.sleep(0.5)
        assert api.asked[before:] == [("bind", "ns/a")]
        await asyncio.sleep(1.0)
        sent = [key for verb, key in api.asked[before:] if verb == "bind"]
        assert sent == ["ns/a", *many[:RETRYING_WORKERS]]
        harness.binder.submit([harness.bind("ns/b")])
        await asyncio.sleep(0.1)
        assert api.asked[-1] == ("bind", "ns/b")
        await harness.binder.wait_idle()
        assert len(api.binds) == 22
        # What was bound is forgotten, so these would be ordinary binds again.
        assert harness.binder._refused == {}

    play(story, fate=fate)


def test_a_webhook_that_is_down_refuses() -> None:
    why = 'Internal error occurred: failed calling webhook "policy.example.com": connection refused'

    async def story(api: FakeApi, harness: BinderHarness) -> None:
        await submit_and_wait(harness, harness.bind())
        assert harness.said == ["BindFailed ns/a"]
        assert api.asked == [("bind", "ns/a")]  # and the pod was not read

    play(story, fate=of("bind", Fate(acts=None, says=Failure(500, why, reason="InternalError"))))


async def submit_and_wait(harness: BinderHarness, *requests: Request) -> None:
    harness.binder.submit(list(requests))
    assert harness.binder.outstanding == len(requests)
    async with asyncio.timeout(600):
        await harness.binder.wait_idle()
    assert harness.binder.outstanding == 0
    await harness.api.settle()


def of(verb: str, *fates: Fate) -> Callable[[str, str], Fate]:
    """The next requests by this verb have these fates; all others go well."""
    left = iter(fates)
    return lambda asked, key: next(left, Fate()) if asked == verb else Fate()


def test_an_accepted_request_is_reported_once_and_causes_no_event() -> None:
    async def story(api: FakeApi, harness: BinderHarness) -> None:
        await submit_and_wait(harness, harness.bind("ns/a"), harness.bind("ns/b", "n2"), harness.evict())
        assert sorted(harness.said) == ["bound ns/a", "bound ns/b", "evicted ns/r"]
        assert sorted(node for _, _, node in api.binds) == ["n1", "n2"]
        assert api.count("get") == 0

    play(story)


def test_a_backfill_bind_annotates_the_pod_in_the_same_write() -> None:
    async def story(api: FakeApi, harness: BinderHarness) -> None:
        await submit_and_wait(harness, harness.bind(backfill=True))
        bound = api.stored(Pod, "ns/a")
        assert bound is not None
        assert bound.metadata.annotations[names.BACKFILL] == "true"

    play(story)


@pytest.mark.parametrize("status", [400, 403, 404, 422, 429])
def test_a_refused_bind_fails_without_reading_the_pod(status: int) -> None:
    async def story(api: FakeApi, harness: BinderHarness) -> None:
        await submit_and_wait(harness, harness.bind())
        assert harness.said == ["BindFailed ns/a"]
        assert harness.reported == [("ns/a", harness.uid("ns/a"))]
        assert api.count("get") == 0
        assert api.count("bind") == 1

    play(story, fate=of("bind", refused(status, "No")))


@pytest.mark.parametrize("failure", [(0, ""), (500, "InternalError"), (503, ""), (504, "Timeout")])
@pytest.mark.parametrize("acted", [True, False])
def test_after_a_lost_response_the_pod_is_read(failure: tuple[int, str], acted: bool) -> None:
    async def story(api: FakeApi, harness: BinderHarness) -> None:
        await submit_and_wait(harness, harness.bind())
        assert harness.said == (["bound ns/a"] if acted else ["BindFailed ns/a"])
        assert api.count("bind") == 1
        assert api.count("get") >= 1

    status, reason = failure
    play(story, fate=of("bind", Fate(acts=0.001 if acted else None, says=Failure(status, "?", reason=reason))))


@pytest.mark.parametrize(("status", "refused_on"), [(403, "n1"), (500, ""), (503, ""), (504, "")])
def test_an_error_of_the_server_is_no_refusal(status: int, refused_on: str) -> None:
    """A pod that was refused pauses for up to a minute, and its node is avoided: not for the server's trouble."""

    async def story(api: FakeApi, harness: BinderHarness) -> None:
        await submit_and_wait(harness, harness.bind())
        assert harness.refused_on == [refused_on]

    play(story, fate=of("bind", refused(status, "No")))


def test_when_half_of_the_requests_fail_all_pods_are_bound_soon() -> None:
    count = itertools.count()

    def fate(verb: str, key: str) -> Fate:
        return refused(500, "InternalError") if verb == "bind" and next(count) % 2 == 0 else Fate()

    async def story(api: FakeApi, harness: BinderHarness) -> None:
        waiting = {f"ns/{name}" for name in "abcd"}
        began = asyncio.get_running_loop().time()
        while waiting:
            await submit_and_wait(harness, *(harness.bind(key) for key in sorted(waiting)))
            waiting -= {said.removeprefix("bound ") for said in harness.said}
        # Each failure costs the time in which the server might still act on the request.
        assert asyncio.get_running_loop().time() - began < 10  # of virtual time

    play(story, fate=fate)


def test_a_server_that_always_fails_is_asked_with_pauses() -> None:
    async def story(api: FakeApi, harness: BinderHarness) -> None:
        loop = asyncio.get_running_loop()
        began = loop.time()
        while loop.time() - began < 600:  # of virtual time
            await submit_and_wait(harness, *(harness.bind(f"ns/{name}") for name in "abcd"))
        # 8 at once, some with short pauses, and then one every 5 seconds.
        assert api.count("bind") < 8 + 8 + 600 / 5 + 4
        api.fate = lambda verb, key: Fate()
        await submit_and_wait(harness, *(harness.bind(f"ns/{name}") for name in "abcd"))
        assert [said for said in harness.said if said.startswith("bound")] == [f"bound ns/{name}" for name in "abcd"]

    play(story, fate=lambda verb, key: refused(500, "InternalError") if verb == "bind" else Fate())


def test_a_late_bind_after_a_broken_connection_is_detected() -> None:
    async def story(api: FakeApi, harness: BinderHarness) -> None:
        await submit_and_wait(harness, harness.bind())
        assert harness.said == ["bound ns/a"]

    play(story, fate=of("bind", done_late(0.5)))


def test_the_pod_is_read_until_the_server_answers() -> None:
    async def story(api: FakeApi, harness: BinderHarness) -> None:
        def cut(verb: str, key: str) -> Fate:
            api.down = True
            return lost_after()

        api.fate = cut
        harness.binder.submit([harness.bind()])
        await until(lambda: api.count("get") >= 5)
        assert harness.said == []
        assert harness.binder.outstanding == 1
        api.down = False
        api.fate = lambda verb, key: Fate()
        await harness.binder.wait_idle()
        assert harness.said == ["bound ns/a"]

    play(story)


def test_a_bind_that_times_out_is_followed_by_a_read() -> None:
    """A standby may have the lease by the time it is carried out; nothing may be sent again by then."""

    async def story(api: FakeApi, harness: BinderHarness) -> None:
        began = asyncio.get_running_loop().time()
        await submit_and_wait(harness, harness.bind())
        assert asyncio.get_running_loop().time() - began < 10.0
        assert harness.said == ["BindFailed ns/a"]
        assert api.count("bind") == 1

    play(story, fate=of("bind", Fate(acts=None, answers=90.0, says=Failure(429, "later", retry_after=30.0))))


def test_a_conflict_with_ourselves_is_a_success() -> None:
    async def story(api: FakeApi, harness: BinderHarness) -> None:
        await api.bind("ns/a", harness.uid("ns/a"), "n1")
        await submit_and_wait(harness, harness.bind("ns/a", "n1"))
        assert harness.said == ["bound ns/a"]

    play(story)


def test_a_conflict_with_another_scheduler_is_a_failure() -> None:
    async def story(api: FakeApi, harness: BinderHarness) -> None:
        await api.bind("ns/a", harness.uid("ns/a"), "n2")
        await submit_and_wait(harness, harness.bind("ns/a", "n1"))
        assert harness.said == ["BindFailed ns/a"]

    play(story)


@pytest.mark.parametrize("fate", [Fate(), lost_before(), lost_after()])
def test_another_pod_of_the_name_is_not_bound_in_its_place(fate: Fate) -> None:
    async def story(api: FakeApi, harness: BinderHarness) -> None:
        request = harness.bind()
        api.remove(Pod, "ns/a")
        api.put(pod("ns/a", cpu=1))
        assert harness.uid("ns/a") != request.uid
        await submit_and_wait(harness, request)
        assert harness.said == ["BindFailed ns/a"]
        assert harness.reported == [("ns/a", request.uid)]
        assert api.binds == []

    play(story, fate=of("bind", fate))


def test_a_deleted_pod_counts_as_not_bound() -> None:
    async def story(api: FakeApi, harness: BinderHarness) -> None:
        request = harness.bind()
        api.remove(Pod, "ns/a")
        await submit_and_wait(harness, request)
        assert harness.said == ["BindFailed ns/a"]

    play(story, fate=of("bind", lost_before()))


def test_nothing_is_sent_after_the_fence_ended_and_each_request_fails() -> None:
    async def story(api: FakeApi, harness: BinderHarness) -> None:
        def falls(verb: str, key: str) -> Fate:
            if api.count("bind") == 2:
                harness.fence.is_leader = False
            return Fate()

        api.fate = falls
        requests: list[Request] = [harness.bind(f"ns/{name}") for name in "abcd"]
        await submit_and_wait(harness, *requests, harness.evict())
        failed = ["BindFailed ns/c", "BindFailed ns/d", "EvictFailed ns/r"]
        assert harness.said == ["bound ns/a", "bound ns/b", *failed]
        assert [key for key, _, _ in api.binds] == ["ns/a", "ns/b"]
        assert api.count("evict") == 0

    play(story, workers=1)


def test_queued_requests_can_be_cancelled_and_those_in_flight_are_waited_for() -> None:
    async def story(api: FakeApi, harness: BinderHarness) -> None:
        harness.binder.submit([harness.bind(f"ns/{name}") for name in "abc"])
        await until(lambda: api.count("bind") == 1)
        harness.binder.cancel_queued("the scheduler stops")
        assert harness.said == ["BindFailed ns/b", "BindFailed ns/c"]
        assert harness.reasons == ["the scheduler stops"] * 2
        assert harness.binder.outstanding == 1
        await harness.binder.wait_idle()
        assert harness.said[2:] == ["bound ns/a"]

    play(story, workers=1, fate=lambda verb, key: Fate(acts=1.0))


def test_cancelling_everything_leaves_the_binder_idle() -> None:
    async def story(api: FakeApi, harness: BinderHarness) -> None:
        harness.binder.submit([harness.bind()])
        harness.binder.cancel_queued("the scheduler stops")
        await harness.binder.wait_idle()
        assert harness.said == ["BindFailed ns/a"]
        assert api.binds == []

    play(story)


def test_a_gang_is_bound_together() -> None:
    """100 binds that take a second each: 32 at a time, so the last is done after ceil(100 / 32) = 4 seconds."""

    async def story(api: FakeApi, harness: BinderHarness) -> None:
        for number in range(100):
            api.put(pod(f"gang/p{number}", cpu=1))
        began = asyncio.get_running_loop().time()
        await submit_and_wait(harness, *(harness.bind(f"gang/p{number}") for number in range(100)))
        assert len(api.binds) == 100
        assert asyncio.get_running_loop().time() - began < 4.5

    play(story, workers=32, fate=lambda verb, key: Fate(acts=1.0))


# -- evictions ------------------------------------------------------------------------------------------------------


def test_an_eviction_that_a_budget_forbids_did_not_happen() -> None:
    async def story(api: FakeApi, harness: BinderHarness) -> None:
        await submit_and_wait(harness, harness.evict())
        assert harness.said == ["EvictFailed ns/r"]
        assert api.count("evict") == 1

    play(story, fate=of("evict", refused(429, "TooManyRequests", cause="DisruptionBudget")))


def test_a_pod_that_is_deleted_already_needs_no_eviction() -> None:
    async def story(api: FakeApi, harness: BinderHarness) -> None:
        request = harness.evict()
        api.remove(Pod, "ns/r")
        await submit_and_wait(harness, request)
        assert harness.said == []

    play(story)


@pytest.mark.parametrize(("fate", "said"), [(lost_after(), ["evicted ns/r"]), (lost_before(), ["EvictFailed ns/r"])])
def test_after_a_lost_response_to_an_eviction_the_pod_is_read(fate: Fate, said: list[str]) -> None:
    async def story(api: FakeApi, harness: BinderHarness) -> None:
        await submit_and_wait(harness, harness.evict())
        assert harness.said == said

    play(story, fate=of("evict", fate))


def test_another_pod_of_the_name_is_not_evicted_in_its_place() -> None:
    async def story(api: FakeApi, harness: BinderHarness) -> None:
        request = harness.evict()
        api.remove(Pod, "ns/r")
        api.put(pod("ns/r", cpu=1, node="n1"))
        await submit_and_wait(harness, request)
        assert harness.reported == [("ns/r", request.uid)]
        assert api.stored(Pod, "ns/r").metadata.deletion_timestamp is None  # type: ignore[union-attr]

    play(story)


# -- until it is known ----------------------------------------------------------------------------------------------


def test_wait_observed_waits_until_the_watch_shows_the_result() -> None:
    async def story(api: FakeApi, harness: BinderHarness) -> None:
        for key in ("ns/a", "ns/b", "ns/r"):
            harness.watch_shows(key)
        await submit_and_wait(harness, harness.bind("ns/a"), harness.bind("ns/b"), harness.evict())
        settled = asyncio.create_task(harness.binder.wait_observed())
        await asyncio.sleep(1.0)
        assert not settled.done()
        harness.watch_shows("ns/a")
        harness.watch_shows("ns/r")
        await asyncio.sleep(1.0)
        assert not settled.done()
        del harness.watched["ns/b"]  # bound, and deleted before anybody saw it
        await settled

    play(story)


def test_a_result_that_the_watch_showed_before_the_response_counts_as_observed() -> None:
    async def story(api: FakeApi, harness: BinderHarness) -> None:
        harness.watch_shows("ns/a")
        harness.binder.submit([harness.bind()])
        await until(lambda: api.binds)
        harness.watch_shows("ns/a")
        async with asyncio.timeout(10):
            await harness.binder.wait_observed()

    play(story, fate=of("bind", Fate(answers=2.0)))


def test_a_refused_request_is_not_waited_for() -> None:
    async def story(api: FakeApi, harness: BinderHarness) -> None:
        for key in ("ns/a", "ns/r"):
            harness.watch_shows(key)
        harness.fence.is_leader = False
        await submit_and_wait(harness, harness.bind(), harness.evict())
        async with asyncio.timeout(1):
            await harness.binder.wait_observed()

    play(story)


def test_it_is_busy_while_a_bind_is_outstanding() -> None:
    """Not longer: with a pod every half second, less important writes would otherwise never be sent."""

    async def story(api: FakeApi, harness: BinderHarness) -> None:
        assert not harness.binder.busy
        harness.binder.submit([harness.bind("ns/a")])
        assert harness.binder.busy
        await harness.binder.wait_idle()
        assert not harness.binder.busy

    play(story)


def test_it_is_busy_until_a_moment_after_many_requests() -> None:
    async def story(api: FakeApi, harness: BinderHarness) -> None:
        await submit_and_wait(harness, *(harness.bind("ns/a") for _ in range(CROWD)))
        assert harness.binder.outstanding == 0
        assert harness.binder.busy
        await asyncio.sleep(1.0)
        assert not harness.binder.busy

    play(story)


def test_the_next_cycle_waits_until_a_worker_is_free() -> None:
    async def story(api: FakeApi, harness: BinderHarness) -> None:
        harness.binder.submit([harness.bind(f"ns/{name}") for name in "abc"])
        assert harness.binder.outstanding == 3
        await harness.binder.wait_for_free_worker()
        assert harness.binder.outstanding < 2

    play(story, workers=2)


def test_a_pod_on_lent_resources_is_marked_in_its_status_before_its_bind() -> None:
    async def story(api: FakeApi, harness: BinderHarness) -> None:
        harness.binder.submit([replace(harness.bind(backfill=True), mark_lent=True)])
        await harness.binder.wait_idle()
        assert [verb for verb, _ in api.asked] == ["patch", "bind"]
        bound = api.stored(Pod, "ns/a")
        assert bound is not None
        assert is_backfill(bound)
        bound.metadata.annotations.clear()
        assert is_backfill(bound), "its owner cannot remove it"
        harness.watch_shows("ns/a")
        await harness.binder.wait_observed()
        assert not harness.binder._marked, "what the watch has shown need not be remembered"

    play(story)


def test_a_pod_that_cannot_be_marked_is_not_bound() -> None:
    async def story(api: FakeApi, harness: BinderHarness) -> None:
        harness.binder.submit([replace(harness.bind(backfill=True), mark_lent=True)])
        await harness.binder.wait_idle()
        assert api.binds == []
        assert len(harness.reasons) == 1

    play(story, fate=lambda verb, key: refused(403, "Forbidden") if verb == "patch" else Fate())


def test_the_mark_of_a_bind_that_did_not_happen_is_taken_back() -> None:
    async def story(api: FakeApi, harness: BinderHarness) -> None:
        harness.binder.submit([replace(harness.bind(), mark_lent=True)])
        await harness.binder.wait_idle()
        bound = api.stored(Pod, "ns/a")
        assert bound is not None
        assert not is_backfill(bound)
        assert [one.status for one in bound.status.conditions] == ["False"]

    play(story)


def test_a_mark_that_the_watch_has_not_shown_is_taken_back() -> None:
    """The first bind was refused after the mark was written. The second is not for lent resources."""
    fates = iter([refused(409, "Conflict"), Fate()])

    async def story(api: FakeApi, harness: BinderHarness) -> None:
        harness.watch_shows("ns/a")
        harness.binder.submit([replace(harness.bind(backfill=True), mark_lent=True)])
        await harness.binder.wait_idle()
        harness.binder.submit([harness.bind()])
        await harness.binder.wait_idle()
        bound = api.stored(Pod, "ns/a")
        assert bound is not None
        assert bound.spec.node_name == "n1"
        assert not is_backfill(bound)

    play(story, fate=lambda verb, key: next(fates) if verb == "bind" else Fate())
