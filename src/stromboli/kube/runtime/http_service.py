"""A small HTTP/1.1 server for probes, metrics and a few requests of components.

It answers GET and POST with what a handler returns, over connections that stay open, and nothing else: no files, no
uploads, no streams. To import a web framework instead takes a fifth of a second, which every start of a scheduler
would wait for.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final
from urllib.parse import parse_qsl, unquote, urlsplit

from httptools import HttpParserError, HttpParserUpgrade, HttpRequestParser

log = logging.getLogger(__name__)

IDLE_SECONDS: Final = 75.0  # until a connection without a request is closed
STOP_SECONDS: Final = 1.0  # that requests in flight get to end when the service does
HEAD_LIMIT: Final = 1 << 16  # bytes
BODY_LIMIT: Final = 1 << 20  # bytes; bodies are read, because the next request follows them, and ignored


@dataclass(frozen=True, slots=True)
class Request:
    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]  # names are in lower case
    remote: str | None  # the address that it comes from


@dataclass(frozen=True, slots=True)
class Reply:
    status: int
    body: bytes
    content_type: str


Handler = Callable[[Request], Awaitable[Reply]]


class _BadRequest(Exception):
    def __init__(self, status: HTTPStatus) -> None:
        self.status = status


class _Head:
    """Takes the calls of the parser."""

    def __init__(self) -> None:
        self.url = b""
        self.headers: dict[str, str] = {}

    def on_url(self, url: bytes) -> None:
        self.url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers[name.decode("latin-1").lower()] = value.decode("latin-1")


class HttpService:
    def __init__(self) -> None:
        self._handlers: dict[str, dict[str, Handler]] = {}  # by path and method
        self._connections: dict[asyncio.Task[None] | None, asyncio.StreamWriter] = {}
        self._busy: set[asyncio.Task[None] | None] = set()  # those that answer a request now

    def add_route(self, method: str, path: str, handler: Handler) -> None:
        self._handlers.setdefault(path, {})[method] = handler
        if method == "GET":
            self._handlers[path]["HEAD"] = handler

    async def run(self, host: str, port: int, listening: Callable[[int], None]) -> None:
        """Serve until cancelled. `listening` gets the port, which is any free one if `port` is 0."""
        server = await asyncio.start_server(self._serve, host, port, limit=HEAD_LIMIT)
        try:
            listening(int(server.sockets[0].getsockname()[1]))
            await asyncio.Event().wait()
        finally:
            server.close()
            await self._close_connections()

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
            writer.write(_message(_text(error.status), "", keep_alive=False))
        finally:
            self._busy.discard(task)
            del self._connections[task]
            writer.close()

    async def _serve_next(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, task: asyncio.Task[None] | None
    ) -> bool:
        """Whether another request may follow."""
        try:
            async with asyncio.timeout(IDLE_SECONDS):
                data = await reader.readuntil(b"\r\n\r\n")
                self._busy.add(task)
                request, keep_alive, length = _parse(data, writer)
                await reader.readexactly(length)
        except asyncio.LimitOverrunError:
            raise _BadRequest(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE) from None
        writer.write(_message(await self._reply(request), request.method, keep_alive=keep_alive))
        await writer.drain()
        return keep_alive

    async def _reply(self, request: Request) -> Reply:
        methods = self._handlers.get(request.path)
        if methods is None:
            return _text(HTTPStatus.NOT_FOUND)
        handler = methods.get(request.method)
        if handler is None:
            return _text(HTTPStatus.METHOD_NOT_ALLOWED)
        try:
            return await handler(request)
        except Exception:
            log.exception("cannot answer %s %s", request.method, request.path)
            return _text(HTTPStatus.INTERNAL_SERVER_ERROR)


def _parse(data: bytes, writer: asyncio.StreamWriter) -> tuple[Request, bool, int]:
    """The request, whether the connection stays open after it, and the length of its body."""
    head = _Head()
    parser = HttpRequestParser(head)
    try:
        parser.feed_data(data)
        url = urlsplit(head.url.decode("ascii"))
    except (HttpParserError, HttpParserUpgrade, ValueError):
        raise _BadRequest(HTTPStatus.BAD_REQUEST) from None
    if "transfer-encoding" in head.headers:
        raise _BadRequest(HTTPStatus.LENGTH_REQUIRED)
    length = int(head.headers.get("content-length", "0"))  # the parser has checked that it is a number
    if length > BODY_LIMIT:
        raise _BadRequest(HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
    peer = writer.get_extra_info("peername")
    request = Request(
        method=parser.get_method().decode("ascii"),
        path=unquote(url.path),
        query=dict(parse_qsl(url.query, keep_blank_values=True)),
        headers=head.headers,
        remote=peer[0] if peer else None,
    )
    return request, parser.should_keep_alive(), length


def _text(status: HTTPStatus) -> Reply:
    return Reply(status, f"{int(status)}: {status.phrase}".encode(), "text/plain; charset=utf-8")


def _message(reply: Reply, method: str, *, keep_alive: bool) -> bytes:
    lines = (
        f"HTTP/1.1 {int(reply.status)} {HTTPStatus(reply.status).phrase}",
        f"Content-Type: {reply.content_type}",
        f"Content-Length: {len(reply.body)}",
        "Cache-Control: no-store",
        f"Connection: {'keep-alive' if keep_alive else 'close'}",
        "",
        "",
    )
    return "\r\n".join(lines).encode("latin-1") + (b"" if method == "HEAD" else reply.body)
