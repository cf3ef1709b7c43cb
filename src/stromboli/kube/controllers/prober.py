"""Talks to pods for JobFlows that wait for an answer.

A probe is one connection to a port of a pod, and perhaps one HTTP request on it. Only whether it succeeded is kept:
what a pod says goes nowhere, and of its answer only the first line is read. Probes have little time and there are few
at once, so pods that do not answer hold up nothing but each other.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from functools import partial
from typing import Final

from stromboli.controllers import Probe

TIMEOUT: Final = 1.0  # seconds for connecting and for the answer together
CONCURRENCY: Final = 32
MOST_WAITING: Final = 1000  # others are asked for again by a later pass
_FIRST_LINE: Final = 1024  # bytes

Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def _connect(host: str, port: int) -> Connection:
    return await asyncio.open_connection(host, port, limit=_FIRST_LINE)


class Prober:
    def __init__(
        self, *, answered: Callable[[], None], connect: Callable[[str, int], Awaitable[Connection]] = _connect
    ) -> None:
        """`answered` is called when an answer can be taken."""
        self._answered = answered
        self._connect = connect
        self._slots = asyncio.Semaphore(CONCURRENCY)
        self._tasks: dict[object, asyncio.Task[None]] = {}
        self._answers: list[tuple[Probe, bool]] = []

    def start(self, probes: Iterable[Probe]) -> None:
        for probe in probes:
            question = (probe.object.metadata.uid, *probe.question)
            if question in self._tasks or len(self._tasks) >= MOST_WAITING:
                continue
            task = self._tasks[question] = asyncio.create_task(self._ask(probe))
            task.add_done_callback(partial(self._done, question))

    def take(self) -> list[tuple[Probe, bool]]:
        """What became of probes since the last call."""
        answers, self._answers = self._answers, []
        return answers

    async def cancel(self) -> None:
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._answers.clear()

    def _done(self, question: object, _: asyncio.Task[None]) -> None:
        self._tasks.pop(question, None)

    async def _ask(self, probe: Probe) -> None:
        succeeded = False
        async with self._slots:
            with suppress(OSError, TimeoutError, ValueError, asyncio.IncompleteReadError):
                async with asyncio.timeout(TIMEOUT):
                    succeeded = await self._talk(probe)
        self._answers.append((probe, succeeded))
        self._answered()

    async def _talk(self, probe: Probe) -> bool:
        host = probe.pod.status.pod_ip
        if not host:
            return False
        reader, writer = await self._connect(host, probe.port)
        try:
            if probe.path is None:
                return True
            writer.write(request(probe, host))
            await writer.drain()
            return succeeds(await reader.readline())
        finally:
            writer.close()


def request(probe: Probe, host: str) -> bytes:
    shown = f"[{host}]" if ":" in host else host
    lines = [f"GET {probe.path} HTTP/1.1", f"Host: {shown}:{probe.port}", "User-Agent: stromboli", "Connection: close"]
    if probe.header is not None:
        name, value = probe.header
        if name.lower() == "host":
            lines[1] = f"Host: {value}"
        else:
            lines.append(f"{name}: {value}")
    return ("\r\n".join(lines) + "\r\n\r\n").encode("ascii")


def succeeds(first_line: bytes) -> bool:
    """Whether an answer begins with a status from 200 to 399."""
    version, _, rest = first_line.partition(b" ")
    return version.startswith(b"HTTP/1.") and rest[:3].isdigit() and rest[:1] in (b"2", b"3")
