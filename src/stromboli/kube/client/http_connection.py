"""One HTTP/1.1 connection to an API server, for one request at a time.

A bind is a request of a few hundred bytes, and there are thousands of them. A general HTTP client spends five times as
long on its own objects (URLs, header maps, payloads, streams) as on the request, so small requests are written here as
the bytes that they are. `httptools`, the parser of Node.js, reads the responses.

A connection is used again only after a response that is complete, on a transport that is open. After anything else (a
timeout, a cancelled caller, bytes that nobody asked for) it is aborted: the next response on it could be that of the
last request.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from ssl import SSLContext
from typing import Final, cast

from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

from .content_encoding import (
    LARGEST_BODY,
    LARGEST_HEAD,
    LARGEST_PIECE,
    BodyTooLarge,
    BrokenEncoding,
    ContentDecoder,
    decoder_for,
)

BUFFER: Final = 1 << 20  # bytes of a stream that may wait for the reader, until the server has to wait
# Headers that somebody reads. The others are not worth a string each.
_READ: Final = frozenset({b"content-encoding", b"content-length", b"retry-after", b"transfer-encoding"})


@dataclass(frozen=True, slots=True)
class Response:
    status: int
    headers: dict[str, str]  # those that somebody reads, with names in lower case
    body: bytes


class Connection(asyncio.Protocol):
    """Raises OSError: a TimeoutError, BodyTooLarge, or another one if the response is not whole."""

    def __init__(self, tls: SSLContext | None) -> None:
        self.tls = tls
        self.idle_since = 0.0
        self.transport: asyncio.Transport | None = None
        self._loop = asyncio.get_running_loop()
        self._parser: HttpResponseParser | None = HttpResponseParser(self)  # until the connection is lost
        self._news: asyncio.Future[None] | None = None  # somebody waits for the response, or for a part of it
        # Why there will be no more. An error that was raised would know the frames it went through, and these us.
        self._error: type[OSError] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._deadline = 0.0  # of the request in flight
        self._in_use = False
        # The response:
        self.status = 0  # until all headers are there
        self.headers: dict[str, str] = {}
        self._body: bytes | bytearray = b""  # what nobody has taken yet
        self._around = 0  # bytes that came before the body, or around its parts
        self._is_complete = False
        self._is_stream = False
        self._decoder: ContentDecoder | None = None

    @property
    def is_reusable(self) -> bool:
        return not self._in_use and self._error is None

    # -- requests -----------------------------------------------------------------------------------------------

    async def exchange(self, request: bytes, timeout: float) -> Response:
        self._send(request, stream=False)
        self._set_deadline(self._loop.time() + timeout)
        try:
            await self._wait()
        except BaseException:
            self.abort()
            raise
        return Response(self.status, self.headers, self._take())

    async def open_stream(self, request: bytes, silence: float) -> None:
        """Return when `status` and `headers` are there; the body is in `chunks`. Such a connection is not used again:
        abort it."""
        self._send(request, stream=True)
        async with asyncio.timeout(silence):
            while not self.status:
                await self._wait()

    async def chunks(self, silence: float) -> AsyncIterator[bytes]:
        """The body as it arrives. Fails if nothing does for `silence` seconds."""
        while True:
            while not self._body and not self._is_complete:
                async with asyncio.timeout(silence):
                    await self._wait()
            if not self._body:
                return
            chunk = self._take()
            if self.transport is not None:
                self.transport.resume_reading()
            yield chunk

    def _take(self) -> bytes:
        body, self._body = self._body, b""
        return bytes(body)

    def abort(self) -> None:
        """Close at once. The event loop may not run long enough for an orderly TLS shutdown."""
        self._break(ConnectionAbortedError)

    def close(self) -> None:
        if self.transport is not None:
            self.transport.close()

    def _send(self, request: bytes, *, stream: bool) -> None:
        if self.transport is None or not self.is_reusable:
            raise ConnectionResetError
        self.status, self.headers, self._body = 0, {}, b""
        self._is_complete, self._decoder, self._around = False, None, 0
        self._in_use, self._is_stream = True, stream
        self.transport.write(request)

    def _set_deadline(self, deadline: float) -> None:
        """A timer for each request would cost as much as the request itself. So the timer of the first one stays, and
        when it fires it is set to the deadline of the request that is in flight by then."""
        self._deadline = deadline
        if self._timer is not None:
            if self._timer.when() <= deadline:
                return
            self._timer.cancel()
        self._timer = self._loop.call_at(deadline, self._check_deadline)

    def _check_deadline(self) -> None:
        self._timer = None
        if self._in_use and not self._is_stream:
            if self._deadline <= self._loop.time():
                self._break(TimeoutError)
            else:
                self._set_deadline(self._deadline)

    async def _wait(self) -> None:
        """Until there is more: the whole response, or of a stream the next part."""
        if self._error is not None:
            raise self._error()
        self._news = self._loop.create_future()
        try:
            await self._news
        finally:
            self._news = None

    # -- called by the transport --------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        assert self._parser is not None
        self._around += len(data)
        try:
            self._parser.feed_data(data)
        except (HttpParserError, HttpParserUpgrade):
            self._break(ConnectionAbortedError)
        if self._in_use and self._around > LARGEST_HEAD:
            self._break(BodyTooLarge)

    def eof_received(self) -> None:
        # The server has closed an idle connection; a request must not be written to it any more.
        if not self._in_use:
            self._error = self._error or ConnectionResetError

    def connection_lost(self, error: Exception | None) -> None:
        # Without a length the end of the connection is the end of the response.
        is_end = self._in_use and self.status and error is None and "content-length" not in self.headers
        if is_end and "transfer-encoding" not in self.headers:
            self.on_message_complete()
        self._break(ConnectionResetError)
        # Both know us. We would stay together, with the buffers of TLS, until old garbage is collected, once an hour.
        self._parser = self.transport = None

    def _break(self, error: type[OSError]) -> None:
        if self._error is None:
            self._error = error
        if self.transport is not None:
            self.transport.abort()
        if self._timer is not None:
            self._timer.cancel()
        if self._news is not None and not self._news.done():
            self._news.set_exception(self._error())

    # -- called by the parser -----------------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        if not self._in_use:
            raise ConnectionAbortedError  # it ends the parser, too

    def on_header(self, name: bytes, value: bytes) -> None:
        name = name.lower()
        if name in _READ:
            self.headers[name.decode()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        assert self._parser is not None
        status = self._parser.get_status_code()
        if status < 200:  # for example 100 Continue: the response follows
            self.headers.clear()
            return
        self.status = status
        try:
            self._decoder = decoder_for(self.headers.get("content-encoding"))
        except BrokenEncoding as error:
            self._break(type(error))
            raise
        if self._is_stream:
            self._wake()

    def on_body(self, body: bytes) -> None:
        # A part of one byte has five around it, which is how servers may send; what follows the last part has no limit.
        self._around = max(self._around - 6 * len(body), 0)
        most = LARGEST_PIECE if self._is_stream else LARGEST_BODY - len(self._body)
        try:
            if self._decoder is not None:
                body = self._decoder.decode(body, most)
            elif len(body) > most:
                raise BodyTooLarge
        except OSError as error:
            self._break(type(error))
            raise  # it ends the parser, too
        if not self._body:
            self._body = body
        else:  # An object for each part would take fifty times as much memory if the parts are bytes.
            if not isinstance(self._body, bytearray):
                self._body = bytearray(self._body)
            self._body += body
        if self._is_stream:
            if len(self._body) > BUFFER and self.transport is not None:
                self.transport.pause_reading()
            self._wake()

    def on_message_complete(self) -> None:
        if not self.status:
            return
        if self._decoder is not None:
            try:
                self._decoder.finish()
            except BrokenEncoding as error:
                self._break(type(error))
                return
        self._is_complete = True
        self._in_use = False
        # A server may answer before it has read the whole request. The rest of it is then still to be sent.
        is_sent = self.transport is not None and not self.transport.get_write_buffer_size()
        if not is_sent or self._parser is None or not self._parser.should_keep_alive():
            self._error = self._error or ConnectionResetError
        self._wake()

    def _wake(self) -> None:
        if self._news is not None and not self._news.done():
            self._news.set_result(None)
