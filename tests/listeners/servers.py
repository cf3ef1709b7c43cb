"""Each listener of ours, alone, with limits of a test's choice; and a client that sends any bytes."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import Any

from prometheus_client import CollectorRegistry

from stromboli.embedded.http import HttpServer
from stromboli.embedded.server import ApiServer
from stromboli.embedded.store import Store
from stromboli.embedded.upkeep import Upkeep
from stromboli.kube.page_server.http_server import ActionRequest, PageHttpServer, PageOptions
from stromboli.kube.runtime import HealthServer
from stromboli.listeners import API_LIMITS, PAGE_LIMITS, PROBE_LIMITS, Limits

TOKEN = "a-token-of-some-length"
LOOPBACK = "127.0.0.1"
NAMES = ("api-server", "page", "probes")


@dataclass(frozen=True)
class Listener:
    """`data` needs the token, and `health` does not."""

    name: str
    port: int
    data: str
    health: str
    server: Any

    def request(self, *headers: str, path: str = "", method: str = "GET", body: str = "", token: str = TOKEN) -> bytes:
        lines = [f"{method} {path or self.data} HTTP/1.1"]
        if not any(header.lower().startswith("host:") for header in headers):
            lines.append(f"Host: {LOOPBACK}:{self.port}")
        if token:
            lines.append(f"Authorization: Bearer {token}")
        return ("\r\n".join([*lines, *headers]) + "\r\n\r\n" + body).encode("latin-1")

    async def send(self, *pieces: bytes, wait: float = 0.05, tls: ssl.SSLContext | None = None) -> bytes:
        """All that comes back until the server closes the connection, or has nothing more to say."""
        reader, writer = await asyncio.open_connection(LOOPBACK, self.port, ssl=tls)
        try:
            for piece in pieces:
                writer.write(piece)
                await asyncio.sleep(0)
            return await read_all(reader, wait)
        finally:
            writer.close()

    async def status(self, *pieces: bytes) -> int:
        """Of the first answer; 0 if there is none."""
        answer = await self.send(*pieces)
        return int(answer.split(b" ", 2)[1]) if answer.startswith(b"HTTP/1.") else 0

    async def is_healthy(self) -> bool:
        return await self.status(self.request(path=self.health, token="")) == 200


async def read_all(reader: asyncio.StreamReader, wait: float) -> bytes:
    """Until it ends; after something has come, no longer than `wait` for more."""
    found = b""
    with contextlib.suppress(TimeoutError, ConnectionError):
        async with asyncio.timeout(10):
            found = await reader.read(1 << 20)
        while True:
            async with asyncio.timeout(wait):
                piece = await reader.read(1 << 20)
            if not piece:
                break
            found += piece
    return found


@asynccontextmanager
async def listening(name: str, **limits: Any) -> AsyncIterator[Listener]:
    """The listener with this name."""
    start: Callable[[Limits], Any] = {"api-server": _api_server, "page": _page, "probes": _probes}[name]
    chosen = replace({"api-server": API_LIMITS, "page": PAGE_LIMITS, "probes": PROBE_LIMITS}[name], **limits)
    async with start(chosen) as listener:
        yield listener


@asynccontextmanager
async def _api_server(limits: Limits) -> AsyncIterator[Listener]:
    api = ApiServer(Store(), now=1_700_000_000.0)
    tokens = {"users": TOKEN, "parts": "another-token-of-some-length"}
    server = HttpServer(api, Upkeep(api), tokens=tokens, ssl_context=None, limits=limits)
    await server.start(LOOPBACK, 0)
    try:
        yield Listener("api-server", server.port, "/api/v1/namespaces", "/healthz", server)
    finally:
        await server.stop()


@asynccontextmanager
async def _page(limits: Limits) -> AsyncIterator[Listener]:
    async def why(job: str) -> bytes | None:
        return b'{"reasons": []}'

    async def what_if(job: str) -> AsyncGenerator[bytes | None, None]:
        yield b"{}"

    async def act(wanted: ActionRequest) -> tuple[HTTPStatus, str]:
        return HTTPStatus.CREATED, "done"

    server = PageHttpServer(
        PageOptions(TOKEN, may_write=True), lambda: b"event: document\ndata: {}\n\n", why, what_if, act, limits
    )
    await server.start()
    try:
        yield Listener("page", int(server.url.rstrip("/").rpartition(":")[2]), "/api/why?job=a/b", "/", server)
    finally:
        await server.stop()


@asynccontextmanager
async def _probes(limits: Limits) -> AsyncIterator[Listener]:
    server = HealthServer(LOOPBACK, 0, CollectorRegistry(), token=TOKEN, limits=limits)
    running = asyncio.create_task(server.run())
    await server.listening.wait()
    try:
        yield Listener("probes", server.port, "/metrics", "/healthz", server)
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


def play(story: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(asyncio.wait_for(story(), 60))  # type: ignore[arg-type]
