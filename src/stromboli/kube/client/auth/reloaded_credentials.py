"""Credentials of a kubeconfig, which may be written anew while we run: after a login, or by whoever rotates tokens.

They are read again when the server refuses them, but not for every single request.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from ssl import SSLContext
from typing import Final

from stromboli.errors import UserError

from .credentials import Credentials, Identity

log = logging.getLogger(__name__)

READ_AGAIN: Final = 0.9  # seconds between two readings; pauses after refusals are at least as long


@dataclass(frozen=True, slots=True)
class FileCredentials:
    """What a kubeconfig says now. `secret` is equal as long as nothing about it changes."""

    credentials: Credentials
    secret: bytes
    certificate: SSLContext | None = None  # with a client certificate


class ReloadedCredentials:
    def __init__(
        self,
        first: FileCredentials,
        read: Callable[[], FileCredentials],
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._known = first
        self._read = read
        self._clock = clock
        self._read_at = clock()
        self._changed = False  # since the start; then the certificate of the start is out of date
        self._given: tuple[Identity, Identity] | None = None  # an identity, and the same with the new certificate

    async def identify(self) -> Identity:
        identity = await self._known.credentials.identify()
        if not self._changed or self._known.certificate is None or identity.ssl is not None:
            return identity
        if self._given is None or self._given[0] is not identity:
            self._given = identity, Identity(identity.headers, self._known.certificate)
        return self._given[1]

    def refused(self, identity: Identity) -> bool:
        inner = self._given[0] if self._given is not None and self._given[1] is identity else identity
        if self._known.credentials.refused(inner):
            return True
        if self._clock() - self._read_at < READ_AGAIN:
            return False
        self._read_at = self._clock()
        try:
            found = self._read()
        except UserError as error:
            log.warning("%s; using what it said before", error)
            return False
        if found.secret == self._known.secret:
            return False
        self._known, self._changed, self._given = found, True, None
        return True
