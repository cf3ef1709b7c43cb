"""The kubeconfig of a server, and the token in it."""

from __future__ import annotations

import base64
import json
import secrets
from pathlib import Path

from .certificates import write_secret


def load_token(folder: Path) -> str:
    """The token that clients must send: made once and kept with the data."""
    file = folder / "token"
    if not file.exists():
        write_secret(file, secrets.token_urlsafe(32))
    return file.read_text(encoding="utf-8").strip()


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
    path.parent.mkdir(parents=True, exist_ok=True)
    write_secret(path, json.dumps(config, indent=2) + "\n")
