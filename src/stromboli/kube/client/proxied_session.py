"""Requests to an API server through a proxy, or to an address that is not plain ASCII.

These are rare, and aiohttp knows how to do them. All other requests use the connection pool, which costs less. The
import of aiohttp takes a sixth of a second, so this module is imported only by a client that needs it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from ssl import SSLCertVerificationError
from typing import Any

import aiohttp
from yarl import URL

from stromboli.kube.client.auth.client_config import ClientConfig
from stromboli.kube.client.auth.credentials import Identity

from .connection_pool import CONNECT_SECONDS, KEEP_ALIVE_SECONDS, STANDARD_HEADERS, enable_keepalive
from .content_encoding import LARGEST_BODY, LARGEST_PIECE, BodyTooLarge, BrokenEncoding, decoder_for
from .errors import broken_connection, no_answer_in_time, not_as_encoded, too_large, unreachable, untrusted
from .http_connection import BUFFER, Response


class ProxiedSession:
    def __init__(self, config: ClientConfig) -> None:
        self._config = config
        self._origin = URL(config.server, encoded=True).origin()
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=KEEP_ALIVE_SECONDS),
            read_bufsize=BUFFER,
            cookie_jar=aiohttp.DummyCookieJar(),
            headers=STANDARD_HEADERS,
            auto_decompress=False,
        )

    async def send(
        self, method: str, target: str, identity: Identity, *, body: bytes | None, content_type: str, timeout: float
    ) -> Response:
        limits = aiohttp.ClientTimeout(total=timeout, sock_connect=CONNECT_SECONDS)
        headers = {"Content-Type": content_type} if body is not None else {}
        options = self._options(identity, headers)
        with self._failures():
            async with self._session.request(method, self._url(target), data=body, timeout=limits, **options) as found:
                whole = bytearray()
                async for piece in _body(found, whole=LARGEST_BODY):
                    whole += piece
                return Response(found.status, _headers(found), bytes(whole))

    @asynccontextmanager
    async def stream(
        self, target: str, identity: Identity, *, silence: float
    ) -> AsyncIterator[tuple[Response, AsyncIterator[bytes]]]:
        limits = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS, sock_read=silence)
        with self._failures():
            found = await self._session.get(self._url(target), timeout=limits, **self._options(identity, {}))
            try:
                enable_keepalive(_transport(found))
                yield Response(found.status, _headers(found), b""), _body(found)
            finally:
                _abort(found)

    async def close(self) -> None:
        await self._session.close()

    def _url(self, target: str) -> URL:
        return URL(f"{self._origin}{target}", encoded=True)

    def _options(self, identity: Identity, headers: dict[str, str]) -> dict[str, Any]:
        tls = identity.ssl or self._config.ssl
        return {
            "headers": headers | dict(identity.headers),
            "ssl": tls if tls is not None else True,
            "server_hostname": self._config.server_name,
            "proxy": self._config.proxy,
            # An API server never redirects; one that does is not the server that our credentials are for.
            "allow_redirects": False,
        }

    @contextmanager
    def _failures(self) -> Iterator[None]:
        """Turn exceptions of aiohttp inside the block into a Failure."""
        server = self._config.server
        try:
            yield
        except aiohttp.ClientConnectorCertificateError as error:
            cause = error.certificate_error
            problem = cause if isinstance(cause, SSLCertVerificationError) else SSLCertVerificationError()
            raise untrusted(server, problem) from None
        except aiohttp.ClientConnectorError as error:
            raise unreachable(server, error.os_error) from None
        except TimeoutError:
            raise no_answer_in_time(server) from None
        except BodyTooLarge:
            raise too_large(server) from None
        except BrokenEncoding:
            raise not_as_encoded(server) from None
        except (aiohttp.ClientError, OSError):
            raise broken_connection(server) from None


async def _body(response: aiohttp.ClientResponse, whole: int | None = None) -> AsyncIterator[bytes]:
    """The parts of a body as they arrive, decoded. `whole`: how many bytes they may be together."""
    decoder = decoder_for(response.headers.get("Content-Encoding"))
    size = 0
    async for piece in response.content.iter_any():
        most = LARGEST_PIECE if whole is None else whole - size
        if decoder is not None:
            piece = decoder.decode(piece, most)
        elif len(piece) > most:
            raise BodyTooLarge
        size += len(piece)
        yield piece
    if decoder is not None:
        decoder.finish()


def _headers(response: aiohttp.ClientResponse) -> dict[str, str]:
    return {name.lower(): value for name, value in response.headers.items()}


def _abort(response: aiohttp.ClientResponse) -> None:
    """End a response without end. The event loop may not run long enough for an orderly TLS shutdown."""
    transport = _transport(response)
    if transport is not None:
        transport.abort()
    response.close()


def _transport(response: aiohttp.ClientResponse) -> asyncio.Transport | None:
    return response.connection.transport if response.connection is not None else None
