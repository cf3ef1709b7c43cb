"""The reflector: whatever happens to lists and watches, the sink gets the latest state of each object, once."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any

import pytest
from aiohttp import web

from live.fake_api_server import Document, FakeApiServer, Handler, always, event, pod, status, status_object
from stromboli.api import Pod, decode_json, key
from stromboli.cluster.events import Applied, Deleted
from stromboli.kube.client import PODS, Backoff, Client, Reflector
from stromboli.kube.client import reflector as reflector_module
from stromboli.kube.client.reflector import is_newer


class Receiver:
    """Writes down what it is told, like `+ns/a@101` and `-ns/a@102`."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def __call__(self, happened: Applied | Deleted) -> None:
        sign = "+" if isinstance(happened, Applied) else "-"
        self.told.append(f"{sign}{key(happened.object)}@{happened.object.metadata.resource_version}")

    def take(self) -> list[str]:
        told, self.told = self.told, []
        return told


Story = Callable[[FakeApiServer, Reflector[Pod], Receiver], Awaitable[None]]


def play(
    story: Story, prepare: Callable[[FakeApiServer], object] = lambda server: None, *, page: int = 500
) -> FakeApiServer:
    async def run() -> FakeApiServer:
        async with asyncio.timeout(60), FakeApiServer() as server, Client(server.config(), page=page) as client:
            prepare(server)
            receiver = Receiver()
            reflector = Reflector(client, PODS, receiver, backoff=Backoff(0.001, 0.01, random=Random(1)))
            running = asyncio.create_task(reflector.run())
            try:
                await story(server, reflector, receiver)
                assert not running.done()
            finally:
                running.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await running
            return server

    return asyncio.run(run())


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.002)


async def caught_up(server: FakeApiServer, reflector: Reflector[Pod], receiver: Receiver) -> None:
    """Until the reflector has seen an object that was made last of all; it is taken away again unseen."""
    mark = server.put(pod("mark"))
    await until(lambda: "ns/mark" in reflector.objects)
    server.remove(mark)
    await until(lambda: "ns/mark" not in reflector.objects)
    receiver.told = [one for one in receiver.told if "ns/mark" not in one]


def as_pod(document: Document, **changes: Any) -> Pod:
    document = {**document, "metadata": {**document["metadata"], **changes}}
    return decode_json(json.dumps(document), Pod)


def sending(*chunks: bytes) -> Handler:
    async def handler(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for chunk in chunks:
            await response.write(chunk)
        return response

    return handler


def three_pods(server: FakeApiServer) -> None:
    for name in "abc":
        server.put(pod(name))


def test_the_list_comes_first_and_then_the_changes() -> None:
    async def story(server: FakeApiServer, reflector: Reflector[Pod], receiver: Receiver) -> None:
        await reflector.synced.wait()
        assert receiver.take() == ["+ns/a@101", "+ns/b@102", "+ns/c@103"]
        server.put(pod("b", nodeName="n1"))
        server.remove(pod("c"))
        server.put(pod("d"))
        await until(lambda: len(receiver.told) == 3)
        assert receiver.take() == ["+ns/b@104", "-ns/c@105", "+ns/d@106"]
        assert list(reflector.objects) == ["ns/a", "ns/b", "ns/d"]
        assert reflector.objects["ns/b"].spec.node_name == "n1"

    server = play(story, three_pods, page=2)
    assert len(server.lists()) == 2
    assert [watch.query["resourceVersion"] for watch in server.watches()] == ["103"]


def test_nothing_is_synced_before_the_whole_list_is() -> None:
    async def story(server: FakeApiServer, reflector: Reflector[Pod], receiver: Receiver) -> None:
        await until(lambda: len(server.lists()) > 8)
        assert receiver.told == ["+ns/a@101", "+ns/b@102"]
        assert not reflector.synced.is_set()
        assert reflector.remaining == 1

    def prepare(server: FakeApiServer) -> None:
        three_pods(server)

        async def no_second_page(request: web.Request) -> web.StreamResponse:
            return status(410, "Expired") if "continue" in request.query else server._list(request, "pods", "")

        server.instead("GET", "/pods$", no_second_page, times=10_000)

    play(story, prepare, page=2)


def test_a_watch_that_ends_is_resumed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reflector_module, "MIN_WATCH_SECONDS", 0.0)

    async def story(server: FakeApiServer, reflector: Reflector[Pod], receiver: Receiver) -> None:
        await until(lambda: server.watching)
        for name in ("d", "e"):
            server.put(pod(name))
            await until(lambda name=name: f"ns/{name}" in reflector.objects)
            server.end_watches()
            watches = len(server.watches())
            await until(lambda watches=watches: len(server.watches()) > watches)
        server.bookmark()
        await until(lambda: reflector._last_version == str(server.revision))
        server.end_watches()
        await until(lambda: len(server.watches()) == 4)
        assert len(receiver.told) == 5

    server = play(story, three_pods)
    assert [watch.query["resourceVersion"] for watch in server.watches()] == ["103", "104", "105", "106"]
    assert len(server.lists()) == 1


