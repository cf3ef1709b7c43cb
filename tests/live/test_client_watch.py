"""Watches: events in chunks of any size, and every way a watch can end."""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from pathlib import Path
from random import Random
from typing import Any

import pytest
from aiohttp import web

from kube.certificates import Authority
from live.fake_api_server import FakeApiServer, Handler, event, pod, status, status_object
from stromboli.api import Pod
from stromboli.kube.client import PODS, Client, Failure, WatchEvent, is_gone
from stromboli.kube.client import client as client_module
from stromboli.kube.client import connection_pool as pool_module
from stromboli.kube.client.auth.tls import Trust


def play(story: Callable[[FakeApiServer, Client], Awaitable[None]], **options: Any) -> FakeApiServer:
    async def run() -> FakeApiServer:
        async with asyncio.timeout(30), FakeApiServer() as server, Client(server.config(), **options) as client:
            await story(server, client)
            return server

    return asyncio.run(run())


def sending(*chunks: bytes) -> Handler:
    """A watch that consists of these pieces, then ends."""

    async def handler(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for chunk in chunks:
            await response.write(chunk)
        return response

    return handler


async def seen(events: AsyncIterator[WatchEvent[Pod]]) -> list[tuple[str, str]]:
    return [(one.type, one.object.metadata.name) async for one in events]


async def read(events: AsyncIterator[WatchEvent[Pod]], names: list[str]) -> None:
    async for one in events:
        names.append(one.object.metadata.name)


def test_a_watch_starts_from_a_resource_version() -> None:
    async def story(server: FakeApiServer, client: Client) -> None:
        server.put(pod("before"))
        start = str(server.revision)
        server.put(pod("a"))
        server.put(pod("elsewhere", namespace="other"))
        async with aclosing(client.watch(PODS, start, namespace="ns", label_selector="x=y")) as events:
            first = await anext(events)
            assert (first.type, first.object.metadata.name) == ("ADDED", "a")
            server.put(pod("a", nodeName="n1"))
            second = await anext(events)
            assert (second.type, second.object.spec.node_name) == ("MODIFIED", "n1")
            server.bookmark()
            third = await anext(events)
            assert (third.type, third.object.metadata.resource_version) == ("BOOKMARK", str(server.revision))
            server.remove(pod("a"))
            assert (await anext(events)).type == "DELETED"
            server.end_watches()
            assert await seen(events) == []

    (watch,) = play(story).watches()
    assert watch.query["allowWatchBookmarks"] == "true"
    assert (watch.query["resourceVersion"], watch.query["labelSelector"]) == ("101", "x=y")


def test_watches_that_began_together_do_not_end_together() -> None:
    async def story(server: FakeApiServer, client: Client) -> None:
        server.instead("GET", "/pods$", sending(), times=20)
        for _ in range(20):
            assert await seen(client.watch(PODS, "1")) == []

    lengths = {int(watch.query["timeoutSeconds"]) for watch in play(story, random=Random(1)).watches()}
    assert len(lengths) > 10
    assert min(lengths) >= 261
    assert max(lengths) <= 319


def test_chunks_may_end_anywhere_and_objects_may_have_any_size() -> None:
    big = pod("big")
    big["metadata"]["annotations"] = {"data": "x" * 5_000_000}
    text = event("ADDED", big) + event("ADDED", pod("b")) + event("ADDED", pod("c"))
    pieces = [text[:7], text[7:100], text[100:4_000_000], text[4_000_000:-60], text[-60:-1], text[-1:]]

    async def story(server: FakeApiServer, client: Client) -> None:
        server.instead("GET", "/pods$", sending(*pieces))
        assert await seen(client.watch(PODS, "1")) == [("ADDED", "big"), ("ADDED", "b"), ("ADDED", "c")]

    play(story)


@pytest.mark.parametrize("code", [410, 500])
def test_an_error_in_a_watch_is_raised_with_its_code(code: int) -> None:
    async def story(server: FakeApiServer, client: Client) -> None:
        error = {"type": "ERROR", "object": status_object(code, "Expired", "too old resource version")}
        server.instead("GET", "/pods$", sending(event("ADDED", pod("a")), json.dumps(error).encode() + b"\n"))
        with pytest.raises(Failure, match="too old resource version") as caught:
            await seen(client.watch(PODS, "1"))
        assert (caught.value.status, is_gone(caught.value)) == (code, code == 410)

    play(story)


def test_a_watch_may_be_refused_from_the_start() -> None:
    async def story(server: FakeApiServer, client: Client) -> None:
        server.forget()
        with pytest.raises(Failure) as caught:
            await seen(client.watch(PODS, "1"))
        assert is_gone(caught.value)

    assert len(play(story).watches()) == 1


async def abandon(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse()
    await response.prepare(request)
    await response.write(event("ADDED", pod("a")) + b'{"type": "ADD')
    assert request.transport is not None
    request.transport.abort()
    return response


@pytest.mark.parametrize(
    ("handler", "message"),
    [
        (abandon, "the connection to .* broke"),
        (sending(event("ADDED", pod("a")), b'{"type": "ADD'), "broke off in the middle of an object"),
        (sending(event("ADDED", pod("a")), b"<html>\n"), "not a Kubernetes object"),
        (sending(event("ADDED", pod("a")), b'{"type": "ERROR", "object": 7}\n'), "an unknown error"),
    ],
)
def test_a_stream_that_breaks_is_a_failure_after_its_events(handler: Handler, message: str) -> None:
    async def story(server: FakeApiServer, client: Client) -> None:
        server.instead("GET", "/pods$", handler)
        names: list[str] = []
        with pytest.raises(Failure, match=message):
            await read(client.watch(PODS, "1"), names)
        assert names == ["a"]

    play(story)


def test_a_silent_stream_times_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that vanished says nothing, not even that the time it was given for the watch is over."""
    monkeypatch.setattr(client_module, "WATCH_GRACE", -0.9)

    async def story(server: FakeApiServer, client: Client) -> None:
        server.put(pod("a"))
        names: list[str] = []
        with pytest.raises(Failure, match="did not answer in time"):
            await read(client.watch(PODS, "100"), names)
        assert names == ["a"]

    play(story, watch_seconds=1)


def test_watches_use_tcp_keepalive(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stream may be silent for minutes. That the other end is gone must be noticed all the same."""
    prepared: list[tuple[int, int]] = []
    enable = pool_module.enable_keepalive

    def look(transport: asyncio.BaseTransport) -> None:
        enable(transport)
        sock = transport.get_extra_info("socket")
        kept = sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        prepared.append((kept, sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT)))

    monkeypatch.setattr(pool_module, "enable_keepalive", look)

    async def story(server: FakeApiServer, client: Client) -> None:
        server.put(pod("a"))
        events = client.watch(PODS, "100")
        await anext(events)
        await events.aclose()

    play(story)
    assert prepared == [(1, pool_module.KEEPALIVE_COUNT)]


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0.005)


