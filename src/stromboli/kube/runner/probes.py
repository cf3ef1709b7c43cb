"""Startup, readiness and liveness probes: a command in the sandbox, a TCP connection, or an HTTP request."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from .sandbox_process import CannotRun, SandboxProcess
from .service_forwarder import close

_LONGEST_STATUS_LINE: Final = 1 << 12


@dataclass(frozen=True, slots=True)
class Probe:
    handler: Mapping[str, Any]
    delay: float = 0.0
    period: float = 10.0
    timeout: float = 1.0
    successes: int = 1
    failures: int = 3
    grace: float | None = None

    @classmethod
    def of(cls, container: Mapping[str, Any], name: str) -> Probe | None:
        """`name`: startupProbe, readinessProbe or livenessProbe. Raises CannotRun."""
        written = container.get(name)
        if written is None:
            return None
        if not any(written.get(one) is not None for one in ("exec", "tcpSocket", "httpGet")):
            raise CannotRun(f"its {name} is none of exec, tcpSocket and httpGet, and others are not available here")
        return cls(
            written,
            float(written.get("initialDelaySeconds") or 0),
            float(written.get("periodSeconds") or 10),
            float(written.get("timeoutSeconds") or 1),
            int(written.get("successThreshold") or 1),
            int(written.get("failureThreshold") or 3),
            written.get("terminationGracePeriodSeconds"),
        )


async def passes(
    handler: Mapping[str, Any], container: Mapping[str, Any], process: SandboxProcess, address: str, seconds: float
) -> str:
    """ "" or what went wrong. Hooks have handlers of the same form."""
    if handler.get("exec") is not None:
        done = await process.execute(handler["exec"].get("command") or ["true"], seconds)
        if done.timed_out:
            return f"the command took longer than {seconds:g} s"
        return "" if done.code == 0 else f"the command ended with {done.code}: {done.output.strip()[-200:]}"
    try:
        async with asyncio.timeout(seconds):
            if handler.get("httpGet") is not None:
                return await _get(handler["httpGet"], container, address)
            written = handler["tcpSocket"]
            _, writer = await asyncio.open_connection(
                written.get("host") or address, port_of(written.get("port"), container)
            )
            await close(writer)
            return ""
    except TimeoutError:
        return f"no answer within {seconds:g} s"
    except (OSError, ValueError) as error:
        return str(error)


def port_of(written: int | str | None, container: Mapping[str, Any]) -> int:
    """Raises ValueError."""
    if isinstance(written, int):
        return written
    for port in container.get("ports") or ():
        if port.get("name") == written:
            return int(port["containerPort"])
    if isinstance(written, str) and written.isascii() and written.isdigit():
        return int(written)
    raise ValueError(f"the container has no port {written}")


async def _get(written: Mapping[str, Any], container: Mapping[str, Any], address: str) -> str:
    host, port = written.get("host") or address, port_of(written.get("port"), container)
    context = None
    if written.get("scheme") == "HTTPS":  # kubelets do not check the certificate either
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    reader, writer = await asyncio.open_connection(host, port, ssl=context, limit=_LONGEST_STATUS_LINE)
    try:
        headers = {"Host": f"{host}:{port}", "User-Agent": "kube-probe/1.36", "Accept": "*/*"}
        headers |= {one["name"]: one["value"] for one in written.get("httpHeaders") or ()}
        lines = [f"GET {written.get('path') or '/'} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
        lines.append("Connection: close")
        writer.write("".join(f"{_one_line(line)}\r\n" for line in [*lines, ""]).encode())
        status = (await reader.readline()).split(maxsplit=2)
        code = int(status[1]) if len(status) > 1 and status[1].isdigit() else 0
        return "" if 200 <= code < 400 else f"HTTP status {code or 'missing'}"
    finally:
        await close(writer)


def _one_line(text: str) -> str:
    return text.replace("\r", " ").replace("\n", " ")