def outage(server: FakeApiServer) -> None:
    """While nobody looks: a is changed, b is gone, c is another of the same name, d is new."""
    server.forget()  # 104
    server.put(pod("a", nodeName="n1"))  # 105
    server.remove(pod("b"))  # 106
    server.remove(pod("c"))  # 107
    server.put(pod("c"))  # 108
    server.put(pod("d"))  # 109
    server.forget()  # 110


@pytest.mark.parametrize("how", ["answer", "event"])
def test_after_a_410_only_the_difference_is_sent(how: str) -> None:
    async def story(server: FakeApiServer, reflector: Reflector[Pod], receiver: Receiver) -> None:
        await until(lambda: server.watching)
        receiver.take()
        known = dict(reflector.objects)
        if how == "event":
            error = event("ERROR", status_object(410, "Expired"))
            server.instead("GET", "/pods$", sending(error))
        server.end_watches()
        outage(server)
        await until(lambda: len(server.lists()) == 2 and server.watching)
        assert receiver.take() == ["+ns/a@105", "-ns/c@103", "+ns/c@108", "+ns/d@109", "-ns/b@102"]
        await caught_up(server, reflector, receiver)
        assert receiver.told == []
        assert reflector.objects["ns/a"] is not known["ns/a"]

    play(story, three_pods)


def test_a_relist_sends_no_unchanged_objects() -> None:
    async def story(server: FakeApiServer, reflector: Reflector[Pod], receiver: Receiver) -> None:
        await until(lambda: server.watching)
        receiver.take()
        known = dict(reflector.objects)
        server.end_watches()
        server.forget()
        await until(lambda: len(server.lists()) == 2 and server.watching)
        assert receiver.told == []
        assert all(reflector.objects[name] is obj for name, obj in known.items())

    play(story, three_pods)


def test_a_restore_from_a_backup_is_followed() -> None:
    """Its versions are lower than what we knew, and still they are what there is."""

    async def story(server: FakeApiServer, reflector: Reflector[Pod], receiver: Receiver) -> None:
        await until(lambda: server.watching)
        receiver.take()
        server.forget()
        server.revision = server.forgotten = 50
        for name in ("a", "b", "c"):
            server.put(pod(name))
        server.end_watches()
        server.instead("GET", "/pods$", always(lambda: status(410, "Expired")))
        await until(lambda: len(server.lists()) == 2 and server.watching)
        assert receiver.take() == ["+ns/a@51", "+ns/b@52", "+ns/c@53"]
        assert server.watches()[-1].query["resourceVersion"] == "53"
        server.put(pod("b"))
        await until(lambda: receiver.told)
        assert receiver.take() == ["+ns/b@54"]

    play(story, three_pods)


def test_an_outage_causes_no_events(caplog: pytest.LogCaptureFixture) -> None:
    async def story(server: FakeApiServer, reflector: Reflector[Pod], receiver: Receiver) -> None:
        await until(lambda: server.watching)
        receiver.take()
        server.instead("GET", "/pods$", always(lambda: web.Response(status=503, text="<html>")), times=2)
        server.end_watches()
        server.put(pod("d"))
        await until(lambda: receiver.told)
        assert receiver.take() == ["+ns/d@104"]

    server = play(story, three_pods)
    assert len(server.lists()) == 1, "twice is no reason to list anew"
    assert "503 Service Unavailable" in caplog.text


