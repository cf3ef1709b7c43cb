"""The event recorder: repetitions are counted, floods are limited, and no caller waits."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from live.fake_api import FakeApi, Fate, refused, until, with_virtual_time
from stromboli.api import KObject, Pod, Queue
from stromboli.kube.client import Event, TokenBucket
from stromboli.kube.runtime import EventRecorder, InvolvedObject, event_recorder

START = 1_893_456_000.0  # 2030-01-01T00:00:00Z


class RecorderHarness:
    """A recorder on the test's clock."""

    def __init__(self, api: FakeApi, **facts: Any) -> None:
        self.now = START
        self.busy = False
        self.recorder = EventRecorder(
            api,  # type: ignore[arg-type]
            "volcano",
            bucket=facts.pop("bucket", None) or TokenBucket(1e6, 1000),
            busy=lambda: self.busy,
            clock=lambda: self.now,
        )

    def record(self, message: str, *, key: str = "ns/a", reason: str = "FailedScheduling", uid: str = "u1") -> None:
        self.recorder.record(Pod, key, uid, reason, message, warning=True)


Story = Callable[[FakeApi, RecorderHarness], Awaitable[None]]


def play(story: Story, **facts: Any) -> None:
    async def run() -> None:
        api = FakeApi(**facts)
        harness = RecorderHarness(api)
        running = asyncio.create_task(harness.recorder.run())
        try:
            await story(api, harness)
            assert not running.done()
        finally:
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running

    with_virtual_time(run())


def lines(api: FakeApi) -> list[str]:
    return sorted(f"{event.count}× {event.message}" for event in api.all(Event))


async def written() -> None:
    await asyncio.sleep(10.0)


def test_an_event_has_its_object_reason_and_message() -> None:
    async def story(api: FakeApi, harness: RecorderHarness) -> None:
        harness.record("No node has 4 cpu.")
        await written()
        [event] = api.all(Event)
        assert event.metadata.namespace == "ns"
        assert event.metadata.name.startswith("a.")
        about = event.involved_object
        assert (about.api_version, about.kind, about.namespace, about.name, about.uid) == ("v1", "Pod", "ns", "a", "u1")
        assert (event.type, event.reason, event.message, event.count) == (
            "Warning", "FailedScheduling", "No node has 4 cpu.", 1,
        )  # fmt: skip
        assert event.source.component == "volcano"
        assert event.first_timestamp == event.last_timestamp == "2030-01-01T00:00:00Z"

    play(story)


def test_events_about_cluster_wide_objects_are_in_the_default_namespace() -> None:
    async def story(api: FakeApi, harness: RecorderHarness) -> None:
        harness.recorder.record(Queue, "q", "u1", "Refused", "weight is negative")
        lease = InvolvedObject("coordination.k8s.io/v1", "Lease", "kube-system", "stromboli-scheduler")
        harness.recorder.record_for(lease, "ConfigurationChanged", "The new configuration is in force.")
        await written()
        about = {event.involved_object.kind: event for event in api.all(Event)}
        assert about["Queue"].metadata.namespace == "default"
        assert about["Queue"].involved_object.namespace == ""
        assert about["Queue"].type == "Normal"
        assert about["Lease"].metadata.namespace == "kube-system"

    play(story)


def test_a_repetition_is_a_higher_count_of_the_first() -> None:
    async def story(api: FakeApi, harness: RecorderHarness) -> None:
        for _ in range(3):
            harness.record("No room.")
        await written()
        harness.now += 60
        harness.record("No room.")
        harness.record("No room.")
        await written()
        [event] = api.all(Event)
        assert event.count == 5
        assert (event.first_timestamp, event.last_timestamp) == ("2030-01-01T00:00:00Z", "2030-01-01T00:01:00Z")

    play(story)


def test_a_repetition_after_a_long_time_is_a_new_event() -> None:
    async def story(api: FakeApi, harness: RecorderHarness) -> None:
        harness.record("No room.")
        await written()
        harness.now += 601
        harness.record("No room.")
        await written()
        assert lines(api) == ["1× No room.", "1× No room."]

    play(story)


def test_a_repetition_of_a_deleted_event_is_created_again() -> None:
    async def story(api: FakeApi, harness: RecorderHarness) -> None:
        harness.record("No room.")
        await written()
        [event] = api.all(Event)
        api.remove(Event, f"ns/{event.metadata.name}")
        harness.record("No room.")
        await written()
        assert lines(api) == ["1× No room."]

    play(story)


def test_a_failed_update_does_not_lose_the_count() -> None:
    fates = iter([refused(500, "InternalError")])

    async def story(api: FakeApi, harness: RecorderHarness) -> None:
        harness.record("No room.")
        await written()
        api.fate = lambda verb, key: next(fates, Fate()) if verb == "patch" else Fate()
        harness.record("No room.")
        await written()
        harness.record("No room.")
        await written()
        assert lines(api) == ["2× No room."]

    play(story)


def test_the_same_message_for_another_object_is_another_event() -> None:
    async def story(api: FakeApi, harness: RecorderHarness) -> None:
        harness.record("No room.", key="ns/a")
        harness.record("No room.", key="ns/b")
        harness.record("No room.", key="ns/a", uid="u2")
        await written()
        assert lines(api) == ["1× No room."] * 3

    play(story)


