"""The HTTP server for probes and metrics.

    /healthz, /livez   the liveness checks: 200, or 503 if the process should be restarted
    /readyz            the liveness and the readiness checks: 503 until the process can do its work
    /metrics           everything in the registry, in the format that Prometheus requests

`?verbose` lists the checks one by one, and so does every response other than 200, as in Kubernetes.

It listens on one configured address only. The responses hold no secrets, but the rest of the network has no need to see
them.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable

from aiohttp import web
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

from stromboli.errors import UserError

Check = Callable[[], str | None]
"""None if the check passes, else a sentence with the problem."""


class HealthServer:
    """`port` is the configured port and, once `listening` is set, the port in use (0 means any free port)."""

    def __init__(self, host: str, port: int, registry: CollectorRegistry) -> None:
        self.host = host
        self.port = port
        self.listening = asyncio.Event()
        self._registry = registry
        self._liveness: dict[str, Check] = {}
        self._readiness: dict[str, Check] = {}
        self._routes: list[tuple[str, str, Callable[[web.Request], Awaitable[web.StreamResponse]]]] = []

    def add_route(
        self, method: str, path: str, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> None:
        """Serve something of a component's own; to be called before `run`."""
        self._routes.append((method, path, handler))

    def add_liveness_check(self, name: str, check: Check) -> None:
        self._liveness[name] = check

    def add_readiness_check(self, name: str, check: Check) -> None:
        self._readiness[name] = check

    async def run(self) -> None:
        """Serve until cancelled."""
        application = web.Application()
        application.router.add_get("/healthz", self._serve_liveness)
        application.router.add_get("/livez", self._serve_liveness)
        application.router.add_get("/readyz", self._serve_readiness)
        application.router.add_get("/metrics", self._serve_metrics)
        for method, path, handler in self._routes:
            application.router.add_route(method, path, handler)
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
            reason = os.strerror(error.errno) if error.errno and error.errno > 0 else str(error)
            raise UserError(
                f"cannot serve probes on {self.host}:{self.port}: {reason}; choose another address or port"
            ) from error
        self.port = int(runner.addresses[0][1])
        self.listening.set()

    async def _serve_liveness(self, request: web.Request) -> web.Response:
        return _response(request, self._liveness)

    async def _serve_readiness(self, request: web.Request) -> web.Response:
        return _response(request, self._liveness | self._readiness)

    async def _serve_metrics(self, request: web.Request) -> web.Response:
        encode, content_type = choose_encoder(request.headers.get("Accept", ""))
        # In a thread: with many queues the text is long, and the event loop must not block.
        text = await asyncio.to_thread(encode, self._registry)
        return web.Response(body=text, headers={"Content-Type": content_type})


def _response(request: web.Request, checks: dict[str, Check]) -> web.Response:
    results = {name: check() for name, check in checks.items()}
    passed = all(problem is None for problem in results.values())
    if passed and "verbose" not in request.query:
        return _text("ok", 200)
    lines = [f"[+]{name} ok" if problem is None else f"[-]{name}: {problem}" for name, problem in results.items()]
    lines.append(f"{request.path.strip('/')} check {'passed' if passed else 'failed'}")
    return _text("".join(f"{line}\n" for line in lines), 200 if passed else 503)


def _text(text: str, status: int) -> web.Response:
    return web.Response(text=text, status=status, headers={"Cache-Control": "no-store"})
