"""The API server on a socket.

Requests are handled one after the other in the event loop: handling one takes well under a millisecond, and nothing
needs a lock. A watch waits for commits of its resource and sends what the history has for it. Who is answered and how
long we wait is in `stromboli.listeners`.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from ssl import SSLContext
from typing import Any, Final, Protocol
from urllib.parse import unquote

from aiohttp import web

from stromboli.embedded.admission import ADMINISTRATOR, User
from stromboli.embedded.server import (
    ApiServer,
    LogResponse,
    Outcome,
    Request,
    Response,
    WatchResponse,
    error_response,
)
from stromboli.embedded.status import (
    StatusError,
    bad_request,
    body_timeout,
    foreign_request,
    head_too_large,
    too_large,
    too_many_requests,
    unauthorized,
    unknown_path,
    unsupported_encoding,
)
from stromboli.embedded.store import Change
from stromboli.embedded.upkeep import Upkeep
from stromboli.errors import UserError
from stromboli.listeners import (
    API_LIMITS,
    HEALTH_PATHS,
    Access,
    Gate,
    LibraryLog,
    Limits,
    RefusalLog,
    connection_of,
    listen_problem,
)

BOOKMARK_SECONDS: Final = 60.0
_LONGEST_PATH: Final = 8000
_LINGERING_SECONDS: Final = 2.0  # that the rest of a refused body is read for, so that the answer arrives
_MANY_STREAMS: Final = "this token has too many watches and logs at once; end some of them"
_MANY_CONNECTIONS: Final = "holders of the token have too many connections at once"


class LogSource(Protocol):
    """Whoever runs containers, and has their output."""

    def read(self, pod: Mapping[str, Any], container: str, query: Mapping[str, str]) -> AsyncIterator[bytes]:
        """Raises StatusError before the first piece if there is none."""
        ...


class NoLogs:
    """Of pods on hollow nodes."""

    async def read(self, pod: Mapping[str, Any], container: str, query: Mapping[str, str]) -> AsyncIterator[bytes]:
        yield b"This pod runs on a hollow node: nothing is executed, so there is no output.\n"


class HttpServer:
    """Serves until `stop`. Without one of the tokens every request is refused, but for those for health."""

    def __init__(
        self,
        api: ApiServer,
        upkeep: Upkeep,
        *,
        tokens: Mapping[str, str],
        users: Mapping[str, User] | None = None,
        ssl_context: SSLContext | None,
        logs: LogSource | None = None,
        names: tuple[str, ...] = (),
        limits: Limits = API_LIMITS,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`tokens` by the name of who has each: limits are for each of them. `users`: who they are for policies, if not
        the administrator. `names`: those of this server."""
        self._api = api
        self._upkeep = upkeep
        self._access = Access(tokens, names)
        self._users = dict(users or {})
        self._limits = limits
        self._refusals = RefusalLog("api-server")
        self._streams: Counter[str] = Counter()  # by the name of the token
        self._ssl = ssl_context
        self._logs = logs or NoLogs()
        self._clock = clock
        self._wakers: dict[str, set[asyncio.Event]] = {}  # of watches, by resource
        self._changed = asyncio.Event()
        self._stopping = False
        self._runner: web.ServerRunner | None = None
        self._gate: Gate | None = None
        self._upkeep_task: asyncio.Task[None] | None = None
        self.port = 0
        api.store.listen(self._on_change)

    async def start(self, host: str, port: int) -> None:
        """Listen. With port 0 the system chooses one; `port` says which."""
        limits = self._limits
        server = web.Server(
            self._serve, handler_cancellation=True, access_log=None, auto_decompress=False,
            logger=LibraryLog(self._refusals), keepalive_timeout=limits.idle_seconds,
            lingering_time=_LINGERING_SECONDS, max_line_size=limits.line_bytes, max_field_size=limits.field_bytes,
        )  # fmt: skip
        self._runner = web.ServerRunner(server)
        await self._runner.setup()
        self._gate = Gate(limits, self._refusals, server, tls=self._ssl)
        try:
            self.port = await self._gate.open(host, port)
        except OSError as error:
            await self._runner.cleanup()
            raise UserError(
                f"cannot serve the API on {host}:{port}: {listen_problem(error)}; choose another --port"
            ) from error
        self._upkeep_task = asyncio.create_task(self._run_upkeep())

    async def stop(self) -> None:
        self._stopping = True
        for wakers in self._wakers.values():
            for waker in wakers:
                waker.set()
        if self._upkeep_task is not None:
            self._upkeep_task.cancel()
            await asyncio.gather(self._upkeep_task, return_exceptions=True)
        if self._gate is not None:
            await self._gate.close()
        if self._runner is not None:
            await self._runner.cleanup()

    def _on_change(self, change: Change) -> None:
        self._changed.set()
        for waker in self._wakers.get(change.record.key.resource, ()):
            waker.set()

    async def _run_upkeep(self) -> None:
        while True:
            self._changed.clear()
            began = time.monotonic()
            if self._upkeep.turn(self._clock()):
                # As long as that took belongs to requests, so that much work keeps nobody from being answered.
                await asyncio.sleep(time.monotonic() - began)
                continue
            due = self._upkeep.next_due(self._clock())
            seconds = None if due is None else max(due - self._clock(), 0.01)
            try:
                await asyncio.wait_for(self._changed.wait(), seconds)
            except TimeoutError:
                continue
            await asyncio.sleep(0)  # requests that came together are handled first

    # -- requests -----------------------------------------------------------------------------------------------------

    async def _serve(self, received: web.BaseRequest) -> web.StreamResponse:
        connection = connection_of(received.transport)
        if connection is None:
            raise asyncio.CancelledError  # it was closed meanwhile
        connection.heard()
        if received.method == "GET" and received.path in HEALTH_PATHS:
            await connection.turn()
            return web.Response(text="ok")
        try:
            holder = self._admit(received)
            if not connection.trust(holder):
                raise too_many_requests(_MANY_CONNECTIONS, seconds=1, causes=[])
            await connection.turn()
            request = await self._read(received, self._users.get(holder, ADMINISTRATOR))
        except StatusError as error:
            if connection.holder is None:
                await connection.turn()
            return _plain(error_response(error))
        outcome = self._api.handle(request, self._clock())
        if isinstance(outcome, Response):
            return _plain(outcome)
        if self._streams[holder] >= self._limits.streams:
            self._refusals.note(_MANY_STREAMS)
            return _plain(error_response(too_many_requests(_MANY_STREAMS, seconds=5, causes=[])))
        self._streams[holder] += 1
        try:
            return await self._stream(received, outcome)
        except (ConnectionError, TimeoutError):
            # The client has gone, or reads nothing: there is nobody to answer.
            connection.close()
            raise asyncio.CancelledError from None
        finally:
            self._streams[holder] -= 1

    def _admit(self, received: web.BaseRequest) -> str:
        """The name of the token of a request that may be answered. Its body has not been read."""
        headers = received.headers
        foreign = self._access.foreign(
            headers.getall("Host", []), headers.getall("Origin", []), headers.getall("Sec-Fetch-Site", [])
        )
        if foreign is not None:
            self._refusals.note(foreign)
            raise foreign_request(foreign)
        holder = self._access.holder(headers.get("Authorization", ""))
        if holder is None:
            self._refusals.note("the token is missing or wrong")
            raise unauthorized()
        if len(headers) > self._limits.headers:
            raise head_too_large()
        return holder

    async def _read(self, received: web.BaseRequest, user: User) -> Request:
        url = received.rel_url
        raw = url.raw_path
        if len(raw) > _LONGEST_PATH:
            raise StatusError(414, "RequestURITooLong", "the request URI is too long")
        segments = [unquote(segment) for segment in raw.split("/")]
        if any("/" in segment or "\0" in segment for segment in segments):
            raise unknown_path()
        if received.headers.get("Content-Encoding", "identity") != "identity":
            raise unsupported_encoding()
        body = b""
        if received.can_read_body:
            try:
                async with asyncio.timeout(self._limits.body_seconds):
                    body = await _read_body(received, self._limits.body_bytes)
            except TimeoutError:
                self._refusals.note("a body did not come in time")
                raise body_timeout() from None
        query: dict[str, str] = {}
        for name, value in url.query.items():
            query.setdefault(name, value)
        # What is not UTF-8 in a header comes as lone surrogates, which no answer could quote.
        headers = {
            name.lower(): value if value.isascii() else value.encode("utf-8", "replace").decode()
            for name, value in received.headers.items()
        }
        return Request(received.method, "/".join(segments), query, headers, body, user)

    async def _stream(self, received: web.BaseRequest, outcome: Outcome) -> web.StreamResponse:
        if isinstance(outcome, WatchResponse):
            return await self._stream_watch(received, outcome)
        assert isinstance(outcome, LogResponse)
        pieces = self._logs.read(outcome.pod, outcome.container, outcome.query)
        try:
            first = await anext(pieces, b"")
        except LookupError as error:
            return _plain(error_response(bad_request(str(error))))
        except StatusError as error:
            return _plain(error_response(error))
        response = web.StreamResponse(headers={"Content-Type": "text/plain"})
        await response.prepare(received)
        await self._write(response, first)
        async for piece in pieces:
            await self._write(response, piece)
        return response

    async def _write(self, response: web.StreamResponse, piece: bytes) -> None:
        """Raises TimeoutError if the client leaves unread what it has been sent."""
        async with asyncio.timeout(self._limits.body_seconds):
            await response.write(piece)

    async def _stream_watch(self, received: web.BaseRequest, outcome: WatchResponse) -> web.StreamResponse:
        watch = outcome.watch
        waker = asyncio.Event()
        wakers = self._wakers.setdefault(watch.resource, set())
        wakers.add(waker)
        response = web.StreamResponse(headers={"Content-Type": outcome.content_type, "Cache-Control": "no-cache"})
        end = time.monotonic() + outcome.seconds
        next_bookmark = time.monotonic() + BOOKMARK_SECONDS if watch.bookmarks else end
        try:
            await response.prepare(received)
            while not self._stopping:
                waker.clear()
                lines = watch.poll(self._clock())
                now = time.monotonic()
                if watch.bookmarks and not watch.is_behind and not watch.ended and (now >= next_bookmark or now >= end):
                    lines.append(watch.bookmark())
                    next_bookmark = now + BOOKMARK_SECONDS
                if lines:
                    await self._write(response, b"".join(lines))
                if watch.ended or now >= end:
                    break
                if watch.is_behind:
                    await asyncio.sleep(0)
                else:
                    await _wait(waker, min(end, next_bookmark) - time.monotonic())
        finally:
            wakers.discard(waker)
        return response


async def _read_body(received: web.BaseRequest, largest: int) -> bytes:
    pieces, size = [], 0
    try:
        async for piece in received.content.iter_any():
            size += len(piece)
            if size > largest:
                raise too_large(largest)
            pieces.append(piece)
    except (web.HTTPException, web.RequestPayloadError):
        raise bad_request("the body of the request cannot be read") from None
    return b"".join(pieces)


async def _wait(event: asyncio.Event, seconds: float) -> None:
    if seconds > 0 and not event.is_set():
        try:
            await asyncio.wait_for(event.wait(), seconds)
        except TimeoutError:
            return


def _plain(response: Response) -> web.Response:
    written = web.Response(status=response.status, body=response.body, headers={"Content-Type": response.content_type})
    for name, value in response.headers:
        written.headers.add(name, value)
    return written