def test_changing_messages_are_combined_into_one_event() -> None:
    """10 different messages as they are, the other 40 together."""

    async def story(api: FakeApi, harness: RecorderHarness) -> None:
        for number in range(50):
            harness.record(f"Waits for {number} cpu.")
        harness.record("Waits for 3 cpu.")
        harness.record("Bound.", reason="Scheduled")
        await written()
        assert len(api.all(Event)) == 12
        assert "40× Several more messages like those before." in lines(api)
        assert "2× Waits for 3 cpu." in lines(api)
        assert "1× Bound." in lines(api)
        # After a while it may speak again.
        harness.now += 601
        harness.record("Waits for 99 cpu.")
        await written()
        assert "1× Waits for 99 cpu." in lines(api)

    play(story)


def test_a_long_message_is_truncated() -> None:
    async def story(api: FakeApi, harness: RecorderHarness) -> None:
        harness.record("x" * 5000)
        await written()
        assert len(api.all(Event)[0].message) == 1024

    play(story)


def test_the_name_of_an_event_is_valid_however_long_the_objects_is() -> None:
    async def story(api: FakeApi, harness: RecorderHarness) -> None:
        harness.record("No room.", key="ns/" + "a" * 199 + "-" + "b" * 53)
        await written()
        name = api.all(Event)[0].metadata.name
        assert len(name) <= 253
        assert name.startswith("a" * 199 + ".")

    play(story)


def test_recording_never_waits_and_a_flood_drops_the_oldest_events(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_recorder, "_MAX_QUEUED", 100)

    async def story(api: FakeApi, harness: RecorderHarness) -> None:
        for number in range(250):
            harness.record("No room.", key=f"ns/p{number}")
        assert harness.recorder.dropped == 150
        await written()
        assert sorted(event.involved_object.name for event in api.all(Event)) == sorted(
            f"p{number}" for number in range(150, 250)
        )

    play(story)


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_recorder, "_MAX_REMEMBERED", 10)

    async def story(api: FakeApi, harness: RecorderHarness) -> None:
        for number in range(50):
            harness.record("No room.", key=f"ns/p{number}")
        await written()
        assert len(api.all(Event)) == 50
        assert len(harness.recorder._written) == 10
        assert len(harness.recorder._messages) == 10

    play(story)


def test_events_wait_for_binds_but_not_forever() -> None:
    async def story(api: FakeApi, harness: RecorderHarness) -> None:
        harness.busy = True
        harness.record("Bound.")
        await asyncio.sleep(2.0)
        assert api.all(Event) == []
        harness.busy = False
        await asyncio.sleep(1.0)
        assert lines(api) == ["1× Bound."]
        harness.busy = True
        harness.record("Bound again.")
        await asyncio.sleep(6.0)
        assert lines(api) == ["1× Bound again.", "1× Bound."]

    play(story)


def test_a_refused_event_does_not_stop_the_next() -> None:
    fates = iter([refused(403, "Forbidden"), refused(500, "InternalError")])

    async def story(api: FakeApi, harness: RecorderHarness) -> None:
        for name in "abc":
            harness.record("No room.", key=f"ns/{name}")
        await written()
        assert [event.involved_object.name for event in api.all(Event)] == ["c"]

    play(story, fate=lambda verb, key: next(fates, Fate()))


def test_a_flush_writes_the_queue_and_stops_when_the_server_fails() -> None:
    async def run() -> None:
        api = FakeApi()
        harness = RecorderHarness(api)  # nothing runs
        harness.record("No room.", key="ns/a")
        harness.record("No room.", key="ns/b")
        await harness.recorder.flush()
        assert len(api.all(Event)) == 2
        api.down = True
        for number in range(100):
            harness.record("No room.", key=f"ns/p{number}")
        before = len(api.asked)
        await harness.recorder.flush()
        assert len(api.asked) == before + 1

    with_virtual_time(run())


@pytest.mark.parametrize("kind", [Pod, Queue])
def test_an_involved_object_has_its_api_version(kind: type[KObject]) -> None:
    subject = InvolvedObject.of(kind, "ns/a" if kind is Pod else "a", "u1")
    assert (subject.kind, subject.name, subject.namespace) == (kind.__name__, "a", "ns" if kind is Pod else "")


def test_nothing_is_sent_when_nothing_is_recorded() -> None:
    async def story(api: FakeApi, harness: RecorderHarness) -> None:
        await asyncio.sleep(60.0)
        assert api.asked == []
        harness.record("No room.")
        await until(lambda: api.all(Event))

    play(story)


def test_many_warnings_about_pods_take_their_time_and_delay_nothing_else() -> None:
    async def story(api: FakeApi, harness: RecorderHarness) -> None:
        for number in range(300):
            harness.record("No node has 4 cpu.", key=f"ns/p{number}")
        harness.recorder.record(Pod, "ns/a", "u1", "Scheduled", "Bound to n1.")
        harness.recorder.record(Queue, "q", "u2", "Refused", "No such parent.", warning=True)
        await asyncio.sleep(1.0)
        written = {event.reason for event in api.all(Event)}
        assert {"Scheduled", "Refused"} <= written
        assert len(api.all(Event)) < 200  # the first hundred and those of a second
        await asyncio.sleep(10.0)
        assert len(api.all(Event)) == 302

    play(story)
