"""How many connections, how long we wait, and how much we read.

The times are those of kube-apiserver or shorter. A place is held by whoever connects, so the number of places is what
bounds the memory and the open files of a process under attack: a TLS connection costs about 300 KiB.
"""

from __future__ import annotations

import resource
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    connections: int = 128
    """At once. A quarter of them is never given to holders of the token, so that health is always answered."""
    per_peer: int = 32
    """Of one address, unless it is this machine's own."""
    first_request_seconds: float = 10.0
    """From the connect to the end of the first head; includes the TLS handshake."""
    idle_seconds: float = 90.0
    """Without a whole head, after the first request."""
    body_seconds: float = 30.0
    """Until the body is there; also how long a client may leave what we send unread."""
    line_bytes: int = 8 * 1024
    field_bytes: int = 8 * 1024
    head_bytes: int = 32 * 1024
    headers: int = 100
    body_bytes: int = 16 * 1024
    streams: int = 32
    """Watches or streams of one token at once."""

    def places(self) -> int:
        """Connections, but no more than a third of the files that the process may open."""
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        return self.connections if soft == resource.RLIM_INFINITY else max(min(self.connections, soft // 3), 8)


API_LIMITS = Limits(
    connections=512,
    per_peer=128,
    line_bytes=64 * 1024,  # selectors are part of the line
    field_bytes=16 * 1024,
    head_bytes=96 * 1024,
    body_bytes=3 * 1024 * 1024,  # as in Kubernetes
    streams=256,
)
PAGE_LIMITS = Limits()
PROBE_LIMITS = Limits()
