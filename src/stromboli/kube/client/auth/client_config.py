"""How to reach one API server as one user: what a kubeconfig or a service account provides."""

from __future__ import annotations

from dataclasses import dataclass, field
from ssl import SSLContext

from .credentials import Credentials


@dataclass(frozen=True, slots=True)
class ClientConfig:
    server: str
    ssl: SSLContext | None
    """None for plain HTTP, or for HTTPS with the system's certificate authorities."""
    credentials: Credentials
    namespace: str = "default"
    server_name: str | None = None
    """The name that the server's certificate must have, if it differs from the name in its address."""
    proxy: str | None = field(default=None, repr=False)
