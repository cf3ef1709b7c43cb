"""Probes and metrics over HTTP."""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import Awaitable, Callable

import aiohttp
import pytest
from prometheus_client import CollectorRegistry, Counter

from stromboli.errors import UserError
from stromboli.kube.runtime import HealthServer, Reply, Request, health

LOOPBACK = "127.0.0.1"
TOKEN = "a-token-of-some-length"
AUTHORIZATION = f"Bearer {TOKEN}"


class Asked:
    """A process's probes, and somebody who asks."""

    def __init__(self, probes: HealthServer, session: aiohttp.ClientSession) -> None:
        self.probes = probes
        self._session = session

    async def get(self, path: str, **headers: str) -> tuple[int, str]:
        status, _, text = await self.answer(path, **headers)
        return status, text

    async def answer(self, path: str, **headers: str) -> tuple[int, str, str]:
        url = f"http://{LOOPBACK}:{self.probes.port}{path}"
        async with self._session.get(url, headers=headers) as response:
            return response.status, response.headers["Content-Type"], await response.text()


def ask(
    story: Callable[[Asked], Awaitable[None]], *, registry: CollectorRegistry | None = None, for_all: bool = False
) -> None:
    async def play() -> None:
        probes = HealthServer(LOOPBACK, 0, registry or CollectorRegistry(), token=TOKEN, metrics_without_token=for_all)
        running = asyncio.create_task(probes.run())
        async with asyncio.timeout(30):
            await probes.listening.wait()
            try:
                async with aiohttp.ClientSession() as session:
                    await story(Asked(probes, session))
            finally:
                running.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await running
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection(LOOPBACK, probes.port)

    asyncio.run(play())


def test_a_process_without_checks_is_healthy() -> None:
    async def story(asked: Asked) -> None:
        for path in ("/healthz", "/livez", "/readyz"):
            assert await asked.get(path) == (200, "ok")
        assert await asked.get("/readyz?verbose") == (200, "readyz check passed\n")

    ask(story)


def test_failed_and_passed_checks_are_listed() -> None:
    async def story(asked: Asked) -> None:
        problem: str | None = None
        asked.probes.add_liveness_check("scheduler", lambda: None)
        asked.probes.add_readiness_check("lists", lambda: problem)
        assert await asked.get("/readyz") == (200, "ok")
        assert await asked.get("/readyz?verbose") == (200, "[+]scheduler ok\n[+]lists ok\nreadyz check passed\n")
        problem = "it has not listed every Pod yet"
        failed = "[+]scheduler ok\n[-]lists: it has not listed every Pod yet\nreadyz check failed\n"
        assert await asked.get("/readyz") == (503, failed)
        assert await asked.get("/livez") == (200, "ok")
        assert await asked.get("/healthz?verbose") == (200, "[+]scheduler ok\nhealthz check passed\n")

    ask(story)


def test_a_failed_liveness_check_makes_it_not_ready() -> None:
    async def story(asked: Asked) -> None:
        asked.probes.add_liveness_check("scheduler", lambda: "the last 5 cycles failed")
        for path in ("healthz", "livez", "readyz"):
            status, text = await asked.get(f"/{path}")
            assert (status, text) == (503, f"[-]scheduler: the last 5 cycles failed\n{path} check failed\n")

    ask(story)


def test_metrics_come_in_the_requested_format() -> None:
    registry = CollectorRegistry()
    Counter("things_total", "Things that happened.", registry=registry).inc(3)

    async def story(asked: Asked) -> None:
        for wrong in ({}, {"Authorization": TOKEN}, {"Authorization": f"{AUTHORIZATION}x"}):
            assert (await asked.get("/metrics", **wrong))[0] == 401
        status, content_type, text = await asked.answer("/metrics", Authorization=AUTHORIZATION)
        assert status == 200
        assert content_type.startswith("text/plain; version=0.0.4")
        assert "\nthings_total 3.0\n" in text
        status, content_type, text = await asked.answer(
            "/metrics", Authorization=AUTHORIZATION, Accept="application/openmetrics-text;version=1.0.0"
        )
        assert status == 200
        assert content_type.startswith("application/openmetrics-text")
        assert text.endswith("# EOF\n")

    ask(story, registry=registry)


