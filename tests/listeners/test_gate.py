"""Connections: half-sent requests keep nobody out, slow ones end, and holders of the token are never pushed out."""

from __future__ import annotations

import asyncio
import resource
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from listeners.servers import LOOPBACK, NAMES, TOKEN, Listener, listening, play, read_all
from stromboli.listeners import turns as pace

Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@asynccontextmanager
async def half_sent(listener: Listener, count: int) -> AsyncIterator[list[Stream]]:
    """So many connections with the beginning of a request."""
    opened: list[Stream] = []
    try:
        for _ in range(count):
            opened.append(await asyncio.open_connection(LOOPBACK, listener.port))
            opened[-1][1].write(b"GET / HTTP/1.1\r\nHost: ")
        yield opened
    finally:
        for _, writer in opened:
            writer.close()


@pytest.mark.parametrize("name", NAMES)
def test_half_sent_requests_keep_nobody_out(name: str) -> None:
    """With 600 open files, 300 such connections took all of them: each is one file here and one at the listener."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)

    async def story() -> None:
        async with listening(name) as listener, half_sent(listener, 300) as opened:
            assert await listener.is_healthy()
            assert await listener.status(listener.request()) == 200
            assert await read_all(opened[0][0], 0.1) == b"", "the oldest were closed"
            # A place is free again for each that goes.
            for _, writer in opened:
                writer.close()
            assert await listener.is_healthy()

    resource.setrlimit(resource.RLIMIT_NOFILE, (600, hard))
    try:
        play(story)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.parametrize("name", NAMES)
def test_whoever_sends_no_request_in_time_is_closed(name: str) -> None:
    async def story() -> None:
        async with listening(name, first_request_seconds=0.1) as listener, half_sent(listener, 3) as opened:
            reader, writer = await asyncio.open_connection(LOOPBACK, listener.port)  # sends nothing at all
            for each, _ in [*opened, (reader, writer)]:
                assert await asyncio.wait_for(each.read(), 30) == b""
            writer.close()

    play(story)


@pytest.mark.parametrize("name", NAMES)
def test_an_idle_connection_is_closed(name: str) -> None:
    async def story() -> None:
        async with listening(name, idle_seconds=0.1) as listener:
            reader, writer = await asyncio.open_connection(LOOPBACK, listener.port)
            writer.write(listener.request(path=listener.health))
            found = await asyncio.wait_for(reader.read(), 30)
            assert found.startswith(b"HTTP/1.1 200")
            writer.close()

    play(story)


async def sent_until_closed(listener: Listener, first: bytes, piece: bytes) -> int:
    """How many bytes could be sent before the connection was closed."""
    _, writer = await asyncio.open_connection(LOOPBACK, listener.port)
    sent = 0
    try:
        writer.write(first)
        while sent < 64 << 20:
            writer.write(piece)
            await writer.drain()
            sent += len(piece)
            await asyncio.sleep(0)
    except ConnectionError:
        pass
    finally:
        writer.transport.abort()
    return sent


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("after_a_request", [False, True])
def test_whoever_sends_without_end_and_without_the_token_is_closed(name: str, after_a_request: bool) -> None:
    """Blank lines before a request are allowed, and the body of a refused request is read for a moment. Before, both
    could be sent for seconds, as fast as they were read. The system's own buffers may hold some MiB more."""

    async def story() -> None:
        async with listening(name) as listener:
            request = listener.request("Content-Length: 1000000000", method="POST", token="")
            assert await sent_until_closed(listener, request if after_a_request else b"", b"\r\n" * 30_000) < 32 << 20
            assert await listener.is_healthy()

    play(story)


