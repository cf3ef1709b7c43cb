"""Connections to an API server: what is sent, when one is used again, and what happens if the server does not behave.

The rule behind most of them: a request that may have been sent is never sent again, and no caller gets the response of
another.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import gzip
import time
from collections.abc import Callable, Iterator
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path

import pytest

from kube.certificates import Authority
from live.scripted_server import Play, Received, ScriptedServer, always_ok, answer
from stromboli.kube.client import PODS, Client, ClientConfig, Failure
from stromboli.kube.client import connection_pool as pool_module
from stromboli.kube.client.auth import StaticCredentials, TokenFile
from stromboli.kube.client.auth.credentials import Identity, bearer
from stromboli.kube.client.auth.tls import Trust
from stromboli.kube.client.http_connection import Connection


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


def raw(*parts: bytes, then: bool = True) -> Play:
    """Always the same bytes, in separate packets; then the connection is closed unless `then` is true."""

    async def play(received: Received, writer: asyncio.StreamWriter) -> bool:
        for part in parts:
            writer.write(part)
            await writer.drain()
            await asyncio.sleep(0.01)
        return then

    return play


async def failure_of(client: Client, method: str = "POST", path: str = "/a", body: bytes | None = b"{}") -> Failure:
    with pytest.raises(Failure) as caught:
        await client.request(method, path, body=body)
    return caught.value


# What is sent


def test_requests_share_a_connection(authority: Authority) -> None:
    async def run() -> None:
        async with ScriptedServer(authority) as server, server.client() as client:
            for number in range(5):
                assert await client.request("GET", f"/{number}") == b"{}"
            assert server.targets() == ["/0", "/1", "/2", "/3", "/4"]
            assert server.connections == 1

    asyncio.run(run())


def test_a_request_is_complete(authority: Authority) -> None:
    async def run() -> None:
        async with ScriptedServer(authority) as server:
            config = server.config(StaticCredentials(bearer("secret")))
            behind = ClientConfig(config.server + "/clusters/a/", config.ssl, config.credentials)
            async with Client(behind) as client:
                await client.request("POST", "/pods", query={"fieldSelector": "a=ü b", "x": "1"}, body="{ü}".encode())
                await client.request("POST", "/empty")
                await client.request("GET", "/read")
            post, empty, read = server.received
        assert (post.method, post.target) == ("POST", "/clusters/a/pods?fieldSelector=a%3D%C3%BC%20b&x=1")
        assert post.body == "{ü}".encode()
        assert (
            post.headers.items()
            >= {
                "Host": config.server.removeprefix("https://"),
                "Authorization": "Bearer secret",
                "Content-Type": "application/json",
                "Content-Length": "4",
                "Accept": "application/json",
            }.items()
        )
        assert empty.headers["Content-Length"] == "0"
        assert "Content-Type" not in empty.headers
        assert "Content-Length" not in read.headers

    asyncio.run(run())


@pytest.mark.parametrize("path", ["/a b", "/a\r\nHost: b", "/ü"])
def test_a_path_must_be_quoted(path: str, authority: Authority) -> None:
    async def run() -> None:
        async with ScriptedServer(authority) as server, server.client() as client:
            with pytest.raises(ValueError, match="must be quoted"):
                await client.request("GET", path)
            assert server.received == []

    asyncio.run(run())


def test_a_header_has_no_second_line(authority: Authority) -> None:
    async def run() -> None:
        async with ScriptedServer(authority) as server, server.client(StaticCredentials(bearer("a\r\nB: c"))) as client:
            with pytest.raises(ValueError, match="Authorization has a control character"):
                await client.request("GET", "/a")
            assert server.received == []

    asyncio.run(run())


def test_large_bodies_in_both_directions(authority: Authority) -> None:
    async def echo(received: Received, writer: asyncio.StreamWriter) -> bool:
        writer.write(answer(received.body))
        return True

    async def run() -> None:
        body = b"0123456789ab" * 500_000
        async with ScriptedServer(authority, echo) as server, server.client() as client:
            for _ in range(2):
                assert await client.request("POST", "/large", body=body) == body
            assert server.connections == 1

    asyncio.run(run())


# Responses of all kinds

CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize(
    "parts",
    [
        pytest.param((answer("{ü}".encode()),), id="whole"),
        pytest.param((b"HTTP/1.1 200 O", b"K\r\nContent-Le", b"ngth: 4\r\n\r", b"\n{\xc3", b"\xbc}"), id="in pieces"),
        pytest.param(
            (CHUNKED + b"1;a=b\r\n{\r\n3\r\n\xc3", b"\xbc}\r\n0\r\nX: y\r\n\r\n"),
            id="chunked",
        ),
        pytest.param((b"HTTP/1.1 100 Continue\r\nX: y\r\n\r\n", answer("{ü}".encode())), id="continue"),
        pytest.param((answer(gzip.compress("{ü}".encode()), "Content-Encoding: gzip"),), id="compressed"),
    ],
)
def test_a_response_may_have_any_form(parts: tuple[bytes, ...], authority: Authority) -> None:
    async def run() -> None:
        async with ScriptedServer(authority, raw(*parts)) as server, server.client() as client:
            for _ in range(3):
                assert (await client.request("POST", "/a", body=b"{}")).decode() == "{ü}"
            assert server.connections == 1

    asyncio.run(run())


def test_a_response_without_a_length_ends_with_its_connection(authority: Authority) -> None:
    async def run() -> None:
        play = raw(b"HTTP/1.1 200 OK\r\n\r\n{", b"}", then=False)
        async with ScriptedServer(authority, play) as server, server.client() as client:
            for _ in range(2):
                assert await client.request("POST", "/a", body=b"{}") == b"{}"
            assert server.connections == 2

    asyncio.run(run())


def test_a_redirect_is_not_followed(authority: Authority) -> None:
    async def run() -> None:
        play = raw(answer(b"", "Location: /elsewhere", status="302 Found"))
        async with ScriptedServer(authority, play) as server, server.client() as client:
            assert (await failure_of(client)).status == 302
            assert server.targets() == ["/a"]

    asyncio.run(run())


# Connections that end


def test_a_server_may_close_the_connection_after_a_response(authority: Authority) -> None:
    async def run() -> None:
        play = raw(answer(b"{}", "Connection: close"), then=False)
        async with ScriptedServer(authority, play) as server, server.client() as client:
            for number in range(3):
                await client.request("POST", f"/{number}", body=b"{}")
            assert server.targets() == ["/0", "/1", "/2"]
            assert server.connections == 3

    asyncio.run(run())


@pytest.mark.parametrize("orderly", [True, False])
def test_a_connection_that_the_server_closed_while_idle_is_replaced(orderly: bool, authority: Authority) -> None:
    async def run() -> None:
        async with ScriptedServer(authority) as server, server.client() as client:
            await client.request("POST", "/0", body=b"{}")
            for writer in server._writers:
                (writer.close if orderly else writer.transport.abort)()
            await asyncio.sleep(0.1)
            await client.request("POST", "/1", body=b"{}")
            assert server.targets() == ["/0", "/1"], "each write once"
            assert server.connections == 2

    asyncio.run(run())


def test_the_server_is_not_told_who_was_named_in_its_address(authority: Authority) -> None:
    async def run() -> None:
        async with ScriptedServer(authority) as server:
            config = replace(server.config(), server=f"https://someone:secret@127.0.0.1:{server.port}")
            async with Client(config) as client:
                await client.request("GET", "/0")
            assert server.received[0].headers["Host"] == f"127.0.0.1:{server.port}"

    asyncio.run(run())


@pytest.mark.parametrize("has_time", [True, False], ids=["closed in time", "the event loop had no time"])
def test_an_idle_connection_expires_before_the_server_closes_it(
    has_time: bool, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool_module, "KEEP_ALIVE_SECONDS", 0.05)

    async def run() -> None:
        async with ScriptedServer(authority) as server, server.client() as client:
            await client.request("GET", "/0")
            if has_time:
                async with asyncio.timeout(10):
                    while server._writers:
                        await asyncio.sleep(0.02)  # until the client has closed it
            else:
                time.sleep(0.1)
            await client.request("GET", "/1")
            assert server.connections == 2

    asyncio.run(run())


def test_a_connection_that_the_server_is_closing_is_not_used() -> None:
    async def run() -> None:
        connection = Connection(None)
        assert connection.is_reusable
        connection.eof_received()  # the transport closes later
        assert not connection.is_reusable

    asyncio.run(run())


@pytest.mark.parametrize(
    "part",
    [
        pytest.param(b"", id="before the response"),
        pytest.param(b"HTTP/1.1 201 Cre", id="in the first line"),
        pytest.param(b"HTTP/1.1 201 Created\r\nContent-Le", id="in the headers"),
        pytest.param(b"HTTP/1.1 201 Created\r\nContent-Length: 4\r\n\r\n{}", id="in the body"),
        pytest.param(CHUNKED + b"2\r\n{}\r\n", id="between chunks"),
        pytest.param(CHUNKED + b"9\r\n{}", id="in a chunk"),
        pytest.param(b"SSH-2.0-OpenSSH_9.6\r\n\r\n", id="not HTTP"),
        pytest.param(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\nConnection: Upgrade\r\n\r\n", id="upgrade"),
        pytest.param(answer(b"not gzip", "Content-Encoding: gzip"), id="wrong encoding"),
    ],
)
def test_a_write_without_a_whole_response_is_unclear_and_not_repeated(part: bytes, authority: Authority) -> None:
    async def run() -> None:
        async with ScriptedServer(authority, raw(part, then=False)) as server, server.client() as client:
            failure = await failure_of(client)
            assert (failure.status, failure.reason) == (0, "")
            address = f"https://127.0.0.1:{server.port}"
            not_decoded = f"the response of {address} is not what its Content-Encoding says, or breaks off"
            assert failure.message == (not_decoded if b"gzip" in part else f"the connection to {address} broke")
            assert server.targets() == ["/a"]
            server.play = always_ok
            assert await client.request("POST", "/b", body=b"{}") == b"{}"
            assert server.connections == 2

    asyncio.run(run())


def test_what_nobody_requested_is_nobodys_response(authority: Authority) -> None:
    async def run() -> None:
        play = raw(answer(b"{}") + answer(b"[]"))
        async with ScriptedServer(authority, play) as server, server.client() as client:
            for _ in range(3):
                assert await client.request("POST", "/a", body=b"{}") == b"{}"
            assert server.connections == 3

    asyncio.run(run())


def test_a_request_that_was_not_sent_completely_leaves_nothing_behind(authority: Authority) -> None:
    """A server may refuse a request before it has read all of it."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(answer(b"{}"))
        await writer.drain()
        await finished.wait()
        writer.transport.abort()

    heads: list[bytes] = []
    finished = asyncio.Event()

    async def run() -> None:
        plain = await asyncio.start_server(serve, "127.0.0.1", 0, limit=1 << 12)
        server = f"http://127.0.0.1:{plain.sockets[0].getsockname()[1]}"
        async with plain, Client(ClientConfig(server, None, StaticCredentials())) as client:
            await client.request("POST", "/large", body=b" " * (64 << 20))
            await client.request("POST", "/small", body=b"{}")
            finished.set()
        assert [head.split()[1] for head in heads] == [b"/large", b"/small"]

    asyncio.run(run())


