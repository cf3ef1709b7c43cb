"""Probes of JobFlows: what is sent to a pod, what counts as an answer, and what is too much."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from msgspec.structs import replace

from builders import pod
from live.fake_api import until
from stromboli.api import JobFlow, ObjectMeta
from stromboli.controllers import Probe
from stromboli.kube.controllers import prober
from stromboli.kube.controllers.prober import Prober, request, succeeds

FLOW = JobFlow(metadata=ObjectMeta(name="f", namespace="ns", uid="f-1"))
Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


def probe(port: int = 80, address: str = "127.0.0.1", **facts: Any) -> Probe:
    found = pod("ns/p")
    return Probe(FLOW, replace(found, status=replace(found.status, pod_ip=address)), port, **facts)


def answered(serve: Serve | None, *, path: str | None = None) -> bool:
    """By a server on this machine; None: nobody listens."""

    serving: set[asyncio.Task[Any]] = set()

    async def to_the_end(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        serving.add(task)
        try:
            if serve is not None:
                await serve(reader, writer)
        finally:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    async def story() -> bool:
        server = await asyncio.start_server(to_the_end, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        if serve is None:
            server.close()
            await server.wait_closed()
        woken = asyncio.Event()
        asking = Prober(answered=woken.set)
        asking.start([probe(port, path=path)])
        await until(woken.is_set)
        [(_, said)] = asking.take()
        assert asking.take() == []
        server.close()
        await asyncio.gather(*serving, return_exceptions=True)
        return said

    return asyncio.run(story())


def saying(line: bytes) -> Serve:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(line)
        await writer.drain()
        writer.close()

    return serve


async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read()
    writer.close()


def test_a_connection_is_enough_for_a_socket() -> None:
    assert answered(silent)
    assert not answered(None)


@pytest.mark.parametrize(
    ("line", "is_one"),
    [
        (b"HTTP/1.1 200 OK\r\n", True), (b"HTTP/1.0 302 Found\r\n", True), (b"HTTP/1.1 404 Not Found\r\n", False),
        (b"HTTP/1.1 500 Oops\r\n", False), (b"SSH-2.0-OpenSSH\r\n", False), (b"", False), (b"HTTP/1.1 2\r\n", False),
        (b"x" * 5000, False),
    ],
)  # fmt: skip
def test_answers_over_http(line: bytes, is_one: bool) -> None:
    assert answered(saying(line), path="/") == is_one


def test_who_says_nothing_has_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prober, "TIMEOUT", 0.05)
    assert not answered(silent, path="/")


def test_a_pod_without_an_address_does_not_answer() -> None:
    async def story() -> None:
        asking = Prober(answered=lambda: None)
        asking.start([probe(address="")])
        await asyncio.sleep(0.01)
        assert [said for _, said in asking.take()] == [False]

    asyncio.run(story())


def test_what_is_sent() -> None:
    wanted = probe(8080, path="/ready?x=1", header=("X-Token", "t"))
    assert request(wanted, "10.0.0.1").decode().split("\r\n") == [
        "GET /ready?x=1 HTTP/1.1", "Host: 10.0.0.1:8080", "User-Agent: stromboli", "Connection: close", "X-Token: t",
        "", "",
    ]  # fmt: skip
    named = request(probe(path="/", header=("host", "a.example")), "10.0.0.1")
    assert b"Host: a.example\r\n" in named
    assert b"Host: 10" not in named
    assert b"Host: [fd00::1]:80\r\n" in request(probe(path="/"), "fd00::1")


@pytest.mark.parametrize("line", [b"HTTP/1.1 2x0", b"HTTP/2 200", b"HTTP/1.1", b"\xff\xfe"])
def test_what_is_no_status(line: bytes) -> None:
    assert not succeeds(line)


def test_a_question_is_asked_once_at_a_time_and_few_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prober, "MOST_WAITING", 3)

    async def story() -> None:
        asked: list[int] = []

        async def connect(host: str, port: int) -> Any:
            asked.append(port)
            await asyncio.Event().wait()

        asking = Prober(answered=lambda: None, connect=connect)
        asking.start([probe(1), probe(1), probe(2), probe(3), probe(4)])
        await asyncio.sleep(0.01)
        assert asked == [1, 2, 3]
        await asking.cancel()
        assert asking.take() == []

    asyncio.run(story())
