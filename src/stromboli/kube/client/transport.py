"""HTTP requests to an API server: credentials, bounds, and every problem as a `Failure`.

Requests and watches use separate connections, so that a dozen watches, which hold theirs for minutes, cannot delay a
bind. After a 401 the credentials are renewed and the request is sent again, once.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from http import HTTPStatus
from types import TracebackType
from typing import Protocol
from urllib.parse import quote, urlencode, urlsplit

from stromboli.kube.client.auth.client_config import ClientConfig
from stromboli.kube.client.auth.credentials import Identity
from stromboli.kube.client.auth.login import Login

from .connection_pool import ConnectionPool
from .content_encoding import LARGEST_ERROR
from .errors import Failure, failure_from_response
from .http_connection import Response


class Connections(Protocol):
    """Raise Failure if there is no response."""

    async def send(
        self, method: str, target: str, identity: Identity, *, body: bytes | None, content_type: str, timeout: float
    ) -> Response: ...

    def stream(
        self, target: str, identity: Identity, *, silence: float
    ) -> AbstractAsyncContextManager[tuple[Response, AsyncIterator[bytes]]]: ...

    async def close(self) -> None: ...


class Transport:
    def __init__(self, config: ClientConfig, *, connections: int) -> None:
        self.config = config
        # The timeout of a request starts when it has a connection. With thousands of binds at once, the last ones would
        # otherwise time out in the queue, and it would be unknown that they were never sent.
        self._slots = asyncio.Semaphore(connections)
        self.login = Login()
        self._path = urlsplit(config.server).path.rstrip("/")
        self._open: Connections | None = None

    async def __aenter__(self) -> Transport:
        self._open = _connections(self.config)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._open is not None:
            await self._open.close()

    @property
    def _connections(self) -> Connections:
        if self._open is None:
            raise RuntimeError("use the client inside `async with`")
        return self._open

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
        connections, target = self._connections, self._target(path, query)
        retried = False
        await self.login.turn()
        async with self._slots:
            while True:
                identity = await self.config.credentials.identify()
                response = await connections.send(
                    method, target, identity, body=body, content_type=content_type, timeout=timeout
                )
                if response.status < HTTPStatus.MULTIPLE_CHOICES:
                    self.login.accepted()
                    return response.body
                if retried or not self._may_log_in_again(response, identity):
                    raise self._failure(response, response.body)
                retried = True

    @asynccontextmanager
    async def stream(
        self, path: str, *, query: Mapping[str, str], silence: float
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """The chunks of a response without end; fails when there is none for `silence` seconds."""
        connections, target = self._connections, self._target(path, query)
        await self.login.turn()
        for retried in (False, True):
            identity = await self.config.credentials.identify()
            async with connections.stream(target, identity, silence=silence) as (response, chunks):
                if response.status < HTTPStatus.MULTIPLE_CHOICES:
                    self.login.accepted()
                    yield chunks
                    return
                body = await _start_of(chunks)
            if retried or not self._may_log_in_again(response, identity):
                raise self._failure(response, body)

    def _target(self, path: str, query: Mapping[str, str] | None) -> str:
        return f"{self._path}{path}?{urlencode(query, quote_via=quote)}" if query else self._path + path

    def _failure(self, response: Response, body: bytes) -> Failure:
        failure = failure_from_response(response.status, response.headers, body)
        if response.status == HTTPStatus.UNAUTHORIZED:
            self.login.refused(self.config.server, failure.message)
        elif response.status < HTTPStatus.INTERNAL_SERVER_ERROR:
            self.login.accepted()
        return failure

    def _may_log_in_again(self, response: Response, identity: Identity) -> bool:
        return response.status == HTTPStatus.UNAUTHORIZED and self.config.credentials.refused(identity)


async def _start_of(chunks: AsyncIterator[bytes]) -> bytes:
    """As much of the body of an error as anybody reads."""
    kept = bytearray()
    async for chunk in chunks:
        kept += chunk
        if len(kept) > LARGEST_ERROR:
            break
    return bytes(kept)


def _connections(config: ClientConfig) -> Connections:
    if config.proxy is None and config.server.isascii():
        return ConnectionPool(urlsplit(config.server), tls=config.ssl, server_name=config.server_name)
    from .proxied_session import ProxiedSession

    return ProxiedSession(config)
