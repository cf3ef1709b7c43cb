"""Connections to one API server, kept open between requests.

A connection stays idle for less time than any server allows: a request on a connection that the server is just closing
would end with an unknown result. One that the server has closed meanwhile is noticed, because the event loop watches
idle connections too, and the request takes another. No request is sent twice here; the callers know which may be.

The connection that was used last is used next, so that those of a burst expire after it.
"""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from ipaddress import ip_address
from ssl import SSLCertVerificationError, SSLContext
from typing import Final
from urllib.parse import SplitResult

from stromboli import __version__
from stromboli.kube.client.auth.credentials import Identity
from stromboli.kube.client.auth.tls import Trust

from .content_encoding import BodyTooLarge, BrokenEncoding
from .errors import broken_connection, no_answer_in_time, not_as_encoded, too_large, unreachable, untrusted
from .http_connection import Connection, Response

KEEP_ALIVE_SECONDS: Final = 30.0
CONNECT_SECONDS: Final = 10.0
# Seconds until the next address of a name with several is tried beside the first.
NEXT_ADDRESS_SECONDS: Final = 0.25
# A peer that has disappeared is detected after 30 + 3 × 10 seconds of silence.
KEEPALIVE_IDLE, KEEPALIVE_INTERVAL, KEEPALIVE_COUNT = 30, 10, 3

STANDARD_HEADERS: Final = {
    "Accept": "application/json",
    # Inside a cluster, compression costs more than it saves.
    "Accept-Encoding": "identity",
    "User-Agent": f"stromboli/{__version__}",
}

_TARGET = re.compile(r"[!-~]+")
_HEADER = re.compile(r"[^\x00-\x08\x0a-\x1f\x7f]*")


