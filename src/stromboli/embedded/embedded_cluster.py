"""The whole server: store, API, upkeep and socket, with its files in one folder.

DIR/objects.sqlite    the objects (only if they are to be kept)
DIR/authority*.pem    the certificate authority
DIR/token             what clients must send
DIR/kubeconfig        all of it for clients
"""

from __future__ import annotations

import time
from pathlib import Path
from random import Random, SystemRandom
from secrets import token_urlsafe
from typing import Final

from stromboli.files import private_folder

from .admission import PARTS
from .http import HttpServer, LogSource, Service, load_token, server_identity, write_kubeconfig
from .server import ApiServer
from .store import SqliteBackend, Store
from .upkeep import Upkeep

LOOPBACK: Final = "127.0.0.1"
_LOCAL_NAMES: Final = (LOOPBACK, "::1", "localhost")


class EmbeddedCluster(Service):
    """Runs inside `async with`."""

    def __init__(
        self,
        folder: Path,
        *,
        persistent: bool,
        host: str = LOOPBACK,
        port: int = 0,
        logs: LogSource | None = None,
        scheduler_name: str = "",
    ) -> None:
        """`scheduler_name`: of the only scheduler, which also gets the pods that name none."""
        self.folder = folder
        self.kubeconfig = folder / "kubeconfig"
        self.url = ""
        self.parts_token = token_urlsafe(32)
        """For the parts of the cluster itself, so that nobody who uses up the limits of the other token stops them. It
        is written nowhere."""
        self.api: ApiServer | None = None
        """While it runs; for requests without a socket."""
        self._persistent = persistent
        self._host = host
        self._port = port
        self._logs = logs
        self._scheduler_name = scheduler_name
        self._backend: SqliteBackend | None = None
        self._server: HttpServer | None = None

    async def _start(self) -> None:
        private_folder(self.folder)
        if self._persistent:
            self._backend = SqliteBackend(self.folder / "objects.sqlite")
        store = Store(self._backend)
        random = Random(SystemRandom().getrandbits(128))
        api = self.api = ApiServer(store, random=random, now=time.time(), scheduler_name=self._scheduler_name)
        hosts = (*_LOCAL_NAMES, self._host) if self._host not in (*_LOCAL_NAMES, "0.0.0.0", "::") else _LOCAL_NAMES
        identity = server_identity(self.folder, hosts)
        token = load_token(self.folder)
        tokens = {"users": token, "parts": self.parts_token}
        self._server = HttpServer(
            api, Upkeep(api), tokens=tokens, users={"parts": PARTS}, ssl_context=identity.context, logs=self._logs,
            names=hosts,
        )  # fmt: skip
        await self._server.start(self._host, self._port)
        shown = self._host if self._host not in ("0.0.0.0", "::") else LOOPBACK
        self.url = f"https://{f'[{shown}]' if ':' in shown else shown}:{self._server.port}"
        write_kubeconfig(self.kubeconfig, server=self.url, authority=identity.authority, token=token)

    async def _stop(self) -> None:
        if self._server is not None:
            await self._server.stop()
        if self._backend is not None:
            self._backend.close()