def test_repeated_watch_failures_cause_a_relist() -> None:
    async def story(server: FakeApiServer, reflector: Reflector[Pod], receiver: Receiver) -> None:
        await until(lambda: server.watching)
        receiver.take()
        server.instead("GET", "/pods$", always(lambda: status(400, "BadRequest", "strange version")), times=3)
        server.end_watches()
        server.put(pod("d"))
        await until(lambda: receiver.told)
        assert receiver.take() == ["+ns/d@104"]

    assert len(play(story, three_pods).lists()) == 2


def test_a_pause_grows_with_every_failure_and_is_as_long_as_the_server_wants(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    sleep = asyncio.sleep

    async def note(seconds: float) -> None:
        if seconds >= 0.1:
            pauses.append(seconds)
            seconds = 0
        await sleep(seconds)

    monkeypatch.setattr(reflector_module.asyncio, "sleep", note)

    async def run() -> None:
        async with asyncio.timeout(60), FakeApiServer() as server, Client(server.config()) as client:
            server.instead("GET", "/pods$", server_list(server))
            server.instead("GET", "/pods$", sending())
            server.instead("GET", "/pods$", always(lambda: status(410, "Expired")))
            server.instead("GET", "/pods$", server_list(server))
            server.instead("GET", "/pods$", always(lambda: status(410, "Expired")))
            server.instead("GET", "/pods$", server_list(server))
            server.instead("GET", "/pods$", always(lambda: status(429, "TooManyRequests", retry_after=17)))
            reflector = Reflector(client, PODS, lambda happened: None, backoff=Backoff(1.0, 5.0, random=Random(1)))
            running = asyncio.create_task(reflector.run())
            await until(lambda: server.watching)
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    asyncio.run(run())
    # A watch that ends at once counts as a failure; then come two that are too old, and one that is one too many.
    assert len(pauses) == 4
    assert all(longest / 2 <= pause <= longest for pause, longest in zip(pauses[:3], (1, 2, 4), strict=True))
    assert pauses[3] == 17


def server_list(server: FakeApiServer) -> Handler:
    async def handler(request: web.Request) -> web.StreamResponse:
        return server._list(request, "pods", "")

    return handler


def test_our_own_write_is_sent_at_once_and_only_once() -> None:
    async def story(server: FakeApiServer, reflector: Reflector[Pod], receiver: Receiver) -> None:
        await until(lambda: server.watching)
        receiver.take()
        bound = server.put(pod("a", nodeName="n1"))
        reflector.observe_write(as_pod(bound))
        assert receiver.take() == ["+ns/a@104"]
        await caught_up(server, reflector, receiver)
        assert receiver.told == [], "the stream only repeats it"
        assert reflector._written == set()

    play(story, three_pods)


def test_an_observed_write_wins_over_older_events() -> None:
    async def story(server: FakeApiServer, reflector: Reflector[Pod], receiver: Receiver) -> None:
        await until(lambda: server.watching)
        receiver.take()
        server.put(pod("a", nodeName="n1"))  # 104
        latest = server.put(pod("a", nodeName="n2"))  # 105
        reflector.observe_write(as_pod(latest))
        await caught_up(server, reflector, receiver)
        assert receiver.told == ["+ns/a@105"]
        assert reflector.objects["ns/a"].spec.node_name == "n2"

    play(story, three_pods)


def test_a_response_that_arrives_after_the_deletion_is_ignored() -> None:
    async def story(server: FakeApiServer, reflector: Reflector[Pod], receiver: Receiver) -> None:
        await until(lambda: server.watching)
        bound = server.put(pod("a", nodeName="n1"))  # 104
        server.remove(pod("a"))  # 105
        await caught_up(server, reflector, receiver)
        receiver.take()
        reflector.observe_write(as_pod(bound))
        assert receiver.told == []
        assert "ns/a" not in reflector.objects
        # A bookmark says as much: whatever happened until then has been shown.
        late = as_pod(bound, name="z", resourceVersion=str(server.revision + 1))
        server.bookmark()
        await until(lambda: reflector._last_version == str(server.revision))
        reflector.observe_write(late)
        assert receiver.told == []

    play(story, three_pods)


def test_an_observed_successor_survives_the_deletion_of_its_predecessor() -> None:
    async def story(server: FakeApiServer, reflector: Reflector[Pod], receiver: Receiver) -> None:
        await until(lambda: server.watching)
        receiver.take()
        server.remove(pod("a"))  # 104
        successor = server.put(pod("a"))  # 105
        reflector.observe_write(as_pod(successor))
        assert receiver.take() == ["-ns/a@101", "+ns/a@105"]
        await caught_up(server, reflector, receiver)
        assert receiver.told == []
        assert reflector.objects["ns/a"].metadata.uid == "uid-105"
        server.remove(pod("a"))
        await until(lambda: receiver.told)
        assert len(receiver.told) == 1, "and has an end of its own"

    play(story, three_pods)


def test_the_deletion_of_an_observed_write_is_sent() -> None:
    async def story(server: FakeApiServer, reflector: Reflector[Pod], receiver: Receiver) -> None:
        await until(lambda: server.watching)
        receiver.take()
        noted = as_pod(server.put(pod("a", nodeName="n1")))  # 104
        server.remove(pod("a"))  # 105
        reflector.observe_write(noted)
        await caught_up(server, reflector, receiver)
        assert receiver.told == ["+ns/a@104", "-ns/a@105"]

    play(story, three_pods)


def test_a_list_from_before_a_write_does_not_undo_it() -> None:
    async def story(server: FakeApiServer, reflector: Reflector[Pod], receiver: Receiver) -> None:
        await until(lambda: server.watching)
        receiver.take()
        gate = asyncio.Event()

        async def slow_list(request: web.Request) -> web.StreamResponse:
            answer = server._list(request, "pods", "")
            server.put(pod("a", nodeName="n1"))  # 105, after the list of 104
            server.put(pod("x"))  # 106
            gate.set()
            await noted.wait()
            return answer

        noted = asyncio.Event()
        server.instead("GET", "/pods$", always(lambda: status(410, "Expired")))
        server.instead("GET", "/pods$", slow_list)
        server.forget()  # 104
        server.end_watches()
        await gate.wait()
        for name in ("ns/a", "ns/x"):
            document = server.stored("pods", name)
            assert document is not None
            reflector.observe_write(as_pod(document))
        gone = as_pod(pod("y"), uid="uid-y", resourceVersion="104")
        reflector.observe_write(gone)  # Ours, deleted by somebody before the list.
        assert receiver.take() == ["+ns/a@105", "+ns/x@106", "+ns/y@104"]
        noted.set()
        await caught_up(server, reflector, receiver)
        assert receiver.told == ["-ns/y@104"]

    play(story, three_pods)


def test_fields_that_only_a_template_needs_are_stripped() -> None:
    container = {
        "name": "main",
        "image": "train",
        "command": ["python"],
        "args": ["train.py"],
        "env": [{"name": "A", "value": "b"}],
        "volumeMounts": [{"name": "data", "mountPath": "/data"}],
        "resources": {"requests": {"cpu": "1"}},
    }

    async def story(server: FakeApiServer, reflector: Reflector[Pod], receiver: Receiver) -> None:
        await until(lambda: server.watching)
        reflector.observe_write(as_pod(server.put(pod("b", containers=[container]))))
        server.put(pod("c", initContainers=[container]))
        await until(lambda: "ns/c" in reflector.objects)
        kept = [reflector.objects[f"ns/{name}"].spec for name in "abc"]
        for one in (kept[0].containers[0], kept[1].containers[0], kept[2].init_containers[0]):
            assert (one.command, one.args, one.env, one.volume_mounts) == ([], [], [], [])
            assert (one.image, one.resources.requests) == ("train", {"cpu": "1"})

    play(story, lambda server: server.put(pod("a", containers=[container])))


def test_an_object_that_cannot_be_decoded_is_ignored_with_one_warning(caplog: pytest.LogCaptureFixture) -> None:
    odd = pod("b", schedulingGates="odd")

    async def story(server: FakeApiServer, reflector: Reflector[Pod], receiver: Receiver) -> None:
        await until(lambda: server.watching)
        assert receiver.take() == ["+ns/a@101", "+ns/c@103"]
        server.put(odd)
        server.put({**odd, "metadata": {"name": "a", "namespace": "ns"}})  # 105
        await caught_up(server, reflector, receiver)
        assert receiver.take() == ["-ns/a@101"], "what was known is as good as gone"
        server.put(pod("a"))
        server.put(pod("b"))
        server.remove(pod("b"))
        await caught_up(server, reflector, receiver)
        assert [one.split("@")[0] for one in receiver.take()] == ["+ns/a", "+ns/b", "-ns/b"]

    def prepare(server: FakeApiServer) -> None:
        server.put(pod("a"))
        server.put(odd)
        server.put(pod("c"))

    play(story, prepare)
    assert caplog.text.count("ignoring ns/b, which cannot be decoded") == 1
    assert caplog.text.count("ignoring ns/a, which cannot be decoded") == 1
    assert "spec.schedulingGates" in caplog.text


def test_a_sink_that_fails_misses_only_that_event(caplog: pytest.LogCaptureFixture) -> None:
    async def story(server: FakeApiServer, reflector: Reflector[Pod], receiver: Receiver) -> None:
        await until(lambda: server.watching)
        server.put(pod("d"))
        await until(lambda: "ns/d" in reflector.objects)
        assert receiver.told == ["+ns/a@101", "+ns/c@103", "+ns/d@104"]

    def prepare(server: FakeApiServer) -> None:
        three_pods(server)

    take = Receiver.__call__

    def refuse_b(self: Receiver, happened: Applied | Deleted) -> None:
        if happened.object.metadata.name == "b":
            raise ValueError("no b, please")
        take(self, happened)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Receiver, "__call__", refuse_b)
        play(story, prepare)
    assert "ignoring Pod ns/b until it changes" in caplog.text


