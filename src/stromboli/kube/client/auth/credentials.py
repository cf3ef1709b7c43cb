"""Who we are to an API server, and how that is renewed.

Every request asks its `Credentials` for an `Identity`. Most answer with what they hold; a token in a file is read again
now and then, because the kubelet replaces it long before it expires; a plugin (exec_plugin.py) is run again when what
it gave us has expired. When the server refuses an identity, the client says so once (`refused`) and tries again if that
may help. Of a hundred requests that are refused together, only the first throws the identity away.

Nothing here shows a secret in its repr.
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

from stromboli.kube.client.errors import NO_CREDENTIALS, NOT_REACHED, Failure

log = logging.getLogger(__name__)

TOKEN_FILE_SECONDS = 60.0


@dataclass(frozen=True, slots=True, eq=False)
class Identity:
    """What goes with a request: headers, and (client certificates of a plugin) a TLS context of its own."""

    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    ssl: SSLContext | None = None


class Credentials(Protocol):
    async def identify(self) -> Identity:
        """Who we are now. Raises Failure with status 0 if that cannot be found out."""
        ...

    def refused(self, identity: Identity) -> bool:
        """The server answered 401 to it. Whether it is worth asking `identify` again."""
        ...


class Unchanging:
    """The same for ever: a token or password from a kubeconfig, or nothing (client certificates, no login)."""

    def __init__(self, headers: Mapping[str, str] | None = None) -> None:
        self._identity = Identity(headers or {})

    async def identify(self) -> Identity:
        return self._identity

    def refused(self, identity: Identity) -> bool:
        return False


def is_token(text: str) -> bool:
    """Whether it can stand in a header."""
    return bool(text) and text.isascii() and text.isprintable()


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def basic(username: str, password: str) -> dict[str, str]:
    return {"Authorization": "Basic " + b64encode(f"{username}:{password}".encode()).decode("ascii")}


class TokenFile:
    """A token that somebody else keeps fresh in a file: read again every minute, and at once when it is refused."""

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
                    # What we have may be good for a while yet; the server will say when it is not.
                    log.warning("%s; going on with the last one", failure.message)
            return self._identity

    async def _read(self) -> str:
        self._read_at = self._clock()
        try:
            token = (await asyncio.to_thread(self.path.read_text, encoding="utf-8")).strip()
        except OSError as error:
            raise self._failure(f"cannot be read: {error.strerror}") from None
        except UnicodeDecodeError:
            raise self._failure("is no text") from None
        if not is_token(token):
            raise self._failure("is empty or has several lines")
        return token

    def _failure(self, problem: str) -> Failure:
        return Failure(NOT_REACHED, f"the token in {self.path} {problem}", reason=NO_CREDENTIALS)

    def refused(self, identity: Identity) -> bool:
        if identity is self._identity:
            self._identity = None
        return True