def test_a_server_that_restarts(authority: Authority) -> None:
    async def run() -> None:
        async with ScriptedServer(authority) as server, server.client() as client:
            await asyncio.gather(*(client.request("POST", f"/{number}", body=b"{}") for number in range(4)))
            await server.stop()
            await asyncio.sleep(0.05)
            await server.start()
            await asyncio.gather(*(client.request("POST", f"/{number}", body=b"{}") for number in range(4, 8)))
            assert sorted(server.targets()) == [f"/{number}" for number in range(8)]

    asyncio.run(run())


# Callers that do not wait


def first_when(released: asyncio.Event) -> Play:
    """The response to /first is late, and every response says which request it is for."""

    async def play(received: Received, writer: asyncio.StreamWriter) -> bool:
        if received.target == "/first":
            await released.wait()
        writer.write(answer(received.target.encode()))
        return True

    return play


def stopped_clock(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """From now on time passes for the event loop when the test says so, however slow the machine is."""
    loop = asyncio.get_running_loop()
    now = loop.time()

    def let_pass(seconds: float) -> None:
        nonlocal now
        now += seconds

    monkeypatch.setattr(loop, "time", lambda: now)
    return let_pass


async def arrived(server: ScriptedServer, requests: int) -> None:
    while len(server.received) < requests:
        await asyncio.sleep(0)


def test_a_late_response_is_nobodys(authority: Authority, monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        released = asyncio.Event()
        async with ScriptedServer(authority, first_when(released)) as server, server.client(timeout=0.2) as client:
            let_pass = stopped_clock(monkeypatch)
            first = asyncio.create_task(failure_of(client, path="/first"))
            await arrived(server, 1)
            let_pass(0.3)
            failure = await first
            assert (failure.status, failure.reason) == (0, "Timeout")
            for _ in range(3):
                assert await client.request("POST", "/second", body=b"{}") == b"/second"
                released.set()
            assert server.targets().count("/first") == 1

    asyncio.run(run())


def test_a_cancelled_request_is_nobodys(authority: Authority) -> None:
    async def run() -> None:
        released = asyncio.Event()
        async with ScriptedServer(authority, first_when(released)) as server, server.client() as client:
            await client.request("POST", "/zeroth", body=b"{}")
            first = asyncio.create_task(client.request("POST", "/first", body=b"{}"))
            await arrived(server, 2)
            first.cancel()
            with pytest.raises(asyncio.CancelledError):
                await first
            for _ in range(3):
                assert await client.request("POST", "/second", body=b"{}") == b"/second"
                released.set()
            assert server.connections == 2

    asyncio.run(run())


def test_every_request_has_its_own_deadline(authority: Authority, monkeypatch: pytest.MonkeyPatch) -> None:
    """The timer of a connection outlives the request that it was set for."""

    async def send(client: Client, path: str, timeout: float) -> bytes:
        return await client._transport.send("POST", path, body=b"{}", timeout=timeout)

    async def run() -> None:
        released = asyncio.Event()
        async with ScriptedServer(authority, first_when(released)) as server, server.client(connections=1) as client:
            let_pass = stopped_clock(monkeypatch)
            assert await send(client, "/zeroth", 0.1) == b"/zeroth"
            first = asyncio.create_task(send(client, "/first", 30.0))
            await arrived(server, 2)
            let_pass(0.3)
            await asyncio.sleep(0)
            released.set()
            assert await first == b"/first", "not the deadline of the request before"
            released.clear()
            again = asyncio.create_task(send(client, "/first", 0.1))
            await arrived(server, 3)
            let_pass(0.2)  # although the timer was set for later
            with pytest.raises(Failure, match="did not answer in time"):
                await again
            assert server.connections == 1

    asyncio.run(run())


def test_a_timer_that_was_set_for_an_earlier_request_does_not_end_the_deadlines(
    authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def run() -> None:
        released = asyncio.Event()
        async with ScriptedServer(authority, first_when(released)) as server, server.client(connections=1) as client:
            let_pass = stopped_clock(monkeypatch)
            await client._transport.send("POST", "/zeroth", body=b"{}", timeout=0.1)
            first = asyncio.create_task(client._transport.send("POST", "/first", body=b"{}", timeout=0.3))
            await arrived(server, 2)
            let_pass(0.2)  # what fires now is the timer of the request before
            for _ in range(3):
                await asyncio.sleep(0)
            assert not first.done()
            let_pass(0.2)
            with pytest.raises(Failure, match="did not answer in time"):
                await first
            assert server.connections == 1

    asyncio.run(run())


# Credentials and certificates


def test_a_refused_token_is_read_again_on_the_same_connection(authority: Authority, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("old", encoding="utf-8")

    async def play(received: Received, writer: asyncio.StreamWriter) -> bool:
        valid = received.headers["Authorization"] == "Bearer new"
        writer.write(answer() if valid else answer(status="401 Unauthorized"))
        return True

    async def run() -> None:
        async with ScriptedServer(authority, play) as server, server.client(TokenFile(file)) as client:
            assert (await failure_of(client)).status == 401
            file.write_text("new", encoding="utf-8")
            assert await client.request("POST", "/b", body=b"{}") == b"{}"
            assert server.targets() == ["/a", "/a", "/b", "/b"], "each was refused once, the first one twice"
            assert server.connections == 1

    asyncio.run(run())


class Renewed:
    """A plugin whose client certificate is new for every request."""

    def __init__(self, identity: Callable[[], Identity]) -> None:
        self._identity = identity

    async def identify(self) -> Identity:
        return self._identity()

    def refused(self, identity: Identity) -> bool:
        return False


def test_a_new_client_certificate_needs_a_new_connection(authority: Authority) -> None:
    async def run() -> None:
        trust = Trust(authority.certificate.read_bytes())
        credentials = Renewed(lambda: Identity({}, trust.context()))
        async with ScriptedServer(authority) as server, server.client(credentials) as client:
            for _ in range(3):
                await client.request("GET", "/a")
            assert server.connections == 3

    asyncio.run(run())


def test_a_server_that_is_not_trusted_gets_nothing(authority: Authority, tmp_path: Path) -> None:
    async def run() -> None:
        async with ScriptedServer(Authority(tmp_path)) as server:
            trust = Trust(authority.certificate.read_bytes()).context()
            async with Client(ClientConfig(server.config().server, trust, StaticCredentials())) as client:
                failure = await failure_of(client)
            assert (failure.status, failure.reason) == (0, "Untrusted")
            assert "is not trusted: unable to get local issuer certificate" in failure.message
            assert server.received == []

    asyncio.run(run())


def test_a_server_without_tls_cannot_be_connected_to(authority: Authority, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stromboli.kube.client.client.ATTEMPTS", 1)

    async def run() -> None:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(answer(status="400 Bad Request"))
            writer.close()

        trust = Trust(authority.certificate.read_bytes()).context()
        plain = await asyncio.start_server(serve, "127.0.0.1", 0)
        server = f"https://127.0.0.1:{plain.sockets[0].getsockname()[1]}"
        async with plain, Client(ClientConfig(server, trust, StaticCredentials())) as client:
            failure = await failure_of(client)
        assert (failure.status, failure.reason) == (0, "Unreachable")
        assert failure.message.startswith(f"cannot connect to {server}: ")

    asyncio.run(run())


def test_a_closed_client_has_no_connections(authority: Authority) -> None:
    async def run() -> None:
        async with ScriptedServer(authority, first_when(asyncio.Event())) as server:
            async with server.client() as client:
                await client.request("POST", "/second", body=b"{}")
                waiting = asyncio.create_task(failure_of(client, path="/first"))
                async with asyncio.timeout(10):
                    while len(server.received) < 2:
                        await asyncio.sleep(0.01)
            assert (await waiting).message.endswith(" broke")

    asyncio.run(run())


# What is left of connections

EVENT = b'{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"7"}}}\n'
WATCHED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%b\r\n" % (len(EVENT), EVENT)


async def freed() -> None:
    """Not only when old garbage is collected, which our processes do once an hour: watches end every five minutes, and
    each of their connections has buffers of several hundred KiB."""
    async with asyncio.timeout(30):
        while any(isinstance(one, Connection) for one in gc.get_objects()):
            await asyncio.sleep(0.01)


@pytest.fixture
def no_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("no_collector")
@pytest.mark.parametrize(
    "play",
    [
        raw(answer(b"{}", "Connection: close"), then=False),
        raw(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{}", then=False),
        raw(b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 2\r\n\r\n{}"),
        raw(b"not HTTP"),
    ],
    ids=["whole", "half", "not gzip", "not HTTP"],
)
def test_the_connection_of_a_request_is_freed_when_it_is_closed(play: Play, authority: Authority) -> None:
    async def run() -> None:
        async with ScriptedServer(authority, play) as server, server.client() as client:
            with contextlib.suppress(Failure):
                await client.request("GET", "/a")
            await freed()

    asyncio.run(run())


@pytest.mark.usefixtures("no_collector")
@pytest.mark.parametrize(
    ("play", "leaves"),
    [(raw(WATCHED), True), (raw(WATCHED, b"0\r\n\r\n"), False), (raw(WATCHED, then=False), False)],
    ids=["left", "ended", "cut"],
)
def test_the_connection_of_a_watch_is_freed_when_it_ends(play: Play, leaves: bool, authority: Authority) -> None:
    async def run() -> None:
        async with ScriptedServer(authority, play) as server, server.client() as client:
            with contextlib.suppress(Failure):
                async with aclosing(client.watch(PODS, "1")) as events:
                    async for _ in events:
                        if leaves:
                            break
            assert len(server.received) == 1
            await freed()

    asyncio.run(run())
