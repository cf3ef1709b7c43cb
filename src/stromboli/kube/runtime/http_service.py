"""A small HTTP/1.1 server for probes, metrics and a few requests of components.

It answers GET and POST with what a handler returns, over connections that stay open, and nothing else: no files, no
uploads, no streams. To import a web framework instead takes a fifth of a second, which every start of a scheduler
would wait for.

A request is read as strictly as can be: whatever two readers could take for different requests is refused, and the
connection is closed after it.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final
from urllib.parse import parse_qsl, unquote, urlsplit

from httptools import HttpParserError, HttpParserUpgrade, HttpRequestParser

from stromboli.listeners import HEALTH_PATHS, PROBE_LIMITS, Access, Connection, Gate, Limits, RefusalLog, connection_of

STOP_SECONDS: Final = 1.0  # that requests in flight get to end when the service does


@dataclass(frozen=True, slots=True)
class Request:
    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]  # names are in lower case
    has_token: bool = False
    """Whether it has the token of this process."""
    trust: Callable[[str], bool] = lambda holder: True
    """To be called with the name of a user whose token was verified elsewhere: no stranger takes the place of the
    connection from then on. False if this user, or all of them, have the places that they may have."""


@dataclass(frozen=True, slots=True)
class Reply:
    status: int
    body: bytes
    content_type: str


Handler = Callable[[Request], Awaitable[Reply]]


class _BadRequest(Exception):
    def __init__(self, status: HTTPStatus) -> None:
        self.status = status


_PROCESS: Final = "process"  # who holds the token of the process
_SINGLE: Final = ("host", "authorization", "origin", "content-length", "sec-fetch-site")  # twice is a trick


class _Head:
    """Takes the calls of the parser."""

    def __init__(self) -> None:
        self.url = b""
        self.headers: dict[str, str] = {}
        self.count = 0
        self.repeated = False

    def on_url(self, url: bytes) -> None:
        self.url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        key = name.decode("latin-1").lower()
        self.count += 1
        self.repeated |= key in self.headers and key in _SINGLE
        text = value.decode("latin-1")
        self.headers[key] = f"{self.headers[key]},{text}" if key == "connection" and key in self.headers else text

    def stays_open(self, version: str) -> bool:
        """By its own wish. The parser does not know any more: it forgets this at the end of the message."""
        wishes = (wish.strip().lower() for wish in self.headers.get("connection", "").split(","))
        return version == "1.1" and "close" not in wishes


class HttpService:
    """`access` says who may ask for more than health."""

    def __init__(self, access: Access, limits: Limits = PROBE_LIMITS) -> None:
        self._access = access
        self._limits = limits
        self._handlers: dict[str, dict[str, Handler]] = {}  # by path and method
        self._connections: dict[asyncio.Task[None] | None, asyncio.StreamWriter] = {}
        self._busy: set[asyncio.Task[None] | None] = set()  # those that answer a request now
        self._refusals = RefusalLog("probes")

    def add_route(self, method: str, path: str, handler: Handler) -> None:
        self._handlers.setdefault(path, {})[method] = handler
        if method == "GET":
            self._handlers[path]["HEAD"] = handler

    async def run(self, host: str, port: int, listening: Callable[[int], None]) -> None:
        """Serve until cancelled. `listening` gets the port, which is any free one if `port` is 0."""
        gate = Gate(self._limits, self._refusals, self._protocol)
        try:
            listening(await gate.open(host, port))
            await asyncio.Event().wait()
        finally:
            await gate.close()
            await self._close_connections()

    def _protocol(self) -> asyncio.Protocol:
        return asyncio.StreamReaderProtocol(asyncio.StreamReader(limit=self._limits.head_bytes), self._serve)

    async def _close_connections(self) -> None:
        tasks = {task for task in self._connections if task is not None}
        for task in tasks - self._busy:
            self._connections[task].close()
        if tasks:
            await asyncio.wait(tasks, timeout=STOP_SECONDS)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        self._connections[task] = writer
        try:
            while await self._serve_next(reader, writer, task):
                self._busy.discard(task)
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # it was closed, by the other side or by us, or there was no request for long
        except _BadRequest as error:
            self._refusals.note(f"the request cannot be read: {error.status.phrase}")
            await self._refuse(reader, writer, error.status)
        finally:
            self._busy.discard(task)
            del self._connections[task]
            writer.close()

    async def _refuse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, status: HTTPStatus) -> None:
        writer.write(_message(_text(status), "", keep_alive=False))
        # Unread bytes would make the system drop the answer; so some of them are read, for a moment.
        with contextlib.suppress(OSError, asyncio.CancelledError):
            await writer.drain()
            async with asyncio.timeout(0.2):
                await reader.read(self._limits.head_bytes)

    async def _serve_next(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, task: asyncio.Task[None] | None
    ) -> bool:
        """Whether another request may follow."""
        limits = self._limits
        try:
            async with asyncio.timeout(limits.idle_seconds):
                data = await reader.readuntil(b"\r\n\r\n")
        except asyncio.LimitOverrunError:
            raise _BadRequest(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE) from None
        self._busy.add(task)
        connection = connection_of(writer.transport)
        if connection is None:
            return False  # it was closed meanwhile
        connection.heard()
        request, keep_alive, length = self._parse(data, connection)
        async with asyncio.timeout(limits.body_seconds):
            await reader.readexactly(length)  # the next request follows it; nothing here reads bodies
        has_place = not request.has_token or connection.trust(_PROCESS)
        await connection.turn()
        reply = await self._reply(request) if has_place else _text(HTTPStatus.TOO_MANY_REQUESTS)
        writer.write(_message(reply, request.method, keep_alive=keep_alive))
        async with asyncio.timeout(limits.body_seconds):
            await writer.drain()
        return keep_alive

    async def _reply(self, request: Request) -> Reply:
        methods = self._handlers.get(request.path)
        if methods is None:
            return _text(HTTPStatus.NOT_FOUND)
        handler = methods.get(request.method)
        if handler is None:
            return _text(HTTPStatus.METHOD_NOT_ALLOWED)
        if request.path not in HEALTH_PATHS and (problem := self._foreign(request)) is not None:
            self._refusals.note(problem)
            return Reply(HTTPStatus.FORBIDDEN, f"403: {problem}".encode(), "text/plain; charset=utf-8")
        try:
            return await handler(request)
        except Exception as error:
            self._refusals.note(f"an error of ours: {type(error).__name__} for {request.path}")
            return _text(HTTPStatus.INTERNAL_SERVER_ERROR)

    def _foreign(self, request: Request) -> str | None:
        # None of them came twice: the head was refused otherwise.
        hosts, origins, sites = (
            [request.headers[name]] if name in request.headers else [] for name in ("host", "origin", "sec-fetch-site")
        )
        return self._access.foreign(hosts, origins, sites)

    def _parse(self, data: bytes, connection: Connection) -> tuple[Request, bool, int]:
        """The request, whether the connection stays open after it, and the length of its body."""
        head = _Head()
        parser = HttpRequestParser(head)
        # Some readers end a line at a bare line feed, and a name at a bare carriage return.
        if data.count(b"\n") != data.count(b"\r\n") or data.count(b"\r") != data.count(b"\r\n"):
            raise _BadRequest(HTTPStatus.BAD_REQUEST)
        try:
            parser.feed_data(data)
            url = urlsplit(head.url.decode("ascii"))
            query = dict(parse_qsl(url.query, keep_blank_values=True, max_num_fields=self._limits.headers))
            length = int(head.headers.get("content-length", "0"))
        except (HttpParserError, HttpParserUpgrade, ValueError):
            raise _BadRequest(HTTPStatus.BAD_REQUEST) from None
        if head.repeated:
            raise _BadRequest(HTTPStatus.BAD_REQUEST)
        if head.count > self._limits.headers:
            raise _BadRequest(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
        if "transfer-encoding" in head.headers:
            raise _BadRequest(HTTPStatus.LENGTH_REQUIRED)
        if length > self._limits.body_bytes:
            raise _BadRequest(HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
        request = Request(
            method=parser.get_method().decode("ascii"),
            path=unquote(url.path),
            query=query,
            headers=head.headers,
            has_token=self._access.holder(head.headers.get("authorization", "")) is not None,
            trust=lambda holder: connection.trust(f"user {holder}"),
        )
        return request, head.stays_open(parser.get_http_version()), length


def _text(status: HTTPStatus) -> Reply:
    return Reply(status, f"{int(status)}: {status.phrase}".encode(), "text/plain; charset=utf-8")


def _message(reply: Reply, method: str, *, keep_alive: bool) -> bytes:
    lines = (
        f"HTTP/1.1 {int(reply.status)} {HTTPStatus(reply.status).phrase}",
        f"Content-Type: {reply.content_type}",
        f"Content-Length: {len(reply.body)}",
        "Cache-Control: no-store",
        "X-Content-Type-Options: nosniff",
        f"Connection: {'keep-alive' if keep_alive else 'close'}",
        "",
        "",
    )
    return "\r\n".join(lines).encode("latin-1") + (b"" if method == "HEAD" else reply.body)
