"""The API server on a socket.

Requests are handled one after the other in the event loop: handling one takes well under a millisecond, and nothing
needs a lock. A watch waits for commits of its resource and sends what the history has for it.
"""

from __future__ import annotations

import asyncio
import hmac
import os
import time
from collections.abc import AsyncIterator, Callable, Mapping
from ssl import SSLContext
from typing import Any, Final, Protocol
from urllib.parse import unquote

from aiohttp import web

from stromboli.embedded.server import (
    ApiServer,
    LogResponse,
    Outcome,
    Request,
    Response,
    WatchResponse,
    error_response,
)
from stromboli.embedded.server.content import LARGEST_BODY
from stromboli.embedded.status import StatusError, bad_request, too_large, unauthorized, unknown_path
from stromboli.embedded.store import Change
from stromboli.embedded.upkeep import Upkeep
from stromboli.errors import UserError

BOOKMARK_SECONDS: Final = 60.0
_LONGEST_PATH: Final = 8000
_LONGEST_LINE: Final = 256 * 1024  # bytes of a request line; selectors are part of it and may be long


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
    """Serves until `stop`. Without the right token every request is refused."""

    def __init__(
        self,
        api: ApiServer,
        upkeep: Upkeep,
        *,
        token: str,
        ssl_context: SSLContext | None,
        logs: LogSource | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._api = api
        self._upkeep = upkeep
        self._authorization = f"Bearer {token}".encode()
        self._ssl = ssl_context
        self._logs = logs or NoLogs()
        self._clock = clock
        self._wakers: dict[str, set[asyncio.Event]] = {}  # of watches, by resource
        self._changed = asyncio.Event()
        self._stopping = False
        self._runner: web.ServerRunner | None = None
        self._upkeep_task: asyncio.Task[None] | None = None
        self.port = 0
        api.store.listen(self._on_change)

    async def start(self, host: str, port: int) -> None:
        """Listen. With port 0 the system chooses one; `port` says which."""
        server = web.Server(
            self._serve, handler_cancellation=True, access_log=None, max_line_size=_LONGEST_LINE
        )
        self._runner = web.ServerRunner(server)
        await self._runner.setup()
        site = web.TCPSite(self._runner, host, port, ssl_context=self._ssl, backlog=1024)
        try:
            await site.start()
        except OSError as error:
            await self._runner.cleanup()
            reason = os.strerror(error.errno) if error.errno else str(error)
            raise UserError(f"cannot serve the API on {host}:{port}: {reason}; choose another --port") from error
        assert self._runner.addresses
        self.port = int(self._runner.addresses[0][1])
        self._upkeep_task = asyncio.create_task(self._run_upkeep())

    async def stop(self) -> None:
        self._stopping = True
        for wakers in self._wakers.values():
            for waker in wakers:
                waker.set()
        if self._upkeep_task is not None:
            self._upkeep_task.cancel()
            await asyncio.gather(self._upkeep_task, return_exceptions=True)
        if self._runner is not None:
            await self._runner.cleanup()

    def _on_change(self, change: Change) -> None:
        self._changed.set()
        for waker in self._wakers.get(change.record.key.resource, ()):
            waker.set()

    async def _run_upkeep(self) -> None:
        while True:
            self._changed.clear()
            self._upkeep.run(self._clock())
            due = self._upkeep.next_due()
            seconds = None if due is None else max(due - self._clock(), 0.01)
            try:
                await asyncio.wait_for(self._changed.wait(), seconds)
            except TimeoutError:
                continue
            await asyncio.sleep(0)  # requests that came together are handled first

    # -- requests -----------------------------------------------------------------------------------------------------

    async def _serve(self, received: web.BaseRequest) -> web.StreamResponse:
        try:
            request = await self._read(received)
        except StatusError as error:
            return _plain(error_response(error))
        outcome = self._api.handle(request, self._clock())
        if isinstance(outcome, Response):
            return _plain(outcome)
        try:
            return await self._stream(received, outcome)
        except ConnectionError:
            raise asyncio.CancelledError from None  # the client has gone; there is nobody to answer

    async def _read(self, received: web.BaseRequest) -> Request:
        given = received.headers.get("Authorization", "").encode()
        if not hmac.compare_digest(given, self._authorization):
            raise unauthorized()
        url = received.rel_url
        raw = url.raw_path
        if len(raw) > _LONGEST_PATH:
            raise StatusError(414, "RequestURITooLong", "the request URI is too long")
        segments = [unquote(segment) for segment in raw.split("/")]
        if any("/" in segment or "\0" in segment for segment in segments):
            raise unknown_path()
        body = b""
        if received.can_read_body:
            body = await _read_body(received)
        query: dict[str, str] = {}
        for name, value in url.query.items():
            query.setdefault(name, value)
        headers = {name.lower(): value for name, value in received.headers.items()}
        return Request(received.method, "/".join(segments), query, headers, body)

    async def _stream(self, received: web.BaseRequest, outcome: Outcome) -> web.StreamResponse:
        if isinstance(outcome, WatchResponse):
            return await self._stream_watch(received, outcome)
        assert isinstance(outcome, LogResponse)
        pieces = self._logs.read(outcome.pod, outcome.container, outcome.query)
        try:
            first = await anext(pieces, b"")
        except StatusError as error:
            return _plain(error_response(error))
        response = web.StreamResponse(headers={"Content-Type": "text/plain"})
        await response.prepare(received)
        await response.write(first)
        async for piece in pieces:
            await response.write(piece)
        return response

    async def _stream_watch(self, received: web.BaseRequest, outcome: WatchResponse) -> web.StreamResponse:
        watch = outcome.watch
        waker = asyncio.Event()
        wakers = self._wakers.setdefault(watch.resource, set())
        wakers.add(waker)
        response = web.StreamResponse(headers={"Content-Type": outcome.content_type, "Cache-Control": "no-cache"})
        end = time.monotonic() + outcome.seconds
        next_bookmark = time.monotonic() + BOOKMARK_SECONDS
        try:
            await response.prepare(received)
            while not self._stopping:
                waker.clear()
                lines = watch.poll(self._clock())
                now = time.monotonic()
                if watch.bookmarks and not watch.ended and (now >= next_bookmark or now >= end):
                    lines.append(watch.bookmark())
                    next_bookmark = now + BOOKMARK_SECONDS
                if lines:
                    await response.write(b"".join(lines))
                if watch.ended or now >= end:
                    break
                await _wait(waker, min(end, next_bookmark) - time.monotonic())
        finally:
            wakers.discard(waker)
        return response


async def _read_body(received: web.BaseRequest) -> bytes:
    pieces, size = [], 0
    try:
        async for piece in received.content.iter_any():
            size += len(piece)
            if size > LARGEST_BODY:
                raise too_large(LARGEST_BODY)
            pieces.append(piece)
    except web.HTTPException:
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
