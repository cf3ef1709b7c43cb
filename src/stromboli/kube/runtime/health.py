"""The HTTP server for probes and metrics.

    /healthz, /livez   the liveness checks: 200, or 503 if the process should be restarted
    /readyz            the liveness and the readiness checks: 503 until the process can do its work
    /metrics           everything in the registry, in the format that Prometheus requests

`?verbose` lists the checks one by one, and so does every response other than 200, as in Kubernetes.

Checks are answered for everybody. Metrics name queues and nodes, so they need the token of the process, unless it was
started with `--metrics-without-token`: where a network policy says who can connect, as in deploy/.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable
from typing import Final

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

from stromboli.errors import UserError
from stromboli.listeners import PROBE_LIMITS, Access, Limits, listen_problem

from .http_service import Handler, HttpService, Reply, Request

_RENDERED_SECONDS: Final = 1.0  # how old metrics may be for those without a token: many of them cost as much as one
_VERSION: Final = re.compile(r"; version=(0\.0\.4|1\.0\.0);")

Check = Callable[[], str | None]
"""None if the check passes, else a sentence with the problem."""


class HealthServer:
    """`port` is the configured port and, once `listening` is set, the port in use (0 means any free port)."""

    def __init__(
        self,
        host: str,
        port: int,
        registry: CollectorRegistry,
        *,
        token: str | None = None,
        metrics_without_token: bool = False,
        limits: Limits = PROBE_LIMITS,
    ) -> None:
        self.host = host
        self.port = port
        self.listening = asyncio.Event()
        self._registry = registry
        self._liveness: dict[str, Check] = {}
        self._readiness: dict[str, Check] = {}
        self._metrics_without_token = metrics_without_token
        self._rendered: dict[str, tuple[float, asyncio.Task[bytes]]] = {}  # metrics by content type, and since when
        self._service = HttpService(Access({} if token is None else {"process": token}, (host,)), limits)
        self.add_route("GET", "/healthz", self._serve_liveness)
        self.add_route("GET", "/livez", self._serve_liveness)
        self.add_route("GET", "/readyz", self._serve_readiness)
        self.add_route("GET", "/metrics", self._serve_metrics)

    def add_route(self, method: str, path: str, handler: Handler) -> None:
        """Serve something of a component's own."""
        self._service.add_route(method, path, handler)

    def add_liveness_check(self, name: str, check: Check) -> None:
        self._liveness[name] = check

    def add_readiness_check(self, name: str, check: Check) -> None:
        self._readiness[name] = check

    async def run(self) -> None:
        """Serve until cancelled."""
        try:
            await self._service.run(self.host, self.port, self._is_listening)
        except OSError as error:
            raise UserError(
                f"cannot serve probes on {self.host}:{self.port}: {listen_problem(error)}; "
                "choose another address or port"
            ) from error
        finally:
            self.listening.clear()

    def _is_listening(self, port: int) -> None:
        self.port = port
        self.listening.set()

    async def _serve_liveness(self, request: Request) -> Reply:
        return _reply(request, self._liveness)

    async def _serve_readiness(self, request: Request) -> Reply:
        return _reply(request, self._liveness | self._readiness)

    async def _serve_metrics(self, request: Request) -> Reply:
        if not (request.has_token or self._metrics_without_token):
            return needs_token("metrics")
        encode, content_type = _encoder(request.headers.get("accept", ""))
        now = asyncio.get_running_loop().time()
        began, text = self._rendered.get(content_type, (-_RENDERED_SECONDS, None))
        if text is None or request.has_token or now - began >= _RENDERED_SECONDS:
            # In a thread: with many queues the text is long, and the event loop must not block.
            text = asyncio.create_task(asyncio.to_thread(encode, self._registry))
            self._rendered[content_type] = now, text
        return Reply(200, await asyncio.shield(text), content_type)


def _encoder(accept: str) -> tuple[Callable[[CollectorRegistry], bytes], str]:
    """One of few: the library takes any version for one that it knows, and fails if it is no number."""
    try:
        encode, content_type = choose_encoder(accept)
    except (TypeError, ValueError):
        return choose_encoder("")
    return (encode, content_type) if _VERSION.search(content_type) else choose_encoder("")


def _reply(request: Request, checks: dict[str, Check]) -> Reply:
    results = {name: check() for name, check in checks.items()}
    passed = all(problem is None for problem in results.values())
    if passed and "verbose" not in request.query:
        return _text("ok", 200)
    lines = [f"[+]{name} ok" if problem is None else f"[-]{name}: {problem}" for name, problem in results.items()]
    lines.append(f"{request.path.strip('/')} check {'passed' if passed else 'failed'}")
    return _text("".join(f"{line}\n" for line in lines), 200 if passed else 503)


def needs_token(what: str) -> Reply:
    """401 as JSON, like all errors of components."""
    problem = f"{what} need a token: see --token-file"
    return Reply(401, json.dumps({"error": problem}).encode(), "application/json; charset=utf-8")


def _text(text: str, status: int) -> Reply:
    return Reply(status, text.encode(), "text/plain; charset=utf-8")
