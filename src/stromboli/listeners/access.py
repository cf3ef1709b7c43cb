"""Who is answered.

Health is answered for everybody. Everything else needs a token in the header `Authorization`, which no browser adds by
itself. A browser can be made to send requests nevertheless, by a page of another site:

- under a name of that site that was pointed to our address (DNS rebinding). Then the header `Host` has that name. So
  `Host` must be an address, the name of this machine, or one of a service of a cluster.
- across sites. Then `Origin` or `Sec-Fetch-Site` says so.
"""

from __future__ import annotations

import hmac
import ipaddress
import re
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from stromboli.errors import UserError
from stromboli.files import read_credential

HEALTH_PATHS: Final = frozenset(("/healthz", "/livez", "/readyz"))
SHORTEST_TOKEN: Final = 16

_CLUSTER: Final = (".svc", ".svc.cluster.local")  # nobody outside of the cluster can own such a name
_AUTHORITY: Final = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^\[\]:/@\s]+)(?::([0-9]{1,5}))?")

NAME: Final = "the header Host has a name that is not this machine's"
SITE: Final = "the request comes from a page of another site"


class Access:
    """The rules for one listener. `tokens` are named: limits are for each token."""

    def __init__(self, tokens: Mapping[str, str], names: Sequence[str] = ()) -> None:
        """`names`: further names under which this listener is reached."""
        self._tokens = {name: f"Bearer {token}".encode() for name, token in tokens.items()}
        own = ("localhost", socket.gethostname(), *names)
        self._names = frozenset(name.lower().rstrip(".") for name in own)

    def holder(self, authorization: str) -> str | None:
        """The name of the token in the header `Authorization`; None if it is none of ours."""
        given = authorization.encode("utf-8", "surrogateescape")
        found = None
        for name, token in self._tokens.items():  # all of them: the time must not say which was nearly right
            if hmac.compare_digest(given, token):
                found = name
        return found

    def foreign(self, hosts: Sequence[str], origins: Sequence[str], fetch_sites: Sequence[str]) -> str | None:
        """Why the request looks like one that a browser makes for another site; None if it does not. Takes all headers
        `Host`, `Origin` and `Sec-Fetch-Site`: of two, somebody in front of us may have believed the other."""
        if len(hosts) != 1 or not self._is_own(hosts[0]):
            return NAME
        own = [f"{scheme}://{hosts[0].lower()}" for scheme in _SCHEMES]
        if len(origins) > 1 or any(origin.lower() not in own for origin in origins):
            return SITE
        if len(fetch_sites) > 1 or any(site not in ("same-origin", "none") for site in fetch_sites):
            return SITE
        return None

    def _is_own(self, host: str) -> bool:
        found = _AUTHORITY.fullmatch(host)
        if found is None:
            return False
        name = found[1].strip("[]").lower().rstrip(".")
        return name in self._names or name.endswith(_CLUSTER) or _is_address(name)


_SCHEMES: Final = ("http", "https")  # a proxy in front may end TLS


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def read_token(path: Path) -> str:
    """The token in a file; raises UserError."""
    try:
        token = read_credential(path).decode("utf-8", "replace").strip()
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}") from None
    if len(token) < SHORTEST_TOKEN or not token.isascii() or not token.isprintable() or " " in token:
        raise UserError(f"{path}: a token must have at least {SHORTEST_TOKEN} characters of ASCII, without spaces")
    return token
