"""Forwards the ports of services to their pods, as kube-proxy does for a cluster: one listener for each TCP port.

A connection goes to the pods in turn. Where a port cannot be listened at (ports below 1024 are root's on most systems),
the name of the service means its pods' addresses instead, which is the same as long as `port` and `targetPort` are.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from stromboli.api import Pod
from stromboli.kube.runtime import Log

from .addresses import Addresses
from .names import Service, ServicePort

_PIECE: Final = 1 << 16
_log = Log("runner")

Endpoints = Callable[[Service], Sequence[tuple[Pod, str]]]


class ServiceForwarder:
    def __init__(self, addresses: Addresses, endpoints: Endpoints) -> None:
        self._addresses = addresses
        self._endpoints = endpoints
        self._services: dict[str, Service] = {}  # by uid, as they are now
        self._listeners: dict[str, tuple[object, list[asyncio.Server]]] = {}  # by uid, with the ports they are for
        self._turns: dict[str, int] = {}

    def addresses(self) -> dict[str, str]:
        """Of the services whose ports are forwarded, by uid."""
        return {uid: self._addresses.of(uid) for uid, (_, servers) in self._listeners.items() if servers}

    async def follow(self, services: Sequence[Service]) -> None:
        """Forward for these services and no others."""
        self._services = wanted = {one.metadata.uid: one for one in services if _is_forwarded(one)}
        for uid in self._listeners.keys() - wanted.keys():
            self._stop(uid)
        for uid, service in wanted.items():
            ports = [port.port for port in service.spec.ports]
            known = self._listeners.get(uid)
            if known is None or known[0] != ports:
                self._stop(uid)
                self._listeners[uid] = (ports, await self._listen(service))

    def close(self) -> None:
        for uid in list(self._listeners):
            self._stop(uid)

    def _stop(self, uid: str) -> None:
        _, servers = self._listeners.pop(uid, (None, []))
        for server in servers:
            server.close()

    async def _listen(self, service: Service) -> list[asyncio.Server]:
        address = self._addresses.of(service.metadata.uid)
        servers: list[asyncio.Server] = []
        for port in service.spec.ports:
            try:
                servers.append(await asyncio.start_server(self._forward_to(service, port.port), address, port.port))
            except OSError as error:
                name = f"{service.metadata.namespace}/{service.metadata.name}"
                _log.warning(
                    "cannot listen for a service; its name means its pods", service=name, port=port.port,
                    error=error.strerror or str(error),
                )  # fmt: skip
                for server in servers:
                    server.close()
                return []
        return servers

    def _forward_to(
        self, service: Service, number: int
    ) -> Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]:
        uid = service.metadata.uid

        async def forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writers = [writer]
            try:
                there = await self._connect(uid, number)
                if there is not None:
                    writers.append(there[1])
                    await asyncio.gather(_copy(reader, there[1]), _copy(there[0], writer))
            finally:
                for one in writers:
                    await close(one)

        return forward

    async def _connect(self, uid: str, number: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter] | None:
        service = self._services.get(uid)  # its selector and target ports may have changed since we listen
        if service is None:
            return None
        port = next(one for one in service.spec.ports if one.port == number)
        found = self._endpoints(service)
        first = self._turns.get(uid, 0)
        self._turns[uid] = first + 1
        for turn in range(len(found)):
            pod, address = found[(first + turn) % len(found)]
            target = target_port(port, pod)
            if target:
                with contextlib.suppress(OSError):
                    return await asyncio.open_connection(address, target)
        return None


def _is_forwarded(service: Service) -> bool:
    spec = service.spec
    is_tcp = all(port.protocol in ("", "TCP") for port in spec.ports)
    return bool(spec.selector and spec.ports and is_tcp) and spec.cluster_ip != "None" and spec.type != "ExternalName"


def target_port(port: ServicePort, pod: Pod) -> int:
    """0: the pod has no port of that name."""
    if port.target_port is None or port.target_port == 0:
        return port.port
    if isinstance(port.target_port, int):
        return port.target_port
    for container in pod.spec.containers:
        for one in container.ports:
            if one.name == port.target_port:
                return one.container_port
    return 0


async def close(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(_PIECE):
            writer.write(data)
            await writer.drain()
        if writer.can_write_eof():
            writer.write_eof()
    except OSError:
        writer.close()
