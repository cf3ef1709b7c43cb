"""The Stromboli process that a benchmark starts, measures and stops."""

from __future__ import annotations

import asyncio
import resource
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

_RUN: Final = "from stromboli.console.main import main; main()"
_STOP_TIMEOUT: Final = 30.0  # seconds to finish what is in flight


class ChildProcess:
    """`stromboli <arguments>` in this interpreter's environment. Its log goes to a temporary file."""

    def __init__(self, arguments: Sequence[str]) -> None:
        self._arguments = list(arguments)
        self._process: asyncio.subprocess.Process | None = None
        self._cpu_before = 0.0
        self.started_at = 0.0  # time.monotonic()
        self.peak_mib = 0.0  # once it has stopped
        self.cpu_seconds = 0.0

    async def start(self) -> None:
        self._log = tempfile.NamedTemporaryFile(prefix="stromboli-", suffix=".log")  # noqa: SIM115
        self._cpu_before = _cpu_of_children()
        self.started_at = time.monotonic()
        self._process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", _RUN, *self._arguments,
            stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.DEVNULL, stderr=self._log.fileno(),
            start_new_session=True,
        )  # fmt: skip

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process is not None else None

    @property
    def ended(self) -> bool:
        return self._process is not None and self._process.returncode is not None

    def last_log_line(self) -> str:
        """The last line of its log."""
        lines = Path(self._log.name).read_text(encoding="utf-8", errors="replace").split("\n")
        return next((line for line in reversed(lines) if line.strip()), "its log is empty")

    async def stop(self) -> None:
        """In order if possible; it is killed after a timeout."""
        if self._process is None:
            return
        if self._process.returncode is None:
            self.peak_mib = _peak_mib(self._process.pid)
            self._process.terminate()
            try:
                await asyncio.wait_for(self._process.wait(), _STOP_TIMEOUT)
            except TimeoutError:
                self._process.kill()
                await self._process.wait()
        self.cpu_seconds = _cpu_of_children() - self._cpu_before
        self._log.close()


def _peak_mib(pid: int) -> float:
    """The peak memory of a running process.

    Not from its resource usage where possible: there, Linux includes the memory that *we* had when we started it.
    """
    try:
        status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    except OSError:
        return resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / (
            (1 << 20) if sys.platform == "darwin" else 1024
        )
    return next((int(line.split()[1]) / 1024 for line in status.splitlines() if line.startswith("VmHWM:")), 0.0)


def _cpu_of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
