"""How to reach one API server, as one user: what a kubeconfig or a pod's account comes down to."""

from __future__ import annotations

from dataclasses import dataclass, field
from ssl import SSLContext

from .credentials import Credentials


@dataclass(frozen=True, slots=True)
class Access:
    server: str
    ssl: SSLContext | None
    """None for plain HTTP, or for HTTPS with the system's certificate authorities."""
    credentials: Credentials
    namespace: str = "default"
    server_name: str | None = None
    """The name the server's certificate must carry, where it is not the one in its address."""
    proxy: str | None = field(default=None, repr=False)