@pytest.mark.parametrize("name", NAMES)
def test_a_stranger_may_send_any_number_of_usual_requests(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """1,000 requests of 1,000 bytes each on one connection: more than a head and a body may have together."""
    monkeypatch.setattr(pace, "_PACE", 0.0)

    async def story() -> None:
        async with listening(name, body_bytes=0) as listener:
            reader, writer = await asyncio.open_connection(LOOPBACK, listener.port)
            asked = listener.request(f"X: {'y' * 900}", path=listener.health, token="")
            for _ in range(1000):
                writer.write(asked)
                head = await reader.readuntil(b"\r\n\r\n")
                assert head.startswith(b"HTTP/1.1 200")
                await reader.readexactly(int(head.lower().partition(b"content-length: ")[2].split()[0]))
            writer.close()

    play(story)


@pytest.mark.parametrize("name", ["api-server", "page"])
def test_a_slow_body_ends_after_its_time(name: str) -> None:
    async def story() -> None:
        async with listening(name, body_seconds=0.1) as listener:
            path = "/api/actions" if name == "page" else listener.data
            head = listener.request("Content-Length: 100", "Content-Type: application/json", path=path, method="POST")
            answer = await asyncio.wait_for(listener.send(head, b'{"a"', wait=5), 30)
            assert answer.startswith(b"HTTP/1.1 408") or answer == b""
            assert await listener.is_healthy()

    play(story)


@pytest.mark.parametrize("name", NAMES)
def test_holders_of_the_token_are_not_pushed_out_and_do_not_push_out_health(name: str) -> None:
    """8 places: 4 for this token. Strangers take the others, and each newer one takes the place of the oldest."""

    async def story() -> None:
        async with listening(name, connections=8) as listener:
            holders: list[Stream] = []
            for _ in range(6):
                reader, writer = await asyncio.open_connection(LOOPBACK, listener.port)
                holders.append((reader, writer))
                writer.write(listener.request())
                status = (await reader.readline()).split()[1]
                assert status == (b"200" if len(holders) <= 4 else b"429")
                await read_all(reader, 0.05)
            async with half_sent(listener, 30):
                assert await listener.is_healthy()
                reader, writer = holders[0]
                writer.write(listener.request())
                assert (await reader.readline()).split()[1] == b"200"
                if name == "api-server":
                    other = await listener.status(listener.request(token="another-token-of-some-length"))
                    assert other == 200, "those who hold another token have places of their own"
            for _, writer in holders:
                writer.close()

    play(story)


def test_watches_of_one_token_are_limited() -> None:
    async def story() -> None:
        async with listening("api-server", streams=3) as listener:
            watch = listener.request(path="/api/v1/namespaces?watch=1")
            opened: list[Stream] = []
            for _ in range(3):
                reader, writer = await asyncio.open_connection(LOOPBACK, listener.port)
                writer.write(watch)
                assert (await reader.readline()).split()[1] == b"200"
                opened.append((reader, writer))
            answer = await listener.send(watch)
            assert answer.startswith(b"HTTP/1.1 429")
            assert b"Retry-After" in answer
            assert b"too many watches" in answer
            theirs = listener.request(path="/api/v1/namespaces?watch=1", token="another-token-of-some-length")
            assert await listener.status(theirs) == 200
            opened[0][1].close()
            async with asyncio.timeout(30):
                while await listener.status(watch) != 200:
                    await asyncio.sleep(0.01)
            for _, writer in opened:
                writer.close()

    play(story)


def test_browsers_of_a_page_are_limited() -> None:
    async def story() -> None:
        async with listening("page", streams=2) as listener:
            stream = listener.request(path="/api/stream")
            opened = []
            for _ in range(2):
                reader, writer = await asyncio.open_connection(LOOPBACK, listener.port)
                writer.write(stream)
                await reader.readuntil(b"event: document")
                opened.append(writer)
            assert await listener.status(stream) == 429
            for writer in opened:
                writer.close()

    play(story)


def test_a_watch_that_nobody_reads_holds_little() -> None:
    """1,000 namespaces are there; what is not read yet is not rendered yet."""

    async def story() -> None:
        async with listening("api-server") as listener:
            reader, writer = await asyncio.open_connection(LOOPBACK, listener.port)
            for number in range(1000):
                body = f'{{"metadata":{{"name":"n{number}","annotations":{{"a":"{"x" * 1000}"}}}}}}'
                head = (f"Content-Length: {len(body)}", "Content-Type: application/json")
                writer.write(listener.request(*head, method="POST", body=body))
                await reader.readuntil(b"\r\n\r\n")
                await reader.readuntil(b'"phase":"Active"}}')
            writer.close()
            reader, writer = await asyncio.open_connection(LOOPBACK, listener.port)
            writer.write(listener.request(path="/api/v1/namespaces?watch=1"))
            found = b""
            while found.count(b'"type":"ADDED"') < 1004:  # with the four that are always there
                found += await asyncio.wait_for(reader.read(1 << 16), 30)
            writer.close()

    play(story)


def test_the_log_has_one_line_for_each_kind_and_no_token(caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> None:
        for name in NAMES:
            async with listening(name) as listener:
                for number in range(50):
                    await listener.send(listener.request(token=f"{TOKEN}{number}"), wait=0.01)
                    await listener.send(b"GET / HTTP/1.1\r\nHost : x\r\n" + TOKEN.encode() + b"\r\n\r\n", wait=0.01)

    play(story)
    text = "\n".join(f"{record.getMessage()} {record.__dict__.get('fields')}" for record in caplog.records)
    assert 3 <= len(caplog.records) <= 8, text
    assert TOKEN not in text
    assert not any(record.exc_info for record in caplog.records)
