"""One HTTP request to an API server: who we are, over which connection, and what went wrong.

Requests and watches use connections of their own, so that a dozen watches, which hold theirs for minutes, cannot
keep a bind waiting for one. Connections are kept open between requests, for less time than any server does: a request
on a connection that is just being closed would end in "nobody knows whether it was carried out".

A 401 is answered by asking the credentials again, once. Everything that aiohttp can raise leaves here as a `Failure`.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from http import HTTPStatus
from types import TracebackType
from typing import Any

import aiohttp
from yarl import URL

from stromboli import __version__
from stromboli.kube.client.auth.access import Access
from stromboli.kube.client.auth.credentials import Identity

from .errors import NOT_REACHED, UNREACHABLE, Failure, answered

KEEP_ALIVE_SECONDS = 30.0
CONNECT_SECONDS = 10.0
# Large reads save much when a whole cluster is listed.
READ_BYTES = 1 << 20
# A peer that has vanished without a word is noticed after 30 + 3 × 10 seconds of silence.
PROBE_IDLE, PROBE_EVERY, PROBE_TIMES = 30, 10, 3


class Transport:
    def __init__(self, access: Access, *, connections: int) -> None:
        self.access = access
        self._connections = connections
        # A request's time begins when it has a connection: with thousands of binds at once, the last ones would
        # otherwise time out in the queue, and nobody could tell that they were never sent.
        self._turns = asyncio.Semaphore(connections)
        self._server = access.server.rstrip("/")
        self._requests: aiohttp.ClientSession | None = None
        self._watches: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Transport:
        self._requests = _session(self._connections)
        self._watches = _session(0)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for session in (self._requests, self._watches):
            if session is not None:
                await session.close()
        await asyncio.sleep(0)  # connections are closed by what the loop does next

    async def send(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: bytes | None = None,
        content_type: str = "application/json",
        timeout: float,
    ) -> bytes:
        """The body of a successful answer."""
        limits = aiohttp.ClientTimeout(total=timeout, sock_connect=CONNECT_SECONDS)
        # Binds come by the thousands: here, try costs nothing, and the context managers would cost a tenth of a bind.
        try:
            async with self._turns:
                response = await self._ask(self._requests, method, path, query, body, content_type, limits)
                try:
                    return await response.read()
                finally:
                    response.close()  # if it was read to its end, the connection has been given back already
        except (aiohttp.ClientError, OSError) as error:
            raise _failure(self.access.server, error) from None

    @asynccontextmanager
    async def stream(
        self, path: str, *, query: Mapping[str, str], silence: float
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """The chunks of an answer that goes on, for as long as none is awaited for longer than `silence` seconds."""
        limits = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS, sock_read=silence)
        with _plainly(self.access.server):
            response = await self._ask(self._watches, "GET", path, query, None, "", limits)
            try:
                _notice_when_the_peer_vanishes(response)
                yield response.content.iter_any()
            finally:
                _hang_up(response)

    async def _ask(
        self,
        session: aiohttp.ClientSession | None,
        method: str,
        path: str,
        query: Mapping[str, str] | None,
        body: bytes | None,
        content_type: str,
        limits: aiohttp.ClientTimeout,
    ) -> aiohttp.ClientResponse:
        """The answer, if it is a success; its body is still to be read."""
        if session is None:
            raise RuntimeError("a client is used inside `async with`")
        url = URL(self._server + path, encoded=True)
        if query:
            url = url.update_query(query)
        identity = await self.access.credentials.identify()
        tried_again = False
        while True:
            response = await session.request(
                method, url, data=body, timeout=limits, **self._options(identity, content_type if body else "")
            )
            if response.status < HTTPStatus.MULTIPLE_CHOICES:
                return response
            async with response:
                failure = answered(response.status, response.headers, await response.read())
            refused = failure.status == HTTPStatus.UNAUTHORIZED
            if tried_again or not refused or not self.access.credentials.refused(identity):
                raise failure
            tried_again = True
            identity = await self.access.credentials.identify()

    def _options(self, identity: Identity, content_type: str) -> dict[str, Any]:
        headers = dict(identity.headers)
        if content_type:
            headers["Content-Type"] = content_type
        tls = identity.ssl or self.access.ssl
        return {
            "headers": headers,
            "ssl": tls if tls is not None else True,
            "server_hostname": self.access.server_name,
            "proxy": self.access.proxy,
            # An API server redirects nobody; whoever does so is not the one we are logged in to.
            "allow_redirects": False,
        }


def _session(connections: int) -> aiohttp.ClientSession:
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=connections, keepalive_timeout=KEEP_ALIVE_SECONDS),
        read_bufsize=READ_BYTES,
        cookie_jar=aiohttp.DummyCookieJar(),
        headers={
            "Accept": "application/json",
            # Between machines of one cluster, packing and unpacking costs more than it saves.
            "Accept-Encoding": "identity",
            "User-Agent": f"stromboli/{__version__}",
        },
    )


@contextmanager
def _plainly(server: str) -> Iterator[None]:
    """Turns what aiohttp raises inside the block into a Failure with a sentence."""
    try:
        yield
    except (aiohttp.ClientError, OSError) as error:
        raise _failure(server, error) from None


def _failure(server: str, error: BaseException) -> Failure:
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        problem = getattr(error.certificate_error, "verify_message", "") or "it does not fit"
        return Failure(NOT_REACHED, f"the certificate of {server} is not trusted: {problem}", reason="Untrusted")
    if isinstance(error, aiohttp.ClientConnectorError):
        problem = error.os_error.strerror or type(error.os_error).__name__
        return Failure(NOT_REACHED, f"cannot connect to {server}: {problem}", reason=UNREACHABLE)
    if isinstance(error, TimeoutError):
        return Failure(NOT_REACHED, f"{server} did not answer in time", reason="Timeout")
    return Failure(NOT_REACHED, f"the connection to {server} broke")


def _hang_up(response: aiohttp.ClientResponse) -> None:
    """End an answer that goes on. To take leave in due form, as TLS would, the loop may have no time any more."""
    transport = response.connection.transport if response.connection is not None else None
    if transport is not None:
        transport.abort()
    response.close()


def _notice_when_the_peer_vanishes(response: aiohttp.ClientResponse) -> None:
    transport = response.connection.transport if response.connection is not None else None
    sock = transport.get_extra_info("socket") if transport is not None else None
    if sock is None:
        return
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (
        ("TCP_KEEPIDLE", PROBE_IDLE),
        ("TCP_KEEPINTVL", PROBE_EVERY),
        ("TCP_KEEPCNT", PROBE_TIMES),
    ):
        # Not every system has all three; then its own defaults hold.
        if hasattr(socket, option):
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
