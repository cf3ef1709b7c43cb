"""What others may ask a process: is it alive, is it ready, and its metrics.

    /healthz, /livez   the checks of `alive`: 200, or 503 and the process had better be restarted
    /readyz            those, and the checks of `ready`: 503 until the process can do its work
    /metrics           everything in the registry, in the format that Prometheus asks for

`?verbose` lists the checks one by one, and so does every answer that is not 200, as people know it from Kubernetes.

It listens where it is told to and nowhere else. There is nothing secret in the answers, but nothing that the rest of
the network has to see either.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable

from aiohttp import web
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

from stromboli.errors import UserError

Check = Callable[[], str | None]
"""None if all is well, else a sentence that says what is not."""


class Probes:
    """`port` is the port asked for, and once `listening` is set the one in use (port 0 takes any that is free)."""

    def __init__(self, host: str, port: int, registry: CollectorRegistry) -> None:
        self.host = host
        self.port = port
        self.listening = asyncio.Event()
        self._registry = registry
        self._alive: dict[str, Check] = {}
        self._ready: dict[str, Check] = {}

    def alive(self, name: str, check: Check) -> None:
        self._alive[name] = check

    def ready(self, name: str, check: Check) -> None:
        self._ready[name] = check

    async def run(self) -> None:
        """Answer until cancelled."""
        application = web.Application()
        application.router.add_get("/healthz", self._answer_alive)
        application.router.add_get("/livez", self._answer_alive)
        application.router.add_get("/readyz", self._answer_ready)
        application.router.add_get("/metrics", self._answer_metrics)
        runner = web.AppRunner(application, access_log=None, handle_signals=False, shutdown_timeout=1.0)
        await runner.setup()
        try:
            await self._listen(runner)
            await asyncio.Event().wait()
        finally:
            self.listening.clear()
            await runner.cleanup()

    async def _listen(self, runner: web.AppRunner) -> None:
        try:
            await web.TCPSite(runner, self.host, self.port).start()
        except OSError as error:
            why = os.strerror(error.errno) if error.errno and error.errno > 0 else str(error)
            raise UserError(
                f"cannot answer probes on {self.host}:{self.port}: {why}; choose another address or port"
            ) from error
        self.port = int(runner.addresses[0][1])
        self.listening.set()

    async def _answer_alive(self, request: web.Request) -> web.Response:
        return _answer(request, self._alive)

    async def _answer_ready(self, request: web.Request) -> web.Response:
        return _answer(request, self._alive | self._ready)

    async def _answer_metrics(self, request: web.Request) -> web.Response:
        encode, content_type = choose_encoder(request.headers.get("Accept", ""))
        # In a thread: with many queues the text is long, and the loop has better things to do.
        text = await asyncio.to_thread(encode, self._registry)
        return web.Response(body=text, headers={"Content-Type": content_type})


def _answer(request: web.Request, checks: dict[str, Check]) -> web.Response:
    found = {name: check() for name, check in checks.items()}
    well = all(problem is None for problem in found.values())
    if well and "verbose" not in request.query:
        return _text("ok", 200)
    lines = [f"[+]{name} ok" if problem is None else f"[-]{name}: {problem}" for name, problem in found.items()]
    lines.append(f"{request.path.strip('/')} check {'passed' if well else 'failed'}")
    return _text("".join(f"{line}\n" for line in lines), 200 if well else 503)


def _text(text: str, status: int) -> web.Response:
    return web.Response(text=text, status=status, headers={"Cache-Control": "no-store"})
