"""A certificate authority for each test server.

With it a client knows that it talks to the server it started and not to another one on that port, and the server knows
its users. `openssl`, which every machine has, does the work.
"""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

# Spelled out in full, because what the system's own configuration adds differs between systems, and because recent
# versions of Python refuse certificates that leave out what they could leave out for decades.
_EXTENSIONS = """
[req]
distinguished_name = subject
[subject]
[authority]
basicConstraints = critical, CA:TRUE
keyUsage = critical, keyCertSign, cRLSign
subjectKeyIdentifier = hash
[server]
basicConstraints = critical, CA:FALSE
keyUsage = critical, digitalSignature
extendedKeyUsage = serverAuth
subjectAltName = IP:127.0.0.1, DNS:localhost
subjectKeyIdentifier = hash
authorityKeyIdentifier = keyid
[client]
basicConstraints = critical, CA:FALSE
keyUsage = critical, digitalSignature
extendedKeyUsage = clientAuth
subjectKeyIdentifier = hash
authorityKeyIdentifier = keyid
"""

_NEW_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")


@dataclass(frozen=True)
class Identity:
    """A certificate and its key, as files."""

    certificate: Path
    key: Path


class Authority:
    """Signs certificates for a day. The folder has to be one that nobody else can read: keys are kept there."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._extensions = folder / "openssl.cnf"
        self._extensions.write_text(_EXTENSIONS, encoding="utf-8")
        self._issued = 0
        self._own = self._identity("authority")
        self._openssl(
            "req", "-x509", "-config", self._extensions, "-extensions", "authority", *_NEW_KEY, "-days", "1",
            "-subj", "/CN=authority of a test", "-keyout", self._own.key, "-out", self._own.certificate,
        )  # fmt: skip

    @property
    def certificate(self) -> Path:
        return self._own.certificate

    def server(self) -> Identity:
        """For a server on the loopback interface."""
        return self._issue("server", "/CN=server")

    def client(self, user: str, groups: tuple[str, ...] = ()) -> Identity:
        """For a user, by the convention of Kubernetes: the common name is the user's, organisations are groups."""
        return self._issue("client", "".join(f"/O={group}" for group in groups) + f"/CN={user}")

    def _issue(self, kind: str, subject: str) -> Identity:
        self._issued += 1
        identity = self._identity(f"{kind}-{self._issued}")
        request = identity.certificate.with_suffix(".csr")
        self._openssl(
            "req", "-new", "-config", self._extensions, *_NEW_KEY, "-subj", subject,
            "-keyout", identity.key, "-out", request,
        )  # fmt: skip
        self._openssl(
            "x509", "-req", "-in", request, "-CA", self._own.certificate, "-CAkey", self._own.key,
            "-set_serial", self._issued, "-days", "1", "-extfile", self._extensions, "-extensions", kind,
            "-out", identity.certificate,
        )  # fmt: skip
        return identity

    def _identity(self, name: str) -> Identity:
        return Identity(self._folder / f"{name}.crt", self._folder / f"{name}.key")

    def _openssl(self, *arguments: object) -> None:
        done = subprocess.run(
            ["openssl", *map(str, arguments)], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"openssl {arguments[0]} failed: {done.stderr.strip()}"
