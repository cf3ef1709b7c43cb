"""Kubernetes events: repeated ones are counted, floods are cut, and nobody ever waits for one."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from live.pretend_api import Fate, PretendApi, refused, until, with_pretended_time
from stromboli.api import KObject, Pod, Queue
from stromboli.kube.client.kinds import Event
from stromboli.kube.client.rate_limit import TokenBucket
from stromboli.kube.runtime import event_recorder
from stromboli.kube.runtime.event_recorder import Recorder, Subject

START = 1_893_456_000.0  # 2030-01-01T00:00:00Z


class Press:
    """A recorder on the test's clock."""

    def __init__(self, api: PretendApi, **facts: Any) -> None:
        self.now = START
        self.busy = False
        self.recorder = Recorder(
            api,  # type: ignore[arg-type]
            "volcano",
            bucket=facts.pop("bucket", None) or TokenBucket(1e6, 1000),
            busy=lambda: self.busy,
            clock=lambda: self.now,
        )

    def tell(self, message: str, *, key: str = "ns/a", reason: str = "FailedScheduling", uid: str = "u1") -> None:
        self.recorder.tell(Pod, key, uid, reason, message, warning=True)


Story = Callable[[PretendApi, Press], Awaitable[None]]


def tell(story: Story, **facts: Any) -> None:
    async def run() -> None:
        api = PretendApi(**facts)
        press = Press(api)
        running = asyncio.create_task(press.recorder.run())
        try:
            await story(api, press)
            assert not running.done()
        finally:
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running

    with_pretended_time(run())


def lines(api: PretendApi) -> list[str]:
    return sorted(f"{event.count}× {event.message}" for event in api.all(Event))


async def written() -> None:
    await asyncio.sleep(10.0)


def test_an_event_says_who_what_and_why() -> None:
    async def story(api: PretendApi, press: Press) -> None:
        press.tell("No node has 4 cpu.")
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

    tell(story)


def test_events_about_cluster_wide_objects_are_in_the_default_namespace() -> None:
    async def story(api: PretendApi, press: Press) -> None:
        press.recorder.tell(Queue, "q", "u1", "Refused", "weight is negative")
        lease = Subject("coordination.k8s.io/v1", "Lease", "kube-system", "stromboli-scheduler")
        press.recorder.tell_of(lease, "ConfigurationChanged", "The new configuration is in force.")
        await written()
        about = {event.involved_object.kind: event for event in api.all(Event)}
        assert about["Queue"].metadata.namespace == "default"
        assert about["Queue"].involved_object.namespace == ""
        assert about["Queue"].type == "Normal"
        assert about["Lease"].metadata.namespace == "kube-system"

    tell(story)


def test_a_repetition_is_a_higher_count_of_the_first() -> None:
    async def story(api: PretendApi, press: Press) -> None:
        for _ in range(3):
            press.tell("No room.")
        await written()
        press.now += 60
        press.tell("No room.")
        press.tell("No room.")
        await written()
        [event] = api.all(Event)
        assert event.count == 5
        assert (event.first_timestamp, event.last_timestamp) == ("2030-01-01T00:00:00Z", "2030-01-01T00:01:00Z")

    tell(story)


def test_a_repetition_after_a_long_time_is_news() -> None:
    async def story(api: PretendApi, press: Press) -> None:
        press.tell("No room.")
        await written()
        press.now += 601
        press.tell("No room.")
        await written()
        assert lines(api) == ["1× No room.", "1× No room."]

    tell(story)


def test_a_repetition_of_an_event_that_the_server_has_forgotten_is_written_anew() -> None:
    async def story(api: PretendApi, press: Press) -> None:
        press.tell("No room.")
        await written()
        [event] = api.all(Event)
        api.remove(Event, f"ns/{event.metadata.name}")
        press.tell("No room.")
        await written()
        assert lines(api) == ["1× No room."]

    tell(story)


def test_a_count_that_could_not_be_raised_goes_on_from_where_it_was() -> None:
    fates = iter([refused(500, "InternalError")])

    async def story(api: PretendApi, press: Press) -> None:
        press.tell("No room.")
        await written()
        api.fate = lambda verb, key: next(fates, Fate()) if verb == "patch" else Fate()
        press.tell("No room.")
        await written()
        press.tell("No room.")
        await written()
        assert lines(api) == ["2× No room."]

    tell(story)


def test_the_same_words_about_another_object_are_another_event() -> None:
    async def story(api: PretendApi, press: Press) -> None:
        press.tell("No room.", key="ns/a")
        press.tell("No room.", key="ns/b")
        press.tell("No room.", key="ns/a", uid="u2")
        await written()
        assert lines(api) == ["1× No room."] * 3

    tell(story)


