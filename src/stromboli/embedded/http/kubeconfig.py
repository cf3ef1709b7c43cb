"""The kubeconfig of a server, and the token in it."""

from __future__ import annotations

import base64
import json
import secrets
from pathlib import Path
from typing import Final

from stromboli.errors import UserError
from stromboli.files import read_secret, write_secret

_SHORTEST_TOKEN: Final = 16


def load_token(folder: Path, name: str = "token") -> str:
    """The token that clients must send: made once and kept with the data."""
    file = folder / name
    known = read_secret(file)
    if known is None:
        known = secrets.token_urlsafe(32)
        write_secret(file, known)
    token = known.strip()
    if len(token) < _SHORTEST_TOKEN or not token.isascii() or not token.isprintable():
        raise UserError(f"{file} does not hold a token; remove it, and a new one is made")
    return token


def write_kubeconfig(path: Path, *, server: str, authority: str, token: str) -> None:
    """JSON, which is YAML as well."""
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {
                "name": "stromboli",
                "cluster": {
                    "server": server,
                    "certificate-authority-data": base64.b64encode(authority.encode()).decode(),
                },
            }
        ],
        "users": [{"name": "admin", "user": {"token": token}}],
        "contexts": [{"name": "stromboli", "context": {"cluster": "stromboli", "user": "admin"}}],
        "current-context": "stromboli",
    }
    write_secret(path, json.dumps(config, indent=2) + "\n")