def test_an_unexpected_exception_is_logged_and_survived(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(server: FakeApiServer, reflector: Reflector[Pod], receiver: Receiver) -> None:
        await until(lambda: server.watching)
        with monkeypatch.context() as patched:
            patched.setattr(Reflector, "_handle_changed", lambda self, obj: 1 / 0)
            patched.setattr(Reflector, "_handle_unreadable", lambda self, envelope: 1 / 0)
            server.put(pod("d"))
            await until(lambda: "failed unexpectedly" in caplog.text)
        await until(lambda: "ns/d" in reflector.objects)

    play(story, three_pods)
    assert [record.levelno for record in caplog.records] == [logging.ERROR] * 2


def test_an_object_that_our_code_fails_on_counts_as_deleted_until_it_changes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def story(server: FakeApiServer, reflector: Reflector[Pod], receiver: Receiver) -> None:
        usual = Reflector._handle_changed

        def fail_on_b(self: Reflector[Pod], obj: Pod) -> None:
            if obj.metadata.name == "b":
                raise ZeroDivisionError
            usual(self, obj)

        await until(lambda: server.watching)
        with monkeypatch.context() as patched:
            patched.setattr(Reflector, "_handle_changed", fail_on_b)
            server.put(pod("b", nodeName="n1"))
            server.put(pod("d"))
            await until(lambda: "ns/d" in reflector.objects)
        assert sorted(reflector.objects) == ["ns/a", "ns/c", "ns/d"]
        server.put(pod("b", nodeName="n1", priority=1))
        await until(lambda: "ns/b" in reflector.objects)

    play(story, three_pods)


def test_a_long_list_does_not_block_the_event_loop() -> None:
    """Others get their turn after every hundred objects, though all are in one page."""

    async def story(server: FakeApiServer, reflector: Reflector[Pod], receiver: Receiver) -> None:
        steps: set[int] = set()
        while not reflector.synced.is_set():
            steps.add(len(receiver.told))
            await asyncio.sleep(0)
        assert {100, 200, 300, 400, 500} <= steps

    def prepare(server: FakeApiServer) -> None:
        for number in range(500):
            server.put(pod(f"p{number:03}"))

    play(story, prepare)


@pytest.mark.parametrize(
    ("version", "other", "newer"),
    [("10", "9", True), ("9", "10", False), ("9", "9", False), ("9", "", True), ("b", "a", True), ("a", "a", False)],
)
def test_versions_are_numbers_where_they_can_be(version: str, other: str, newer: bool) -> None:
    assert is_newer(version, other) is newer
