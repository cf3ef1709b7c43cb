"""HTTP requests to an API server: connections, credentials, and errors as `Failure`.

Requests and watches use separate connections, so that a dozen watches, which hold theirs for minutes, cannot delay a
bind. Connections are kept open between requests, but for less time than any server does: a request on a connection that
is just being closed would end with an unknown result.

After a 401 the credentials are renewed and the request is sent again, once. Every exception of aiohttp becomes a
`Failure`.
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
from stromboli.kube.client.auth.client_config import ClientConfig
from stromboli.kube.client.auth.credentials import Identity

from .errors import NO_RESPONSE, UNREACHABLE, Failure, failure_from_response

KEEP_ALIVE_SECONDS = 30.0
CONNECT_SECONDS = 10.0
# Large reads are much faster when a whole cluster is listed.
READ_BYTES = 1 << 20
# A peer that has disappeared is detected after 30 + 3 × 10 seconds of silence.
KEEPALIVE_IDLE, KEEPALIVE_INTERVAL, KEEPALIVE_COUNT = 30, 10, 3


class Transport:
    def __init__(self, config: ClientConfig, *, connections: int) -> None:
        self.config = config
        self._connections = connections
        # The timeout of a request starts when it has a connection. With thousands of binds at once, the last ones would
        # otherwise time out in the queue, and it would be unknown that they were never sent.
        self._slots = asyncio.Semaphore(connections)
        self._server = config.server.rstrip("/")
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
        await asyncio.sleep(0)  # the event loop closes the connections in its next iteration

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
        """The body of a successful response."""
        limits = aiohttp.ClientTimeout(total=timeout, sock_connect=CONNECT_SECONDS)
        # There are thousands of binds: context managers here would add a tenth to the cost of each.
        try:
            async with self._slots:
                response = await self._request(self._requests, method, path, query, body, content_type, limits)
                try:
                    return await response.read()
                finally:
                    response.close()  # a response that was read completely has returned its connection already
        except (aiohttp.ClientError, OSError) as error:
            raise _failure(self.config.server, error) from None

    @asynccontextmanager
    async def stream(
        self, path: str, *, query: Mapping[str, str], silence: float
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """The chunks of a response without end; fails when there is none for `silence` seconds."""
        limits = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS, sock_read=silence)
        with _failures_of(self.config.server):
            response = await self._request(self._watches, "GET", path, query, None, "", limits)
            try:
                _enable_keepalive(response)
                yield response.content.iter_any()
            finally:
                _abort(response)

    async def _request(
        self,
        session: aiohttp.ClientSession | None,
        method: str,
        path: str,
        query: Mapping[str, str] | None,
        body: bytes | None,
        content_type: str,
        limits: aiohttp.ClientTimeout,
    ) -> aiohttp.ClientResponse:
        """The response, if it is a success; its body is not read yet."""
        if session is None:
            raise RuntimeError("use the client inside `async with`")
        url = URL(self._server + path, encoded=True)
        if query:
            url = url.update_query(query)
        identity = await self.config.credentials.identify()
        retried = False
        while True:
            response = await session.request(
                method, url, data=body, timeout=limits, **self._options(identity, content_type if body else "")
            )
            if response.status < HTTPStatus.MULTIPLE_CHOICES:
                return response
            async with response:
                failure = failure_from_response(response.status, response.headers, await response.read())
            refused = failure.status == HTTPStatus.UNAUTHORIZED
            if retried or not refused or not self.config.credentials.refused(identity):
                raise failure
            retried = True
            identity = await self.config.credentials.identify()

    def _options(self, identity: Identity, content_type: str) -> dict[str, Any]:
        headers = dict(identity.headers)
        if content_type:
            headers["Content-Type"] = content_type
        tls = identity.ssl or self.config.ssl
        return {
            "headers": headers,
            "ssl": tls if tls is not None else True,
            "server_hostname": self.config.server_name,
            "proxy": self.config.proxy,
            # An API server never redirects; one that does is not the server that our credentials are for.
            "allow_redirects": False,
        }


def _session(connections: int) -> aiohttp.ClientSession:
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=connections, keepalive_timeout=KEEP_ALIVE_SECONDS),
        read_bufsize=READ_BYTES,
        cookie_jar=aiohttp.DummyCookieJar(),
        headers={
            "Accept": "application/json",
            # Inside a cluster, compression costs more than it saves.
            "Accept-Encoding": "identity",
            "User-Agent": f"stromboli/{__version__}",
        },
    )


@contextmanager
def _failures_of(server: str) -> Iterator[None]:
    """Turn exceptions of aiohttp inside the block into a Failure."""
    try:
        yield
    except (aiohttp.ClientError, OSError) as error:
        raise _failure(server, error) from None


def _failure(server: str, error: BaseException) -> Failure:
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        problem = getattr(error.certificate_error, "verify_message", "") or "verification failed"
        return Failure(NO_RESPONSE, f"the certificate of {server} is not trusted: {problem}", reason="Untrusted")
    if isinstance(error, aiohttp.ClientConnectorError):
        problem = error.os_error.strerror or type(error.os_error).__name__
        return Failure(NO_RESPONSE, f"cannot connect to {server}: {problem}", reason=UNREACHABLE)
    if isinstance(error, TimeoutError):
        return Failure(NO_RESPONSE, f"{server} did not answer in time", reason="Timeout")
    return Failure(NO_RESPONSE, f"the connection to {server} broke")


def _abort(response: aiohttp.ClientResponse) -> None:
    """End a response without end. The event loop may not run long enough for an orderly TLS shutdown."""
    transport = response.connection.transport if response.connection is not None else None
    if transport is not None:
        transport.abort()
    response.close()


def _enable_keepalive(response: aiohttp.ClientResponse) -> None:
    transport = response.connection.transport if response.connection is not None else None
    sock = transport.get_extra_info("socket") if transport is not None else None
    if sock is None:
        return
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (
        ("TCP_KEEPIDLE", KEEPALIVE_IDLE),
        ("TCP_KEEPINTVL", KEEPALIVE_INTERVAL),
        ("TCP_KEEPCNT", KEEPALIVE_COUNT),
    ):
        # Not every system has all three; otherwise its defaults apply.
        if hasattr(socket, option):
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
