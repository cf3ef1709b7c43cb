"""Credentials for an API server, and how they are renewed.

Every request asks its `Credentials` for an `Identity`. Static ones return what they hold; a token file is read again
from time to time, because the kubelet replaces the token long before it expires; an exec plugin (exec_plugin.py) runs
again when its credential has expired. When the server refuses an identity, the client calls `refused` and retries if
that may help. Of a hundred requests that are refused together, only the first discards the identity.

No repr in this module contains a secret.
"""

from __future__ import annotations

import asyncio
import logging
import time
from base64 import b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from ssl import SSLContext
from typing import Protocol

from stromboli.errors import UserError
from stromboli.files import read_credential
from stromboli.kube.client.errors import NO_CREDENTIALS, NO_RESPONSE, Failure

log = logging.getLogger(__name__)

TOKEN_FILE_SECONDS = 60.0


@dataclass(frozen=True, slots=True, eq=False)
class Identity:
    """What authenticates a request: headers, and a TLS context if a plugin provides a client certificate."""

    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    ssl: SSLContext | None = None


class Credentials(Protocol):
    async def identify(self) -> Identity:
        """The current identity. Raises Failure with status 0 if there is none."""
        ...

    def refused(self, identity: Identity) -> bool:
        """The server answered 401 to it. Returns whether `identify` may return a better one."""
        ...


class StaticCredentials:
    """A token or password from a kubeconfig, or nothing (client certificate, no login)."""

    def __init__(self, headers: Mapping[str, str] | None = None) -> None:
        self._identity = Identity(headers or {})

    async def identify(self) -> Identity:
        return self._identity

    def refused(self, identity: Identity) -> bool:
        return False


def is_token(text: str) -> bool:
    """Whether it can be used in a header."""
    return bool(text) and text.isascii() and text.isprintable()


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def basic(username: str, password: str) -> dict[str, str]:
    return {"Authorization": "Basic " + b64encode(f"{username}:{password}".encode()).decode("ascii")}


class TokenFile:
    """A token in a file that is kept up to date: read again every minute, and at once when it is refused."""

    def __init__(self, path: Path, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.path = path
        self._clock = clock
        self._identity: Identity | None = None
        self._read_at = 0.0
        self._reading = asyncio.Lock()

    async def identify(self) -> Identity:
        async with self._reading:
            if self._identity is None:
                self._identity = Identity(bearer(await self._read()))
            elif self._clock() - self._read_at >= TOKEN_FILE_SECONDS:
                try:
                    self._identity = Identity(bearer(await self._read()))
                except Failure as failure:
                    # The last token may still be valid; otherwise the server refuses it.
                    log.warning("%s; using the last one", failure.message)
            return self._identity

    async def _read(self) -> str:
        self._read_at = self._clock()
        try:
            token = (await asyncio.to_thread(read_credential, self.path)).decode("utf-8").strip()
        except UserError as error:
            raise self._failure(f"cannot be used: {error}") from None
        except OSError as error:
            raise self._failure(f"cannot be read: {error.strerror}") from None
        except UnicodeDecodeError:
            raise self._failure("is not text") from None
        if not is_token(token):
            raise self._failure("is empty or has several lines")
        return token

    def _failure(self, problem: str) -> Failure:
        return Failure(NO_RESPONSE, f"the token in {self.path} {problem}", reason=NO_CREDENTIALS)

    def refused(self, identity: Identity) -> bool:
        if identity is self._identity:
            self._identity = None
        return True