def test_an_object_with_ever_changing_numbers_gets_one_line_for_the_rest() -> None:
    """10 different messages as they are, the other 40 together."""

    async def story(api: PretendApi, press: Press) -> None:
        for number in range(50):
            press.tell(f"Waits for {number} cpu.")
        press.tell("Waits for 3 cpu.")
        press.tell("Bound.", reason="Scheduled")
        await written()
        assert len(api.all(Event)) == 12
        assert "40× Several more messages like those before." in lines(api)
        assert "2× Waits for 3 cpu." in lines(api)
        assert "1× Bound." in lines(api)
        # After a while it may speak again.
        press.now += 601
        press.tell("Waits for 99 cpu.")
        await written()
        assert "1× Waits for 99 cpu." in lines(api)

    tell(story)


def test_a_message_is_cut_to_what_a_server_takes() -> None:
    async def story(api: PretendApi, press: Press) -> None:
        press.tell("x" * 5000)
        await written()
        assert len(api.all(Event)[0].message) == 1024

    tell(story)


def test_the_name_of_an_event_is_valid_however_long_the_objects_is() -> None:
    async def story(api: PretendApi, press: Press) -> None:
        press.tell("No room.", key="ns/" + "a" * 199 + "-" + "b" * 53)
        await written()
        name = api.all(Event)[0].metadata.name
        assert len(name) <= 253
        assert name.startswith("a" * 199 + ".")

    tell(story)


def test_telling_never_waits_and_a_flood_costs_the_oldest_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_recorder, "_MOST_WAITING", 100)

    async def story(api: PretendApi, press: Press) -> None:
        for number in range(250):
            press.tell("No room.", key=f"ns/p{number}")
        assert press.recorder.dropped == 150
        await written()
        assert sorted(event.involved_object.name for event in api.all(Event)) == sorted(
            f"p{number}" for number in range(150, 250)
        )

    tell(story)


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_recorder, "_MOST_REMEMBERED", 10)

    async def story(api: PretendApi, press: Press) -> None:
        for number in range(50):
            press.tell("No room.", key=f"ns/p{number}")
        await written()
        assert len(api.all(Event)) == 50
        assert len(press.recorder._written) == 10
        assert len(press.recorder._varieties) == 10

    tell(story)


def test_events_wait_while_binds_are_on_their_way_but_not_for_ever() -> None:
    async def story(api: PretendApi, press: Press) -> None:
        press.busy = True
        press.tell("Bound.")
        await asyncio.sleep(2.0)
        assert api.all(Event) == []
        press.busy = False
        await asyncio.sleep(1.0)
        assert lines(api) == ["1× Bound."]
        press.busy = True
        press.tell("Bound again.")
        await asyncio.sleep(6.0)
        assert lines(api) == ["1× Bound again.", "1× Bound."]

    tell(story)


def test_a_server_that_refuses_one_event_is_told_the_next() -> None:
    fates = iter([refused(403, "Forbidden"), refused(500, "InternalError")])

    async def story(api: PretendApi, press: Press) -> None:
        for name in "abc":
            press.tell("No room.", key=f"ns/{name}")
        await written()
        assert [event.involved_object.name for event in api.all(Event)] == ["c"]

    tell(story, fate=lambda verb, key: next(fates, Fate()))


def test_a_flush_writes_what_is_there_and_gives_up_on_a_server_that_does_not_answer() -> None:
    async def run() -> None:
        api = PretendApi()
        press = Press(api)  # nothing runs
        press.tell("No room.", key="ns/a")
        press.tell("No room.", key="ns/b")
        await press.recorder.flush()
        assert len(api.all(Event)) == 2
        api.down = True
        for number in range(100):
            press.tell("No room.", key=f"ns/p{number}")
        before = len(api.asked)
        await press.recorder.flush()
        assert len(api.asked) == before + 1

    with_pretended_time(run())


@pytest.mark.parametrize("kind", [Pod, Queue])
def test_a_subject_knows_where_its_kind_lives(kind: type[KObject]) -> None:
    subject = Subject.of(kind, "ns/a" if kind is Pod else "a", "u1")
    assert (subject.kind, subject.name, subject.namespace) == (kind.__name__, "a", "ns" if kind is Pod else "")


def test_nothing_is_asked_of_the_server_when_nothing_is_told() -> None:
    async def story(api: PretendApi, press: Press) -> None:
        await asyncio.sleep(60.0)
        assert api.asked == []
        press.tell("No room.")
        await until(lambda: api.all(Event))

    tell(story)
