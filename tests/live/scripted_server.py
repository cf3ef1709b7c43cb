"""A TLS server that does what a test says, byte by byte: what a proper HTTP server would never send, and when.

    async with ScriptedServer(authority, play) as server, server.client() as client:
        ...

`play` is called for every request on every connection, with the request and the connection, and writes whatever it
likes. When it returns False the connection is closed.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from types import TracebackType

from kube.certificates import Authority
from stromboli.kube.client import Client, ClientConfig
from stromboli.kube.client.auth import Credentials, StaticCredentials
from stromboli.kube.client.auth.tls import Trust


@dataclass(frozen=True)
class Received:
    connection: int  # in the order in which they were opened
    method: str
    target: str
    headers: dict[str, str]
    body: bytes


Play = Callable[[Received, asyncio.StreamWriter], Awaitable[bool]]


def answer(body: bytes = b"{}", *headers: str, status: str = "200 OK") -> bytes:
    lines = [f"HTTP/1.1 {status}", "Content-Type: application/json", *headers, f"Content-Length: {len(body)}", "", ""]
    return "\r\n".join(lines).encode() + body


async def always_ok(received: Received, writer: asyncio.StreamWriter) -> bool:
    writer.write(answer())
    return True


@dataclass
class ScriptedServer:
    authority: Authority
    play: Play = always_ok
    received: list[Received] = field(default_factory=list)
    connections: int = 0
    port: int = 0
    _writers: set[asyncio.StreamWriter] = field(default_factory=set)
    _server: asyncio.Server | None = None

    async def __aenter__(self) -> ScriptedServer:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.stop()

    async def start(self) -> None:
        own = self.authority.server()
        tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        tls.load_cert_chain(own.certificate, own.key)
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port, ssl=tls, limit=64 << 20)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        assert self._server is not None
        self._server.close()
        self.hang_up()
        await asyncio.sleep(0)

    def hang_up(self) -> None:
        """Close all connections."""
        for writer in self._writers:
            writer.transport.abort()

    def config(self, credentials: Credentials | None = None) -> ClientConfig:
        trust = Trust(self.authority.certificate.read_bytes()).context()
        return ClientConfig(f"https://127.0.0.1:{self.port}", trust, credentials or StaticCredentials())

    def client(self, credentials: Credentials | None = None, *, timeout: float = 10.0, connections: int = 4) -> Client:
        return Client(self.config(credentials), timeout=timeout, connections=connections)

    def targets(self) -> list[str]:
        return [one.target for one in self.received]

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        number = self.connections
        self._writers.add(writer)
        try:
            while (received := await _read(reader, number)) is not None:
                self.received.append(received)
                if not await self.play(received, writer):
                    break
                await writer.drain()
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            self._writers.discard(writer)
            writer.close()


async def _read(reader: asyncio.StreamReader, connection: int) -> Received | None:
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return None
    first, *lines = head.decode().rstrip("\r\n").split("\r\n")
    method, target, _ = first.split(" ")
    headers = dict(line.split(": ", 1) for line in lines)
    body = await reader.readexactly(int(headers.get("Content-Length", "0")))
    return Received(connection, method, target, headers, body)
