"""Where the descheduler of `stromboli up` answers `stromboli defrag`.

A process on a cluster answers on the port of its probes; `up` has no probes. So with a descheduler it gets such a
server, on this machine only, with the same paths: plans, runs by hand, and metrics. Its token is not that of the API
server: `defrag` sends it without TLS, to whoever listens on that port.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Final

from prometheus_client import CollectorRegistry

from stromboli.embedded.embedded_cluster import LOOPBACK
from stromboli.embedded.http import load_token
from stromboli.errors import UserError
from stromboli.kube.runtime import Component, HealthServer
from stromboli.kube.runtime.process import ServesHttp

TOKEN: Final = "descheduler-token"


class DeschedulerListener:
    """Announces its address as soon as it listens."""

    name = "descheduler-listener"

    def __init__(
        self,
        descheduler: Component,
        port: int,
        registry: CollectorRegistry,
        folder: Path,
        announce: Callable[[str], None],
    ) -> None:
        """`announce` gets the options for `stromboli defrag`. The token is kept in the folder."""
        self._token_file = folder / TOKEN
        self._server = HealthServer(LOOPBACK, port, registry, token=load_token(folder, TOKEN))
        self._announce = announce
        self._server.add_readiness_check(descheduler.name, descheduler.not_ready_reason)
        if isinstance(descheduler, ServesHttp):
            descheduler.register_routes(self._server)

    def not_ready_reason(self) -> str | None:
        return None if self._server.listening.is_set() else "it does not listen yet"

    def unhealthy_reason(self) -> str | None:
        return None

    async def run(self, stop: asyncio.Event) -> None:
        serving = asyncio.create_task(self._server.run())
        waits = [asyncio.create_task(self._server.listening.wait()), asyncio.create_task(stop.wait())]
        try:
            await asyncio.wait([serving, waits[0]], return_when=asyncio.FIRST_COMPLETED)
            if not serving.done():
                address = f"http://{LOOPBACK}:{self._server.port}"
                self._announce(f"--address {address} --token-file {self._token_file.resolve()}")
                await asyncio.wait([serving, waits[1]], return_when=asyncio.FIRST_COMPLETED)
            if serving.done():
                try:
                    serving.result()
                except UserError as error:
                    raise UserError(f"{error} (--descheduler-port)") from None
        finally:
            for task in (serving, *waits):
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError, Exception):
                    await task
