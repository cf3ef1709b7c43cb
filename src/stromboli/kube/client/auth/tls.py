"""TLS contexts from certificates that are in files, or in the text of a kubeconfig or of a plugin's answer."""

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
    """Whom we believe to be the server: those a certificate authority vouches for (None: the system's), or anybody."""

    authority: bytes | None = None
    anybody: bool = False

    def context(self) -> ssl.SSLContext:
        """Raises ssl.SSLError or ValueError if the authority is no PEM certificate."""
        # Such a context verifies certificates and host names unless told otherwise.
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        if self.authority is None:
            context.load_default_certs()
        else:
            context.load_verify_locations(cadata=self.authority.decode("ascii"))
        if self.anybody:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        return context


@dataclass(frozen=True, slots=True)
class ClientCertificate:
    certificate: bytes = field(repr=False)
    key: bytes = field(repr=False)

    def load_into(self, context: ssl.SSLContext) -> None:
        """Raises ssl.SSLError if the two are no certificate and key, or do not fit each other."""
        # OpenSSL reads private keys from files only. Without a password, or it would ask for one on the terminal.
        with _in_a_file(self.certificate) as certificate, _in_a_file(self.key) as key:
            context.load_cert_chain(certificate, key, password="")


@contextmanager
def _in_a_file(data: bytes) -> Iterator[Path]:
    handle, name = tempfile.mkstemp(prefix="stromboli-")  # Readable by us alone.
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        yield Path(name)
    finally:
        Path(name).unlink()