@pytest.mark.parametrize(
    "accept",
    ["text/plain; version=abc", f"application/openmetrics-text; version={'9' * 5000}", "text/plain; version=1.x", "/;"],
)
def test_formats_that_nobody_knows_are_answered_with_plain_text(accept: str) -> None:
    async def story(asked: Asked) -> None:
        status, content_type, _ = await asked.answer("/metrics", Accept=accept)
        assert (status, content_type) == (200, "text/plain; version=0.0.4; charset=utf-8")

    ask(story, for_all=True)


def test_many_without_a_token_share_one_rendering_of_metrics(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may be an hour old here. Whoever has the token gets a new one."""
    monkeypatch.setattr(health, "_RENDERED_SECONDS", 3600.0)
    registry = CollectorRegistry()
    count = Counter("things_total", "Things that happened.", registry=registry)

    async def story(asked: Asked) -> None:
        count.inc()
        assert "\nthings_total 1.0\n" in (await asked.get("/metrics"))[1]
        count.inc()
        for found in await asyncio.gather(*(asked.get("/metrics", Accept=f"{n}/{n}") for n in range(20))):
            assert "\nthings_total 1.0\n" in found[1]
        assert "\nthings_total 2.0\n" in (await asked.get("/metrics", Authorization=AUTHORIZATION))[1]

    ask(story, registry=registry, for_all=True)


def test_other_paths_are_not_found() -> None:
    async def story(asked: Asked) -> None:
        for path in ("/", "/metrics/x", "/debug", "/readyz/../etc/passwd"):
            assert (await asked.get(path))[0] == 404

    ask(story)


def test_only_get_and_head_are_allowed() -> None:
    async def story(asked: Asked) -> None:
        url = f"http://{LOOPBACK}:{asked.probes.port}/healthz"
        async with aiohttp.ClientSession() as session:
            async with session.post(url, data=b"x" * 1000) as response:
                assert response.status == 405
            async with session.head(url) as response:
                assert (response.status, response.headers["Content-Length"]) == (200, "2")

    ask(story)


async def raw(probes: HealthServer, *parts: bytes) -> bytes:
    """Everything that is answered to these bytes, until the server closes the connection or waits for more."""
    reader, writer = await asyncio.open_connection(LOOPBACK, probes.port)
    for part in parts:
        writer.write(part)
        await writer.drain()
        await asyncio.sleep(0.01)
    if writer.can_write_eof():
        writer.write_eof()
    answer = await reader.read()
    writer.close()
    await writer.wait_closed()
    return answer


def test_requests_may_come_in_pieces_or_together() -> None:
    async def story(asked: Asked) -> None:
        one = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"
        assert (await raw(asked.probes, one[:7], one[7:30], one[30:])).count(b"200 OK") == 1
        body = b"POST /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello"
        answer = await raw(asked.probes, one + body + one)
        assert re.findall(rb"HTTP/1.1 (\d+) ", answer) == [b"200", b"405", b"200"]

    ask(story)


@pytest.mark.parametrize(
    ("version", "headers", "answers"),
    [
        ("1.1", [], 2),
        ("1.1", ["Connection: keep-alive"], 2),
        ("1.1", ["Connection: close"], 1),
        ("1.1", ["Connection: x, Close"], 1),
        ("1.1", ["Connection: close", "Connection: keep-alive"], 1),
        ("1.0", [], 1),
    ],
)
def test_a_connection_is_closed_when_the_client_says_so(version: str, headers: list[str], answers: int) -> None:
    async def story(asked: Asked) -> None:
        one = "\r\n".join([f"GET /healthz HTTP/{version}", "Host: x", *headers, "", ""]).encode()
        answer = await raw(asked.probes, one + b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
        assert answer.count(b"HTTP/1.1 200") == answers
        assert answer.count(b"Connection: close") == (answers == 1)

    ask(story)


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (b"nonsense\r\n\r\n", 400),
        (b"GET /healthz HTTP/1.1\r\nHost x\r\n\r\n", 400),
        (b"GET /healthz HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 411),
        (b"POST /healthz HTTP/1.1\r\nContent-Length: 9999999\r\n\r\n", 413),
        (b"POST /healthz HTTP/1.1\r\nContent-Length: -1\r\n\r\n", 400),
        (b"GET /healthz HTTP/1.1\r\nX: " + b"x" * 100_000 + b"\r\n\r\n", 431),
    ],
)
def test_a_bad_request_is_refused_and_its_connection_closed(request_bytes: bytes, status: int) -> None:
    async def story(asked: Asked) -> None:
        answer = await raw(asked.probes, request_bytes)
        assert answer.startswith(b"HTTP/1.1 %d " % status)
        assert b"Connection: close" in answer
        assert await asked.get("/healthz") == (200, "ok")

    ask(story)


def test_a_handler_that_fails_is_an_error_and_not_the_end(caplog: pytest.LogCaptureFixture) -> None:
    async def fail(request: Request) -> Reply:
        raise ZeroDivisionError

    async def story(asked: Asked) -> None:
        asked.probes.add_route("GET", "/fail", fail)
        assert (await asked.get("/fail"))[0] == 500
        assert await asked.get("/healthz") == (200, "ok")

    ask(story)
    [record] = caplog.records
    assert record.__dict__["fields"]["why"] == "an error of ours: ZeroDivisionError for /fail"
    assert record.exc_info is None


def test_a_request_has_its_query_and_headers() -> None:
    async def echo(request: Request) -> Reply:
        return Reply(200, f"{request.has_token} {request.query} {request.headers['x-y']}".encode(), "text/plain")

    async def story(asked: Asked) -> None:
        asked.probes.add_route("GET", "/a b", echo)
        expected = "False {'for': 'ns/ü', 'verbose': ''} z"
        assert await asked.get("/a%20b?for=ns%2F%C3%BC&verbose", **{"X-Y": "z"}) == (200, expected)

    ask(story)


def test_a_connection_kept_open_does_not_keep_it_from_ending() -> None:
    async def story() -> None:
        probes = HealthServer(LOOPBACK, 0, CollectorRegistry())
        running = asyncio.create_task(probes.run())
        await probes.listening.wait()
        reader, writer = await asyncio.open_connection(LOOPBACK, probes.port)
        writer.write(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
        assert b"200" in await reader.readline()
        running.cancel()
        await asyncio.wait_for(asyncio.wait([running]), 30)
        await reader.read()  # to the end that the other side makes
        writer.close()
        await writer.wait_closed()

    asyncio.run(story())


def test_it_listens_on_the_configured_address() -> None:
    async def story(asked: Asked) -> None:
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.2", asked.probes.port)

    ask(story)


def test_a_port_in_use_is_a_user_error() -> None:
    with socket.create_server((LOOPBACK, 0)) as taken:
        port = taken.getsockname()[1]
        expected = rf"cannot serve probes on 127\.0\.0\.1:{port}: Address already in use; choose another"
        with pytest.raises(UserError, match=expected):
            asyncio.run(HealthServer(LOOPBACK, port, CollectorRegistry()).run())


def test_an_address_of_another_machine_is_a_user_error() -> None:
    with pytest.raises(UserError, match=r"cannot serve probes on 192\.0\.2\.1:0: "):
        asyncio.run(HealthServer("192.0.2.1", 0, CollectorRegistry()).run())
