"""TLS contexts from certificates in files, in the text of a kubeconfig, or in the output of a plugin."""

from __future__ import annotations

import os
import ssl
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Trust:
    """Which server certificates we accept: those of one authority (None: the system's), or any (insecure)."""

    authority: bytes | None = None
    insecure: bool = False

    def context(self) -> ssl.SSLContext:
        """Raises ssl.SSLError or ValueError if the authority is not a PEM certificate."""
        # This context verifies certificates and host names by default.
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        if self.authority is None:
            context.load_default_certs()
        else:
            context.load_verify_locations(cadata=self.authority.decode("ascii"))
        if self.insecure:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        return context


@dataclass(frozen=True, slots=True)
class ClientCertificate:
    certificate: bytes = field(repr=False)
    key: bytes = field(repr=False)

    def load_into(self, context: ssl.SSLContext) -> None:
        """Raises ssl.SSLError if the two are not a certificate and its key."""
        # OpenSSL reads private keys from files only. With an empty password it does not prompt for one.
        with _temporary_file(self.certificate) as certificate, _temporary_file(self.key) as key:
            context.load_cert_chain(certificate, key, password="")


@contextmanager
def _temporary_file(data: bytes) -> Iterator[Path]:
    handle, name = tempfile.mkstemp(prefix="stromboli-")  # readable only by us
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        yield Path(name)
    finally:
        Path(name).unlink()