class ConnectionPool:
    def __init__(self, server: SplitResult, *, tls: SSLContext | None, server_name: str | None) -> None:
        """`tls` is for identities that have none of their own; None stands for the system's authorities."""
        self._url = server.geturl()
        self._host = server.hostname or ""
        self._is_secure = server.scheme == "https"
        self._port = server.port or (443 if self._is_secure else 80)
        self._authority = server.netloc.rpartition("@")[2]
        # A race between addresses that is cancelled at the wrong moment leaves a socket open for a while.
        self._race = None if _is_address(self._host) else NEXT_ADDRESS_SECONDS
        self._tls = tls
        self._server_name = server_name
        self._idle: list[Connection] = []  # in the order of `idle_since`
        self._open: set[Connection] = set()
        self._loop = asyncio.get_running_loop()
        self._expiry: asyncio.TimerHandle | None = None
        # The headers that all requests of the last identity have in common, as bytes.
        self._headers_of: Identity | None = None
        self._headers = b""

    async def send(
        self, method: str, target: str, identity: Identity, *, body: bytes | None, content_type: str, timeout: float
    ) -> Response:
        request = self._request(method, target, identity, body, content_type)
        connection = self._take(identity)
        if connection is None:
            started = self._loop.time()
            connection = await self._connect(identity, timeout)
            timeout -= self._loop.time() - started
        try:
            response = await connection.exchange(request, timeout)
        except TimeoutError:
            raise no_answer_in_time(self._url) from None
        except BodyTooLarge:
            raise too_large(self._url) from None
        except BrokenEncoding:
            raise not_as_encoded(self._url) from None
        except OSError:
            raise broken_connection(self._url) from None
        finally:
            self._release(connection)
        return response

    @asynccontextmanager
    async def stream(
        self, target: str, identity: Identity, *, silence: float
    ) -> AsyncIterator[tuple[Response, AsyncIterator[bytes]]]:
        """A response whose body is not read yet, and its body. It has a connection of its own."""
        request = self._request("GET", target, identity, None, "")
        connection = await self._connect(identity, CONNECT_SECONDS)
        try:
            enable_keepalive(connection.transport)
            await connection.open_stream(request, silence)
            yield Response(connection.status, connection.headers, b""), connection.chunks(silence)
        except TimeoutError:
            raise no_answer_in_time(self._url) from None
        except BodyTooLarge:
            raise too_large(self._url) from None
        except BrokenEncoding:
            raise not_as_encoded(self._url) from None
        except OSError:
            raise broken_connection(self._url) from None
        finally:
            connection.abort()
            self._open.discard(connection)

    async def close(self) -> None:
        if self._expiry is not None:
            self._expiry.cancel()
        self._idle.clear()
        for connection in self._open:
            connection.abort()
        self._open.clear()
        await asyncio.sleep(0)  # the event loop closes the connections in its next iteration

    # -- connections --------------------------------------------------------------------------------------------

    def _tls_of(self, identity: Identity) -> SSLContext | None:
        if not self._is_secure:
            return None
        if identity.ssl is not None:
            return identity.ssl
        if self._tls is None:
            self._tls = Trust().context()
        return self._tls

    def _take(self, identity: Identity) -> Connection | None:
        """An idle connection that is still good."""
        tls = self._tls_of(identity)
        oldest = self._loop.time() - KEEP_ALIVE_SECONDS
        while self._idle:
            connection = self._idle.pop()
            # With another context it belongs to a client certificate that has been replaced.
            if connection.is_reusable and connection.tls is tls and connection.idle_since >= oldest:
                return connection
            self._discard(connection)
        return None

    def _release(self, connection: Connection) -> None:
        if connection not in self._open or not connection.is_reusable:
            self._discard(connection)
            return
        connection.idle_since = self._loop.time()
        self._idle.append(connection)
        if self._expiry is None:
            self._expiry = self._loop.call_later(KEEP_ALIVE_SECONDS, self._expire)

    def _expire(self) -> None:
        oldest = self._loop.time() - KEEP_ALIVE_SECONDS
        while self._idle and (self._idle[0].idle_since <= oldest or not self._idle[0].is_reusable):
            self._discard(self._idle.pop(0))
        self._expiry = None
        if self._idle:
            self._expiry = self._loop.call_at(self._idle[0].idle_since + KEEP_ALIVE_SECONDS, self._expire)

    def _discard(self, connection: Connection) -> None:
        self._open.discard(connection)
        connection.close()

    async def _connect(self, identity: Identity, timeout: float) -> Connection:
        tls = self._tls_of(identity)
        try:
            async with asyncio.timeout(min(timeout, CONNECT_SECONDS)):
                _, connection = await self._loop.create_connection(
                    lambda: Connection(tls),
                    self._host,
                    self._port,
                    ssl=tls,
                    server_hostname=(self._server_name or self._host) if tls is not None else None,
                    happy_eyeballs_delay=self._race,
                )
        except SSLCertVerificationError as error:
            raise untrusted(self._url, error) from None
        except OSError as error:
            if isinstance(error, TimeoutError) and error.errno is None:
                raise no_answer_in_time(self._url) from None
            raise unreachable(self._url, error) from None
        self._open.add(connection)
        return connection

    # -- requests -----------------------------------------------------------------------------------------------

    def _request(self, method: str, target: str, identity: Identity, body: bytes | None, content_type: str) -> bytes:
        if not _TARGET.fullmatch(target):
            raise ValueError(f"the path of a request must be quoted: {target!r}")
        if identity is not self._headers_of:
            self._headers = _header_lines({"Host": self._authority} | STANDARD_HEADERS | dict(identity.headers))
            self._headers_of = identity
        line = f"{method} {target} HTTP/1.1\r\n".encode("ascii")
        if body is None:
            return b"%b%b%b" % (line, self._headers, b"\r\n" if method == "GET" else b"Content-Length: 0\r\n\r\n")
        kind = content_type.encode("ascii")
        return b"%b%bContent-Type: %b\r\nContent-Length: %d\r\n\r\n%b" % (line, self._headers, kind, len(body), body)


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def _header_lines(headers: dict[str, str]) -> bytes:
    for name, value in headers.items():
        if not _HEADER.fullmatch(value):
            raise ValueError(f"the header {name} has a control character")
    return "".join(f"{name}: {value}\r\n" for name, value in headers.items()).encode()


def enable_keepalive(transport: asyncio.BaseTransport | None) -> None:
    """For streams, which may be silent for minutes."""
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
