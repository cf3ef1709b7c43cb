"""The status writer: only the latest status is written, once, and none that is outdated."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from builders import group, pod
from live.fake_api import FakeApi, Fate, lost_before, refused, until, with_virtual_time
from stromboli.api import KObject, Pod, PodGroup
from stromboli.kube.client import POD_GROUPS, PODS, Resource, TokenBucket
from stromboli.kube.runtime import ErrorReporter
from stromboli.kube.scheduler.status_patch_queue import StatusPatch, StatusPatchQueue


class WriterHarness:
    """A posting at work, with what it noted and counted."""

    def __init__(self, api: FakeApi, bucket: TokenBucket | None = None) -> None:
        self.written: list[KObject] = []
        self.outcomes: list[tuple[str, str]] = []
        self.busy = False
        self.is_leader = True
        self.writer = StatusPatchQueue(
            api,  # type: ignore[arg-type]
            fence=self,
            bucket=bucket or TokenBucket(1e6, 1000),
            on_object=self.written.append,
            contain=ErrorReporter("test", None).contain,
            on_result=lambda kind, result: self.outcomes.append((kind, result)),
            busy=lambda: self.busy,
        )


Story = Callable[[FakeApi, WriterHarness], Awaitable[None]]


def play(story: Story, **facts: Any) -> FakeApi:
    async def run() -> FakeApi:
        api = FakeApi(**facts)
        api.put(pod("ns/a"))
        api.put(group("ns/g"))
        harness = WriterHarness(api)
        running = asyncio.create_task(harness.writer.run())
        try:
            await story(api, harness)
            assert not running.done()
        finally:
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running
        return api

    return with_virtual_time(run())


def uid_of(api: FakeApi, resource: Resource[Any], key: str) -> str:
    found = api.stored(resource.type, key)
    assert found is not None
    return str(found.metadata.uid)


def status_patch(api: FakeApi, phase: str, **facts: Any) -> StatusPatch:
    return StatusPatch(POD_GROUPS, "ns/g", uid_of(api, POD_GROUPS, "ns/g"), {"phase": phase}, **facts)


def phases(api: FakeApi) -> list[str]:
    return [change["status"]["phase"] for plural, _, change in api.patches if plural == "podgroups"]


async def later(seconds: float = 30.0) -> None:
    await asyncio.sleep(seconds)


def test_a_patch_is_written_when_it_is_due_and_then_reported() -> None:
    written: list[str] = []

    async def story(api: FakeApi, harness: WriterHarness) -> None:
        harness.writer.enqueue(status_patch(api, "Inqueue", on_written=lambda: written.append("Inqueue")), delay=1.0)
        await later(0.9)
        assert phases(api) == []
        await later()
        assert phases(api) == ["Inqueue"]
        assert written == ["Inqueue"]
        assert [noted.status.phase for noted in harness.written if isinstance(noted, PodGroup)] == ["Inqueue"]
        assert harness.outcomes == [("podgroups", "written")]

    play(story)


def test_the_latest_patch_is_written_without_a_longer_delay() -> None:
    async def story(api: FakeApi, harness: WriterHarness) -> None:
        harness.writer.enqueue(status_patch(api, "Pending"), delay=1.0)
        await later(0.9)
        harness.writer.enqueue(status_patch(api, "Inqueue"), delay=1.0)
        await later(0.2)
        assert phases(api) == ["Inqueue"]
        await later()
        assert phases(api) == ["Inqueue"]

    play(story)


def test_an_earlier_due_time_replaces_a_later_one() -> None:
    async def story(api: FakeApi, harness: WriterHarness) -> None:
        harness.writer.enqueue(status_patch(api, "Pending"), delay=1.0)
        harness.writer.enqueue(status_patch(api, "Inqueue"))
        await later(0.1)
        assert phases(api) == ["Inqueue"]
        await later()
        assert phases(api) == ["Inqueue"]

    play(story)


def test_what_was_just_written_is_not_written_again() -> None:
    async def story(api: FakeApi, harness: WriterHarness) -> None:
        for _ in range(10):
            harness.writer.enqueue(status_patch(api, "Inqueue"))
            await later(0.3)
        assert phases(api) == ["Inqueue"]
        # Somebody else may have overwritten it: a patch that comes again after a while is sent again.
        await later(5.0)
        harness.writer.enqueue(status_patch(api, "Inqueue"))
        await later()
        assert phases(api) == ["Inqueue", "Inqueue"]

    play(story)


def test_a_patch_repeated_during_its_write_is_not_written_again() -> None:
    async def story(api: FakeApi, harness: WriterHarness) -> None:
        harness.writer.enqueue(status_patch(api, "Inqueue"))
        await until(lambda: api.count("patch") == 1)
        harness.writer.enqueue(status_patch(api, "Inqueue"), delay=1.0)
        await later()
        assert phases(api) == ["Inqueue"]

    play(story, fate=lambda verb, key: Fate(acts=0.2))


def test_the_previous_status_can_be_written_again_during_a_write() -> None:
    """Running is there, Unknown is on its way, and Running is decided again: the last word is Running."""

    async def story(api: FakeApi, harness: WriterHarness) -> None:
        harness.writer.enqueue(status_patch(api, "Running"))
        await until(lambda: harness.written)
        harness.writer.enqueue(status_patch(api, "Unknown"))
        await until(lambda: api.count("patch") == 2)
        harness.writer.enqueue(status_patch(api, "Running"))
        await later()
        assert phases(api) == ["Running", "Unknown", "Running"]

    play(story, fate=lambda verb, key: Fate(acts=0.2))


def test_an_older_patch_never_overtakes_a_newer_one() -> None:
    slow = iter([Fate(acts=3.0), Fate(acts=0.001)])

    async def story(api: FakeApi, harness: WriterHarness) -> None:
        harness.writer.enqueue(status_patch(api, "Pending"))
        await until(lambda: api.count("patch") == 1)
        harness.writer.enqueue(status_patch(api, "Inqueue"))
        await later()
        assert phases(api) == ["Pending", "Inqueue"]

    play(story, fate=lambda verb, key: next(slow))


def test_a_cancelled_patch_is_not_written() -> None:
    async def story(api: FakeApi, harness: WriterHarness) -> None:
        harness.writer.enqueue(status_patch(api, "Pending"), delay=1.0)
        harness.writer.cancel(POD_GROUPS, "ns/g")
        await later()
        assert phases(api) == []

    play(story)


def test_a_patch_cancelled_while_it_fails_is_not_retried() -> None:
    fates = iter([Fate(acts=None, answers=1.0, says=lost_before().says)])

    async def story(api: FakeApi, harness: WriterHarness) -> None:
        harness.writer.enqueue(status_patch(api, "Pending"))
        await until(lambda: api.count("patch") == 1)
        harness.writer.cancel(POD_GROUPS, "ns/g")
        await later()
        assert api.count("patch") == 1

    play(story, fate=lambda verb, key: next(fates))


def test_a_patch_cancelled_while_it_waits_for_a_token_is_not_written() -> None:
    async def run() -> None:
        api = FakeApi()
        api.put(group("ns/g"))
        clock = asyncio.get_running_loop().time
        bucket = TokenBucket(0.1, 1, clock=clock)
        await bucket.take()
        harness = WriterHarness(api, bucket)
        running = asyncio.create_task(harness.writer.run())
        harness.writer.enqueue(status_patch(api, "Pending"))
        await later(1.0)
        harness.writer.cancel(POD_GROUPS, "ns/g")
        await later()
        assert api.count("patch") == 0
        harness.writer.enqueue(status_patch(api, "Inqueue"))
        await later()
        assert phases(api) == ["Inqueue"]
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    with_virtual_time(run())


def test_a_patch_for_a_version_is_not_written_when_the_pod_has_changed() -> None:
    async def story(api: FakeApi, harness: WriterHarness) -> None:
        seen = api.stored(Pod, "ns/a")
        assert seen is not None
        status = {"conditions": [{"type": "PodScheduled", "status": "False"}]}
        meta = seen.metadata
        patch = StatusPatch(PODS, "ns/a", meta.uid, status, meta.resource_version, strategic=True)
        harness.writer.enqueue(patch, delay=1.0)
        await api.bind("ns/a", meta.uid, "n1")
        await later()
        bound = api.stored(Pod, "ns/a")
        assert bound is not None
        assert bound.status.conditions == []
        assert api.count("patch") == 1  # it was tried, and refused for good

    play(story)


def test_a_patch_for_another_object_of_the_same_name_is_dropped() -> None:
    async def story(api: FakeApi, harness: WriterHarness) -> None:
        old = status_patch(api, "Running")
        api.remove(PodGroup, "ns/g")
        api.put(group("ns/g"))
        harness.writer.enqueue(old)
        await later()
        assert phases(api) == []
        assert api.count("patch") == 1
        api.remove(PodGroup, "ns/g")
        harness.writer.enqueue(old)
        await later()
        assert api.count("patch") == 2

    play(story)


def test_a_failed_patch_is_retried() -> None:
    fates = iter([lost_before(), refused(500, "InternalError"), lost_before()])

    async def story(api: FakeApi, harness: WriterHarness) -> None:
        harness.writer.enqueue(status_patch(api, "Running"))
        await later()
        assert phases(api) == ["Running"]
        assert harness.outcomes == [("podgroups", "failed")] * 3 + [("podgroups", "written")]

    play(story, fate=lambda verb, key: next(fates, Fate()))


def test_a_newer_patch_replaces_one_that_failed() -> None:
    fates = iter([lost_before()])

    async def story(api: FakeApi, harness: WriterHarness) -> None:
        harness.writer.enqueue(status_patch(api, "Pending"))
        await until(lambda: harness.outcomes)
        harness.writer.enqueue(status_patch(api, "Inqueue"), delay=10.0)
        await later()
        assert phases(api) == ["Inqueue"]

    play(story, fate=lambda verb, key: next(fates, Fate()))


def test_many_patches_are_written_with_bounded_concurrency() -> None:
    under_way: list[int] = []

    async def story(api: FakeApi, harness: WriterHarness) -> None:
        for number in range(100):
            api.put(pod(f"ns/p{number}"))
            uid = uid_of(api, PODS, f"ns/p{number}")
            harness.writer.enqueue(StatusPatch(PODS, f"ns/p{number}", uid, {"nominatedNodeName": "n1"}, urgent=True))

        def fate(verb: str, key: str) -> Fate:
            under_way.append(len(api._acting))
            return Fate(acts=0.1)

        api.fate = fate
        await later()
        assert len(api.patches) == 100
        assert 8 <= max(under_way) < 16

    play(story)


def reworded_patch(api: FakeApi, key: str, message: str) -> StatusPatch:
    condition = {"type": "PodScheduled", "status": "False", "message": message}
    uid = uid_of(api, PODS, key)
    return StatusPatch(PODS, key, uid, {"conditions": [condition]}, strategic=True, reworded=True)


def test_new_words_do_not_delay_other_patches() -> None:
    """A thousand of them take ten seconds, two at a time. A phase that is decided meanwhile is written at once."""
    under_way: list[int] = []

    async def story(api: FakeApi, harness: WriterHarness) -> None:
        for number in range(1000):
            api.put(pod(f"ns/p{number}"))
            harness.writer.enqueue(reworded_patch(api, f"ns/p{number}", "2 of 5 nodes"))

        def fate(verb: str, key: str) -> Fate:
            under_way.append(len(api._acting))
            return Fate(acts=0.01)

        api.fate = fate
        await later(1.0)
        assert 0 < len(api.patches) < 300
        assert max(under_way) < 2
        harness.writer.enqueue(status_patch(api, "Running"))
        await later(0.1)
        assert phases(api) == ["Running"]
        await later(20)
        assert len(api.patches) == 1001

    play(story)


def test_a_patch_goes_by_its_own_lane_whatever_it_replaces() -> None:
    """A bind is sent, the phase is to be Running, and the bind is refused before that is written. What is left to write
    is the new time of the next attempt, which can wait."""

    async def story(api: FakeApi, harness: WriterHarness) -> None:
        harness.writer.enqueue(status_patch(api, "Running"), delay=1.0)
        harness.writer.enqueue(status_patch(api, "Inqueue", reworded=True), delay=5.0)
        await later(4.0)
        assert phases(api) == []
        await later(2.0)
        assert phases(api) == ["Inqueue"]
        harness.writer.enqueue(status_patch(api, "Pending", reworded=True), delay=5.0)
        harness.writer.enqueue(status_patch(api, "Running"), delay=1.0)
        await later(2.0)
        assert phases(api) == ["Inqueue", "Running"]
        await later()
        assert phases(api) == ["Inqueue", "Running"]

    play(story)


def test_cancel_all_drops_every_patch() -> None:
    fates = iter([Fate(acts=None, answers=1.0, says=lost_before().says)])

    async def story(api: FakeApi, harness: WriterHarness) -> None:
        uid = uid_of(api, PODS, "ns/a")
        harness.writer.enqueue(status_patch(api, "Running"))
        harness.writer.enqueue(StatusPatch(PODS, "ns/a", uid, {"nominatedNodeName": "n1"}), delay=1.0)
        await until(lambda: api.count("patch") == 1)
        harness.writer.cancel_all()
        await later()
        assert api.patches == []
        assert api.count("patch") == 1

    play(story, fate=lambda verb, key: next(fates, Fate()))


def test_a_flush_does_not_wait_until_patches_are_due() -> None:
    async def story(api: FakeApi, harness: WriterHarness) -> None:
        began = asyncio.get_running_loop().time()
        harness.writer.enqueue(status_patch(api, "Pending"))
        await until(lambda: api.count("patch") == 1)
        harness.writer.enqueue(status_patch(api, "Running"), delay=60.0)
        await harness.writer.flush()
        assert asyncio.get_running_loop().time() - began < 5.0
        # The one that was on its way came first.
        assert phases(api) == ["Pending", "Running"]

    slow = iter([Fate(acts=2.0)])
    play(story, fate=lambda verb, key: next(slow, Fate()))


def test_a_patch_lets_binds_go_first_but_not_forever() -> None:
    async def story(api: FakeApi, harness: WriterHarness) -> None:
        harness.busy = True
        harness.writer.enqueue(status_patch(api, "Running"))
        await later(0.9)
        assert phases(api) == []
        harness.busy = False
        await later(0.1)
        assert phases(api) == ["Running"]
        harness.busy = True
        harness.writer.enqueue(status_patch(api, "Completed"))
        await later(1.5)
        assert phases(api) == ["Running", "Completed"]

    play(story)


def test_an_urgent_patch_does_not_wait_for_binds() -> None:
    async def story(api: FakeApi, harness: WriterHarness) -> None:
        harness.busy = True
        harness.writer.enqueue(status_patch(api, "Inqueue", urgent=True))
        await later(0.1)
        assert phases(api) == ["Inqueue"]

    play(story)


def test_a_patch_cancelled_while_it_waits_for_binds_is_not_written() -> None:
    async def story(api: FakeApi, harness: WriterHarness) -> None:
        harness.busy = True
        harness.writer.enqueue(status_patch(api, "Pending"))
        await later(0.5)
        harness.writer.cancel(POD_GROUPS, "ns/g")
        harness.busy = False
        await later()
        assert phases(api) == []

    play(story)


def test_a_process_that_no_longer_leads_writes_nothing() -> None:
    """It was suspended while a patch waited, and another replica has written newer statuses since."""

    async def story(api: FakeApi, harness: WriterHarness) -> None:
        harness.writer.enqueue(status_patch(api, "Pending"), delay=1.0)
        harness.is_leader = False
        await later()
        assert phases(api) == []
        harness.is_leader = True
        harness.writer.enqueue(status_patch(api, "Inqueue"))
        await later()
        assert phases(api) == ["Inqueue"]

    play(story)


def test_a_patch_that_is_not_sent_in_time_is_given_up_and_decided_again() -> None:
    """The fence was checked before; later the lease may be another's."""

    async def story(api: FakeApi, harness: WriterHarness) -> None:
        api.fate = lambda verb, key: Fate(acts=None, answers=100.0)
        harness.writer.enqueue(status_patch(api, "Pending"))
        await later()
        assert harness.outcomes[:1] == [("podgroups", "failed")]
        assert phases(api) == []
        api.fate = lambda verb, key: Fate()
        await later()
        assert phases(api) == ["Pending"]

    play(story)