def test_a_watch_that_is_no_longer_read_closes_its_connection() -> None:
    async def story(server: FakeApiServer, client: Client) -> None:
        server.put(pod("a"))
        events = client.watch(PODS, "100")
        await anext(events)
        assert server.watching == 1
        await events.aclose()
        await until(lambda: hung_up(server))

    def hung_up(server: FakeApiServer) -> bool:
        server.put(pod("a"))  # A server notices that nobody is there when it has something to say.
        return server.watching == 0

    play(story)


def test_a_cancelled_watch_closes_its_connection() -> None:
    async def story(server: FakeApiServer, client: Client) -> None:
        reading = asyncio.create_task(seen(client.watch(PODS, "100")))
        await until(lambda: server.watching == 1)
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading

        def hung_up() -> bool:
            server.put(pod("a"))
            return server.watching == 0

        await until(hung_up)

    play(story)


def test_watches_use_no_connections_of_requests() -> None:
    async def story(server: FakeApiServer, client: Client) -> None:
        readings = [asyncio.create_task(seen(client.watch(PODS, "100"))) for _ in range(3)]
        await until(lambda: server.watching == 3)
        assert await client.server_version() == (1, 20)
        server.end_watches()
        await asyncio.gather(*readings)

    play(story, connections=1)


def test_a_watch_is_not_retried_by_the_client() -> None:
    async def refuse(request: web.Request) -> web.StreamResponse:
        return status(429, "TooManyRequests", retry_after=4)

    async def story(server: FakeApiServer, client: Client) -> None:
        server.instead("GET", "/pods$", refuse)
        with pytest.raises(Failure) as caught:
            await seen(client.watch(PODS, "1"))
        assert caught.value.retry_after == 4

    assert len(play(story).watches()) == 1


def test_the_connection_of_a_watch_is_closed_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """TLS would take leave in due form first, for which a loop that ends has no time: it would stay half open."""
    authority = Authority(tmp_path)
    own = authority.server()
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(own.certificate, own.key)
    trust = Trust(authority.certificate.read_bytes())
    sockets: list[Any] = []

    def remember(transport: asyncio.BaseTransport) -> None:
        sockets.append(transport.get_extra_info("socket"))

    monkeypatch.setattr(pool_module, "enable_keepalive", remember)

    async def run() -> None:
        async with FakeApiServer(tls=tls) as server, Client(server.config(trust=trust.context())) as client:
            server.put(pod("a"))
            async with aclosing(client.watch(PODS, "1")) as events:
                await anext(events)
                assert sockets[0].fileno() >= 0
            await asyncio.sleep(0)  # what __aexit__ of the client grants as well
            assert sockets[0].fileno() == -1

    asyncio.run(run())
