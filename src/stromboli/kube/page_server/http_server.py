"""The page on a socket.

The files of the page hold no data and are served to everybody. Everything else needs the token, in a header: a browser
never adds it by itself, so no other site can use it. Answers carry a strict content security policy: only these files
run, and they talk to this server only. The rules of all listeners are in `stromboli.listeners`.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

import msgspec
from aiohttp import web

from stromboli import plain_json
from stromboli.errors import UserError
from stromboli.listeners import (
    PAGE_LIMITS,
    Access,
    Connection,
    Gate,
    LibraryLog,
    Limits,
    RefusalLog,
    connection_of,
    forget_frames,
    listen_problem,
)
from stromboli.page import ASSETS, asset

HEARTBEAT: Final = 10.0  # seconds between two signs of life on a stream
_MOST_BEHIND: Final = 20  # events that a slow browser may miss; then it starts again with a whole document
_MANY_STREAMS: Final = "Too many browsers look at this page; close some of them."
_HEADERS: Final = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


@dataclass(frozen=True, slots=True)
class PageOptions:
    token: str
    host: str = "127.0.0.1"
    port: int = 0
    """0: any free port."""
    may_write: bool = False
    names: tuple[str, ...] = ()
    """Names under which a proxy serves it."""


class ActionRequest(msgspec.Struct):
    job: str
    action: str


Act = Callable[[ActionRequest], Awaitable[tuple[HTTPStatus, str]]]
Why = Callable[[str], Awaitable[bytes | None]]
WhatIf = Callable[[str], AsyncGenerator[bytes | None, None]]
"""Answers one after the other; None alone if there is no such job."""


class PageHttpServer:
    """`publish` sends an event to all browsers; `first_event` makes the one that a new browser gets. `why` explains a
    job, and `act` changes one."""

    def __init__(
        self, options: PageOptions, first_event: Callable[[], bytes | None], why: Why, what_if: WhatIf, act: Act,
        limits: Limits = PAGE_LIMITS,
    ) -> None:  # fmt: skip
        self.url = ""
        self._options = options
        self._first_event = first_event
        self._why = why
        self._what_if = what_if
        self._act = act
        self._access = Access({"browsers": options.token}, (options.host, *options.names))
        self._limits = limits
        self._refusals = RefusalLog("page")
        self._gate: Gate | None = None
        self._streams: set[asyncio.Queue[bytes | None]] = set()
        self._waiting: set[asyncio.Event] = set()  # of browsers that came before the first document
        self._runner: web.AppRunner | None = None

    @property
    def browsers(self) -> int:
        return len(self._streams) + len(self._waiting)

    async def start(self) -> None:
        limits = self._limits
        application = web.Application(middlewares=[self._guard], client_max_size=limits.body_bytes)
        application.router.add_get("/api/stream", self._stream)
        application.router.add_get("/api/why", self._explain)
        application.router.add_get("/api/what-if", self._try)
        application.router.add_post("/api/actions", self._action)
        application.router.add_get("/{name:[a-z_.]*}", _file)
        self._runner = web.AppRunner(
            application, access_log=None, handle_signals=False, handler_cancellation=True, shutdown_timeout=1.0,
            auto_decompress=False, logger=LibraryLog(self._refusals), keepalive_timeout=limits.idle_seconds,
            lingering_time=1.0, max_line_size=limits.line_bytes, max_field_size=limits.field_bytes,
        )  # fmt: skip
        await self._runner.setup()
        server = self._runner.server
        assert server is not None
        server.request_handler = _checks_expectations(server.request_handler)
        self._gate = Gate(limits, self._refusals, server)
        host = self._options.host
        try:
            port = await self._gate.open(host, self._options.port)
        except OSError as error:
            where = f"{host}:{self._options.port}"
            raise UserError(
                f"cannot serve the page on {where}: {listen_problem(error)}; choose another --web-port"
            ) from error
        shown = f"[{host}]" if ":" in host else host
        self.url = f"http://{shown}:{port}/"

    async def stop(self) -> None:
        for stream in self._streams:
            with contextlib.suppress(asyncio.QueueFull):
                stream.put_nowait(None)
        if self._gate is not None:
            await self._gate.close()
        if self._runner is not None:
            await self._runner.cleanup()

    def publish(self, event: bytes) -> None:
        for waiting in self._waiting:
            waiting.set()
        for stream in list(self._streams):
            try:
                stream.put_nowait(event)
            except asyncio.QueueFull:
                self._streams.discard(stream)
                stream.get_nowait()
                stream.put_nowait(None)

    # -- requests -----------------------------------------------------------------------------------------------------

    @web.middleware
    async def _guard(
        self, request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        connection = connection_of(request.transport)
        if connection is None:
            raise asyncio.CancelledError  # it was closed meanwhile
        connection.heard()
        try:
            refusal = self._refusal(request, connection) if request.path.startswith("/api/") else None
            await connection.turn()
            if refusal is not None:
                self._refusals.note(refusal[1])
                response: web.StreamResponse = _says(*refusal)
            else:
                response = await handler(request)
        except web.HTTPException as error:
            response = _says(HTTPStatus(error.status), error.reason)
            forget_frames(error)  # the request keeps the error that says that there is no such path
        except TimeoutError:  # the browser sends or reads nothing any more
            connection.close()
            raise asyncio.CancelledError from None
        if not response.prepared:
            response.headers.update(_HEADERS)
        return response

    def _refusal(self, request: web.Request, connection: Connection) -> tuple[HTTPStatus, str] | None:
        headers = request.headers
        foreign = self._access.foreign(
            headers.getall("Host", []), headers.getall("Origin", []), headers.getall("Sec-Fetch-Site", [])
        )
        if foreign is not None:
            return HTTPStatus.FORBIDDEN, f"Refused: {foreign}."
        if self._access.holder(headers.get("Authorization", "")) is None:
            return HTTPStatus.UNAUTHORIZED, "The token is missing or wrong."
        if len(headers) > self._limits.headers:
            return HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "The request has too many headers."
        if not connection.trust("browsers"):
            return HTTPStatus.TOO_MANY_REQUESTS, _MANY_STREAMS
        return None

    async def _write(self, response: web.StreamResponse, piece: bytes) -> None:
        async with asyncio.timeout(self._limits.body_seconds):
            await response.write(piece)

    async def _stream(self, request: web.Request) -> web.StreamResponse:
        if self.browsers >= self._limits.streams:
            self._refusals.note(_MANY_STREAMS)
            return _says(HTTPStatus.TOO_MANY_REQUESTS, _MANY_STREAMS)
        response = web.StreamResponse(headers={**_HEADERS, "Content-Type": "text/event-stream"})
        await response.prepare(request)
        try:
            await self._send(response)
        except ConnectionError:
            raise asyncio.CancelledError from None  # the browser has gone
        return response

    async def _send(self, response: web.StreamResponse) -> None:
        event: bytes | None = await self._first(response)
        stream: asyncio.Queue[bytes | None] = asyncio.Queue(_MOST_BEHIND)
        self._streams.add(stream)
        try:
            while event is not None:
                await self._write(response, event)
                try:
                    event = await asyncio.wait_for(stream.get(), HEARTBEAT)
                except TimeoutError:
                    event = b": still here\n\n"
        finally:
            self._streams.discard(stream)

    async def _first(self, response: web.StreamResponse) -> bytes:
        """The whole document, as soon as there is one."""
        there = asyncio.Event()
        self._waiting.add(there)
        try:
            while (event := self._first_event()) is None:
                await self._write(response, b": not ready yet\n\n")
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(there.wait(), HEARTBEAT)
            return event
        finally:
            self._waiting.discard(there)

    async def _explain(self, request: web.Request) -> web.Response:
        return await _about_job(request, self._why)

    async def _try(self, request: web.Request) -> web.StreamResponse:
        """A line of JSON for each step. When the browser goes away, this is cancelled, and with it the trials."""
        job = request.query.get("job", "")
        async with aclosing(self._what_if(job)) as answers:
            first = await anext(answers)
            if first is None:
                return _no_job(job)
            response = web.StreamResponse(headers={"Content-Type": "application/x-ndjson"})
            await response.prepare(request)
            await self._write(response, first + b"\n")
            async for answer in answers:
                if answer is not None:
                    await self._write(response, answer + b"\n")
            return response

    async def _action(self, request: web.Request) -> web.Response:
        if not self._options.may_write:
            return _says(HTTPStatus.FORBIDDEN, "This page is read-only. Start it with --web-write to change that.")
        async with asyncio.timeout(self._limits.body_seconds):
            body = await request.read()
        try:
            wanted = plain_json.decode(body, ActionRequest)
        except msgspec.DecodeError as error:
            return _says(HTTPStatus.BAD_REQUEST, f"The request cannot be read: {error}.")
        return _says(*await self._act(wanted))


def _checks_expectations(
    handle: Callable[[web.BaseRequest], Awaitable[web.StreamResponse]],
) -> Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]:
    """Before the library does: it quotes the header, which fails if that is not text."""

    async def checked(request: web.BaseRequest) -> web.StreamResponse:
        if request.headers.get("Expect", "100-continue").lower() != "100-continue":
            if (connection := connection_of(request.transport)) is not None:
                await connection.turn()
            return _says(HTTPStatus.EXPECTATION_FAILED, "Only 100-continue can be expected.")
        return await handle(request)

    return checked


async def _about_job(request: web.Request, ask: Why) -> web.Response:
    job = request.query.get("job", "")
    answer = await ask(job)
    if answer is None:
        return _no_job(job)
    return web.Response(body=answer, content_type="application/json")


def _no_job(job: str) -> web.Response:
    return _says(HTTPStatus.NOT_FOUND, f"There is no job {job}.")


async def _file(request: web.Request) -> web.Response:
    name = request.match_info["name"] or "index.html"
    if name not in ASSETS:
        return _says(HTTPStatus.NOT_FOUND, "There is no such file.")
    return web.Response(text=asset(name), content_type=ASSETS[name], charset="utf-8")


def _says(status: HTTPStatus, message: str) -> web.Response:
    return web.Response(status=status, body=msgspec.json.encode({"message": message}), content_type="application/json")
